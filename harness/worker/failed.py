"""What a worker answers instead of a result."""


class Failed(Exception):
    """What the worker answers instead of a result: the kind and reason of a failed record."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason

"""What a worker answers instead of a result."""

from tipbench.tip.reason import Reason


class Failed(Exception):
    """A request has no result; `why` is the reason."""

    def __init__(self, code: str, detail: str = "", **fields: int | float | str) -> None:
        """The arguments are those of `Reason`."""
        self.why = Reason(code, fields, detail)
        super().__init__(self.why.text)

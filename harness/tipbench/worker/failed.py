"""What a worker answers instead of a result."""

from tipbench.tip.reason import Reason


class Failed(Exception):
    """Why there is none."""

    def __init__(self, code: str, detail: str = "", **fields: int | float | str) -> None:
        """As of `Reason`."""
        self.why = Reason(code, fields, detail)
        super().__init__(self.why.text)

"""The errors that a person is shown as a sentence, without a traceback. Standard library only."""

from __future__ import annotations


class UserError(Exception):
    """Something a person can put right. The message says what happened, where, and what to do.

    exit_code: what the command ends with: 2 where nothing could be done as asked; 1 where a run was cut short in
    the middle, and what it had measured is stored.
    """

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code

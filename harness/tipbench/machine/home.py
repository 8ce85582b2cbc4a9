"""A home folder and a name for a user who has none, as in `docker run -u 12345`."""

from __future__ import annotations

import getpass
import os
import stat
from contextlib import suppress

from tipbench.errors import UserError
from tipbench.machine.temporary import temporary_folder, writing_to


def require_home() -> None:
    """Set HOME and USER, for this process and all that it starts, where neither the environment nor the system's list
    of users has them: torch, compilers and our own caches ask for both. Raises UserError."""
    if not os.path.isabs(os.path.expanduser("~")):
        place = temporary_folder()
        home = place / f"tipbench-home.{os.geteuid()}"
        with writing_to(place), suppress(FileExistsError):
            home.mkdir(mode=0o700)
        status = home.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise UserError(f"this user has no home folder, and {home} is no folder of this user: set HOME to one")
        os.environ["HOME"] = str(home)
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["USER"] = str(os.geteuid())

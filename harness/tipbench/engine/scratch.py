"""Temporary folders that are named after their process, so that a later run can clear up after a killed one."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

import psutil

from tipbench.machine.orphans import end_working_in
from tipbench.machine.temporary import temporary_folder, writing_to

LONGEST = 41
"""Characters of a temporary folder's path in which the Unix sockets of workers still fit. Of 104 at most,
"/tipbench-1234567-12345678/tmp" takes 30, and "/pymp-12345678/listener-12345678" of multiprocessing 32."""


def scratch_folder() -> Path:
    """An empty folder of this process, made after the folders of ended ones are removed, and who still works there.

    Raises TemporaryFolderFull.
    """
    place = temporary_folder()
    if len(str(place)) > LONGEST:
        place = Path("/tmp")
    for left in place.glob("tipbench-*-*"):
        owner = re.match(r"tipbench-(\d+)-", left.name)
        if owner and not psutil.pid_exists(int(owner[1])):
            end_working_in(left)
            shutil.rmtree(left, ignore_errors=True)  # another user's stays
    with writing_to(place):
        return Path(tempfile.mkdtemp(prefix=f"tipbench-{os.getpid()}-", dir=place))

"""git as it is installed, run so that nobody's settings show in what is pushed, and nobody's token anywhere.

A person's own git configuration is read, for proxies, certificates and ssh depend on it; where it could show in what is
sent, or run a program of theirs, it is overruled. So is what a wiki's own files say of filters and line ends.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from tipbench.publish.secret import Secret
from tipbench.publish.wiki import WikiError
from tipbench.tip.wording import plain

DEADLINE_S = 300.0
"""Seconds until git is given up: it asks nobody anything, so it only ever waits for the network."""

AUTHOR = {"NAME": "tipbench", "EMAIL": "tipbench@users.noreply.invalid"}
"""Of every commit. The address is of a domain that can be nobody's (RFC 2606)."""

USER = "tipbench"
"""What a token is sent with where no user is known: GitHub, GitLab, Gitea and Azure DevOps all take any name."""

SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.symlinks=false",  # a link of a wiki is a small file here, so none leads out of the clone
    "core.fileMode=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "i18n.commitEncoding=UTF-8",
    "commit.gpgSign=false",
    "submodule.recurse=false",
    "push.recurseSubmodules=no",
    "gc.auto=0",
    "maintenance.auto=false",
    "push.gpgSign=false",
    "push.followTags=false",
    "push.pushOption=",
    "transfer.advertiseSID=false",  # holds a digest of the host's name
    "http.userAgent=git/2 (tipbench)",
    "http.followRedirects=false",  # the token is for the host that the person named
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
)

ATTRIBUTES = "* -text -filter -eol -ident -working-tree-encoding\n"
"""Of all files, in a clone's own list, which goes before a wiki's: their bytes are what the wiki has."""

PASSED_ON = ("GIT_SSH", "GIT_SSL_", "GIT_PROXY_", "GIT_CONFIG", "GIT_EXEC_PATH", "GIT_ALLOW_PROTOCOL")
"""Of git's own variables those, by beginning, that say how to reach a server. Others name a repository, where git
runs in a hook, or trace what is sent."""

HELPER = (
    """!f() { test "$1" = get && """
    """printf 'username=%s\\npassword=%s\\n' "$TIPBENCH_GIT_USER" "$TIPBENCH_GIT_TOKEN"; }; f"""
)
"""A credential helper that reads the environment. Its words are in the list of processes, the token is not:
the shell prints it by itself."""


class Git:
    """git in one folder, with one wiki as its remote."""

    def __init__(self, folder: Path, url: str, secret: Secret) -> None:
        self.folder = folder
        self.url = url
        self._secret = secret

    def run(self, *words: str, standard_input: bytes = b"") -> str:
        """What git prints. Raises GitFailed where it fails, WikiError where there is none or it comes to no end."""
        try:
            process = subprocess.Popen(
                ["git", *self._settings(), *words],
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except FileNotFoundError:
            raise WikiError("git is not installed, and a git wiki is published by it") from None
        with process:
            try:
                printed, errors = process.communicate(standard_input, DEADLINE_S)
            except BaseException as error:
                _end(process.pid)
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                raise WikiError(f"{self.url} gave no answer within {DEADLINE_S:.0f} s") from None
        if process.returncode:
            texts = (self._secret.hide(output.decode("utf-8", "replace")) for output in (errors, printed))
            raise GitFailed(process.returncode, *texts)
        return printed.decode("utf-8", "surrogateescape")

    def _settings(self) -> list[str]:
        options = [word for setting in SETTINGS for word in ("-c", setting)]
        parts = urlsplit(self.url)
        if self._secret.token and parts.scheme in ("http", "https"):
            # The empty helper takes away a person's own, which git would ask first, and give the token to keep.
            # Named with the host, ours answers for that host alone, wherever a server redirects to.
            host = f"{parts.scheme}://{parts.netloc}"
            options += ["-c", "credential.helper=", "-c", f"credential.{host}.helper={HELPER}"]
            if parts.scheme == "http":  # to this machine alone, so to no proxy that a person's settings name
                options += ["-c", f"http.{host}.proxy="]
        return options

    def _environment(self) -> dict[str, str]:
        names = [name for name in os.environ if name.startswith(PASSED_ON) or name[:4] != "GIT_"]
        variables = {name: os.environ[name] for name in names if name not in ("TIPBENCH_TOKEN", "TIPBENCH_USER")}
        variables |= {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in AUTHOR.items()}
        variables |= {"TIPBENCH_GIT_USER": self._secret.user or USER, "TIPBENCH_GIT_TOKEN": self._secret.token}
        # TZ: a commit holds its author's time zone. LC_ALL: git's messages are read here. GIT_ASKPASS: no prompt.
        variables |= {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "GIT_LITERAL_PATHSPECS": "1"}
        # Where a clone lies within another repository and is gone, git would take that one for ours, and reset it.
        variables |= {"GIT_CEILING_DIRECTORIES": str(self.folder.parent)}
        return variables | {"TZ": "UTC", "LC_ALL": "C"}


class GitFailed(Exception):
    """git's exit code, its errors and what it printed, without the token."""

    def __init__(self, code: int, errors: str, printed: str) -> None:
        super().__init__(errors)
        self.code = code
        self.errors = errors
        self.printed = printed

    @property
    def reason(self) -> str:
        """The last line of the errors, and before it what the server itself says."""
        lines = [plain(line) for line in self.errors.splitlines() if line.strip()]
        remote = [line for line in lines if line.startswith("remote:")]
        last = [line for line in lines if line.startswith(("fatal:", "error:"))][-1:] or lines[-1:]
        rejected = [plain(line.split("\t")[-1]) for line in self.printed.splitlines() if "[remote rejected]" in line]
        return "; ".join(dict.fromkeys([*remote, *rejected, *last]))[:400] or f"git left with exit code {self.code}"


def _end(pid: int) -> None:
    """End git and the programs that it speaks to a server by: they outlive it, and hold its pipes open."""
    with suppress(psutil.Error):
        git = psutil.Process(pid)
        for process in (*git.children(recursive=True), git):
            with suppress(psutil.Error):
                process.kill()

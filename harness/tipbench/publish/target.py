"""Where to publish to: one word, such as `git+https://host/owner/repo.wiki.git`, and the wiki behind it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit, urlunsplit

from tipbench.publish.web import Login
from tipbench.publish.wiki import Wiki, WikiError

FORMS: Mapping[str, tuple[str, str, str]] = {
    "git": ("git_wiki", "GitWiki", "git+https://HOST/OWNER/REPO.wiki.git (also git+ssh:// and git+file://)"),
    "mediawiki": ("media_wiki", "MediaWiki", "mediawiki+https://HOST/PATH/ (the folder of api.php)"),
    "dokuwiki": ("doku_wiki", "DokuWiki", "dokuwiki+https://HOST/PATH/"),
    "confluence": ("confluence", "Confluence", "confluence+https://SITE/wiki?space=KEY (experimental)"),
}
"""By kind: the module and class of its `Wiki`, and what a target of it looks like. Modules are imported when needed."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Target:
    """Where a wiki is.

    Attributes:
        kind: a key of FORMS.
        url: without the kind, and of wikis over HTTP without a user.
        login: of a wiki over HTTP, from the target and the environment; of git nothing, which asks for its own.
    """

    kind: str
    url: str
    login: Login


def parse(text: str) -> Target:
    """Raises WikiError where the target is none, holds a password, or would have a token sent for all to read."""
    kind, _, url = text.partition("+")
    protocols = ("https", "http", "ssh", "file") if kind == "git" else ("https", "http")
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) or parts.scheme == "file"
    except ValueError:  # of a bracket that is not closed
        has_host = False
    if kind not in FORMS or not has_host or parts.scheme not in protocols:
        raise WikiError("--to wants one of: " + "; ".join(form for *_, form in FORMS.values()))
    if parts.password is not None:
        raise WikiError(
            "--to holds a password, which the shell's history and the list of processes would show: leave it out, "
            "and set TIPBENCH_TOKEN, or for git a credential helper of git"
        )
    if kind == "git":
        return Target(kind, url, Login())
    user = unquote(parts.username or "") or os.environ.get("TIPBENCH_USER", "")
    login = Login(user, os.environ.get("TIPBENCH_TOKEN", "").strip())
    if login.token and parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise WikiError(f"the token would go to {parts.hostname} for all to read: use https")
    return Target(kind, urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])), login)


def open_wiki(target: Target, flavour: str = "") -> Wiki:
    """flavour: of a git wiki, guessed from its host without one. Raises WikiError where it cannot be reached."""
    if flavour and target.kind != "git":
        raise WikiError("--flavour is for git wikis only")
    module, name, _ = FORMS[target.kind]
    try:
        kind = getattr(importlib.import_module(f"tipbench.publish.{module}"), name)
    except ImportError:
        raise WikiError("publishing to this wiki needs further libraries: pip install 'tipbench[wikis]'") from None
    wiki: Wiki = kind(target.url, flavour if target.kind == "git" else target.login)
    return wiki

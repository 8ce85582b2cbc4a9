"""Where to publish to: one word, such as `git+https://host/owner/repo.wiki.git`, and the wiki behind it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from tipbench.publish.secret import Secret, find
from tipbench.publish.web import is_on_this_machine
from tipbench.publish.wiki import Wiki, WikiError

FORMS: Mapping[str, tuple[str, str, str]] = {
    "git": ("git_wiki", "GitWiki", "git+https://HOST/OWNER/REPO.wiki.git (also git+ssh:// and git+file://)"),
    "mediawiki": ("media_wiki", "MediaWiki", "mediawiki+https://HOST/PATH/ (the folder of api.php)"),
    "dokuwiki": ("doku_wiki", "DokuWiki", "dokuwiki+https://HOST/PATH/"),
    "confluence": ("confluence", "Confluence", "confluence+https://SITE/wiki?space=KEY (experimental)"),
}
"""By kind: the module and class of its `Wiki`, and what a target of it looks like. Modules are imported when needed."""

EXPERIMENTAL = {"confluence": "tipbench was never tried on a live one, only on a server of its tests"}
"""By kind of target, what its support lacks."""

PROTOCOLS = {"git": ("https", "http", "ssh", "file")}
WEB = ("https", "http")


@dataclass(frozen=True)
class Target:
    """Where a wiki is.

    Attributes:
        kind: a key of FORMS.
        url: without the kind and without a user.
        host: with its port; empty for a file.
        user: the one that the target names; else empty.
    """

    kind: str
    url: str
    host: str
    user: str


def parse(text: str) -> Target:
    """Raises WikiError where the target is none, or holds a password."""
    kind, plus, url = text.partition("+")
    parts = _split(url)
    if kind not in FORMS or not plus or parts is None or parts.scheme not in PROTOCOLS.get(kind, WEB):
        raise WikiError("--to wants one of: " + "; ".join(form for *_, form in FORMS.values()))
    if parts.password is not None:
        raise WikiError(
            "--to holds a password, which the shell's history and the list of processes would show: leave it out, "
            "and set TIPBENCH_TOKEN, or `keyring set tipbench HOST`"
        )
    host = parts.hostname or ""
    if not host and parts.scheme != "file":
        raise WikiError(f"--to names no host: {FORMS[kind][-1]}")
    host += f":{parts.port}" if parts.port else ""
    if parts.scheme == "ssh":  # there the user says which account of the server is logged in to
        return Target(kind, url, host, "")
    without_user = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    return Target(kind, urlunsplit(without_user), host, unquote(parts.username or ""))


def secret_for(target: Target) -> Secret:
    """The token for it, if there is one. Raises WikiError where it would go over the network for all to read."""
    if not target.url.startswith("http"):  # ssh has its keys, and a file needs none
        return Secret("", "")
    secret = find(target.host, target.user)
    if secret.token and target.url.startswith("http:") and not is_on_this_machine(target.url):
        raise WikiError(f"the token would go to {target.host} for all to read: use https")
    return secret


def open_wiki(target: Target, secret: Secret, flavour: str = "") -> Wiki:
    """flavour: of a git wiki, guessed from its host without one. Raises WikiError where it cannot be reached."""
    if flavour and target.kind != "git":
        raise WikiError("--flavour is for git wikis only")
    module, name, _ = FORMS[target.kind]
    kind = getattr(importlib.import_module(f"tipbench.publish.{module}"), name)
    wiki: Wiki = kind(target.url, secret, flavour) if target.kind == "git" else kind(target.url, secret)
    return wiki


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # of a port that is no number, or a bracket that is not closed
        return None
    return parts

"""`tipbench publish`: from results files to a wiki."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tipbench.advise.command import markdown_of
from tipbench.compare.comparison import Comparison
from tipbench.compare.inputs import LEAST, MOST
from tipbench.compare.page import across
from tipbench.compare.page import page as compared_page
from tipbench.compare.stored import Stored
from tipbench.errors import UserError
from tipbench.publish import tree
from tipbench.publish.allowed import Allowed, allowed, check_public_name, with_earlier
from tipbench.publish.send import Compared, Published, compared_there, known_there, plan, preview, send
from tipbench.publish.target import EXPERIMENTAL, open_wiki, parse, secret_for
from tipbench.publish.wiki import Wiki, WikiError, WikiPage
from tipbench.records import store
from tipbench.report.document import Page, figures
from tipbench.report.earlier import earlier
from tipbench.report.effect import effects as effects_of
from tipbench.report.figures import alts_across, draw, draw_across
from tipbench.report.one_run import in_two
from tipbench.report.rows import rows
from tipbench.report.wording import plain, plural


class PublishError(UserError):
    """Nothing, or not all, was published; the message says why and what to do, and holds no secret."""


@dataclass(frozen=True)
class Options:
    """The options of the command. files: of runs, and folders that `tipbench advise` has made. results: where runs are
    that the wiki knows already, for the comparison. own: whether pages about a person's own job may be sent."""

    to: str
    files: Sequence[Path]
    dry_run: bool = False
    public_name: str = ""
    flavour: str = ""
    results: Path = Path("results")
    own: bool = False


def begin(options: Options) -> int:
    """Publish, or show what would be. Returns the exit code; raises PublishError, WikiError and `store.StoreError`."""
    target = parse(options.to)
    secret = secret_for(target)
    if target.kind in EXPERIMENTAL:
        _say(f"{target.kind} is experimental: {EXPERIMENTAL[target.kind]}")
    own = [_of_own_job(file, options.own) for file in options.files if file.is_dir()]
    chosen = _chosen([file for file in options.files if not file.is_dir()], options.public_name)
    try:
        wiki = open_wiki(target, secret, options.flavour)
        compared = (
            _compared(wiki, chosen, options.results) if chosen else None
        )  # reads the wiki: a refusal comes before all drawing
        found = [_published(one) for one in chosen]
        if options.dry_run:
            changes = plan(wiki, found, compared, own)
            for line in preview(changes):
                print(line)
            _say(f"dry run: {plural(len(changes), 'page')} would be written; nothing was sent")
            return 0
        changes = send(wiki, found, compared, own)
    except WikiError as error:
        raise PublishError(secret.hide(str(error))) from None
    for change in changes:
        print(f"written: {'/'.join(change.path)}")
    if not changes:
        print("nothing to write: the wiki has all of it already")
    return 0


def _chosen(files: Sequence[Path], public_name: str) -> list[Allowed]:
    """The runs as they may be published, each once. Raises PublishError, also where files differ of one run."""
    if public_name:
        try:
            check_public_name(public_name)
        except ValueError as error:
            raise PublishError(f"--public-name {plain(public_name)!r}: {error}") from None
    chosen: dict[str, tuple[Path, Allowed]] = {}
    for file in files:
        found = _read(file, public_name)
        first, known = chosen.setdefault(found.run.id, (file, found))
        if known.run != found.run:
            raise PublishError(
                f"{first} and {file} hold different things under the run id {found.run.id}: leave one out"
            )
    runs = [found for _, found in chosen.values()]
    hardware = {allowed(found.run).run.machine["name"] for found in runs}
    if public_name and len(hardware) > 1:
        raise PublishError(f"--public-name names one machine; these runs are of {plural(len(hardware), 'machine')}")
    return runs


def _read(file: Path, public_name: str) -> Allowed:
    """What may be published of a file. What stays here is named on stderr."""
    run, notices = store.read(file)
    if run.options.get("calibration"):
        raise store.StoreError(f"{file} is a calibration of tipbench itself, and is not published")
    if run.options.get("given"):
        raise store.StoreError(
            f"{file} is about a job of your own, and is not published; `tipbench publish --include-own` sends the page "
            "of an advice, whose folder you name"
        )
    for notice in notices:
        _say(str(notice))
    found = _with_earlier(file, allowed(run, notices, public_name))
    if found.withheld:
        named = ", ".join(map(plain, found.withheld[:5])) + ", ..." * (len(found.withheld) > 5)
        _say(f"{file}: {plural(len(found.withheld), 'pair')} left out, as this suite has none of that name: {named}")
    if not found.run.records:
        raise PublishError(f"{file}: no pair of the suite is finished in it, so there is nothing to publish")
    return found


def _of_own_job(folder: Path, allowed_to: bool) -> WikiPage:
    """The page of an advice. Raises PublishError unless pages about a person's own job may be sent, and NoJob."""
    if not allowed_to:
        raise PublishError(f"{folder} is about a job of your own, and is not published: add --include-own if it may be")
    return WikiPage((f"Advice {re.sub('[^A-Za-z0-9.-]+', '-', folder.resolve().name)}",), markdown_of(folder))


def _with_earlier(file: Path, found: Allowed) -> Allowed:
    """The run in this file with what earlier runs beside it found."""
    run, _ = store.read(file)
    return with_earlier(run, found, (store.read(path)[0] for path in earlier(file, run)))


def _published(found: Allowed) -> Published:
    entry = tree.entry(found.run, found.earlier)
    home, below = "/".join(entry.path), "/".join(entry.evidence)
    shown = in_two(found.run, home, below, found.notices, earlier=found.earlier)
    drawn, evidence = draw(rows(found.run), "png"), shown.below[below]
    of_evidence = WikiPage(entry.evidence, evidence, _files(evidence, drawn))
    return Published(entry, shown.front, _files(shown.front, drawn), of_evidence)


def _files(shown: Page, drawn: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{figure.name}.png": drawn[figure.name] for figure in figures(shown)}


def _compared(wiki: Wiki, chosen: Sequence[Allowed], results: Path) -> Compared | None:
    """The comparison of these runs with those that the wiki knows and that lie here too; None for fewer than two."""
    runs, files = {found.run.id: found for found in chosen}, {}
    for known in known_there(wiki):
        if known.id not in runs and (here := _here(known, results)) is not None:
            files[known.id], runs[known.id] = here
    newest = sorted(runs.values(), key=lambda found: (found.run.started, found.run.id), reverse=True)[:MOST]
    if len(newest) < LEAST:
        return None
    ids = tuple(found.run.id for found in newest)
    if elsewhere := [id for id in compared_there(wiki) if id not in ids]:
        _say(
            f"the comparison stays as it is: it holds {plural(len(elsewhere), 'run')} that {results} lacks "
            f"({', '.join(id[:8] for id in elsewhere[:5])}); publish where all results files are to have it made anew"
        )
        return None
    for group in Comparison(tuple(map(_stored, newest))).groups:
        speaking = newest[group.speaks]
        if speaking.run.id in files:
            newest[group.speaks] = _with_earlier(files[speaking.run.id], speaking)
    runs_here = tuple(map(_stored, newest))
    comparison = Comparison(runs_here, tuple(note for stored in runs_here for note in stored.notices))
    effects = across(comparison)
    shown = compared_page(comparison, alts_across(effects))
    return Compared(ids, shown, _files(shown, draw_across(effects, "png")))


def _here(known: tree.Entry, results: Path) -> tuple[Path, Allowed] | None:
    for file in sorted(results.rglob(f"{known.run}.jsonl")):
        try:
            run, notices = store.read(file)
        except store.StoreError:  # a run that was not named need not be usable
            continue
        found = allowed(run, notices, known.machine)
        if found.run.id == known.id and found.run.records:
            return file, found
    return None


def _stored(found: Allowed) -> Stored:
    run = found.run
    notices = tuple(f"{store.file_name(run)}, line {notice.line}: {notice.text}" for notice in found.notices)
    return Stored(
        Path(store.file_name(run)),
        replace(run, records=()),
        len(run.records),
        tuple(effects_of(run)),
        notices,
        found.earlier,
    )


def _say(text: str) -> None:
    print(f"tipbench: {text}", file=sys.stderr)

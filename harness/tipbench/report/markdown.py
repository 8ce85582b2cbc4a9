"""Pages as Markdown: Jinja2 templates in `pages/`, in which whatever is inserted is escaped.

A template holds Markdown without raw HTML. Inserted text may be foreign: it becomes one line that Markdown shows as it
is, in a cell of a table and at the beginning of a line too. Only what a filter or a macro returns is Markdown already.
A float cannot be inserted without a filter that says its unit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache, wraps
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import jinja2
from markupsafe import Markup

from tipbench.report.answer_kinds import INFERENCE, SEVERAL
from tipbench.suite.loops import loop_diff
from tipbench.tip import wording

TEMPLATES = Path(__file__).parent / "pages"

NOTHING = Markup("-")
"""Stands in a cell for a number that is not known."""


def render(template: str, **context: Any) -> str:
    """The page that a template of `pages/` makes of the context. Raises jinja2.TemplateError, and TypeError for a float
    that is inserted without a filter."""
    text = template_environment().get_template(template).render(context)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


@cache
def template_environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,  # so that macros return Markup, which `safe` leaves alone
        finalize=safe,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        code=code,
        code_cell=code_cell,
        fence=fence,
        how=how,
        image=image,
        join=join,
        link=link,
        prose=prose,
        strong=strong,
        change=_number(wording.change),
        percent=_number(wording.percent),
        plural=_number(wording.plural),
        ratio=ratio,
        seconds=_number(wording.seconds),
        size=_number(wording.size),
        value=wording.value,
    )
    return made


def safe(value: Any) -> Markup:
    """What a template inserts, as Markdown."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return NOTHING
    if isinstance(value, float):
        raise TypeError(f"{value} is inserted without a filter that says its unit")
    return Markup(text(value))


def text(foreign: object) -> str:
    """Foreign text as one line that Markdown and HTML show as it is, in a cell and at the beginning of a line too."""
    return _escaped(str(foreign), SPECIAL)


# Single brackets stay readable: only `](` makes a link, `[[` one in a wiki, and `[` that begins a line a target.
SPECIAL = r"[\\`*|~$]|\[(?=\[)|\](?=\()|^\["
WITHIN_BRACKETS = r"[\\`*|~$\[\]]"


@lru_cache(10_000)
def _escaped(foreign: str, special: str) -> str:
    line = wording.plain(foreign).replace("&", "&amp;").replace("<", "&lt;")
    line = re.sub(special, r"\\\g<0>", line)
    line = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", line)  # within a word it is only a character
    line = re.sub(r"^(?:[#>=]|[-+](?=[-+\s]|$))|(?<=\s)#(?=#*$)", r"\\\g<0>", line)
    return re.sub(r"^(\d+)(?=[.)](?:\s|$))", r"\1\\", line)


def code(foreign: object) -> Markup:
    """Code within a line; nothing where there is none."""
    line = wording.plain(str(foreign)).replace("`", "'")
    return Markup(f"`{line}`" if line else "")


def code_cell(foreign: object) -> Markup:
    """`code` in a table, where a bar ends the cell even within code."""
    return Markup(code(foreign).replace("|", r"\|"))


def prose(foreign: str) -> Markup:
    """Text in which code stands between backticks, in a table too."""
    parts = foreign.split("`")
    return Markup("").join(code_cell(part) if odd % 2 else _with_its_blanks(part) for odd, part in enumerate(parts))


def _with_its_blanks(part: str) -> Markup:
    """Escaped, with the blanks at its ends, which part it from code beside it."""
    before, after = (" " * part[end : end + 1 or None].isspace() for end in (0, -1))
    return Markup(f"{before}{text(part)}{after}" if part.strip() else " " * bool(part))


def fence(foreign: object, language: str = "") -> Markup:
    """Lines of code as a block that they cannot end."""
    lines = wording.lines_of(str(foreign))
    longest = max((len(ticks) for ticks in re.findall(r"`+", lines)), default=0)
    marks = "`" * max(3, longest + 1)
    return Markup(f"{marks}{re.sub(r'[^a-z]', '', language)}\n{lines}\n{marks}")


def how(do: str, workload: str) -> Markup:
    """What to write, as a diff of the loop that it is about, or by itself if it belongs elsewhere.

    workload: of the answer, see `answer_kinds`.
    """
    several = "accumulation" if "no_sync" in do else "training" if "init_process_group" in do else "ddp"
    loop = {INFERENCE: "inference", SEVERAL: several}.get(workload, "training")
    diff = start_line(loop_diff(do, loop), workload)
    return fence(diff, "diff") if diff else fence(do, "python")


def start_line(text: str, workload: str) -> str:
    """A line that starts a job, for a job of this workload."""
    return text.replace("train.py", "infer.py") if workload == INFERENCE or "to infer" in text else text


def strong(foreign: object) -> Markup:
    line = safe(foreign)
    return Markup(f"**{line}**" if line else "")


def link(foreign: object, address: str) -> Markup:
    """The text as a link, or alone where the address leads to no page beside this one and not to the web."""
    target = quote(address, safe=":/?#@!$&'*+,;=%~")
    parts = urlsplit(target)
    leads = parts.scheme in ("http", "https") if parts.scheme or parts.netloc else bool(target)
    if not leads or address.startswith(("/", "\\")):
        return safe(foreign)
    return Markup(f"[{_in_brackets(foreign)}]({target})")


def image(alt: object, file: str) -> Markup:
    """alt: what it shows, for who cannot see it."""
    return Markup(f"![{_in_brackets(alt)}]({quote(file)})")


def _in_brackets(foreign: object) -> Markup:
    return foreign if isinstance(foreign, Markup) else Markup(_escaped(str(foreign), WITHIN_BRACKETS))


def join(listed: Iterable[object], separator: str = ", ") -> Markup:
    return Markup(separator).join(map(safe, listed))


def ratio(value: float | None, low: float | None = None, high: float | None = None) -> Markup:
    """`1.35x [1.33, 1.38]`; `about 1.35x` without an interval."""
    return NOTHING if value is None else safe(wording.ratio(value, low, high))


def _number(show: Callable[..., str]) -> Callable[..., Markup]:
    @wraps(show)
    def filtered(*numbers: Any) -> Markup:
        return NOTHING if None in numbers else safe(show(*numbers))

    return filtered

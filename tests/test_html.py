"""The HTML of a page: what it says as text, and what a real browser makes of it."""

from __future__ import annotations

import functools
import http.server
import re
import threading
import time
import typing
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from types import MappingProxyType

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, expect
from playwright.sync_api import Page as Tab

from tests import browser as chromium
from tests.browser import Window
from tests.made_up import realistic
from tests.test_figures import contrast
from tipbench.records.store import read
from tipbench.report import one_run
from tipbench.report.as_html import render
from tipbench.report.document import (
    Block,
    Break,
    Bullets,
    Cell,
    Code,
    Figure,
    Folded,
    Heading,
    Interval,
    Line,
    Link,
    Literal,
    Page,
    Paragraph,
    Quote,
    SideBySide,
    Strong,
    Table,
)
from tipbench.report.figures import draw
from tipbench.report.rows import rows

browser, window = chromium.browser, chromium.window

Scheme = typing.Literal["light", "dark"]
VERDICTS = ("faster", "slower", "no difference", "inconclusive", "skipped", "failed", "missing")
ANSWERS = ("use it", "use it if", "depends", "at most", "don't", "can't tell", "not possible here")
RESULTS = Path(__file__).parent.parent / "results"
LIMIT = 500_000
"""Bytes: of 50 tips on 20 machines, and of a run with all its code and figures."""

HOSTILE = """</title></script></table>'"><img src=x onerror="window.hit=1"><script>window.hit=1</script>{{7*7}}<!--"""
LIES = "javascript:window.hit=1//"


TIPS = 16


def comparison(tips: int = 50, machines: int = 20) -> Page:
    """Shaped as a comparison of many runs is: the tips, the matrix, the machines."""
    random = Random(6)
    names = [f"machine-{number:02}-64c-256g" for number in range(1, machines + 1)]
    listed = [f"tip-{number:02}" for number in range(1, tips + 1)]

    def speedup() -> Cell:
        kind = random.choice(VERDICTS)
        if kind in VERDICTS[4:]:
            return Cell((kind,), None, kind)
        ratio = random.lognormvariate(0, 0.3)
        text = f"{ratio:.2f}x [{ratio * 0.96:.2f}, {ratio * 1.05:.2f}]"
        return Cell((Strong(text), Break(), "live tensors -33 %"), ratio, kind)

    def answer(number: int) -> Cell:
        kind = ANSWERS[number % len(ANSWERS)]
        return Cell((Strong(kind),), ANSWERS.index(kind), kind)

    def found() -> Cell:
        machines, i2 = random.randrange(20), random.randrange(100)
        return Cell((f"faster on {machines} of 20 machines, I2 {i2} %; memory the same",))

    def cores() -> Cell:
        count = random.choice((2, 16, 64))
        return Cell((str(count),), count)

    answers = tuple((answer(number), Cell((Link(tip, f"#{tip}"),)), found()) for number, tip in enumerate(listed, 1))
    matrix = tuple((Cell((Link(tip, f"run/one#{tip}"),)), *(speedup() for _ in names)) for tip in listed)
    fields = tuple((Cell((name,)), cores(), Cell(("x" * 40,))) for name in names)
    return Page(
        f"{tips} tips on {machines} machines",
        (
            Quote((("Limits: ", Strong("sizes"), " named below."), ("Noise floor: 1 %.",))),
            Heading("Which advice pays on all machines", 2, "tips"),
            Table("tips", ("answer", "tip", "what was found"), answers),
            Heading("Tips by machines", 2, "matrix"),
            Paragraph(("Speedups with their intervals; ", Literal("tipbench compare"), " made this.")),
            Table("matrix", ("tip", *names), matrix),
            Figure("forest", "Speedups of all tips", "Bars are 95 % intervals."),
            Figure("pareto", "Memory against time"),
            Heading("The machines", 2, "machines"),
            Table("machines", ("machine", "cores", "cpu"), fields),
            *(Folded(f"About {tip}", (Heading(tip, 3, tip), *about())) for tip in listed[:5]),
        ),
    )


def about() -> tuple[Block, ...]:
    left = Code("conv = self.conv()\nimages = self.images()\nreturn lambda: conv(images)", "python")
    right = Code(left.text.replace("self.images()", "self.images().to(memory_format=torch.channels_last)"), "python")
    evidence = (Cell(("Convolution",)), Cell(("1.10x [1.05, 1.16]",), 1.1, "faster"))
    return (
        Table("evidence", ("pair", "speedup"), (evidence, (Cell(("ResNet",)), Cell(("0.98x",), 0.98, "inconclusive")))),
        SideBySide(("baseline", "optimized"), left, right),
        Bullets((("Mechanism: ", Literal("5 -> 1")), ("Repeat: ", Literal("tipbench run channels-last")))),
        Code("tipbench run channels-last"),
    )


@pytest.fixture(scope="module")
def report() -> str:
    """Of the last run that is committed, with its figures."""
    run, notices = read(sorted(RESULTS.glob("*/[0-9]*.jsonl"))[-1])
    return render(one_run.page(run, notices), draw(rows(run), "svg"))


@pytest.fixture(scope="module")
def report_file(report: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("html") / "run.html"
    path.write_text(report, "utf-8")
    return path


@pytest.fixture(scope="module")
def large_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    high = b'<svg xmlns="http://www.w3.org/2000/svg" width="525pt" height="705pt" viewBox="0 0 525 705"></svg>'
    return written(tmp_path_factory.mktemp("html") / "large.html", comparison(), {"forest": high})


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of every kind of table, small enough to be opened by every test."""
    return written(tmp_path_factory.mktemp("html") / "compare.html", comparison(TIPS, 9))


def written(path: Path, page: Page, figures: Mapping[str, bytes] = MappingProxyType({})) -> Path:
    path.write_text(render(page, figures), "utf-8")
    return path


@pytest.fixture
def tab(file: Path, window: Window) -> Tab:
    opened = window(viewport={"width": 1400, "height": 900}).new_page()
    opened.goto(file.as_uri())
    return opened


def rows_shown(tab: Tab, table: str, column: int, what: str) -> list[typing.Any]:
    rows = tab.locator(f'[id="table:{table}"] tbody tr')
    cell = f"row.cells[{column - 1}]"
    found = rows.evaluate_all(f"rows => rows.filter(row => row.checkVisibility()).map(row => {what.format(cell=cell)})")
    assert isinstance(found, list)
    return found


def shown(tab: Tab, table: str, column: int = 2) -> list[str]:
    """Text of a column, counted from 1, in the rows that are to be seen."""
    return rows_shown(tab, table, column, "{cell}.innerText.trim()")


def numbers(tab: Tab, table: str, column: int) -> list[float | None]:
    """What a column is sorted by."""
    return rows_shown(tab, table, column, "{cell}.dataset.sort ? +{cell}.dataset.sort : null")


def until(true: Callable[[], bool]) -> None:
    """Waits for what glides, up to ten seconds. The page itself may not wait: its rules forbid it."""
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# ---- the text ----


def test_same_page_same_bytes_and_small(report: str) -> None:
    document = render(comparison())
    assert document == render(comparison())
    assert len(document.encode()) < LIMIT
    assert len(report.encode()) < LIMIT


def test_figures_are_parts_of_the_page_and_share_no_name(report: str) -> None:
    drawn, beside_words = report.count('role="img"'), report.count('aria-hidden="true">')
    assert report.count("<svg") == drawn + beside_words
    assert min(drawn, beside_words) > 1
    assert "<?xml" not in report
    names = re.findall(r'\sid="([^"]+)"', report)
    assert len(names) == len(set(names))
    pointed_at = set(re.findall(r'url\(#([^)]+)\)|<use href="#([^"]+)"', report))
    assert {found for pair in pointed_at for found in pair if found} <= set(names)
    properties = set(re.findall(r"var\((--[a-z]+)", report)) - {"--kind", "--shape", "--columns"}
    assert all(report.split("</style>")[0].count(f"{name}: #") == 2 for name in properties), (
        "every colour, for light and for dark"
    )


INTERVALS = ((1.1, 1.2, 1.3), (0.8, 1.0, 1.25), (0.7, 0.8, 0.9), (0.1, 0.2, 4.0), (2.5, 3.0, 3.5))


def test_intervals_are_drawn_on_one_axis_and_are_never_all_that_is_said() -> None:
    cells = tuple((Cell((Interval(*each), f"about {each[1]}")),) for each in INTERVALS)
    document = render(Page("t", (Table("t", ("gain",), cells),)))
    drawn = re.findall(r'<svg class="interval (\w+)"[^>]* aria-hidden="true">(.*?)</svg>about [\d.]+', document)
    assert [kind for kind, _ in drawn] == ["faster", "unclear", "slower", "unclear", "faster"]
    ends = [re.findall(r"M([\d.]+) 8H([\d.]+)\"", paths) for _, paths in drawn]
    bars = [(float(low), float(high)) for ((low, high),) in ends]
    assert all(low <= high for low, high in bars)
    assert bars[0][0] > 50 > bars[2][1]
    assert bars[1][0] + bars[1][1] == pytest.approx(100), "as far below 1x as above"
    assert [paths.count("L") for _, paths in drawn] == [0, 0, 0, 4, 2], "arrows where the axis ends first"
    for broken in ((0.0, 1.0, 2.0), (1.0, 1.0, float("inf")), (2.0, 1.0, 3.0), (float("nan"),) * 3):
        assert "<svg" not in render(Page("t", (Paragraph((Interval(*broken), "words")),)))


def test_a_missing_figure_is_put_in_words() -> None:
    document = render(comparison())
    assert "<svg" not in document
    assert "<p>Figure: Speedups of all tips</p>" in document


@pytest.mark.parametrize(
    ("to", "address"),
    [
        ("#channels-last", "#channels-last"),
        ("https://example.org/a?b=1&c", "https://example.org/a?b=1&amp;c"),
        ("Benchmarks/a machine/run#tip", None),
        ("Benchmarks/m/2026-11-21-0e1f8a67#tip", "Benchmarks/m/2026-11-21-0e1f8a67.html#tip"),
        ("b%c/ü", "b%25c/%C3%BC.html"),
        ("javascript:alert(1)", None),
        ("JavaScript:alert(1)//#x", None),
        ("java\nscript:alert(1)", None),
        ("\x01javascript:alert(1)", None),
        ("data:text/html,x", None),
        ("//elsewhere.org/x", None),
        ("\\\\elsewhere.org/x", None),
        ("HTTPS:elsewhere.org", None),
        ("../../secret", None),
        ("", None),
    ],
)
def test_links_lead_to_this_page_another_page_or_the_web(to: str, address: str | None) -> None:
    document = render(Page("t", (Paragraph((Link("word", to),)),)))
    found = re.findall(r'<p><a href="([^"]*)"[^>]*>word</a></p>', document)
    assert found == ([] if address is None else [address])
    assert ("<p>word</p>" in document) == (address is None)


def test_what_the_callable_makes_of_a_key_is_checked_too() -> None:
    page = Page("t", (Paragraph((Link("word", "key#there"),)),))
    assert 'href="../m/key.htm#there"' in render(page, link=lambda key: f"../m/{key.replace('#', '.htm#')}")
    assert "<p>word</p>" in render(page, link=lambda key: f"javascript:{key}")
    assert "<p>word</p>" in render(page, link=lambda key: f"//{key}")


def test_spans_stay_apart_and_kinds_are_always_words() -> None:
    cells = (
        Cell(("1.2x",), 1.2, "faster"),
        Cell(("much Faster",), float("inf"), "faster"),
        Cell((), float("nan"), "failed"),
    )
    paragraph = Paragraph(("Run ", Strong("this"), " with ", Literal("-x"), "."))
    document = render(Page("t", (paragraph, Table("t", ("a",) * 3, (cells,)))))
    assert "<p>Run <b>this</b> with <code>-x</code>.</p>" in document
    for kind, sort, text in (
        ("faster", ' data-sort="1.2"', "<b>faster</b> 1.2x"),
        ("faster", ' data-sort="Infinity"', "much Faster"),
        ("failed", "", "<b>failed</b>"),
    ):
        assert f'<td data-kind="{kind}"{sort}>{text}' in document


def test_only_lines_that_one_side_has_are_marked() -> None:
    sides = SideBySide(("l", "r"), Code("same\nold\n\nend"), Code("same\nnew <x>\n\nend"))
    document = render(Page("t", (sides,)))
    assert re.findall("<mark>(.*?)</mark>", document) == ["old", "new &lt;x&gt;"]
    assert "<code>same\n<mark>old</mark>\n\nend</code>" in document
    assert "<mark>" not in render(Page("t", (replace(sides, right=Code("all\nelse")),)))


def test_a_page_with_little_on_it(window: Window, tmp_path: Path) -> None:
    """No blocks, a table without rows, and rows that lack a cell, as foreign runs may make them."""
    assert "<main" in render(Page("", ()))
    short = tuple((Cell((str(number),)), Cell(("x",), 1, "faster"))[: 1 + number % 2] for number in range(9))
    errors: list[object] = []
    opened = window().new_page()
    opened.on("pageerror", lambda error: errors.append(error))
    blocks = (Table("none", ("a",), ()), Table("short", ("a", "b"), short), Quote(()), Bullets(()), Folded("", ()))
    opened.goto(written(tmp_path / "little.html", Page("t", blocks)).as_uri())
    sort_button(opened, "short", 2).click()
    assert shown(opened, "short", 1) == ["1", "3", "5", "7", "0", "2", "4", "6", "8"]
    controls(opened, "short").get_by_role("searchbox").fill("x")
    assert shown(opened, "short", 1) == ["1", "3", "5", "7"]
    assert errors == []


def test_names_are_valid_and_no_two_alike() -> None:
    repeated = Heading("a", 2, "x y"), Heading("b", 3, "x y"), Heading("A word"), Table("x y", ("h",), ())
    names = re.findall(r'\sid="([^"]+)"', render(Page("t", (*repeated, Folded("f", repeated)))))
    assert len(names) == len(set(names)) == 9
    assert not any(" " in name for name in names)
    assert names[3] == "section-a-word", "which stays where it is when headings before it come and go"


# ---- offline ----


class Watched(http.server.SimpleHTTPRequestHandler):
    """Serves files, and keeps their paths: the icon's too, of which playwright tells nothing."""

    served: list[str] = []

    def log_request(self, *_: object) -> None:
        self.served.append(self.path)

    def log_error(self, *_: object) -> None:
        """No word of what is not there."""


def requested(window: Window, address: str) -> list[str]:
    """All that a browser asks for while it shows a page, on a screen and for a printer."""
    context = window()
    requests: list[str] = []
    context.on("request", lambda request: requests.append(request.url))
    opened = context.new_page()
    opened.goto(f"{address}#?tips.sort=2", wait_until="networkidle")
    opened.emulate_media(media="print", color_scheme="dark")
    opened.pdf()
    return [found.split("#")[0] for found in requests]


def test_nothing_is_loaded_from_any_network(file: Path, window: Window) -> None:
    """From a disk and from a server; a page that does ask shows that it would be seen."""
    (file.parent / "leaky.html").write_text('<img src="/leak.png">')
    assert requested(window, file.as_uri()) == [file.as_uri()]
    Watched.served.clear()
    serve = functools.partial(Watched, directory=str(file.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        try:
            assert requested(window, f"{address}/{file.name}") == [f"{address}/{file.name}"]
            assert Watched.served == [f"/{file.name}"]
            assert requested(window, f"{address}/leaky.html") == [f"{address}/leaky.html", f"{address}/leak.png"]
            until(lambda: {"/leak.png", "/favicon.ico"} <= set(Watched.served))
        finally:
            server.shutdown()


def test_what_is_injected_all_the_same_may_neither_run_nor_load(file: Path, window: Window, tmp_path: Path) -> None:
    injected = (
        "<script>document.title = 'run'</script><img src='https://example.org/x.png' onerror='document.title = 1'>"
    )
    altered = tmp_path / "altered.html"
    altered.write_text(file.read_text("utf-8").replace("<main", f"{injected}<main"), "utf-8")
    context = window()
    requests: list[tuple[str, str | None]] = []
    context.on("requestfailed", lambda request: requests.append((request.url, request.failure)))
    context.on("requestfinished", lambda request: requests.append((request.url, None)))
    opened = context.new_page()
    opened.goto(altered.as_uri())
    expect(opened.locator("thead button").first).to_be_visible()  # our own script still runs
    assert opened.title() == f"{TIPS} tips on 9 machines"
    assert sorted(requests) == [(altered.as_uri(), None), ("https://example.org/x.png", "csp")]


# ---- sorting and filtering ----


def sort_button(tab: Tab, table: str, column: int) -> Locator:
    return tab.locator(f'[id="table:{table}"] thead th:nth-child({column}) button')


def controls(tab: Tab, table: str) -> Locator:
    return tab.get_by_role("group", name=re.compile(f"^Filter of .*: {table}$"))


def test_a_click_sorts_another_turns_it_round_and_a_third_takes_it_back(tab: Tab) -> None:
    before = numbers(tab, "matrix", 3)
    known = sorted(found for found in before if found is not None)
    missing = [None] * before.count(None)
    assert missing
    assert known
    head = tab.locator('[id="table:matrix"] thead th:nth-child(3)')
    for wanted, order in ((known + missing, "ascending"), (known[::-1] + missing, "descending")):
        sort_button(tab, "matrix", 3).click()
        assert numbers(tab, "matrix", 3) == wanted, "what has no number stays last"
        expect(head).to_have_attribute("aria-sort", order)
        assert tab.locator("[aria-sort]").count() == 1
    sort_button(tab, "matrix", 3).click()
    assert numbers(tab, "matrix", 3) == before
    assert tab.locator("[aria-sort]").count() == 0


def test_a_keyboard_reaches_the_heads_and_sorts(tab: Tab) -> None:
    controls(tab, "machines").get_by_role("button", name="Show all").focus()
    for _ in range(4):  # the table's region, then its heads
        tab.keyboard.press("Tab")
    expect(sort_button(tab, "machines", 3)).to_be_focused()
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Enter")
    cores = [int(text) for text in shown(tab, "machines", 2)]
    assert cores == sorted(cores)
    assert cores != sorted(cores, key=str), "as numbers, not as text"


def test_text_is_sorted_as_people_count(window: Window, tmp_path: Path) -> None:
    names = ("batch-10", "Batch-9", "", "batch-100")
    table = Table("t", ("name", "other"), tuple((Cell((name,)), Cell((name,))) for name in names))
    opened = window().new_page()
    opened.goto(written(tmp_path / "t.html", Page("t", (table,))).as_uri())
    sort_button(opened, "t", 1).click()
    assert shown(opened, "t", 1) == ["Batch-9", "batch-10", "batch-100", ""]


def test_words_and_kinds_filter_and_the_number_of_rows_is_shown(tab: Tab) -> None:
    bar = controls(tab, "tips")
    status = bar.get_by_role("status")
    everything = shown(tab, "tips", 1)
    expect(status).to_have_text(f"{TIPS} rows")
    bar.get_by_label("answer").select_option("use it")
    wanted = everything.count("use it")
    assert shown(tab, "tips", 1) == ["use it"] * wanted
    assert 0 < wanted < wanted + everything.count("use it if")
    expect(status).to_have_text(f"{wanted} of {TIPS} rows shown")
    bar.get_by_role("button", name="Show all").click()
    bar.get_by_role("searchbox").press_sequentially("MEMORY tip-07")
    assert shown(tab, "tips", 2) == ["tip-07"]
    expect(status).to_have_text(f"1 of {TIPS} rows shown")
    bar.get_by_role("searchbox").fill("no such words")
    expect(status).to_have_text(f"0 of {TIPS} rows shown")
    assert len(shown(tab, "matrix", 1)) == TIPS, "each table on its own"


def test_with_many_columns_one_choice_says_where_and_what(tab: Tab) -> None:
    kinds = tab.locator('[id="table:matrix"] tbody tr').evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.dataset.kind ?? ''))"
    )
    bar = controls(tab, "matrix")
    assert bar.get_by_role("combobox").count() == 2
    bar.get_by_label("shows").select_option("faster")
    assert len(shown(tab, "matrix", 1)) == sum("faster" in row for row in kinds)
    bar.get_by_label("Column").select_option(label="machine-04-64c-256g")
    assert len(shown(tab, "matrix", 1)) == sum(row[4] == "faster" for row in kinds)


# ---- the address ----


def test_the_address_alone_restores_the_view_in_another_window(tab: Tab, window: Window) -> None:
    sort_button(tab, "tips", 3).click()
    sort_button(tab, "tips", 3).click()
    controls(tab, "tips").get_by_label("answer").select_option("can't tell")
    controls(tab, "matrix").get_by_role("searchbox").fill("no & difference? 50 % + #1 ü")
    controls(tab, "matrix").get_by_role("searchbox").fill("difference  TIP-")
    controls(tab, "matrix").get_by_label("Column").select_option(label="machine-03-64c-256g")
    controls(tab, "matrix").get_by_label("shows").select_option("no difference")
    sort_button(tab, "evidence", 2).evaluate("button => button.click()")
    other = window().new_page()
    other.goto(tab.url)
    for table in ("tips", "matrix"):
        assert shown(other, table) == shown(tab, table) != []
        assert controls(other, table).inner_text() == controls(tab, table).inner_text()
        assert [field.input_value() for field in controls(other, table).locator("input, select").all()] == [
            field.input_value() for field in controls(tab, table).locator("input, select").all()
        ]
    assert other.url == tab.url
    assert other.locator("[aria-sort]").count() == 2
    other.reload()
    assert shown(other, "tips") == shown(tab, "tips")
    for table in ("tips", "matrix"):
        controls(tab, table).get_by_role("button", name="Show all").click()
    sort_button(tab, "evidence", 2).evaluate("button => (button.click(), button.click())")
    assert "#" not in tab.url, "nothing chosen, nothing said"


def test_links_within_the_page_lead_there_and_keep_what_is_chosen(tab: Tab, window: Window) -> None:
    target = tab.get_by_role("heading", name="tip-03")
    expect(target).to_be_hidden()
    controls(tab, "tips").get_by_role("searchbox").fill("memory")
    sort_button(tab, "tips", 2).click()
    link = tab.locator('[id="table:tips"]').get_by_role("link", name="tip-03")
    link.click()
    expect(target).to_be_in_viewport()
    assert tab.url.endswith("#tip-03?tips.sort=2&tips.text=memory")
    tab.evaluate("scrollTo(0, 0)")
    link.click()
    expect(target).to_be_in_viewport()
    tab.go_back()
    assert tab.url.endswith("#?tips.sort=2&tips.text=memory")
    assert controls(tab, "tips").get_by_role("searchbox").input_value() == "memory"
    other = window().new_page()
    other.goto(tab.url.replace("#", "#tip-03"))
    expect(other.get_by_role("heading", name="tip-03")).to_be_in_viewport()
    other.goto(tab.url.split("#")[0] + "#tip-04")
    expect(other.get_by_role("heading", name="tip-04")).to_be_in_viewport()
    assert controls(other, "tips").get_by_role("searchbox").input_value() == "", "the address says all of it"


@pytest.mark.parametrize(
    "hash",
    [
        "#?tips.sort=99&tips.kind1=none+such&tips.kind7=faster&evidence.text=hidden",
        "#?tips.sort=1.5&other.sort=1&__proto__=1",
        "#%E0%A4%A?%E0%A4%A",
        "#constructor",
    ],
)
def test_an_address_that_says_nonsense_shows_everything(file: Path, window: Window, hash: str) -> None:
    opened = window().new_page()
    errors: list[object] = []
    opened.on("pageerror", lambda error: errors.append(error))
    opened.goto(file.as_uri() + hash)
    assert shown(opened, "tips", 2) == [f"tip-{number:02}" for number in range(1, TIPS + 1)]
    assert opened.locator("[aria-sort]").count() == 0
    assert opened.locator("select").evaluate_all("all => all.every(each => each.selectedIndex === 0)")
    assert errors == []


# ---- without a script, on phones, on paper ----


def test_without_a_script_all_is_there_and_nothing_promises_more(file: Path, window: Window) -> None:
    opened = window(java_script_enabled=False).new_page()
    opened.goto(file.as_uri() + "#tip-02")
    assert len(shown(opened, "tips")) == len(shown(opened, "matrix")) == TIPS
    assert opened.locator("button, input, select").count() == 0
    expect(opened.get_by_role("heading", name="tip-02")).to_be_in_viewport()  # the browser itself unfolds it


def test_on_a_phone_only_tables_and_code_scroll_sideways(large_file: Path, report_file: Path, window: Window) -> None:
    phone = window(viewport={"width": 375, "height": 740}, is_mobile=True, has_touch=True)
    for each in (large_file, report_file):
        opened = phone.new_page()
        opened.goto(each.as_uri())
        opened.get_by_role("button", name="Unfold all").click()
        assert opened.evaluate("document.documentElement.scrollWidth") == 375
    opened = phone.pages[0]
    region = opened.get_by_role("region", name="Tips by machines: matrix")
    first = region.locator("tbody th").first
    place = first.evaluate("cell => cell.getBoundingClientRect().x")
    region.focus()
    for _ in range(3):
        opened.keyboard.press("ArrowRight")
    until(lambda: region.evaluate("region => region.scrollLeft") > 50)
    assert first.evaluate("cell => cell.getBoundingClientRect().x") == place, "the first column stays"


def test_on_a_phone_a_row_is_a_card_with_the_answer_and_the_gain_first(report_file: Path, window: Window) -> None:
    phone = window(viewport={"width": 375, "height": 740}, is_mobile=True, has_touch=True).new_page()
    phone.goto(report_file.as_uri())
    for row in phone.locator('[id="table:answers"] tbody tr').all():
        cells = row.locator("td:not(:empty)").evaluate_all(
            """all => all.map(cell => {
              const heads = cell.closest("table").tHead.rows[0].cells;
              const { y, right } = cell.getBoundingClientRect();
              return [y, right, heads[cell.cellIndex].textContent.replace(/[^a-z ]/g, "")];
            })"""
        )
        assert all(right <= 375 for _, right, _ in cells)
        order = [label for _, _, label in sorted(cells)]
        wanted = ("answer", "gain", "tip", "what to write", "price")
        assert order == [label for label in wanted if label in order]
        assert len({top for top, _, _ in cells}) == len(cells)
    labels = phone.locator('[id="table:answers"] td:nth-child(2)').evaluate_all(
        "all => all.map(cell => getComputedStyle(cell, '::before').content)"
    )
    assert set(labels) == {'"tip: "'}
    assert phone.evaluate("document.documentElement.scrollHeight") < 25_000
    wide = window(viewport={"width": 1280, "height": 900}).new_page()
    wide.goto(report_file.as_uri())
    first = wide.locator('[id="table:answers"] tbody tr').first
    tops = first.locator("td").evaluate_all("all => all.map(cell => cell.getBoundingClientRect().y)")
    assert len(set(tops)) == 1


def test_a_link_to_the_evidence_of_a_tip_unfolds_it(report_file: Path, window: Window) -> None:
    opened = window().new_page()
    opened.goto(report_file.as_uri())
    link = opened.locator('[id="table:answers"] a').first
    target = opened.locator(f'[id="{(link.get_attribute("href") or "")[1:]}"]')
    expect(target).to_be_hidden()
    link.click()
    expect(target).to_be_in_viewport()


def test_heads_stay_in_sight(tab: Tab) -> None:
    region = tab.locator(".long")
    region.evaluate("region => { region.scrollIntoView(); region.scrollTop = 1000 }")
    inside = region.locator("thead th").first.evaluate("head => head.getBoundingClientRect().y")
    assert inside == pytest.approx(region.evaluate("region => region.getBoundingClientRect().y"), abs=2)
    narrow = tab.locator('[id="table:tips"]')
    narrow.locator("tbody tr").nth(12).evaluate("row => row.scrollIntoView()")
    assert narrow.locator("thead th").first.evaluate("head => head.getBoundingClientRect().y") == pytest.approx(
        0, abs=2
    )


def test_paper(large_file: Path, report_file: Path, window: Window) -> None:
    """Nothing to press, nothing wider than the sheet, and as many sheets as one would print: of what is folded none."""
    for each, width, height, unfolded, most in (
        *((large_file, 842, 595, False, 14), (report_file, 595, 842, False, 8)),
        (report_file, 595, 842, True, 110),
    ):
        opened = window(color_scheme="dark", viewport={"width": (width - 68) * 4 // 3, "height": 1000}).new_page()
        opened.goto(each.as_uri())
        if unfolded:
            opened.get_by_role("button", name="Unfold all").click()
        opened.emulate_media(media="print")
        for unprinted in (".controls", ".unfold", "nav", "details:not([open])", ".skip"):
            assert opened.locator(f"{unprinted}:visible").count() == 0
        assert opened.evaluate("getComputedStyle(document.body).color") == "rgb(27, 27, 27)"
        regions = opened.locator(".table, .drawing").evaluate_all(
            "all => all.filter(e => e.scrollWidth > e.clientWidth)"
        )
        assert regions == []
        drawn = opened.locator(".drawing svg").evaluate_all("all => all.map(svg => svg.getBoundingClientRect().height)")
        assert drawn
        assert all(painted < (height - 80) * 4 / 3 for painted in drawn), "or it would be cut"
        columns = opened.locator(".wide thead th:visible").evaluate_all("all => all.map(head => head.offsetWidth)")
        assert min(columns, default=25) > 24, "a column of single letters"
        paper = opened.pdf(prefer_css_page_size=True)
        sheets = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", paper)
        assert 1 < len(sheets) < most
        assert {(round(float(x)), round(float(y))) for x, y in sheets} == {(width, height)}


# ---- for everybody ----


@pytest.mark.parametrize(("scheme", "width"), [("dark", 375), ("light", 1400)])
def test_axe_finds_nothing(file: Path, window: Window, scheme: Scheme, width: int) -> None:
    opened = window(color_scheme=scheme, viewport={"width": width, "height": 900}).new_page()
    opened.goto(file.as_uri() + "#?tips.sort=1&tips.text=memory")
    axe(opened)


def axe(opened: Tab) -> None:
    opened.locator("details").evaluate_all("all => all.forEach(each => { each.open = true })")
    found = Axe().run(opened)
    assert found.response["violations"] == [], found.generate_report()


def test_axe_finds_nothing_in_a_report(tmp_path: Path, window: Window) -> None:
    made = realistic()
    opened = window(color_scheme="dark").new_page()
    opened.goto(written(tmp_path / "run.html", one_run.page(made), draw(rows(made), "svg")).as_uri())
    axe(opened)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_kinds_differ_in_shape_and_each_shape_is_seen(window: Window, tmp_path: Path, scheme: Scheme) -> None:
    kinds = VERDICTS + ANSWERS
    table = Table("t", ("kind",), tuple((Cell((kind,), None, kind),) for kind in kinds))
    opened = window(color_scheme=scheme).new_page()
    opened.goto(written(tmp_path / "kinds.html", Page("t", (table,))).as_uri())
    painted = opened.locator("[data-kind]").evaluate_all(
        """cells => cells.map(cell => {
          const canvas = document.createElement("canvas").getContext("2d");
          const seen = color => {
            canvas.fillStyle = color;
            canvas.fillRect(0, 0, 1, 1);
            return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
          };
          const shape = getComputedStyle(cell, "::before");
          const { color, backgroundColor } = getComputedStyle(cell);
          return [shape.content, seen(shape.color), seen(color), seen(backgroundColor)];
        })"""
    )
    shapes = dict(zip(kinds, (found[0] for found in painted), strict=True))
    assert len(set(shapes.values())) == len(kinds) - 1
    assert shapes["skipped"] == shapes["not possible here"]
    for _, shape, text, behind in painted:  # axe does not judge text that has a shape before it
        assert contrast(shape, behind) >= 3, "as WCAG 2 asks of graphics"
        assert contrast(text, behind) >= 4.5, "and of text"


def test_the_page_has_landmarks_one_title_and_a_way_past_what_repeats(tab: Tab) -> None:
    assert tab.get_by_role("heading", level=1).count() == 1
    for landmark in ("banner", "main"):
        assert tab.get_by_role(landmark).count() == 1
    listed = tab.get_by_role("navigation", name="Contents").get_by_role("link")
    assert listed.all_inner_texts() == ["Which advice pays on all machines", "Tips by machines", "The machines"]
    tab.keyboard.press("Tab")
    expect(tab.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("main")).to_be_focused()


# ---- hostile text ----


def hostile() -> Page:
    """A page with hostile text in every field of every block and span."""
    links = Link(HOSTILE, LIES), Link(HOSTILE, f"#{HOSTILE}")
    line: Line = (HOSTILE, Strong(HOSTILE), Literal(HOSTILE), Break(), *links)
    row = tuple(Cell((text, *line), None, f"{HOSTILE} {text}") for text in "ab")
    table = Table(HOSTILE, (HOSTILE, HOSTILE), (row, row[::-1]) * 5)
    code = Code(HOSTILE, HOSTILE)
    blocks: tuple[Block, ...] = (
        Heading(HOSTILE, 2, HOSTILE),
        Heading(HOSTILE, 2, HOSTILE),
        Heading(HOSTILE, 9, HOSTILE),
        Paragraph((*line, Link(HOSTILE, f"https://example.org/{HOSTILE}"), Link(HOSTILE, HOSTILE))),
        Quote((line,)),
        Bullets((line,)),
        table,
        code,
        SideBySide((HOSTILE, HOSTILE), code, Code(f"{HOSTILE}\nelse")),
        Figure(HOSTILE, HOSTILE, HOSTILE),
    )
    return Page(HOSTILE, (*blocks, Folded(HOSTILE, blocks)))


def test_hostile_text_stays_text(window: Window, tmp_path: Path) -> None:
    page = hostile()
    assert {type(block) for block in page.blocks} == set(typing.get_args(Block)), "a new kind of block is tried too"
    address = written(tmp_path / "hostile.html", page).as_uri()
    opened = window().new_page()
    complaints: list[object] = []
    opened.on("pageerror", lambda error: complaints.append(error))
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("dialog", lambda dialog: complaints.append(dialog.message))
    opened.on("request", lambda request: complaints.append(request.url))
    opened.goto(address)
    opened.get_by_role("button", name="Unfold all").click()
    for button in opened.locator("thead button").all():
        button.click()
    for field in opened.get_by_role("searchbox").all():
        field.fill(HOSTILE)
    for choice in opened.get_by_role("combobox").all()[::2]:  # each table's first
        choice.select_option(f"{HOSTILE} a")
    opened.reload()
    opened.get_by_role("button", name="Unfold all").click()
    links = opened.locator("main a:visible:not([rel])")
    assert links.count() > 20
    for link in links.all():
        link.click()
        assert opened.url.startswith(address)
    assert {str(found).split("#")[0] for found in complaints} == {address}
    assert opened.evaluate("window.hit") is None
    assert opened.locator("img, iframe, object, embed, form, base, [onerror], [onload]").count() == 0
    assert opened.locator("script").count() == 1
    assert opened.title() == HOSTILE
    inside = "h2 h6 p blockquote li th td option b code a pre figcaption summary"
    for place in ("h1", "nav a", *(f"main {each}" for each in inside.split())):
        assert HOSTILE in opened.locator(place).last.inner_text(), place

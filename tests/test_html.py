"""Markdown as HTML: what it says as text, and what a real browser makes of it."""

from __future__ import annotations

import functools
import http.server
import re
import threading
import typing
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, expect
from playwright.sync_api import Page as Tab

from tests import browser as chromium
from tests.browser import Window
from tipbench.report.html import CLASSES, render
from tipbench.report.palette import PALETTE

browser, window = chromium.browser, chromium.window

Scheme = typing.Literal["light", "dark"]

ANSWERS = """\
# Tips on a machine

Two runs. **3 tips tried.** [The evidence of amp](run/amp.md), [elsewhere](https://example.org/).

> **Limits.** This machine.

| answer | tip | gain | step |
| --- | --- | --- | --- |
| **use it** | [amp](run/amp.md) | 1.53x [1.46, 1.60] | 9.00 ms |
| **use it** | [amp](run/amp.md) | 1.44x [1.39, 1.49] | 1.20 s |
| **use it if memory is short** | [checkpointing](run/checkpointing.md) | -49 % memory | 800 µs |
| **don't** | [allocator](run/allocator.md) | 0.72x [0.65, 0.81] | - |
| **can't tell** | [layer-order](run/layer-order.md) | about 1.00x | 2.50 min |
| **at most 3 %** | [a](run/a.md) | 10.5x | 1 ns |
| **depends** | [b10](run/b.md) | 2.00x | 3.00 s |
| **depends** | [b9](run/b.md) |  | 30.0 s |

![Two of three gain](run/jobs.svg)

## The machine

- Processor: `AMD EPYC`

| machine | a | b | c | d | e | f | g | h |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| machine-01 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |
| machine-02 | 8 | 7 | 6 | 5 | 4 | 3 | 2 | 1 |

## The machine

Once more.
"""

AMP = """\
# Use automatic mixed precision

[All answers](../run.md).

**baseline**

```python
loss = model(x)
```

**optimized**

```python
with torch.autocast("cpu", dtype=torch.bfloat16):
    loss = model(x)  # <b>no markup</b>
```

## The machine

Another section of this name.
"""

SVG = b"""<?xml version="1.0"?>
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path fill="#0072b2" d="M0 0h9"/></svg>"""


def document() -> str:
    return render(ANSWERS, "Tips", {"jobs": SVG}, {"amp": AMP, "allocator": "# Use an allocator\n\nSlower.\n"})


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("html") / "run.html"
    path.write_text(document(), "utf-8")
    return path


@pytest.fixture
def tab(file: Path, window: Window) -> Tab:
    opened = window(viewport={"width": 1400, "height": 900}).new_page()
    opened.goto(file.as_uri())
    return opened


def column(tab: Tab, number: int) -> list[str]:
    """Texts of a column of the first table, counted from 1, in the rows that are to be seen."""
    cells = tab.locator(f".table >> nth=0 >> tbody tr:visible td:nth-child({number})")
    return [text.strip() for text in cells.all_inner_texts()]


def sort_by(tab: Tab, name: str) -> Locator:
    return tab.locator(".table").first.get_by_role("button", name=name)


# ---- the text ----


def test_names_are_unique_and_links_lead_to_them() -> None:
    names = re.findall(r'\sid="([^"]+)"', document())
    assert len(names) == len(set(names))
    assert {"the-machine", "the-machine-2", "amp", "amp-the-machine", "content"} <= set(names)
    inside = re.findall(r'href="#([^"]+)"', document())
    assert set(inside) <= set(names)
    assert {"amp", "allocator"} <= set(inside)
    assert '<a href="https://example.org/" rel="noopener noreferrer">' in document()


def test_a_figure_is_part_of_the_page_in_its_colours_or_is_put_in_words() -> None:
    drawn = document()
    assert 'aria-label="Two of three gain"><svg' in drawn
    assert 'fill="var(--good)"' in drawn
    assert "<?xml" not in drawn
    assert "Figure: Two of three gain" in render(ANSWERS, "Tips")


def test_an_empty_page_is_a_page() -> None:
    assert "<h1>Nothing</h1>" in render("", "Nothing")
    assert "<table>" in render("| a |\n| --- |\n", "Nothing")


# ---- offline ----


class Watched(http.server.SimpleHTTPRequestHandler):
    """Serves files and notes their paths, the icon's too, which playwright does not tell."""

    served: typing.ClassVar[list[str]] = []

    def log_request(self, *_: object) -> None:
        self.served.append(self.path)

    def log_error(self, *_: object) -> None:
        """Prints nothing."""


def test_nothing_is_loaded_from_any_network(file: Path, window: Window) -> None:
    """A page that does load something shows that the server would notice."""
    (file.parent / "leaky.html").write_text('<img src="/leak.png">')
    serve = functools.partial(Watched, directory=str(file.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in (file.name, "leaky.html"):
            opened = window().new_page()
            opened.goto(f"http://127.0.0.1:{server.server_port}/{name}", wait_until="networkidle")
        server.shutdown()
    assert [path for path in Watched.served if path != "/favicon.ico"] == [f"/{file.name}", "/leaky.html", "/leak.png"]


# ---- sorting and filtering ----


def test_a_click_sorts_a_second_turns_it_round_and_a_third_takes_it_back(tab: Tab) -> None:
    before = column(tab, 4)
    sort_by(tab, "step").click()
    ascending = ["1 ns", "800 µs", "9.00 ms", "1.20 s", "3.00 s", "30.0 s", "2.50 min", "-"]
    assert column(tab, 4) == ascending
    sort_by(tab, "step").click()
    assert column(tab, 4) == [*ascending[-2::-1], "-"], "what is not known comes last either way"
    sort_by(tab, "step").click()
    assert column(tab, 4) == before
    sort_by(tab, "gain").press("Enter")
    assert column(tab, 3)[1:4] == ["0.72x [0.65, 0.81]", "about 1.00x", "1.44x [1.39, 1.49]"]
    sort_by(tab, "tip").press("Space")
    assert column(tab, 2)[-3:] == ["b10", "checkpointing", "layer-order"]


def test_words_and_kinds_filter_and_the_number_of_rows_is_shown(tab: Tab) -> None:
    bar = tab.get_by_role("group", name="Filter of")
    bar.get_by_role("searchbox").fill("AMP  1.44")
    assert column(tab, 3) == ["1.44x [1.39, 1.49]"]
    expect(bar.get_by_role("status")).to_have_text("1 of 8 rows")
    tab.reload()
    assert column(tab, 3) == ["1.44x [1.39, 1.49]"], "the filter is in the address"
    bar.get_by_role("searchbox").fill("")
    bar.get_by_role("combobox").select_option("use it if")
    assert column(tab, 2) == ["checkpointing"]
    bar.get_by_role("combobox").select_option("")
    assert len(column(tab, 2)) == 8
    expect(bar.get_by_role("status")).to_have_text("")


def test_a_link_to_the_evidence_of_a_tip_unfolds_it(tab: Tab) -> None:
    code = tab.get_by_text("with torch.autocast")
    expect(code).to_be_hidden()
    tab.get_by_role("link", name="The evidence of amp").click()
    expect(code).to_be_visible()


def test_without_a_script_all_is_there_and_nothing_promises_more(file: Path, window: Window) -> None:
    opened = window(java_script_enabled=False).new_page()
    opened.goto(file.as_uri())
    assert len(column(opened, 1)) == 8
    assert opened.locator("button, input, select").count() == 0


# ---- for everybody ----


def test_on_a_phone_rows_are_cards_and_only_wide_tables_and_code_scroll(file: Path, window: Window) -> None:
    phone = window(viewport={"width": 375, "height": 740}, is_mobile=True, has_touch=True).new_page()
    phone.goto(file.as_uri())
    phone.locator("details").evaluate_all("all => all.forEach(each => { each.open = true })")
    assert phone.evaluate("document.documentElement.scrollWidth") == 375
    first = phone.locator(".table").first.locator("tbody tr").first.locator("td")
    tops = first.evaluate_all("all => all.map(cell => cell.getBoundingClientRect().y)")
    assert tops == sorted(set(tops)), "one below the other"
    labels = first.evaluate_all("all => all.map(cell => getComputedStyle(cell, '::before').content)")
    assert "tip" in labels[1]
    assert phone.locator(".wide").evaluate("region => region.scrollWidth > region.clientWidth")


def test_paper_shows_the_answers_and_nothing_to_press(file: Path, window: Window) -> None:
    opened = window(color_scheme="dark").new_page()
    opened.goto(file.as_uri())
    opened.emulate_media(media="print")
    for unprinted in (".filter", "nav", "details:not([open])", ".skip"):
        assert opened.locator(f"{unprinted}:visible").count() == 0
    assert opened.evaluate("getComputedStyle(document.body).color") == "rgb(27, 27, 27)"
    assert len(re.findall(rb"/MediaBox", opened.pdf(prefer_css_page_size=True))) <= 2


@pytest.mark.parametrize(("scheme", "width"), [("dark", 375), ("light", 1400)])
def test_axe_finds_nothing(file: Path, window: Window, scheme: Scheme, width: int) -> None:
    opened = window(color_scheme=scheme, viewport={"width": width, "height": 900}).new_page()
    opened.goto(file.as_uri())
    check_by_axe(opened)


def check_by_axe(opened: Tab) -> None:
    opened.locator("details").evaluate_all("all => all.forEach(each => { each.open = true })")
    results = Axe().run(opened)
    assert results.response["violations"] == [], results.generate_report()


def test_a_keyboard_skips_what_repeats(tab: Tab) -> None:
    tab.keyboard.press("Tab")
    expect(tab.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("main")).to_be_focused()
    assert tab.get_by_role("heading", level=1).count() == 1


def contrast(left: tuple[int, ...], right: tuple[int, ...]) -> float:
    """As WCAG 2 defines it."""

    def luminance(color: tuple[int, ...]) -> float:
        linear = [(c / 255 / 12.92) if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(left), luminance(right)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("side", [0, 1])
def test_colours_can_be_read_on_paper(side: int) -> None:
    rgb = {name: tuple(bytes.fromhex(colours[side][1:])) for name, colours in PALETTE.items()}
    assert all(contrast(rgb[name], rgb["paper"]) >= 4.5 for name in PALETTE if name not in ("paper", "grid", "band"))
    assert {*CLASSES.values()} - {"none"} <= set(PALETTE)

"""The page of a comparison in a browser: five machines are readable on a desktop and on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import browser as chromium
from tests.made_up import MACHINE, info, measured, run, tip
from tests.test_compare import against
from tipbench import compare

browser, window = chromium.browser, chromium.window

MACHINES = "ABCDE"


@pytest.fixture
def page(tmp_path: Path) -> str:
    """The address of a comparison of five machines, which agree on one tip and not on another."""
    about = {
        "Use it everywhere": [0.3, 0.2, 0.25, 0.4, 0.3],
        "Leave it on some of the machines that have been measured": [0.3, -0.2, 0.0, 0.1, -0.3],
    }
    runs = [
        run(
            [
                measured(info(tip=tip(f"tip-{row}", title=title), scale="macro"), {"optimized": effects[place]})
                for row, (title, effects) in enumerate(about.items())
            ],
            id=f"{name.lower()}000000{place}",
            machine={**MACHINE, "cpu": name, "name": f"a-machine-{name.lower()}-2c-24g"},
        )
        for place, name in enumerate(MACHINES)
    ]
    (written,) = compare.show(against(*runs), "html", tmp_path)
    return written.as_uri()


@pytest.mark.parametrize("width", [375, 1280])
def test_five_machines_fit_the_window(page: str, window: chromium.Window, width: int) -> None:
    opened = window(viewport={"width": width, "height": 900}).new_page()
    opened.goto(page)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    for cell in opened.locator(".table").first.locator("[data-kind]").all():
        box = cell.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width


def test_on_a_phone_each_answer_names_its_machine(page: str, window: chromium.Window) -> None:
    opened = window(viewport={"width": 375, "height": 900}).new_page()
    opened.goto(page)
    before = "cell => getComputedStyle(cell, '::before').content"
    first = opened.locator(".table").first.locator("tbody tr").first
    assert "Leave it on some" in first.inner_text()
    shown = [cell.evaluate(before) for cell in first.locator("[data-kind]").all()]
    assert [content.strip('" ') for content in shown] == [f"a-machine-{name.lower()}-2c-24g:" for name in MACHINES]

"""A real browser for tests: headless Chromium, the system's own, driven through playwright.

A test module takes the fixtures it needs: `from tests import browser as chromium`, `window = chromium.window` and
`browser = chromium.browser`, which `window` needs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")

Window = Callable[..., BrowserContext]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One a module: its event loop would be in the way of other modules' tests."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        lacking = f"no browser to look at pages with: none of {', '.join(NAMES)} is installed"
        if os.environ.get("TIPBENCH_TEST_ALL"):
            pytest.fail(f"{lacking}, and TIPBENCH_TEST_ALL is set")
        pytest.skip(lacking)
    with sync_playwright() as playwright:
        # Chromium's sandbox refuses to run as root, which is who runs tests in a container.
        launched = playwright.chromium.launch(executable_path=found, chromium_sandbox=os.geteuid() != 0)
        yield launched
        launched.close()


@pytest.fixture
def window(browser: Browser) -> Iterator[Window]:
    """Opens a window with nothing stored; takes what `Browser.new_context` takes."""
    opened: list[BrowserContext] = []

    def new(**options: Any) -> BrowserContext:
        opened.append(browser.new_context(**options))
        opened[-1].set_default_timeout(10_000)
        return opened[-1]

    yield new
    for context in opened:
        context.close()


def listening(page: Page) -> list[str]:
    """What a page of a wiki must not do, as it does it: dialogs, and requests to elsewhere."""
    heard: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        heard.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    page.on("request", lambda request: None if "127.0.0.1" in request.url else heard.append(request.url))
    return heard

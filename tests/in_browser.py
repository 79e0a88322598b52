"""A page in a real browser: what it shows, what it complains of, what it asks the network for."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from patience import PATIENCE_S, wait_until

# Each opens pages; the first one that is installed does.
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")

# What is drawn is read back from the canvas: the share of pixels that are not transparent.
DRAWN = """
() => Object.fromEntries([...document.querySelectorAll('.figure')].map((figure) => {
  const canvas = figure.querySelector('.plot canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Set();
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] > 200) colours.add(`${data[at] >> 4},${data[at + 1] >> 4},${data[at + 2] >> 4}`);
  }
  return [figure.id.replace('figure-', ''), [...colours]];
}))
"""

PICTURES = """
() => Object.fromEntries([...document.querySelectorAll('.figure')].map((figure) =>
  [figure.id.replace('figure-', ''), figure.querySelector('.plot canvas').toDataURL()]))
"""


@pytest.fixture(scope="session")
def browser_path() -> str:
    """Chromium's executable: that without windows, if it is there: a page takes less than half the processor time."""
    return next(filter(None, map(shutil.which, BROWSERS)), "")


@pytest.fixture(scope="session")
def chromium(browser_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address by which the one Chromium of this session is driven."""
    folder = tmp_path_factory.mktemp("chromium")
    log = folder / "log"
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run"]
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    with log.open("wb") as sink:
        process = subprocess.Popen([browser_path, *words, *quiet, f"--user-data-dir={folder}"], stderr=sink)

    def address() -> re.Match[str] | None:
        return re.search(r"DevTools listening on (\S+)", log.read_text(errors="replace"))

    try:
        wait_until(lambda: address() or process.poll() is not None, "Chromium's start")
        found = address()
        assert found, f"Chromium ended with status {process.returncode}:\n{log.read_text(errors='replace')}"
        yield found[1]
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    """A browser for the tests of one file: while it is there, an event loop runs, beside which others cannot."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        connected = playwright.chromium.connect_over_cdp(chromium, timeout=PATIENCE_S * 1000)
        yield connected
        connected.close()


class Opened:
    """A page in the browser, and what went on meanwhile."""

    def __init__(self, browser: Any, path: Path, width: int = 1280, scheme: str = "light") -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.trouble: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_function("document.querySelectorAll('.figure canvas').length > 0")
        self.page.wait_for_timeout(200)

    def _note(self, message: Any) -> None:
        # Said of this test's own reading of pixels.
        if "willReadFrequently" not in message.text:
            self.trouble.append(message.text)

    def pictures(self) -> dict[str, str]:
        """The picture of each chart as it is now, to compare."""
        return self.page.evaluate(PICTURES)

    def changed_once(self, before: dict[str, str], is_done: Callable[[set[str]], bool]) -> set[str]:
        """The charts that differ from ``before`` once those do that were waited for, and whichever follow them."""
        limit = time.monotonic() + PATIENCE_S
        while not is_done(changed(before, self.pictures())) and time.monotonic() < limit:
            self.page.wait_for_timeout(20)
        self.page.wait_for_timeout(100)
        return changed(before, self.pictures())


def has_colour(colours: list[str], wanted: str) -> bool:
    red, green, blue = (int(wanted[at : at + 2], 16) >> 4 for at in (1, 3, 5))
    return f"{red},{green},{blue}" in colours


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {key for key in before if before[key] != after[key]}

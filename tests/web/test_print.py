"""Tests of pages on paper: light, within the width of the paper, without what only a screen has, with all charts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

import recordings
from example_files import EXAMPLES
from patience import wait_until
from web.browsing import Page
from web.conftest import Server, client_of, running

pytestmark = [pytest.mark.slow, pytest.mark.needs_browser]

# Of A4 without margins of 15 mm, at 96 dots an inch.
PAPER = 680
LIGHT, INK = "rgb(255, 255, 255)", "rgb(27, 31, 36)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, dict[str, list[str]]]]:
    """A server with a capture and two recordings, and their identifiers by kind."""
    folder = tmp_path_factory.mktemp("paper")
    shutil.copy(EXAMPLES / "policed-download.pcap.zst", folder)
    for number in range(2):
        recordings.rrul(folder / f"{number}.recording", scale=1.0 + number, title=f"no. {number}")
    with running(folder) as started:
        client = client_of(started)
        found: list[dict[str, Any]] = []

        def are_listed() -> bool:
            found[:] = client.get("/api/library").json()["entries"]
            return len(found) == 3

        wait_until(are_listed, "the entries")
        yield started, {kind: [one["id"] for one in found if one["kind"] == kind] for kind in ("capture", "recording")}


@pytest.fixture
def page(browser: Any, site: tuple[Server, dict[str, list[str]]]) -> Iterator[Page]:
    opened = Page(browser, site[0], PAPER)
    opened.page.add_init_script("window.print = () => document.body.setAttribute('data-printed', 'yes')")
    yield opened
    assert opened.complaints == []
    opened.context.close()


def on_paper(page: Page) -> None:
    page.page.emulate_media(media="print", color_scheme="dark")
    style = "one => [getComputedStyle(one).backgroundColor, getComputedStyle(one).color]"
    assert page.page.locator("body").evaluate(style) == [LIGHT, INK]
    assert page.page.evaluate("document.documentElement.scrollWidth") <= PAPER


def test_the_table_of_browse_is_light_and_has_no_controls(page: Page, site: tuple[Server, dict[str, list[str]]]):
    page.page.goto(f"{site[0].root}/browse")
    page.wait_for_rows(3)
    on_paper(page)
    for gone in (".drop", "td input[type=checkbox]", "nav"):
        assert not page.page.locator(gone).first.is_visible(), gone


def test_an_analysis_is_printed_with_the_charts_that_were_not_in_sight(
    page: Page, site: tuple[Server, dict[str, list[str]]]
):
    page.page.goto(f"{site[0].root}/open?source={site[1]['capture'][0]}")
    page.page.wait_for_selector("#verdict")
    page.page.keyboard.press("P")
    page.page.wait_for_selector("body[data-printed]")
    assert page.page.locator(".figures:empty").count() == 0
    assert page.page.locator("#charts .plot canvas").count() > 4
    on_paper(page)


def test_a_comparison_fits_the_paper(page: Page, site: tuple[Server, dict[str, list[str]]]):
    sources = "&".join(f"source={one}" for one in site[1]["recording"])
    page.page.goto(f"{site[0].root}/compare?{sources}")
    page.page.wait_for_selector("#plot-section .plot canvas")
    page.page.wait_for_selector("#details h2")
    on_paper(page)
    assert not page.page.locator("#plot").is_visible()

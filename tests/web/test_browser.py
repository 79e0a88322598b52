"""Tests of the page in a real browser: each view from end to end, by keyboard, and at the width of a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from web.browsing import Page
from web.conftest import EXAMPLES, Server

pytestmark = [pytest.mark.slow, pytest.mark.needs_browser]


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Page]:
    opened = Page(browser, server)
    yield opened
    assert opened.complaints == []
    assert all(url.startswith((server.root, "data:", "blob:")) for url in opened.requests)
    opened.context.close()


def test_a_search_narrows_the_library_and_its_address_shows_it_again(page: Page):
    page.page.wait_for_selector("tbody tr >> nth=2")
    page.page.keyboard.press("/")
    page.page.keyboard.type("far")
    page.wait_for_rows(1)
    address = page.page.url
    assert address.endswith("?q=far")
    page.page.goto(address)
    page.wait_for_rows(1)
    assert "shallow-queue-far" in page.text("tbody")


def test_a_capture_is_explained_with_its_charts(page: Page):
    page.page.click("text=policed-download.pcap.zst")
    page.page.wait_for_selector("#verdict h1")
    assert "policer at 20.0 Mbit/s" in page.text("#verdict h1").replace("\u00a0", " ")
    page.page.evaluate("document.querySelector('#charts').scrollIntoView()")
    page.page.wait_for_selector("#charts canvas")
    assert "policer" in page.page.title()


def test_two_captures_chosen_by_keyboard_are_explained_as_one_path(page: Page):
    page.page.wait_for_selector("tbody tr >> nth=2")
    for key in "/":
        page.page.keyboard.press(key)
    page.page.keyboard.type("shallow")
    page.wait_for_rows(2)
    # While suggestions are shown, Escape closes them only.
    expect(page.page.locator("#suggestions")).to_be_hidden()
    for key in ("Escape", "j", "x", "j", "x"):
        page.page.keyboard.press(key)
    page.page.wait_for_selector(".selection:not([hidden])")
    page.page.keyboard.press("e")
    page.page.wait_for_selector("#pair")
    assert "between capture 1" in page.text("#verdict")


def test_the_keys_are_listed_on_a_question_mark(page: Page):
    page.page.wait_for_selector("tbody tr")
    page.page.keyboard.press("?")
    assert "Search" in page.text("dialog")
    page.page.keyboard.press("Escape")
    page.page.wait_for_selector("dialog", state="detached")


def test_a_file_is_sent_and_explained(page: Page, tmp_path: Path):
    sent = tmp_path / "<img src=x onerror=alert(1)>.pcap.zst"
    sent.write_bytes((EXAMPLES / "policed-download-far.pcap.zst").read_bytes())
    page.page.wait_for_selector("tbody tr")
    page.page.set_input_files("#file", str(sent))
    page.page.wait_for_selector("#verdict h1")
    assert "policer" in page.text("#verdict h1")


def test_what_cannot_be_explained_says_why(page: Page, tmp_path: Path):
    broken = tmp_path / "broken.pcap"
    broken.write_bytes(b"no capture at all")
    page.page.wait_for_selector("tbody tr")
    page.page.set_input_files("#file", str(broken))
    page.page.wait_for_selector("[role=alert]:not([hidden])")
    assert "broken.pcap" in page.text("[role=alert]:not([hidden])")
    page.complaints = [one for one in page.complaints if "415" not in one]


def test_tags_are_kept(page: Page):
    page.page.wait_for_selector("tbody tr >> nth=2")
    page.page.click("tbody input >> nth=0")
    page.page.fill("#tags", "slow, wi-fi")
    page.page.click(".selection button:has-text('Save')")
    page.page.fill("#search", "tag:slow")
    page.wait_for_rows(1)
    assert "slow, wi-fi" in page.text("tbody")


@pytest.mark.parametrize("view", ["browse", "run", "open"])
@pytest.mark.parametrize("width", [390, 1280])
def test_each_view_fits_its_width_and_has_no_serious_barrier(browser: Any, server: Server, view: str, width: int):
    opened = Page(browser, server, width)
    opened.page.goto(f"{server.root}/{view}")
    opened.page.wait_for_selector("h1")
    opened.page.wait_for_timeout(500)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.serious() == []
    opened.context.close()


def test_the_page_is_light(server: Server):
    assets = Path(__file__).parents[2] / "src" / "whydrop" / "show" / "assets"
    assert sum((assets / name).stat().st_size for name in ("app.js", "app.css")) < 300_000
    assert not re.search(r"https?://(?!www\.w3\.org)", (assets / "app.css").read_text())

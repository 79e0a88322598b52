"""Tests of predictions in a real browser: usual changes, those of the reader, the path of the sliders, errors."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from web.browsing import Page
from web.conftest import EXAMPLES, Server, running

pytestmark = [pytest.mark.slow, pytest.mark.needs_browser]

PAIR = ("policed-download.pcap.zst", "policed-download-far.pcap.zst")
SECONDS_OF_A_PREDICTION = 120


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("captures")
    for name in PAIR:
        shutil.copy(EXAMPLES / name, folder)
    with running(folder) as started:
        yield started


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Page]:
    opened = Page(browser, server)
    yield opened
    assert opened.complaints == []
    opened.context.close()


def test_the_page_says_what_changes_would_bring(page: Page, server: Server):
    page.page.goto(f"{server.root}/open")
    page.page.fill("#path", ", ".join(PAIR))
    page.page.keyboard.press("Enter")
    page.page.locator("#predict > summary").click()
    answer = page.page.locator("#predict .predicted")
    patient: Any = {"timeout": 1000 * SECONDS_OF_A_PREDICTION}
    expect(answer).to_contain_text("would help most", **patient)
    expect(answer).to_contain_text("pace=19.02M")
    # The path of the sliders, as it is there.
    page.page.locator("#model-0 > summary").click()
    page.page.fill("#model-0-text", "policer:rate=20M,burst=400kB")
    page.page.get_by_role("button", name="Predict with this path").click()
    expect(page.page.locator("#predict-changes")).to_have_value("path=policer:rate=20M,burst=400kB")
    expect(answer).to_contain_text("Goodput would be", **patient)
    expect(page.page.locator("#predict .command code")).to_contain_text("--change path=policer:rate=20M,burst=400kB")
    page.page.fill("#predict-changes", "cc=magic")
    page.page.keyboard.press("Enter")
    expect(page.page.locator("#predict-wrong")).to_contain_text("expected one of cubic, reno, bbr")
    # The browser's own line about the refused request.
    (complaint,) = page.complaints
    assert "422" in complaint
    page.complaints.clear()

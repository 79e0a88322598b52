"""Tests of the view of studies: a question to a store, its parameters, and the answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import small_stores
from patience import wait_until
from web.browsing import Page
from web.conftest import Server, client_of, started

pytestmark = pytest.mark.slow

DAYS = """\
title = "Two weeks"
metros = ["dfw"]
change = false

[days]
first = 2018-02-11
last = 2018-02-12
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with one store: samples of two hours of one port, and some downloads."""
    folder = tmp_path_factory.mktemp("stores")
    names = ("octets.tx", "discards.tx", "unicast.tx", "multicast.tx", "broadcast.tx")
    counters = [row for name in names for row in small_stores.series(name, [1000.0 * (name != "discards.tx")] * 720)]
    downloads = [small_stores.download(number * 20 * small_stores.SECOND) for number in range(50)]
    small_stores.write(folder / "<b>fleet</b>.store", counters, downloads)
    with started(folder) as server:
        yield server


@pytest.fixture
def client(fleet: Server) -> httpx.Client:
    return client_of(fleet)


def store_of(client: httpx.Client) -> str:
    found: list[dict[str, Any]] = []

    def is_listed() -> bool:
        found[:] = client.get("/api/library", params={"q": "kind=store"}).json()["entries"]
        return bool(found)

    wait_until(is_listed, "the store's entry")
    return str(found[0]["id"])


def test_a_mistake_in_the_parameters_is_named_with_its_line(client: httpx.Client):
    wrong = DAYS.replace("last = 2018-02-12", "last = 2018-02-32")
    asked = {"store": store_of(client), "question": "discards", "parameters": wrong}
    job = client.post("/api/studies", json=asked).json()
    answer = client.get(f"/api/studies/{job['id']}/page")
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("parameters:7")


def test_a_question_asked_again_is_computed_again(client: httpx.Client):
    asked = {"store": store_of(client), "question": "discards", "parameters": DAYS}
    first = client.post("/api/studies", json=asked).json()["id"]
    assert client.get(f"/api/studies/{first}/page").status_code == 200
    assert client.post("/api/studies", json=asked).json()["state"] == "ready"
    assert client.post("/api/studies", json={**asked, "again": True}).json()["state"] == "running"
    tables = client.get(f"/api/studies/{first}/document").json()
    assert tables["discard_ratio"][0]["discards"] == 0


@pytest.mark.needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_parameters_are_changed_and_the_question_asked_again(
    browser: Any, fleet: Server, client: httpx.Client, width: int
):
    opened = Page(browser, fleet, width)
    page = opened.page
    store_of(client)
    page.goto(f"{fleet.root}/study")
    page.wait_for_selector("#store")
    assert "<b>fleet</b>.store" in opened.text("#store")
    page.keyboard.press("p")
    page.fill("#parameters", DAYS)
    page.locator("#parameters").blur()
    page.keyboard.press("c")
    page.wait_for_selector("#answer h1, #answer h2")
    assert "Two weeks" in page.title()
    page.locator("#figures .figure").first.scroll_into_view_if_needed()
    page.wait_for_selector("#figures canvas")
    assert not page.is_visible("progress")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.serious() == []
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector("#answer h1, #answer h2")
    assert page.input_value("#parameters") == DAYS
    page.fill("#parameters", "days = 3")
    page.click("text=Compute")
    page.wait_for_selector("#answer [role=alert]")
    assert "parameters" in opened.text("#answer [role=alert]")
    assert opened.complaints == [one for one in opened.complaints if "422" in one]
    opened.context.close()


@pytest.mark.needs_browser
def test_without_a_store_the_view_says_how_to_make_one(browser: Any, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    with started(tmp_path / "empty") as server:
        opened = Page(browser, server)
        opened.page.goto(f"{server.root}/study")
        opened.page.wait_for_selector("code")
        assert "whydrop store import" in opened.text()
        opened.context.close()

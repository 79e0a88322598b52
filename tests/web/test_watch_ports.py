"""Tests of the ports of switches in the view: a store's discards, in the API and in a browser."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

import small_stores
from small_stores import BIN, START, series
from web.browsing import Page
from web.conftest import Server, client_of, started
from whydrop.store.store import Store
from whydrop.store.tables import POLLS, TABLES

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)>"


def write_now(folder: Path) -> None:
    """A store with polls until this moment: one port discards, the other does not."""
    later = time.time_ns() // BIN * BIN - START - 60 * BIN
    rows = [
        *series("discards.tx", [0.0] * 50 + [4.0] * 10, later, port="uplink"),
        *series("octets.tx", [125e6] * 60, later, port="uplink"),
        *series("discards.tx", [0.0] * 60, later, port=HOSTILE),
    ]
    frame = pl.DataFrame(rows, schema=TABLES["counters"])
    store = Store.create(folder)
    store.add("counters", frame)
    polls = [
        {"due_ns": START + later + (number + 1) * BIN, "switch": "s1.dfw01", "status": "ok"} for number in range(60)
    ]
    store.add("polls", pl.DataFrame(polls, schema=POLLS))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a store that is written, and one of 2018."""
    folder = tmp_path_factory.mktemp("stores")
    write_now(folder / "now.store")
    small_stores.write(folder / "old.store", series("discards.tx", [1.0] * 100))
    with started(folder) as server:
        yield server


@pytest.fixture
def client(fleet: Server) -> httpx.Client:
    return client_of(fleet)


def stores(client: httpx.Client) -> dict[str, str]:
    entries = client.get("/api/library", params={"q": "kind=store"}).json()["entries"]
    return {Path(one["path"]).name: one["id"] for one in entries}


def ask(client: httpx.Client, name: str, **query: Any) -> dict[str, Any]:
    answer = client.get("/api/watch/ports", params={"store": stores(client)[name], **query}).raise_for_status().json()
    answer["rows"] = [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]
    return dict(answer)


def test_ports_have_their_state_and_are_searched_sorted_and_bounded(client: httpx.Client):
    found = ask(client, "now.store", sort="-discards_tx")
    assert found["is_written"]
    assert [(row["port"], row["state"], row["discards_tx"]) for row in found["rows"]] == [
        ("uplink", "discarding", 40), (HOSTILE, "no discards", 0),
    ]  # fmt: skip
    assert found["rows"][0]["sent_mbps"] == 100
    assert [row["port"] for row in ask(client, "now.store", q="DISCARDING uplink")["rows"]] == ["uplink"]
    bounded = ask(client, "now.store", limit=1)
    assert (bounded["total"], bounded["found"], len(bounded["rows"])) == (2, 2, 1)
    assert not ask(client, "old.store")["is_written"]


def test_what_is_wrong_with_a_request_is_said(client: httpx.Client):
    assert client.get("/api/watch/ports", params={"store": "none"}).status_code == 404
    own = stores(client)["now.store"]
    assert "window_s" in client.get("/api/watch/ports", params={"store": own, "window_s": -1}).json()["fields"]
    nothing = client.get("/api/watch/port", params={"store": own, "switch": "x", "port": "y"}).json()
    assert nothing == {"series": {}}


@pytest.mark.needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_a_port_is_found_and_drawn_with_keys_and_a_store_that_is_not_written_says_so(
    browser: Any, fleet: Server, client: httpx.Client, width: int
):
    page = Page(browser, fleet, width)
    page.page.goto(f"{fleet.root}/watch?store={stores(client)['now.store']}")
    page.page.wait_for_selector("#ports tbody tr.bad")
    assert HOSTILE in page.text("#ports tbody")
    page.page.keyboard.press("s")
    page.page.keyboard.type("discarding")
    page.page.wait_for_selector("#ports tbody tr:only-child")
    page.page.keyboard.press("Tab")
    while page.page.evaluate("document.activeElement.textContent") != "uplink":
        page.page.keyboard.press("Tab")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector(".chosen-port canvas >> nth=1")
    assert "switch=s1.dfw01&port=uplink&machine=mlab1" in page.page.url
    page.page.goto(page.page.url)
    page.page.wait_for_selector(".chosen-port canvas >> nth=1")
    assert page.page.input_value("#ports-search") == "discarding"
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.serious() == []
    page.page.select_option("#ports-store", label="old.store")
    page.page.wait_for_selector("#ports [role=alert]:has-text('The store is not being written')")
    assert page.complaints == []
    page.context.close()

"""Tests of the question about queues in the view of studies: its answer, figures and options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from studies.made_queues import around, as_published, cell, store_of
from web.browsing import Page
from web.conftest import Server, client_of, started
from web.test_study import store_of as entry_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a store of one experiment; one queue has a hostile name."""
    folder = tmp_path_factory.mktemp("stores")
    store_of(folder / "lab.store", [*as_published(("10/10",), 3), *cell("<img src=x>", around(50.0, 3))])
    with started(folder) as server:
        yield server


def test_the_server_gives_the_tables_that_the_command_gives(queues: Server):
    client = client_of(queues)
    asked = {"store": entry_of(client), "question": "queues", "target_ms": 250.0}
    job = client.post("/api/studies", json=asked).json()
    assert client.get(f"/api/studies/{job['id']}/page").status_code == 200
    tables = client.get(f"/api/studies/{job['id']}/document").json()
    conclusions = {row["hypothesis"]: row["conclusion"] for row in tables["hypotheses"]}
    assert conclusions["good-aqm"] == "supported"
    # At so high a target every delay is contained at once.
    assert {row["contained"] for row in tables["containment"]} == {3}


def test_a_target_below_zero_is_refused(queues: Server):
    client = client_of(queues)
    answer = client.post("/api/studies", json={"store": entry_of(client), "question": "queues", "target_ms": -1})
    assert answer.status_code in (400, 422)
    assert "target_ms" in answer.text


@pytest.mark.needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_answers_shows_the_figures_and_keeps_the_options_in_its_address(
    browser: Any, queues: Server, width: int
):
    entry_of(client_of(queues))
    opened = Page(browser, queues, width)
    page = opened.page
    page.goto(f"{queues.root}/study?question=queues")
    page.wait_for_selector("#baseline")
    assert not page.is_visible("#parameters")
    assert not page.is_visible("#sites")
    page.fill("#strata", "line, control, scene")
    page.fill("#target", "30")
    page.click("text=Compute")
    page.wait_for_selector("#answer h1, #answer h2")
    assert "CAKE has the lowest induced latency" in opened.text("#answer")
    assert "Supported: ARED, PIE and CoDel each have an induced latency" in opened.text("#answer")
    page.locator("#figures .figure").first.scroll_into_view_if_needed()
    page.wait_for_selector("#figures canvas")
    assert page.locator("#answer img[src=x]").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.serious() == []
    page.goto(page.url)
    page.wait_for_selector("#answer h1, #answer h2")
    assert (page.input_value("#strata"), page.input_value("#target")) == ("line, control, scene", "30")
    assert opened.complaints == []
    opened.context.close()

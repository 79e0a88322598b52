"""Tests of the page of a run in a real browser: while it measures, when it loses its server, and at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import whydrop
from web.conftest import Server, started
from web.test_browser import Page
from web.test_runs import client_of, measured_for, run

pytestmark = [pytest.mark.slow, pytest.mark.needs_browser]


@pytest.fixture(scope="module")
def far() -> Iterator[str]:
    """A responder that is open, as HOST:PORT."""
    with whydrop.responder(open=True, addresses=["127.0.0.1"], port=0) as responder:
        yield f"127.0.0.1:{responder.port}"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A server for one test."""
    folder = tmp_path / "library"
    folder.mkdir()
    with started(folder) as one:
        yield one


def paired(browser: Any, server: Server, path: str) -> tuple[Page, Page]:
    """Two people who look at the same."""
    pages = Page(browser, server), Page(browser, server)
    for one in pages:
        one.page.goto(f"{server.root}{path}")
    return pages


def test_two_people_see_the_same_run_with_its_charts_and_its_end(browser: Any, own: Server, far: str):
    client = client_of(own)
    job = run(client, far).raise_for_status().json()["id"]
    measured_for(client, job, 2)
    one, two = paired(browser, own, f"/run?id={job}")
    for page in (one, two):
        page.page.wait_for_selector(".live .figure:has(h2:text('Goodput up')) canvas")
        page.page.wait_for_selector(".live .figure:has(h2:text('Round-trip time of probes')) canvas")
        page.page.wait_for_selector(".live .figure:has(h2:text('Congestion window')) canvas")
        assert "tcp_1up to 127.0.0.1" in page.text("h1")
        assert page.serious() == []
    one.page.keyboard.press("v")
    one.page.wait_for_selector("details.latest[open] tbody tr")
    assert "TCP upload" in one.text("details.latest")
    # What one of them does, both see.
    one.page.keyboard.press("s")
    for page in (one, two):
        page.page.wait_for_selector("a.open")
        page.page.wait_for_selector(".verdict-line:not(:text('Looking'))")
        assert "Stopped early" in page.text(".state")
        assert page.complaints == []
    two.page.keyboard.press("o")
    two.page.wait_for_selector("#verdict h1")
    for page in (one, two):
        page.context.close()


def test_a_page_that_loses_its_server_says_what_became_of_the_test(browser: Any, own: Server, far: str):
    client = client_of(own)
    job = run(client, far).raise_for_status().json()["id"]
    recording = Path(measured_for(client, job, 1)["progress"]["recording"]).name
    page = Page(browser, own)
    page.page.goto(f"{own.root}/run?id={job}")
    page.page.wait_for_selector(".live canvas")
    own.process.kill()
    own.process.wait()
    page.page.wait_for_selector("[role=alert]:text('does not answer')")
    assert recording in page.text(".note:not([hidden])")
    page.context.close()


def test_a_run_that_is_forgotten_leads_to_the_library(browser: Any, own: Server):
    page = Page(browser, own)
    page.page.goto(f"{own.root}/run?id=0123456789abcdef")
    page.page.wait_for_selector("text=no longer knows this run")
    assert page.page.get_attribute(".outcome a", "href") == "/browse"
    page.context.close()


def test_a_test_that_cannot_start_says_why_on_its_page(browser: Any, own: Server):
    job = run(client_of(own), "127.0.0.1:1").raise_for_status().json()["id"]
    page = Page(browser, own)
    page.page.goto(f"{own.root}/run?id={job}")
    page.page.wait_for_selector("[role=alert]:text('127.0.0.1')")
    # Its addresses lead back to the form as it was.
    page.page.click("text=Set it up again")
    page.page.wait_for_selector("#to")
    assert page.page.input_value("#to") == "127.0.0.1:1"
    page.context.close()

"""Tests of the page of a run in a real browser: while it measures, when it loses its server, and at the end."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import whydrop
from patience import wait_until
from web.browsing import Page
from web.conftest import Server, client_of, has_looked, running
from web.test_runs import measured_for, run

pytestmark = [pytest.mark.slow, pytest.mark.needs_browser]


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


def test_a_page_reconnects_to_a_server_that_was_started_again_and_leads_to_the_recording(
    browser: Any, tmp_path: Path, far: str
):
    folder, token = tmp_path / "library", tmp_path / "token"
    folder.mkdir()
    token.write_text("a-token-that-stays-the-same")
    token.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ("--listen", f"127.0.0.1:{port}", "--token-file", str(token))
    with running(folder, *options) as printed:
        # The address that is printed does not have the token of a file.
        first = replace(printed, address=printed.address.replace("TOKEN,", token.read_text()))
        wait_until(lambda: has_looked(first), "the first look at the folder")
        client = client_of(first)
        job = run(client, far).raise_for_status().json()["id"]
        recording = Path(measured_for(client, job, 2)["progress"]["recording"]).name
        page = Page(browser, first)
        page.page.goto(f"{first.root}/run?id={job}")
        page.page.wait_for_selector(".live canvas")
        first.process.kill()
        first.process.wait()
        page.page.wait_for_selector("[role=alert]:text('does not answer')")
    with running(folder, *options):
        page.page.wait_for_selector("text=no longer knows this run")
        page.page.wait_for_selector(f"[role=alert]:text('{recording}')")
        page.page.click("a.open")
        page.page.wait_for_selector("#verdict h1")
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


def test_a_test_is_set_up_checked_started_and_ended_by_keyboard_alone(browser: Any, own: Server):
    secret = "a secret of the far end alone"
    with whydrop.responder(secret=secret, addresses=["127.0.0.1"], port=0) as responder:
        page = Page(browser, own)
        page.page.goto(f"{own.root}/run?test=tcp_1up")
        page.page.wait_for_selector(".plan td")
        keyboard = page.page.keyboard
        keyboard.press("f")
        keyboard.type(f"127.0.0.1:{responder.port}")
        keyboard.press("Tab")
        keyboard.type("60 parsec")
        keyboard.press("Tab")
        keyboard.type("127.0.0.2")
        keyboard.press("Tab")
        keyboard.type(secret)
        keyboard.press("Escape")
        keyboard.press("r")
        # The fault is beside its field, which has the focus.
        page.page.wait_for_selector("#length[aria-invalid=true]:focus")
        assert "20 ms" in page.text("#length-fault")
        keyboard.press("Control+a")
        keyboard.type("60 s")
        page.page.wait_for_selector("h2:text('What will be sent')")
        assert "127.0.0.1" in page.text(".plan table")
        assert "Ping (ms) access point" in page.text(".plan table")
        assert "Mbit/s" in page.text(".plan ul")
        assert page.serious() == []
        address = page.page.url
        assert "length=60+s" in address
        keyboard.press("Enter")
        page.page.wait_for_selector(".live canvas")
        keyboard.press("s")
        page.page.wait_for_selector("a.open")
        assert not page.page.query_selector("[role=alert]:not([hidden])")
        # No address of the page, nor the server's log, ever had the secret.
        assert all("alone" not in url for url in [address, *page.requests])
        assert secret not in own.log.read_text()
        keyboard.press("o")
        page.page.wait_for_selector("#statistics :text('Where delay and loss arise is unknown')")
        page.context.close()


def test_a_link_shows_the_same_form(browser: Any, own: Server):
    page = Page(browser, own, 390)
    page.page.goto(f"{own.root}/run?test=tcp_1up&to=far.example%3A99&p.delay_s=7&title=before&tags=wi-fi")
    page.page.wait_for_selector("h2:text('What will be sent')")
    assert page.page.input_value("#to") == "far.example:99"
    assert page.page.input_value("#p-delay_s") == "7"
    assert page.page.is_visible("#p-delay_s")
    assert page.page.input_value("#title") == "before"
    assert page.page.input_value("#tags") == "wi-fi"
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.serious() == []
    page.context.close()


def test_who_starts_a_second_test_is_told_that_they_disturb_each_other(browser: Any, own: Server, far: str):
    first = run(client_of(own), far).raise_for_status().json()["id"]
    page = Page(browser, own)
    page.page.goto(f"{own.root}/run?test=tcp_1up&to={far}")
    page.page.wait_for_selector("text=each changes what the other measures")
    assert page.page.get_attribute(".note a", "href") == f"/run?id={first}"
    page.page.wait_for_selector("h2:text('What will be sent')")
    page.page.click("button.primary")
    page.page.wait_for_selector("[role=alert]:text('disturb each other')")
    page.page.check("#beside")
    page.page.click("button.primary")
    page.page.wait_for_selector(".live canvas")
    assert len(client_of(own).get("/api/runs").json()["jobs"]) == 2
    page.context.close()

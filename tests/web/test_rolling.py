"""The rolling capture in the Watch view: from its start to the verdict on a kept window, in a real browser."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import whydrop
from web.browsing import Page
from web.conftest import Server, running

has_capability = any(one.name == "CAP_NET_RAW" and one.present for one in whydrop.doctor())
needs_capability = pytest.mark.skipif(not has_capability, reason="needs CAP_NET_RAW")


@pytest.fixture(scope="module")
def allowing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that may capture."""
    with running(tmp_path_factory.mktemp("captures"), "--allow-changes") as started:
        yield started


@pytest.fixture
def traffic() -> Iterator[int]:
    """Datagrams over the loopback interface, twenty a second, to this port."""
    over = threading.Event()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiving:
        receiving.bind(("127.0.0.1", 0))
        port = receiving.getsockname()[1]

        def send() -> None:
            while not over.wait(0.05):
                receiving.sendto(bytes(100), ("127.0.0.1", port))

        thread = threading.Thread(target=send)
        thread.start()
        yield port
        over.set()
        thread.join()


def post(server: Server, path: str = "", **body: Any) -> httpx.Response:
    """Ask for something about the rolling capture."""
    headers = {"Authorization": f"Bearer {server.token}"}
    return httpx.post(f"{server.root}/api/rolling{path}", json=body, headers=headers, timeout=120)


@pytest.mark.slow
def test_a_server_that_may_not_capture_says_what_to_type(server: Server) -> None:
    for path in ("", "/keep", "/stop"):
        refused = post(server, path)
        assert refused.status_code == 403
        assert "whydrop web --allow-changes" in refused.json()["error"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"interface": "eth99"}, "there is no interface 'eth99'"),
        ({"interface": "../../etc"}, "there is no interface"),
        ({"filter": "port http"}, "expected a port"),
        ({"limits": ["wlan"]}, "there is no limit 'wlan'"),
        ({"seconds": 2}, "seconds after a trigger"),
        ({"seconds": 1e9}, "less than or equal to 3600"),
        ({"loss_packets": 0}, "greater than or equal to 1"),
    ],
)
@needs_capability
def test_a_mistake_is_refused_in_words_and_nothing_runs(allowing: Server, given: dict[str, Any], words: str) -> None:
    refused = post(allowing, **given)
    assert 400 <= refused.status_code < 500
    assert words in refused.json()["error"]
    assert post(allowing, "/keep").status_code == 409


@pytest.mark.slow
@pytest.mark.needs_browser
@needs_capability
def test_a_window_is_kept_with_one_key_and_its_verdict_leads_to_the_packets(
    browser: Any, allowing: Server, traffic: int
) -> None:
    page = Page(browser, allowing, width=390)
    view = page.page
    view.goto(f"{allowing.root}/watch")
    view.select_option("#roll-interface", "lo")
    view.fill("#roll-filter", f"udp and port {traffic}")
    view.fill("#roll-delay", "900000")
    view.locator("#roll-delay").blur()
    view.wait_for_url(lambda url: "roll-delay=900000" in url)
    view.reload()
    # The address has the whole form.
    view.wait_for_selector("#roll-interface >> visible=true")
    assert view.input_value("#roll-filter") == f"udp and port {traffic}"
    assert view.input_value("#roll-interface") == "lo"
    view.click("text=Start capturing")
    view.wait_for_selector(".rolling-state:has-text('Capturing:')")
    assert page.serious() == []
    view.locator("#view").click(position={"x": 2, "y": 2})
    view.keyboard.press("K")
    view.wait_for_selector(".rolling-kept li.explained a")
    kept = page.text(".rolling-kept").replace("\u00a0", " ")
    assert "1 UDP flow" in kept
    assert "after the trigger" in kept
    # The page stays within the width of a phone.
    assert view.evaluate("document.documentElement.scrollWidth") <= 390
    view.click("#rolling >> text=Stop")
    view.wait_for_selector(".rolling-state:has-text('Ended:')")
    view.click(".rolling-kept a")
    view.wait_for_selector("#verdict h1")
    assert page.complaints == []
    page.context.close()
    assert not list(Path(allowing.folder).rglob(".rolling-*"))


@pytest.mark.slow
@pytest.mark.needs_browser
def test_a_page_that_may_not_capture_says_why_in_place_of_the_form(browser: Any, server: Server) -> None:
    page = Page(browser, server)
    page.page.goto(f"{server.root}/watch")
    page.page.wait_for_selector("#rolling .note")
    assert "whydrop web --allow-changes" in page.text("#rolling")
    assert page.page.locator("#rolling button").count() == 0
    page.context.close()


@pytest.mark.slow
@needs_capability
def test_a_server_that_ends_removes_the_ring_and_leaves_what_was_kept(tmp_path: Path, traffic: int) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    with running(folder, "--allow-changes") as server:
        assert post(server, interface="lo", filter=f"port {traffic}", after_s=1).status_code == 200
        assert post(server).status_code == 409
        assert list(folder.rglob(".rolling-*"))
        assert post(server, "/keep").json()["state"]["pending"] == "by hand"
    assert not list(folder.rglob(".rolling-*"))

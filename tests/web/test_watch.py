"""Tests of the view of connections: real ones of this host, in the API and in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from patience import wait_until
from web.browsing import Page
from web.conftest import Server, client_of, running
from web.traffic import connections

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with an empty folder."""
    with running(tmp_path_factory.mktemp("empty")) as server:
        yield server


@pytest.fixture
def client(own: Server) -> httpx.Client:
    return client_of(own)


def rows(client: httpx.Client, **query: Any) -> list[dict[str, Any]]:
    found = client.get("/api/watch/connections", params=query).raise_for_status().json()
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


def test_a_slow_reader_is_named_as_the_limit_of_its_connection(client: httpx.Client):
    with connections(1, slow=True) as [local]:
        wait_until(
            lambda: [row["limit"] for row in rows(client, q=local) if row["local"] == local] == ["receive window"],
            "its limit",
        )
        answer = client.get("/api/watch/connections", params={"q": local}).json()
        assert answer["verdicts"]["receive window"].startswith("The receiver's window stops the sender")
        assert answer["found"] == 2 < answer["total"]


def test_a_connection_has_its_points_over_time(client: httpx.Client):
    with connections(1) as [local]:
        wait_until(lambda: any(row["local"] == local for row in rows(client, q=local)), "the connection")
        [row] = [row for row in rows(client, q=local) if row["local"] == local]
        ends = {"local": local, "remote": row["remote"]}

        def series() -> dict[str, list[list[float]]]:
            found: dict[str, list[list[float]]] = client.get("/api/watch/history", params=ends).json()["series"]
            return found

        wait_until(lambda: len(series().get("sent_mbps", [])) >= 2, "two points")
        assert {"rtt_ms", "cwnd_packets", "retransmitted"} <= set(series())
        times = [time for time, _ in series()["sent_mbps"]]
        assert times == sorted(set(times))
        assert max(value for _, value in series()["sent_mbps"]) > 0

        def process() -> list[str]:
            return [row["process"] for row in rows(client, q=local) if row["local"] == local and row["process"]]

        # A socket is listed before the next look at the processes finds its owner.
        wait_until(lambda: len(process()) == 1, "its process")


def test_rows_are_sorted_and_bounded_as_asked(client: httpx.Client):
    with connections(5, silent=True) as ends:
        wait_until(lambda: {row["local"] for row in rows(client)} >= set(ends), "the connections")
        sent = [row["cwnd_packets"] for row in rows(client, sort="-cwnd_packets")]
        assert sent == sorted(sent, reverse=True)
        assert len(rows(client, limit=3)) == 3
    refused = client.get("/api/watch/connections", params={"sort": "nonsense"})
    assert refused.status_code == 400
    assert "sort" in refused.json()["fields"]


def test_the_process_looks_only_while_somebody_reads(client: httpx.Client, own: Server):
    wait_until(lambda: _processes(own.process.pid) == [], "the end of its process when no one asks")
    assert rows(client) is not None
    assert len(_processes(own.process.pid)) == 1


def _processes(pid: int) -> list[str]:
    """Processes of work that a server has; one that has ended has no command line."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [one for one in children.read_text().split() if "spawn_main" in _command(one)]
    return found


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@pytest.fixture
def page(browser: Any, own: Server) -> Iterator[Page]:
    opened = Page(browser, own)
    yield opened
    assert opened.complaints == []
    assert all(url.startswith((own.root, "data:", "blob:")) for url in opened.requests)
    opened.context.close()


@pytest.mark.needs_browser
def test_a_connection_is_found_and_drawn_with_keys_only_and_its_link_shows_it_again(page: Page):
    with connections(1, slow=True) as [local]:
        page.page.goto(f"{page.page.url.split('/browse')[0]}/watch")
        page.page.wait_for_selector("#connections tbody button")
        page.page.keyboard.press("/")
        # The other end of the same connection receives.
        page.page.keyboard.type(f"{local} receive window")
        page.page.wait_for_selector("#connections tbody tr:only-child td:text('receive window')")
        page.page.keyboard.press("Escape")
        page.page.keyboard.press("j")
        # On a busy machine, Enter could come before the row has the focus.
        page.page.wait_for_selector("#connections tbody button:focus")
        page.page.keyboard.press("Enter")
        page.page.wait_for_selector(".chosen-connection canvas >> nth=3")
        assert local in page.text(".chosen-connection h2")
        address = page.page.url
        assert "open=" in address
        page.page.goto(address)
        page.page.wait_for_selector(".chosen-connection canvas >> nth=3")
        assert page.page.input_value("#connections-search") == f"{local} receive window"
        page.page.wait_for_selector(".verdict-line:has-text('Limited by')")
        page.page.keyboard.press("c")
        page.page.wait_for_selector(".chosen-connection", state="hidden")
        assert "open=" not in page.page.url


@pytest.mark.needs_browser
def test_a_table_of_connections_is_sorted_by_its_heads_and_follows_what_comes_and_goes(page: Page):
    page.page.goto(f"{page.page.url.split('/browse')[0]}/watch?q=python")
    with connections(3, silent=True) as ends:
        for end in ends:
            page.page.wait_for_selector(f"#connections tbody button:text-is('{end}')")
        page.page.click("#connections thead button:has-text('This end')")
        page.page.wait_for_selector("th[aria-sort=ascending]")
        assert page.page.url.endswith("?q=python&sort=local")
        shown = page.page.locator("#connections tbody button").all_inner_texts()
        assert shown == sorted(shown)
        page.page.click("#connections thead button:has-text('This end')")
        page.page.wait_for_selector("th[aria-sort=descending]")
    for end in ends:
        page.page.wait_for_selector(f"#connections tbody button:text-is('{end}')", state="detached")


@pytest.mark.needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_the_view_fits_its_width_and_has_no_serious_barrier(browser: Any, own: Server, width: int):
    opened = Page(browser, own, width)
    with connections(1) as [local]:
        opened.page.goto(f"{own.root}/watch")
        opened.page.click(f"#connections tbody button:text-is('{local}')")
        opened.page.wait_for_selector(".chosen-connection canvas >> nth=3")
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.serious() == []
    opened.context.close()


@pytest.mark.needs_browser
def test_of_very_many_connections_all_are_searched_and_those_not_listed_are_counted(page: Page, client: httpx.Client):
    with connections(320, silent=True) as ends:
        wait_until(lambda: client.get("/api/watch/connections").json()["total"] >= 640, "all connections")
        listed = {row["local"] for row in rows(client)}
        assert len(rows(client)) == 300
        hidden = next(end for end in ends if end not in listed)
        page.page.goto(f"{page.page.url.split('/browse')[0]}/watch")
        page.page.wait_for_selector("#connections [role=status]:has-text('of them not listed')")
        page.page.fill("#connections-search", hidden)
        page.page.wait_for_selector(f"#connections tbody button:text-is('{hidden}')")
        page.page.wait_for_selector("#connections [role=status]:has-text('2 found')")
        # The next states do not bring the unsearched ones back.
        page.page.wait_for_timeout(2500)
        assert page.page.locator("#connections tbody tr").count() == 2

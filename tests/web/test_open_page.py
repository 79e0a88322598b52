"""Tests of the Open view in a real browser: links, keys, tables that choose flows, packets, files to keep."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import polars as pl
import pytest
from playwright.sync_api import expect

import recordings
import whydrop
from web.browsing import Page
from web.conftest import EXAMPLES, Server, running

pytestmark = [pytest.mark.slow, pytest.mark.needs_browser]

DATA = "10.0.1.1:41001 > 10.0.3.1:5201"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests of this file, with two captures of one path."""
    folder = tmp_path_factory.mktemp("captures")
    for name in ("policed-download.pcap.zst", "policed-download-far.pcap.zst"):
        shutil.copy(EXAMPLES / name, folder)
    recordings.rrul(folder / "a.recording", title="fifo run 1")
    with running(folder) as started:
        yield started


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Page]:
    opened = Page(browser, server)
    yield opened
    assert opened.complaints == []
    assert all(url.startswith((server.root, "data:", "blob:")) for url in opened.requests)
    opened.context.close()


def state(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.page.url).query)


def open_by_path(page: Page, server: Server, paths: str, more: str = "") -> None:
    """Open files by typing their path, and wait for their charts."""
    page.page.goto(f"{server.root}/open")
    page.page.keyboard.press("/")
    page.page.keyboard.type(paths)
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#verdict h1")
    if more:
        page.page.goto(page.page.url + more)
    wait_for_charts(page)


def wait_for_charts(page: Page) -> None:
    page.page.wait_for_selector("#charts .figures", state="attached")
    page.page.evaluate("document.querySelector('#charts').scrollIntoView()")
    page.page.wait_for_selector("#charts .figure canvas")


def wait_for_address(page: Page, pattern: str) -> None:
    page.page.wait_for_url(re.compile(pattern))


def window_of(address: str) -> tuple[float, float]:
    """The window of time that a link shows; without an end where it shows all."""
    found = parse_qs(urlsplit(address).query).get("zoom", ["-inf..inf"])[0]
    low, high = map(float, found.split(".."))
    return low, high


def saved(page: Page, figure: str, words: str) -> tuple[str, bytes]:
    """The name and the content of a file that the menu of a figure saves."""
    place = page.page.locator(f"#figure-{figure}")
    place.locator("summary").click()
    with page.page.expect_download() as waited:
        place.get_by_role("button", name=words, exact=True).click()
    return waited.value.suggested_filename, Path(waited.value.path()).read_bytes()


def test_a_typed_path_is_explained_and_one_outside_says_what_to_do(page: Page, server: Server):
    page.page.goto(f"{server.root}/open")
    for wrong, words in (("/etc/passwd", "not below the folders"), ("nothing.pcap", "no such file")):
        page.page.fill("#path", wrong)
        page.page.keyboard.press("Enter")
        expect(page.page.locator("[role=alert]")).to_contain_text(words)
    page.complaints = [one for one in page.complaints if "404" not in one]
    open_by_path(page, server, "policed-download.pcap.zst")
    assert "policer" in page.text("#verdict h1")


def test_a_link_shows_the_window_that_was_zoomed_to_by_keys(page: Page, server: Server):
    open_by_path(page, server, "policed-download.pcap.zst")
    page.page.keyboard.press("l")
    wait_for_address(page, r"zoom=")
    low, high = window_of(page.page.url)

    def is_closer(address: str) -> bool:
        low2, high2 = window_of(address)
        return low < low2 < high2 < high

    page.page.keyboard.press("+")
    page.page.wait_for_url(is_closer)
    page.page.goto(page.page.url)
    wait_for_charts(page)
    page.page.keyboard.press("-")
    page.page.wait_for_url(lambda address: window_of(address) == pytest.approx((low, high), abs=1e-4))
    page.page.keyboard.press("0")
    wait_for_address(page, r"^(?!.*zoom=)")


def test_losses_are_visited_one_after_the_other(page: Page, server: Server):
    open_by_path(page, server, "policed-download.pcap.zst")
    windows = []
    for key in ("n", "n", "b"):
        before = page.page.url
        # The finer picture of the window, which has no losses but its own.
        with page.page.expect_response(lambda answer: "low=" in answer.url):
            page.page.keyboard.press(key)
        expect(page.page).not_to_have_url(before)
        windows.append(window_of(page.page.url)[0])
    assert windows[0] < windows[1] > windows[2]
    page.page.keyboard.press("b")
    expect(page.page.locator("#charts .controls [role=status]")).to_have_text("No lost packet before this time.")


def test_rows_of_flows_choose_the_charts_and_can_be_explained_alone(page: Page, server: Server):
    open_by_path(page, server, "policed-download.pcap.zst")
    box = page.page.get_by_label(f"Show the charts of {DATA}").first
    box.focus()
    page.page.keyboard.press("Space")
    wait_for_address(page, r"flow=")
    assert state(page)["flow"] == [DATA]
    options = page.page.locator("#charts select option")
    expect(options).to_have_count(1)
    expect(options).to_contain_text("96 packets lost")
    expect(page.page.locator(".chosen-flows")).to_contain_text(DATA)
    page.page.keyboard.press("c")
    wait_for_address(page, r"^(?!.*flow=)")
    box.check()
    page.page.get_by_role("button", name="Explain these only").click()
    page.page.wait_for_selector("#verdict h1")
    wait_for_address(page, r"filter=")
    assert state(page)["filter"] == [
        "ip.addr == 10.0.1.1 and ip.addr == 10.0.3.1 and tcp.port == 41001 and tcp.port == 5201"
    ]
    assert "leave out" in page.text("#verdict")


def test_a_filter_that_is_wrong_says_where_and_can_be_mended(page: Page, server: Server):
    open_by_path(page, server, "policed-download.pcap.zst")
    page.page.goto(f"{page.page.url}&filter=tcp.prot==1")
    expect(page.page.locator("[role=alert]")).to_contain_text("filter at character 1: expected a field")
    page.page.fill("#filter", "tcp.port == 5201")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#verdict h1")


def test_the_packets_of_the_heaviest_loss_have_numbers_fates_and_a_command(page: Page, server: Server):
    open_by_path(page, server, "policed-download.pcap.zst")
    page.page.keyboard.press("l")
    wait_for_address(page, r"zoom=")
    page.page.keyboard.press("p")
    page.page.wait_for_selector("#packets tbody tr.lost")
    low, high = window_of(page.page.url)
    found = whydrop.explain(EXAMPLES / "policed-download.pcap.zst")
    lost = found.table("segments").filter(
        pl.col("fate") == "lost", pl.col("time_ns").is_between(int(low * 1e9) - 1000, int(high * 1e9) + 1000)
    )
    numbers = [int(one) for one in page.page.locator("#packets tbody tr.lost td:first-child").all_inner_texts()]
    packets = whydrop.packets(EXAMPLES / "policed-download.pcap.zst", most=20_000).table
    at = packets.filter(pl.col("frame_number").is_in(numbers))["time_ns"].unique().sort().to_list()
    assert at == lost["time_ns"].unique().sort().to_list() != []
    assert page.text("#packets code").startswith("tshark -r ")
    page.page.goto(page.page.url)
    page.page.wait_for_selector("#packets tbody tr.lost")


def test_two_captures_show_each_packet_with_its_transit_or_its_loss(page: Page, server: Server):
    open_by_path(page, server, "policed-download.pcap.zst, policed-download-far.pcap.zst")
    page.page.keyboard.press("p")
    page.page.wait_for_selector("#packets tbody tr")
    assert {"No. in the first", "No. in the second", "Transit", "Fate"} <= set(
        page.page.locator("#packets th").all_inner_texts()
    )
    page.page.get_by_label("Lost packets only").check()
    expect(page.page.locator("#packets tbody tr:not(.lost)")).to_have_count(0)
    expect(page.page.locator("#packets tbody tr.lost")).to_have_count(96)
    assert state(page)["lost"] == ["true"]


def test_each_kind_of_file_of_a_figure_is_saved_under_a_name_that_says_what_it_is(page: Page, server: Server):
    open_by_path(page, server, "policed-download.pcap.zst")
    begins = {"PNG": b"\x89PNG", "SVG": b"<svg", "CSV": b"figure,panel"}
    for kind, begin in begins.items():
        name, content = saved(page, "time-sequence", kind)
        assert name == f"policed-download.pcap.zst-time-sequence.{kind.lower()}"
        assert content.startswith(begin)
    numbers = pl.read_csv(io.BytesIO(content), infer_schema_length=None)
    lost = whydrop.explain(EXAMPLES / "policed-download.pcap.zst").flows
    assert numbers.height > sum(flow.packets for flow in lost if flow.flow == DATA)


def test_plots_of_a_recording_are_zoomed_by_a_link_of_their_own_and_saved(page: Page, server: Server):
    page.page.goto(f"{server.root}/open")
    page.page.fill("#path", "a.recording")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#plots .figures", state="attached")
    page.page.evaluate("document.querySelector('#plots').scrollIntoView()")
    page.page.wait_for_selector("#plots canvas")
    page.page.keyboard.press("+")
    wait_for_address(page, r"zoom_test=\d")
    assert "zoom" not in state(page)
    name, content = saved(page, "all", "SVG")
    assert name == "a.recording-all.svg"
    assert b"Goodput" in content


def test_the_cell_of_a_figure_runs_as_it_is_given(page: Page, server: Server, tmp_path: Path):
    open_by_path(page, server, "policed-download.pcap.zst", "&filter=tcp.port==41001")
    name, cell = saved(page, "rtt", "Notebook cell (.py)")
    assert name.endswith("-rtt.py")
    (tmp_path / "cell.py").write_bytes(cell.rstrip() + b".save('rtt.svg')\n")
    done = subprocess.run([sys.executable, "cell.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "<svg" in (tmp_path / "rtt.svg").read_text()[:500]
    assert b"tcp.port==41001" in cell


@pytest.mark.parametrize(("words", "begin"), [("JSON", b"{"), ("Report as one file", b"<!doctype html>")])
def test_an_analysis_is_handed_on_as_a_file(page: Page, server: Server, words: str, begin: bytes):
    open_by_path(page, server, "policed-download.pcap.zst")
    with page.page.expect_download() as waited:
        page.page.get_by_role("link", name=words).click()
    assert waited.value.suggested_filename.startswith("policed-download")
    assert Path(waited.value.path()).read_bytes().startswith(begin)


@pytest.mark.parametrize("width", [390, 1280])
def test_an_analysis_fits_its_width_and_has_no_serious_barrier(browser: Any, server: Server, width: int):
    opened = Page(browser, server, width)
    open_by_path(opened, server, "policed-download.pcap.zst, policed-download-far.pcap.zst")
    opened.page.keyboard.press("p")
    opened.page.wait_for_selector("#packets tbody tr")
    opened.page.locator("#charts .save summary").first.click()
    opened.page.wait_for_timeout(500)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.serious() == []
    opened.context.close()

"""Tests of a reader's own model in a real browser: sliders, the fit, links, errors, narrow windows."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

import synthetic_pair_of_datagrams
from web.browsing import Page
from web.conftest import EXAMPLES, Server, running

pytestmark = [pytest.mark.slow, pytest.mark.needs_browser]

PAIR = "policed-download.pcap.zst, policed-download-far.pcap.zst"
FIGURE = "#figure-your-model-0"

# From the event of a slider to the new picture, as often as the slider moves.
REDRAWN_MS = """
async () => {
  const [slider] = document.querySelectorAll('#model-0 input[type=range]');
  const times = [];
  for (let step = 1; step <= 5; step += 1) {
    const before = document.querySelector('FIGURE');
    const began = performance.now();
    slider.value = String(Number(slider.value) + 5);
    slider.dispatchEvent(new Event('input'));
    await new Promise((resolve) => {
      const look = () => {
        const now = document.querySelector('FIGURE');
        if (now && now !== before && now.querySelector('canvas')) resolve();
        else requestAnimationFrame(look);
      };
      look();
    });
    times.push(Math.round(performance.now() - began));
  }
  return times;
}
""".replace("FIGURE", FIGURE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests of this file, with two captures of one path, and two of 100 000 packets."""
    folder = tmp_path_factory.mktemp("captures")
    for name in PAIR.split(", "):
        shutil.copy(EXAMPLES / name, folder)
    synthetic_pair_of_datagrams.write(folder / "near.pcap", folder / "far.pcap", packets=100_000)
    with running(folder) as started:
        yield started


def opened(browser: Any, server: Server, width: int = 1280) -> Iterator[Page]:
    page = Page(browser, server, width)
    yield page
    assert page.complaints == []
    page.context.close()


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Page]:
    yield from opened(browser, server)


@pytest.fixture
def narrow(browser: Any, server: Server) -> Iterator[Page]:
    yield from opened(browser, server, 400)


def with_panel(page: Page, server: Server, paths: str = PAIR) -> None:
    """Explain files, and open the panel by its key."""
    page.page.goto(f"{server.root}/open")
    page.page.fill("#path", paths)
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#model-0")
    page.page.keyboard.press("m")
    page.page.wait_for_selector(f"{FIGURE} canvas")


def paths_in(address: str) -> list[str]:
    """The models in a link."""
    return parse_qs(urlsplit(address).query).get("model", [])


def drops(page: Page) -> str:
    """The right and wrong drops of the reader's model."""
    return " and ".join(page.page.locator("#model-0 .replayed tbody tr td:last-child").all_inner_texts()[:2])


def test_a_slider_changes_the_text_the_numbers_the_picture_and_the_link(page: Page, server: Server):
    with_panel(page, server)
    expect(page.page.locator("#model-0-text")).to_be_focused()
    fitted = page.page.input_value("#model-0-text")
    assert fitted == "policer:rate=20.0158M,burst=51.3544kB"
    assert drops(page) == "83 of 96 and 13"
    before = page.page.locator(f"{FIGURE} canvas").last.evaluate("(canvas) => canvas.toDataURL()")
    slider = page.page.get_by_role("slider", name="rate of policer")
    slider.focus()
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("PageUp")
    expect(page.page.locator("#model-0 .replayed")).not_to_contain_text("rate=20.0158M")
    text = page.page.input_value("#model-0-text")
    page.page.wait_for_url(lambda address: paths_in(address) == [f"0:{text}"])
    assert text != fitted
    assert text.endswith(",burst=51.3544kB")
    expect(page.page.locator(f"{FIGURE} h4").last).to_have_text(f"Yours: {text}")
    after = page.page.locator(f"{FIGURE} canvas").last.evaluate("(canvas) => canvas.toDataURL()")
    assert before != after
    assert drops(page) != "83 of 96 and 13"
    assert (
        slider.get_attribute("aria-valuetext") == f"{page.page.get_by_label('rate', exact=True).input_value()} Mbit/s"
    )
    page.page.get_by_role("button", name="Start from the fit").click()
    expect(page.page.locator(f"{FIGURE} h4").last).to_have_text(f"Yours: {fitted}")
    assert drops(page) == "83 of 96 and 13"


def test_the_command_is_copied(page: Page, server: Server):
    with_panel(page, server)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.page.get_by_role("button", name="Copy as command").click()
    expect(page.page.get_by_role("button", name="Copied")).to_be_visible()
    words = shlex.split(page.page.evaluate("navigator.clipboard.readText()"))
    files = [str(server.folder / name) for name in PAIR.split(", ")]
    assert words == ["whydrop", "explain", *files, "--model", "policer:rate=20.0158M,burst=51.3544kB"]


def test_a_link_restores_the_model_and_its_window(page: Page, server: Server):
    with_panel(page, server)
    page.page.fill("#model-0-text", "fifo:rate=30M,limit=64kB+delay:time=1ms")
    expect(page.page.locator(f"{FIGURE} h4").nth(1)).to_contain_text("Yours: fifo")
    page.page.locator("#model-0 [data-zoom=in]").click()
    page.page.wait_for_url(re.compile("zoom="))
    page.page.goto(page.page.url)
    expect(page.page.locator(f"{FIGURE} h4").nth(1)).to_have_text("Yours: fifo:rate=30M,limit=64kB+delay:time=1ms")
    assert page.page.get_by_role("slider", name="limit of fifo").count() == 1
    assert page.page.get_by_label("Element 2", exact=True).input_value() == "delay"
    assert "zoom=" in page.page.url
    # Closed, it is no part of the link.
    page.page.locator("#model-0 > summary").click()
    page.page.wait_for_url(re.compile(r"^(?!.*model=)"))


def test_elements_and_fields_are_chosen_from_lists(page: Page, server: Server):
    with_panel(page, server)
    text = page.page.locator("#model-0-text")
    page.page.get_by_label("Element", exact=True).select_option("fifo")
    expect(text).to_have_value("fifo:rate=20.0158M")
    page.page.get_by_label("Add a field to fifo").select_option(label="limit in packets")
    expect(text).to_have_value("fifo:rate=20.0158M,limit=100packets")
    page.page.get_by_label("Add an element").select_option("delay")
    expect(text).to_have_value("fifo:rate=20.0158M,limit=100packets+delay:time=5ms")
    page.page.get_by_role("button", name="Remove limit of fifo").click()
    page.page.get_by_role("button", name="Remove element 2, delay").click()
    expect(text).to_have_value("fifo:rate=20.0158M")
    page.page.get_by_label("rate", exact=True).fill("7.5")
    expect(text).to_have_value("fifo:rate=7.5M")
    # Each element makes sense as it begins.
    names = page.page.get_by_label("Add an element").locator("option").all_inner_texts()[1:]
    assert len(names) > 20
    for name in names:
        page.page.get_by_label("Element", exact=True).select_option(name)
        expect(page.page.locator(f"{FIGURE} h4").filter(has_text=f"Yours: {name}:")).to_be_visible()
        expect(page.page.locator("#model-0-wrong")).to_be_hidden()


def test_an_error_stands_beside_the_text_and_ends_with_it(page: Page, server: Server):
    with_panel(page, server)
    page.page.fill("#model-0-text", "policer:rate=20M,burst=1")
    wrong = page.page.locator("#model-0-wrong")
    expect(wrong).to_contain_text('burst: "1": expected a size with its unit, such as 80kB')
    expect(page.page.locator("#model-0-text")).to_have_attribute("aria-invalid", "true")
    page.page.fill("#model-0-text", "policer:rate=20M,burst=9kB")
    expect(wrong).to_be_hidden()
    expect(page.page.locator(f"{FIGURE} h4").last).to_have_text("Yours: policer:rate=20M,burst=9kB")
    page.complaints = [one for one in page.complaints if "400" not in one]


def test_it_is_accessible_narrow_and_printed(narrow: Page, server: Server):
    with_panel(narrow, server)
    assert narrow.page.evaluate("document.documentElement.scrollWidth") <= 400
    assert narrow.serious() == []
    narrow.page.emulate_media(media="print")
    assert narrow.page.locator("#model-0 form").is_hidden()
    assert narrow.page.locator("#model-0 .replayed").is_visible()


def test_100_000_packets_are_redrawn_while_a_slider_moves(
    page: Page, server: Server, capsys: pytest.CaptureFixture[str]
):
    with_panel(page, server, "near.pcap, far.pcap")
    times = page.page.evaluate(REDRAWN_MS)
    with capsys.disabled():
        print(
            f"\n100 000 packets, from a slider to the picture: {sorted(times)[len(times) // 2]} ms (median of {times})"
        )
    assert "of 45" in drops(page)

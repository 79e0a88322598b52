"""Tests of the view of comparisons in a real browser: sets, options, keys, and its address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from web.browsing import Page
from web.conftest import Server
from web.test_compare import client, four, ids

__all__ = ["client", "four", "ids"]

pytestmark = [pytest.mark.slow, pytest.mark.needs_browser]


@pytest.fixture
def page(browser: Any, four: Server) -> Iterator[Page]:
    opened = Page(browser, four)
    yield opened
    assert opened.complaints == []
    opened.context.close()


def go(page: Page, server: Server, ids: list[str], query: str = "") -> None:
    page.page.goto(f"{server.root}/compare?{'&'.join(f'source={one}' for one in ids)}{query}")
    page.page.wait_for_selector("#plot-section .plot canvas")
    page.page.wait_for_selector("#details h2")


def test_two_sets_are_compared_in_words_and_drawn_as_groups(page: Page, four: Server, ids: list[str]):
    go(page, four, ids)
    for place, letter in enumerate("aabb"):
        page.page.select_option(f".sources tbody tr >> nth={place} >> select", letter)
    page.page.wait_for_selector("#answer h2:has-text('B against A')")
    assert "Round-trip time under load, median" in page.text("#answer table")
    assert "95 % interval" in page.text("#answer table")
    page.page.select_option("#plot", "ping_cdf")
    page.page.select_option("#arrange", "sets")
    page.page.wait_for_selector("#plot-section .legend button:has-text('B: ICMP')")
    assert "sets=aabb" in page.page.url
    address = page.page.url
    page.page.goto(address)
    page.page.wait_for_selector("#plot-section .legend button:has-text('B: ICMP')")
    assert page.page.url == address


def test_while_recordings_are_read_the_page_says_how_many(page: Page, four: Server, ids: list[str]):
    reading = {
        "id": "1", "kind": "comparison", "about": {}, "state": "running", "progress": {"done": 120, "of": 500},
        "problem": "",
    }  # fmt: skip
    page.page.route("**/api/comparisons", lambda route: route.fulfill(json=reading))
    page.page.route("**/api/comparisons/1", lambda route: route.fulfill(json=reading))
    page.page.goto(f"{four.root}/compare?source={ids[0]}&source={ids[1]}")
    page.page.wait_for_selector("[role=status]:has-text('120 of 500 recordings read')")
    assert page.page.locator("progress").get_attribute("value") == "0.24"


def test_a_plot_that_takes_a_while_is_said_to_be_drawn(page: Page, four: Server, ids: list[str]):
    go(page, four, ids)
    kept: list[Any] = []

    def keep(route: Any) -> None:
        kept.append(route)

    page.page.route("**/figures?*", keep)
    page.page.keyboard.press("n")
    page.page.wait_for_selector("[role=status]:has-text('Drawing 4 recordings')")
    for route in kept:
        route.continue_()
    page.page.wait_for_selector("#plot-section:not(:has-text('Drawing 4 recordings'))")


def test_the_line_under_the_pointer_or_of_the_focused_name_is_lit(page: Page, four: Server, ids: list[str]):
    go(page, four, ids, "&plot=ping")
    section = page.page.locator("#plot-section .figure").first
    canvas, names = section.locator(".plot canvas").first, section.locator(".legend button")
    canvas.scroll_into_view_if_needed()

    def drawn() -> str:
        return str(canvas.evaluate("one => one.toDataURL()"))

    plain = drawn()
    names.nth(1).hover()
    of_pointer = drawn()
    assert of_pointer != plain
    assert "lit" in str(names.nth(1).get_attribute("class"))
    page.page.mouse.move(0, 0)
    assert drawn() == plain
    # By keys: the focus alone lights the same line.
    names.nth(0).focus()
    page.page.keyboard.press("Tab")
    assert drawn() == of_pointer
    names.nth(1).evaluate("one => one.blur()")
    assert drawn() == plain
    place = canvas.bounding_box()
    assert place is not None
    for share in (0.05 * step for step in range(1, 20)):
        page.page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] * share)
        if section.locator(".tip").first.is_visible():
            break
    lit = section.locator(".legend button.lit").inner_text()
    assert lit in {"fifo 1", "fifo 2", "fq 1", "fq 2"}
    assert drawn() != plain


def test_sets_are_made_by_a_key_with_two_values(page: Page, four: Server, ids: list[str]):
    go(page, four, ids)
    page.page.select_option("#split", label="batch.variables.qdisc: A fifo, B fq")
    page.page.wait_for_selector("#answer h2:has-text('B against A')")
    assert "sets=aabb" in page.page.url


def test_pairs_of_sets_are_by_keys(page: Page, four: Server, ids: list[str]):
    go(page, four, ids, "&sets=abab")
    page.page.fill("#pair", "batch.variables.qdisc")
    page.page.press("#pair", "Enter")
    page.page.wait_for_selector("#details :text('2 pairs by batch.variables.qdisc')")
    page.page.fill("#pair", "batch.variables.nothing")
    page.page.press("#pair", "Enter")
    page.page.wait_for_selector("#answer [role=alert]:has-text('no recording has the key')")
    page.complaints = [one for one in page.complaints if "422" not in one]


def test_an_empty_set_is_said(page: Page, four: Server, ids: list[str]):
    go(page, four, ids)
    page.page.select_option(".sources tbody tr >> nth=0 >> select", "a")
    page.page.wait_for_selector("#answer [role=status]:has-text('Set B is empty')")


def test_a_recording_is_added_and_removed_and_options_are_set_by_keyboard_only(
    page: Page, four: Server, ids: list[str]
):
    go(page, four, ids[:2])
    keyboard = page.page.keyboard
    keyboard.press("a")
    keyboard.type('title:"fq run 1"')
    page.page.wait_for_selector(".found-recordings button:has-text('fq run 1')")
    keyboard.press("Tab")
    keyboard.press("Enter")
    page.page.wait_for_selector("h1:has-text('3 recordings compared')")
    page.page.wait_for_selector("#plot-section .plot canvas")
    before = page.page.input_value("#plot")
    keyboard.press("n")
    assert page.page.input_value("#plot") != before
    keyboard.press("o")
    page.page.wait_for_selector("#option-filters")
    for _ in range(60):
        keyboard.press("Tab")
        if page.page.evaluate("document.activeElement.id") == "option-note":
            break
    keyboard.type("Second floor")
    keyboard.press("Enter")
    page.page.wait_for_selector("#plot-section .see:has-text('Second floor')")
    assert "note=Second+floor" in page.page.url
    keyboard.press("Escape")
    keyboard.press("s")
    assert page.page.evaluate("document.activeElement.textContent") == "PNG"
    for _ in range(40):
        keyboard.press("Shift+Tab")
        if page.page.evaluate("document.activeElement.title") == "Remove":
            break
    keyboard.press("Enter")
    page.page.wait_for_selector("h1:has-text('2 recordings compared')")
    assert "note=Second+floor" in page.page.url


def test_options_that_do_not_apply_are_hidden_and_not_in_the_address(page: Page, four: Server, ids: list[str]):
    go(page, four, ids, "&plot=ping&smooth=5&time=2:6")
    assert page.page.is_visible("#option-smooth")
    page.page.select_option("#plot", "ping_cdf")
    page.page.wait_for_selector("#figure-ping_cdf")
    assert not page.page.is_visible("#option-smooth")
    assert "smooth" not in page.page.url
    assert "time=" not in page.page.url


def test_recordings_side_by_side_have_equal_axes_and_a_wrong_option_says_what_to_do(
    page: Page, four: Server, ids: list[str]
):
    go(page, four, ids, "&plot=ping&arrange=paired&limits=0:300")
    assert page.page.locator("#plot-section .panel").count() == 4
    page.page.fill("#option-limits", "300:0")
    page.page.press("#option-limits", "Enter")
    page.page.wait_for_selector("#plot-section [role=alert]:has-text('two numbers that rise')")
    page.complaints = [one for one in page.complaints if "400" not in one]


def test_a_link_holds_the_window_that_was_zoomed_to_and_its_picture_shows_it(page: Page, four: Server, ids: list[str]):
    go(page, four, ids[:2], "&plot=ping")
    page.page.keyboard.press("+")
    page.page.wait_for_url("**window=**")
    address = page.page.url
    page.page.goto("about:blank")
    page.page.goto(address)
    page.page.wait_for_selector("#plot-section .plot canvas")
    page.page.click("#figure-ping .save summary")
    with page.page.expect_download() as saved:
        page.page.click("#figure-ping .save button:has-text('SVG')")
    assert "The axis of time shows" in saved.value.path().read_text()
    assert page.page.url == address


def test_the_saved_cell_draws_the_same_picture(four: Server, client: httpx.Client, ids: list[str]):
    own = client.post("/api/comparisons", json={"source": ids}).json()["id"]
    asked = {"plot": "ping", "kind": "py", "sets": "---x", "limits": "0:300 ms", "baseline": 0, "note": "it's"}
    cell = client.get(f"/api/comparisons/{own}/picture", params=asked).raise_for_status().text
    found: dict[str, Any] = {}
    exec(cell.replace("whydrop.plot(", "drawn = whydrop.plot("), found)
    (drawn,) = found["drawn"]
    assert "it's" in drawn.notes
    assert any("The axes also fit 3.recording" in one for one in drawn.notes)


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("query", ["&sets=aabb&arrange=sets&plot=ping_cdf&note=x", "&plot=all&arrange=paired&log=true"])
def test_the_view_fits_its_width_and_has_no_serious_barrier(
    browser: Any, four: Server, ids: list[str], width: int, query: str
):
    opened = Page(browser, four, width)
    go(opened, four, ids, query)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.serious() == []
    assert opened.complaints == []
    opened.context.close()

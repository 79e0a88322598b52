"""Tests of the library in a real browser: found, ordered, chosen, marked and handed on, with the mouse and without."""

from __future__ import annotations

import io
import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import small_stores
from web.browsing import Page
from web.conftest import EXAMPLES, Server, started
from whydrop.recording import document

pytestmark = [pytest.mark.slow, pytest.mark.needs_browser]

HOSTILE = "<img src=x onerror=alert(1)> a/b?&"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with recordings of a batch, a capture, a store, and a damaged file."""
    folder = tmp_path_factory.mktemp("mixed")
    for number in range(120):
        one = folder / f"run-{number:03}.recording"
        one.mkdir()
        content = {
            "name": "rrul", "title": f"run {number} {HOSTILE}", "status": "complete",
            "started_ns": 1_750_000_000_000_000_000 + number * 1_000_000_000,
            "batch": {"variables": {"rtt": f"{number % 7 * 10}ms", "queue": "cake" if number % 2 else "fq_codel"}},
            "hosts": {"local": {"kernel": {"release": f"6.{number % 3}.0"}, "sysctls": {"net.core.rmem_max": number}}},
        }  # fmt: skip
        (one / document.FILE_NAME).write_text(json.dumps(document.complete(content)))
    shutil.copy(EXAMPLES / "shallow-queue.pcap.zst", folder / "odd-name.bin")
    (folder / "broken.flent.gz").write_bytes(b"\x1f\x8b and no more")
    (folder / "readme.txt").write_text("nothing to open")
    downloads = [small_stores.download(number * 20 * small_stores.SECOND) for number in range(60)]
    small_stores.write(folder / "fleet.store", small_stores.series("octets.tx", [1.0] * 70), downloads)
    with started(folder) as server:
        yield server


@pytest.fixture
def page(browser: Any, library: Server) -> Iterator[Page]:
    opened = Page(browser, library)
    opened.page.wait_for_selector("tbody tr >> nth=50")
    yield opened
    # While a search is typed, its beginnings may be none.
    assert [one for one in opened.complaints if "400" not in one] == []
    opened.context.close()


def titles(page: Page) -> list[str]:
    """The numbers of the runs that are listed."""
    return re.findall(r"run (\d+) ", page.text("tbody"))


def find(page: Page, search: str, count: int) -> None:
    """Search, and wait until so many entries are found."""
    page.page.fill("#search", search)
    page.page.wait_for_selector(f'#view > [role=status]:has-text("{count} entr")')
    page.wait_for_rows(min(count, 100))


def test_rows_are_chosen_by_keys_only_and_compared(page: Page):
    page.page.keyboard.press("/")
    page.page.keyboard.type("queue:cake rtt=50ms")
    page.wait_for_rows(9)
    for key in ("Escape", "Escape", "ArrowDown", "Space", "Shift+ArrowDown", "Shift+ArrowDown", "ArrowDown"):
        page.page.keyboard.press(key)
    assert page.page.locator("tbody input:checked").count() == 3
    page.page.wait_for_selector(".differences tbody tr")
    assert "6.1.0" in page.text(".differences")
    page.page.keyboard.press("c")
    page.page.wait_for_url(re.compile(r"/compare\?source=.*&source=.*&source="))


def test_enter_opens_the_entry_and_the_next_page_is_reached_by_arrows(page: Page):
    page.page.keyboard.press("End")
    page.page.locator("tbody a.entry").last.focus()
    page.page.keyboard.press("ArrowDown")
    page.page.wait_for_selector('#view > [role=status]:has-text("page 2 of 2")')
    assert "page=1" in page.page.url
    page.page.wait_for_selector("tbody tr:first-child a:focus")
    page.page.keyboard.press("ArrowUp")
    page.page.wait_for_selector('#view > [role=status]:has-text("page 1 of 2")')
    page.page.wait_for_selector("tbody tr:last-child a:focus")
    page.page.keyboard.press("Enter")
    page.page.wait_for_url(re.compile(r"/open\?source="))
    page.complaints = [one for one in page.complaints if "422" not in one]


def test_keys_and_values_are_suggested(page: Page):
    page.page.keyboard.press("/")
    page.page.keyboard.type("que")
    page.page.wait_for_selector('#suggestions [role=option]:has-text("queue:")')
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector('#suggestions [role=option]:has-text("cake") >> text=60')
    assert page.page.input_value("#search") == "queue:"
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector('#view > [role=status]:has-text("60 entries")')
    assert page.page.input_value("#search") == "queue:cake "


def test_a_search_that_is_wrong_says_where_and_an_unknown_key_is_named(page: Page):
    page.page.fill("#search", "(rtt>10")
    page.page.wait_for_selector('[role=alert]:has-text("character 8")')
    assert 'expected ")"' in page.text("[role=alert]:not([hidden])")
    assert "what was found before" in page.text("#view > [role=status]")
    page.page.fill("#search", "quue:cake")
    page.page.wait_for_selector("text=No entry has the key quue.")


def test_columns_and_an_order_by_two_keys_are_in_the_address(page: Page):
    find(page, "rtt:", 120)
    page.page.click('summary:has-text("Columns")')
    page.page.fill("#add-column", "batch.variables.rtt")
    page.page.keyboard.press("Enter")
    page.page.click('[aria-label="Remove Size"]')
    page.page.click('summary:has-text("Columns")')
    page.page.click('thead button:has-text("batch.variables.rtt")')
    page.page.click('thead button:has-text("Started")', modifiers=["Shift"])
    page.page.wait_for_selector('th[aria-sort=descending]:has-text("▼2")')
    assert titles(page)[:3] == ["118", "111", "104"]
    address = page.page.url
    page.page.goto(address)
    page.page.wait_for_selector('th[aria-sort=descending]:has-text("▼2")')
    assert titles(page)[:3] == ["118", "111", "104"]
    assert "60ms" in page.text("tbody tr:first-child")
    assert page.page.locator('thead:has-text("Size")').count() == 0


def test_a_view_is_saved_and_shown_again_by_its_name(page: Page, library: Server):
    find(page, "queue:cake", 60)
    page.page.click('summary:has-text("Views")')
    page.page.fill("#view-name", HOSTILE)
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector(".menu[open] li a")
    page.page.fill("#view-name", HOSTILE)
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector('button:has-text("Replace the view")')
    page.page.goto(f"{library.root}/browse")
    page.page.wait_for_selector("tbody tr >> nth=50")
    page.page.click('summary:has-text("Views")')
    page.page.click(f'.menu[open] li a:has-text("{HOSTILE}")')
    page.page.wait_for_selector('#view > [role=status]:has-text("60 entries")')
    assert page.page.input_value("#search") == "queue:cake"
    page.page.click('summary:has-text("Views")')
    page.page.click(".menu[open] li button")
    page.page.wait_for_selector("text=No view is saved yet.")


def test_tags_are_added_to_many_at_once(page: Page):
    find(page, "rtt=60ms", 17)
    page.page.click("text=Choose all 17")
    page.page.click('summary:has-text("Tags and notes of all")')
    page.page.fill("#add-tags", "slow, night")
    page.page.fill("#add-note", "seen twice")
    page.page.click("text=Apply to all chosen")
    page.page.wait_for_selector("text=17 entries changed.")
    find(page, "tag=slow tag=night twice", 17)
    page.page.fill("#remove-tags", "night")
    page.page.click("text=Apply to all chosen")
    page.page.wait_for_selector("text=17 entries changed.")
    find(page, "tag=slow -tag=night", 17)


def test_what_two_pages_write_about_one_entry_is_not_lost(browser: Any, page: Page, library: Server):
    other = Page(browser, library)
    for one in (page, other):
        one.page.goto(f"{library.root}/browse?q=title~%22run+7+%22")
        one.wait_for_rows(1)
        one.page.click("tbody input")
    other.page.fill("#note", "from the other page")
    other.page.click(".selection button:has-text('Save')")
    other.page.wait_for_selector("text=Saved.")
    page.page.fill("#note", "from this page")
    page.page.click(".selection button:has-text('Save')")
    page.page.wait_for_selector('.marks [role=alert]:has-text("changed meanwhile")')
    assert "from the other page" in page.text(".marks [role=alert]")
    page.page.click("text=Put both together")
    page.page.wait_for_selector("text=Saved.")
    assert page.page.input_value("#note") == "from the other page\nfrom this page"
    page.complaints = [one for one in page.complaints if "409" not in one]
    other.context.close()


def test_a_key_of_the_metadata_is_pinned_as_a_column(page: Page):
    find(page, "title~run", 120)
    for key in ("Escape", "Escape", "ArrowDown", "i"):
        page.page.keyboard.press(key)
    page.page.fill("#find-key", "release")
    page.page.click(".leaf button")
    page.page.wait_for_selector('thead:has-text("hosts.local.kernel.release")')
    page.page.wait_for_selector(".leaf button[aria-pressed=true]")
    page.page.fill("#find-key", "rmem")
    page.page.wait_for_selector('.leaf:has-text("119")')
    assert page.page.locator(".leaf button").count() == 0
    page.page.fill("#find-key", "")
    page.page.click('.branch > summary:has-text("batch")')
    page.page.click('.branch .branch > summary:has-text("variables")')
    page.page.wait_for_selector('.leaf:has-text("queue")')
    page.page.go_back()
    page.page.wait_for_selector(".details", state="hidden")


def test_a_store_is_shown_as_its_tables(page: Page):
    find(page, "kind=store", 1)
    page.page.click("tbody a.entry")
    page.page.wait_for_selector('.details tbody tr:has-text("ndt"):has-text("60")')
    page.page.click('.details button:has-text("ndt")')
    page.page.wait_for_selector('h3:has-text("rows 1 to 50 of 60")')
    page.page.click("text=Next rows")
    page.page.wait_for_selector('h3:has-text("rows 51 to 60 of 60")')
    assert page.page.locator('[aria-label="Rows of ndt"] tbody tr').count() == 10


def test_what_cannot_be_read_is_listed_with_the_reason_and_other_files_are_counted(page: Page):
    find(page, "problem:", 1)
    assert "broken.flent.gz" in page.text("tbody")
    page.page.wait_for_selector("text=1 other file of no known kind")
    find(page, "odd-name", 1)
    assert "2026" in page.text("tbody")


def test_what_is_chosen_is_one_file_to_hand_on(page: Page):
    find(page, "rtt=60ms run-006 or odd-name", 2)
    page.page.click('[aria-label="Choose all of this page"]')
    with page.page.expect_download() as waiting:
        page.page.click("text=Download as one file")
    names = zipfile.ZipFile(io.BytesIO(Path(waiting.value.path()).read_bytes())).namelist()
    assert sorted(names) == ["odd-name.bin", f"run-006.recording/{document.FILE_NAME}"]


def test_files_are_sent_together_and_each_says_what_became_of_it(page: Page, tmp_path: Path):
    for name in ("one.pcap.zst", "two.pcap.zst"):
        shutil.copy(EXAMPLES / "policed-download.pcap.zst", tmp_path / name)
    (tmp_path / "letter.txt").write_text("dear all")
    page.page.set_input_files(
        "#file", [str(tmp_path / name) for name in ("one.pcap.zst", "letter.txt", "two.pcap.zst")]
    )
    page.page.wait_for_selector("text=2 files kept, 1 refused.")
    assert "no capture and no recording" in page.text(".sending li:nth-child(2)")
    page.page.click(".sending button:has-text('Close')")
    page.page.wait_for_selector(".sending", state="hidden")
    find(page, "uploads", 2)
    page.complaints = [one for one in page.complaints if "415" not in one]


@pytest.mark.parametrize("width", [390, 1280])
def test_everything_open_fits_its_width_and_has_no_serious_barrier(browser: Any, library: Server, width: int):
    opened = Page(browser, library, width)
    opened.page.goto(f"{library.root}/browse?q=queue:cake&column=name&column=title&column=batch.variables.rtt")
    opened.wait_for_rows(60)
    opened.page.click("tbody tr:nth-child(1) input")
    opened.page.keyboard.press("i")
    opened.page.wait_for_selector(".leaf")
    opened.page.click("tbody tr:nth-child(2) input")
    opened.page.wait_for_selector(".differences tbody tr")
    opened.page.fill("#search", "queue:")
    opened.page.focus("#search")
    opened.page.keyboard.type("c")
    opened.page.wait_for_selector("#suggestions li")
    assert opened.serious() == []
    opened.page.keyboard.press("Escape")
    opened.page.click('summary:has-text("Columns")')
    assert opened.serious() == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    opened.context.close()


def test_what_is_chosen_is_in_the_address_and_chosen_again_by_it(page: Page):
    find(page, "rtt=60ms", 17)
    for row in (2, 4):
        page.page.click(f"tbody tr:nth-child({row}) input")
    page.page.wait_for_selector(".differences")
    address = page.page.url
    assert address.count("chosen=") == 2
    page.page.goto(f"{address}&chosen=0123456789abcdef")
    page.page.wait_for_selector('.selection h2:has-text("2 entries chosen")')
    page.page.wait_for_selector("tbody tr:nth-child(4) input:checked")
    page.page.keyboard.press("u")
    page.page.wait_for_selector(".selection", state="hidden")
    assert "chosen=" not in page.page.url
    page.complaints = [one for one in page.complaints if "404" not in one]


def test_a_menu_is_closed_by_escape_and_by_a_click_beside_it(page: Page):
    for close in (lambda: page.page.keyboard.press("Escape"), lambda: page.page.click("h1")):
        page.page.focus('summary:has-text("Views")')
        page.page.keyboard.press("Enter")
        page.page.wait_for_selector("#view-name")
        close()
        page.page.wait_for_selector("#view-name", state="hidden")

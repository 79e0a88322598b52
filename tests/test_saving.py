"""Tests of the files that the figures of a report become, without a server."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import whydrop
from in_browser import Opened

pytestmark = [pytest.mark.slow, pytest.mark.needs_browser]

CAPTURE = Path(__file__).parents[1] / "examples" / "policed-download.pcap.zst"


@pytest.fixture(scope="module")
def opened(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    report = tmp_path_factory.mktemp("report") / "lossy download.html"
    whydrop.explain(CAPTURE).write_report(report)
    page = Opened(browser, report)
    page.page.wait_for_selector("#charts canvas")
    yield page
    assert page.trouble == []
    assert [one for one in page.requests if not one.startswith(("file:", "blob:"))] == []


def saved(opened: Opened, figure: str, words: str) -> tuple[str, bytes]:
    place = opened.page.locator(f"#figure-{figure}")
    place.locator("summary").click()
    with opened.page.expect_download() as waited:
        place.get_by_role("button", name=words, exact=True).click()
    return waited.value.suggested_filename, Path(waited.value.path()).read_bytes()


def test_a_picture_of_a_report_has_its_words_and_its_marks(opened: Opened):
    name, content = saved(opened, "time-sequence", "SVG")
    assert name == "lossy-download-time-sequence.svg"
    root = ElementTree.fromstring(content)
    words = [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]
    for expected in ("Data sent, acknowledged and lost", "lost packet", "Sequence number (MB)"):
        assert expected in words
    assert str(CAPTURE) in " ".join(words)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 10
    name, content = saved(opened, "time-sequence", "PNG")
    assert (name, content[:4]) == ("lossy-download-time-sequence.png", b"\x89PNG")


def test_the_numbers_of_a_report_are_those_of_the_capture(opened: Opened):
    _, content = saved(opened, "time-sequence", "CSV")
    rows = pl.read_csv(io.BytesIO(content), infer_schema_length=None)
    lost = whydrop.explain(CAPTURE).table("segments").filter(pl.col("fate") == "lost")
    assert rows.filter(pl.col("mark") == "lost packet").height == lost.height


def test_the_cell_of_a_report_runs(opened: Opened):
    name, content = saved(opened, "throughput", "Notebook cell (.py)")
    assert name == "lossy-download-throughput.py"
    exec(compile(content, "cell", "exec"), {})


def test_the_menu_works_by_keyboard(opened: Opened):
    summary = opened.page.locator("#figure-rtt summary")
    summary.focus()
    opened.page.keyboard.press("Enter")
    assert opened.page.locator("#figure-rtt .save").get_attribute("open") is not None
    opened.page.keyboard.press("Tab")
    assert opened.page.evaluate("document.activeElement.textContent") == "PNG"
    opened.page.keyboard.press("Escape")
    assert opened.page.locator("#figure-rtt .save").get_attribute("open") is None
    assert opened.page.evaluate("document.activeElement.tagName") == "SUMMARY"

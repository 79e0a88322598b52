"""The report of two captures: what stands in it, and what it shows in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from in_browser import DRAWN, Opened, has_colour
from plain_text import plain
from synthetic_pair import FLOW_AT_2, paired_transfer
from test_charts import AT_THE_SENDER
from test_report import HOSTILE, figures_in, parsed
from whydrop import Explanation
from whydrop.explaining.selection import only_flows
from whydrop.show import html, report
from whydrop.show.theme import STYLES

PATH = ["loss-burst", "transit", "transit-histogram", "clock"]
FLOW = ["crossings", "jitter", "models"]
LOSSES = {"loss-burst", "transit", "crossings", "models"}


@pytest.fixture(scope="module")
def pair() -> Explanation:
    return Explanation(paired_transfer())


@pytest.fixture(scope="module")
def written(pair: Explanation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pair.write_report(tmp_path_factory.mktemp("report") / "report.html")


def test_place_models_clocks_and_flows_stand_in_the_page(pair: Explanation):
    text = plain(parsed(report.of_explained(pair)).text)
    assert "Where: between capture 1 (near.pcap) and capture 2 (far.pcap)" in text
    assert "Queue of 60 kB draining at 9.40 Mbit/s" in text
    assert "none took more than 0.850 ms longer" in text
    assert "Capture 2's clock is 2.190 ms ahead of capture 1's" in text
    assert FLOW_AT_2 in text


def test_the_page_of_one_capture_has_no_part_about_two(synthetic: Explanation):
    text = report.of_explained(synthetic)
    assert 'id="pair"' not in text
    assert "pair" not in report.figures(synthetic, None)


def test_the_page_has_one_heading_and_tables_with_headers(pair: Explanation):
    elements = parsed(report.of_explained(pair))
    tags = [tag for tag, _ in elements.found]
    assert tags.count("h1") == 1
    assert tags.count("table") == tags.count("thead") >= 7
    assert all(attributes.get("scope") in ("col", "row") for tag, attributes in elements.found if tag == "th")


def test_strings_from_captures_are_text_and_never_markup():
    analysis = paired_transfer(packets=300, path=HOSTILE)
    document = analysis._document
    document["verdicts"][0] |= {"place": HOSTILE, "family": HOSTILE}
    document["verdicts"][0]["models"][1] |= {"title": HOSTILE, "why": HOSTILE}
    document["pair"]["flows"][0] |= {"flow_at_2": HOSTILE, "protocol": HOSTILE, "direction": HOSTILE}
    document["pair"]["unmatched"] = {HOSTILE: 1}
    elements = parsed(report.of_explained(Explanation(analysis)))
    assert not [tag for tag, _ in elements.found if tag in ("img", "svg")]
    assert len([tag for tag, _ in elements.found if tag == "script"]) == len(html.SCRIPTS) + 1


def test_a_flow_filter_leaves_its_packets_only(pair: Explanation):
    elements = parsed(report.of_explained(only_flows(pair, FLOW_AT_2)))
    assert "Flows between the captures" in elements.text


@pytest.mark.slow
def test_a_page_of_large_captures_stays_small_and_keeps_every_loss():
    found = Explanation(paired_transfer(packets=200_000))
    page = report.of_explained(found)
    assert len(page) < 5_500_000
    data = figures_in(page)
    figures = [*data["pair"][0]["figures"], *data["charts"][0]["figures"]]
    panels = [panel for figure in figures for panel in figure["panels"]]
    lost = [layer for panel in panels for layer in panel["layers"] if layer["name"] == "lost packet"]
    assert len(lost) >= 5
    assert all(layer["shown"] == layer["rows"] for layer in lost)


@pytest.mark.needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_in_a_browser_without_errors_or_requests(browser: Any, written: Path, scheme: str):
    opened = Opened(browser, written, scheme=scheme)
    drawn = opened.page.evaluate(DRAWN)
    assert list(drawn) == [*PATH, *FLOW, *(key for key in AT_THE_SENDER if not key.endswith("close-up"))]
    lost = STYLES["lost"].dark if scheme == "dark" else STYLES["lost"].light
    for key, colours in drawn.items():
        assert has_colour(colours, lost) or key not in LOSSES, key
        assert len(colours) > 3, key
    assert opened.trouble == []
    assert opened.requests == [written.as_uri()]


@pytest.mark.needs_browser
def test_panels_of_one_chart_stand_beside_each_other_and_on_a_phone_below(browser: Any, written: Path):
    tops = "[...document.querySelectorAll('#figure-models .panel')].map((panel) => Math.round(panel.offsetTop))"
    wide = Opened(browser, written).page.evaluate(tops)
    assert len(wide) == 4
    assert wide[0] == wide[1] < wide[2] == wide[3]
    phone = Opened(browser, written, width=400)
    narrow = phone.page.evaluate(tops)
    assert narrow == sorted(set(narrow))
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 400


@pytest.mark.needs_browser
def test_the_zoom_of_each_part_moves_its_own_charts_over_time(browser: Any, written: Path):
    opened = Opened(browser, written)
    before = opened.pictures()
    opened.page.click("#pair [data-zoom=focus]")
    assert opened.changed_once(before, {"transit", "clock"}.__le__) == {"transit", "clock"}
    opened.page.click("#pair [data-zoom=all]")
    opened.page.click("#charts [data-zoom=focus]")
    opened.page.mouse.move(0, 0)
    of_charts = {"crossings", "models", "rtt"}
    moved = opened.changed_once(before, lambda found: of_charts <= found and found.isdisjoint(PATH))
    assert of_charts <= moved
    assert moved.isdisjoint(PATH)
    assert opened.trouble == []


@pytest.mark.needs_browser
def test_the_cursor_shows_when_a_packet_left_and_how_long_it_took(browser: Any, written: Path):
    opened = Opened(browser, written)
    plot = opened.page.locator("#figure-loss-burst .u-over")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    opened.page.mouse.move(box["x"] + box["width"] * 0.85, box["y"] + box["height"] * 0.5)
    words = opened.page.inner_text("#figure-loss-burst .tip")
    assert words.startswith("packet that arrived: at ")
    assert " ms, for 0." in words

"""The report: what stands in it, and what it shows in a browser."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from in_browser import DRAWN, Opened, has_colour
from plain_text import plain
from synthetic import FLOW, policed_transfer
from test_charts import AT_THE_SENDER
from whydrop import Explanation
from whydrop.show import charts, html, report
from whydrop.text.phrases import capital

HOSTILE = '<script>document.title="owned"</script>"><img src=http://192.0.2.1/x>.pcap'
HOSTILE_FLOW = '</script><svg onload=document.title="owned">:1 > b:2'


class Elements(HTMLParser):
    """Collects elements and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def figures_in(page: str) -> dict[str, Any]:
    """The figures of each part as the page holds them, for its script."""
    [text] = re.findall(r'<script[^>]* id="chart-data"[^>]*>(.*?)</script>', page, re.DOTALL)
    parts: dict[str, Any] = json.loads(text)["parts"]
    return parts


def parsed(page: str) -> Elements:
    elements = Elements()
    elements.feed(page)
    return elements


def test_the_page_refers_to_nothing_outside_of_itself(synthetic: Explanation):
    elements = parsed(report.of_explained(synthetic))
    for tag, attributes in elements.found:
        assert "src" not in attributes, tag
        assert not (attributes.get("href") or "data:,").startswith(("http", "//", "/")), tag
    assert "@import" not in report.of_explained(synthetic)
    policy = [attributes for tag, attributes in elements.found if attributes.get("http-equiv")]
    assert "default-src 'none'" in (policy[0]["content"] or "")


def test_strings_from_captures_are_text_and_never_markup():
    found = Explanation(policed_transfer(packets=300, path=HOSTILE, flow=HOSTILE_FLOW))
    text = report.of_explained(found)
    elements = parsed(text)
    assert not [tag for tag, _ in elements.found if tag in ("img", "svg")]
    assert HOSTILE in elements.text
    scripts = [tag for tag, _ in elements.found if tag == "script"]
    assert len(scripts) == len(html.SCRIPTS) + 1
    assert HOSTILE_FLOW not in text


def test_control_characters_in_a_file_name_are_made_visible():
    found = Explanation(policed_transfer(packets=300, path="a\x1b[2J\u202epcap"))
    assert "\x1b" not in report.of_explained(found)
    assert "\u202e" not in report.of_explained(found)


def test_the_page_has_one_heading_and_tables_with_headers(synthetic: Explanation):
    elements = parsed(report.of_explained(synthetic))
    tags = [tag for tag, _ in elements.found]
    assert tags.count("h1") == 1
    assert tags.count("table") == tags.count("thead") >= 4
    assert all(attributes.get("scope") in ("col", "row") for tag, attributes in elements.found if tag == "th")


def test_verdict_evidence_runners_up_and_advice_stand_in_the_page(synthetic: Explanation):
    text = parsed(report.of_explained(synthetic)).text
    verdict = synthetic.verdicts[0]
    for line in (verdict.sentence, *verdict.evidence, *(runner_up.why for runner_up in verdict.against)):
        assert capital(line) in text
    assert "tc qdisc replace dev eth0 root fq maxrate 9500kbit" in text
    assert "9.90 to 10.1 Mbit/s" in plain(text)


@pytest.mark.slow
def test_a_page_of_a_large_capture_stays_small_and_keeps_every_loss():
    found = Explanation(policed_transfer(packets=400_000))
    page = report.of_explained(found)
    assert len(page) < 5_000_000
    data = figures_in(page)
    lost = [
        layer
        for figure in data["charts"][0]["figures"]
        for panel in figure["panels"]
        for layer in panel["layers"]
        if layer["rare"]
    ]
    assert lost
    assert all(layer["shown"] == layer["rows"] for layer in lost)


def test_a_flow_filter_chooses_the_connection_shown_first(synthetic: Explanation):
    assert report.figures(synthetic, ":443")["charts"].choices[0].name.startswith(FLOW)
    with pytest.raises(ValueError, match="no flow matches"):
        report.of_explained(synthetic, flow=":9")


@pytest.fixture(scope="module")
def written(synthetic: Explanation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write_report(tmp_path_factory.mktemp("report") / "report.html")


# Charts without a cross for each lost packet.
WITHOUT_LOSSES = {"arrivals", "burst", "gap-time", "interarrival"}


@pytest.mark.needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_in_a_browser_without_errors_or_requests(browser: Any, written: Path, scheme: str):
    from whydrop.show.theme import STYLES

    opened = Opened(browser, written, scheme=scheme)
    drawn = opened.page.evaluate(DRAWN)
    assert list(drawn) == [name for name in AT_THE_SENDER if not name.endswith("close-up")]
    lost = STYLES["lost"].dark if scheme == "dark" else STYLES["lost"].light
    for key, colours in drawn.items():
        if key not in WITHOUT_LOSSES:
            assert has_colour(colours, lost), key
        assert len(colours) > 3, key
    assert opened.trouble == []
    assert opened.requests == [written.as_uri()]


@pytest.mark.needs_browser
def test_a_hostile_capture_name_runs_no_script(browser: Any, tmp_path: Path):
    found = Explanation(policed_transfer(packets=300, path=HOSTILE, flow=HOSTILE_FLOW))
    opened = Opened(browser, found.write_report(tmp_path / "report.html"))
    assert "owned" not in opened.page.title()
    assert len(opened.requests) == 1
    assert HOSTILE_FLOW in opened.page.inner_text("#charts select")


@pytest.mark.needs_browser
def test_the_page_fits_a_phone(browser: Any, written: Path):
    opened = Opened(browser, written, width=400)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 400


OVER_TIME = {name for name in AT_THE_SENDER if name != "burst" and not name.endswith("close-up")}


@pytest.mark.needs_browser
def test_the_zoom_buttons_move_all_charts_over_time(browser: Any, written: Path):
    opened = Opened(browser, written)
    before = opened.pictures()
    opened.page.click("[data-zoom=focus]")
    assert opened.changed_once(before, OVER_TIME.__le__) == OVER_TIME
    opened.page.click("[data-zoom=all]")
    opened.page.mouse.move(0, 0)
    assert opened.changed_once(before, lambda found: not found) == set()
    assert opened.trouble == []


@pytest.mark.needs_browser
def test_a_drag_over_one_chart_zooms_all_over_time(browser: Any, written: Path):
    opened = Opened(browser, written)
    before = opened.pictures()
    plot = opened.page.locator("#figure-rtt .u-over")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    opened.page.mouse.move(box["x"] + 100, box["y"] + 100)
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + 300, box["y"] + 110, steps=5)
    opened.page.mouse.up()
    assert opened.changed_once(before, OVER_TIME.__le__) == OVER_TIME
    assert opened.trouble == []


@pytest.mark.needs_browser
def test_a_legend_entry_hides_its_marks(browser: Any, written: Path):
    opened = Opened(browser, written)
    entry = opened.page.locator("#figure-in-flight .legend button").first
    assert "lost packet" in entry.inner_text()
    before = opened.pictures()
    entry.click()
    assert opened.changed_once(before, {"in-flight"}.__le__) == {"in-flight"}
    assert entry.get_attribute("aria-pressed") == "false"
    assert not has_colour(opened.page.evaluate(DRAWN)["in-flight"], "#D55E00")


@pytest.mark.needs_browser
def test_the_cursor_names_the_lost_packet_that_it_is_near(browser: Any, written: Path, synthetic: Explanation):
    figure = charts.figure(synthetic, "time-sequence", 0)
    (panel,) = figure.panels
    lost = next(layer.data for layer in panel.layers if layer.name == "lost packet")
    t, value = lost.row(-1)
    (x_low, x_high), (_, y_high) = panel.x_ends(), panel.y_ends()
    opened = Opened(browser, written)
    plot = opened.page.locator("#figure-time-sequence .u-over")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    across = (t - x_low) / (x_high - x_low)
    opened.page.mouse.move(box["x"] + across * box["width"], box["y"] + (1 - value / y_high) * box["height"])
    assert opened.page.inner_text("#figure-time-sequence .tip").startswith("lost packet: ")


def test_scripts_are_free_of_what_would_end_their_element():
    for name in html.SCRIPTS:
        assert not re.search(r"</script", html.asset(name), re.IGNORECASE), name

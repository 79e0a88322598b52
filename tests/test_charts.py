"""Charts: their data, and the pictures of them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
import zlib
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from plain_text import plain
from synthetic import BURST_BYTES, FLOW, RATE_BPS, Synthetic, policed_transfer, simulate
from whydrop import Explanation
from whydrop.show import charts
from whydrop.show.charts.scene import Scene
from whydrop.show.figure import Figure, Layer, NothingToDraw, Panel

AT_THE_SENDER = [name for name in charts.CHARTS if name != "ack-delay"]


def figure(found: Explanation, name: str) -> Figure:
    return charts.figure(found, name, 0)


def layer_data(drawn: Figure | Panel, name: str) -> pl.DataFrame:
    panel = drawn.panels[0] if isinstance(drawn, Figure) else drawn
    return next(layer.data for layer in panel.layers if plain(layer.name) == name)


def look(layer: Layer) -> tuple[object, ...]:
    """The look of a layer in black and white."""
    return layer.mark, layer.style.shape if layer.mark == "points" else layer.style.dash


def test_every_chart_can_be_drawn_of_a_policed_transfer(synthetic: Explanation):
    assert [figure.key for figure in charts.figures(synthetic, 0)] == AT_THE_SENDER


def test_every_chart_has_a_title_axes_with_units_and_a_line_for_newcomers(synthetic: Explanation):
    for one in charts.figures(synthetic, 0):
        assert one.title, one.key
        assert "(" in one.panels[0].x.title, one.key
        assert "(" in one.panels[0].y.title, one.key
        assert len(one.see) > 60, one.key
        assert one.see.endswith("."), one.key


def test_layers_that_stand_beside_each_other_differ_without_colour(synthetic: Explanation):
    for one in charts.figures(synthetic, 0):
        looks = [look(layer) for layer in one.panels[0].layers]
        assert len(looks) == len(set(looks)), one.key


def test_time_sequence_marks_each_lost_packet_where_it_was_sent(synthetic: Explanation):
    segments = synthetic.table("segments")
    lost = segments.filter(pl.col("fate") == "lost")
    drawn = layer_data(figure(synthetic, "time-sequence"), "lost packet")
    assert drawn.height == lost.height
    first = (lost["time_ns"][0] - segments["time_ns"][0]) / 1e9
    assert drawn["x"][0] == pytest.approx(first)


def test_the_replayed_bucket_never_leaves_its_size(synthetic: Explanation):
    one = figure(synthetic, "model")
    level = layer_data(one, "tokens in the bucket")["y"]
    assert level.max() == pytest.approx(BURST_BYTES / 1e3)
    assert level.min() >= 0  # type: ignore[operator]
    assert "bucket" in one.title


def test_throughput_adds_up_to_the_bytes_sent_in_whole_windows(synthetic: Explanation):
    sent = layer_data(figure(synthetic, "throughput"), "sent (IP bytes)")
    window = sent["x"][1] - sent["x"][0]
    segments = synthetic.table("segments")
    elapsed = (segments["time_ns"] - segments["time_ns"][0]) / 1e9
    whole = segments.filter(elapsed < window * sent.height)["ip_bytes"].sum()
    assert sent["y"].sum() * 1e6 * window / 8 == pytest.approx(whole)
    assert whole > 0.97 * segments["ip_bytes"].sum()


def test_what_limited_the_sender_has_a_lane_for_each_limiter_by_its_share(synthetic: Explanation):
    one = figure(synthetic, "limits")
    assert plain(one.panels[0].y.words) == ((0.0, "slow start 10 %"), (1.0, "congestion window 90 %"))
    bars = layer_data(one, "limited by")
    assert bars["y"].to_list() == [0.0, 1.0]
    assert bars["x2"][0] == pytest.approx(bars["x"][1])


def test_without_acknowledgments_nothing_shows_what_limited_the_sender(synthetic: Explanation):
    scene = Scene.of(synthetic, 0)
    with pytest.raises(NothingToDraw):
        charts.CHARTS["limits"](replace(scene, flow=replace(scene.flow, limits=None)))


def test_throughput_shows_the_fitted_rate(synthetic: Explanation):
    rule = layer_data(figure(synthetic, "throughput"), "fitted policer rate: 10.0 Mbit/s")
    assert rule["y"].to_list() == [RATE_BPS / 1e6]


def test_the_close_up_holds_the_moment_with_most_losses(synthetic: Explanation):
    close_up = layer_data(figure(synthetic, "close-up"), "lost packet")
    whole = layer_data(figure(synthetic, "time-sequence"), "lost packet")
    assert close_up.height > whole.height / 2
    assert close_up["x"].max() - close_up["x"].min() < 0.5  # type: ignore[operator]


def test_a_chart_without_anything_to_draw_says_why():
    found = Explanation(policed_transfer(packets=30))
    with pytest.raises(NothingToDraw, match="nothing was lost"):
        figure(found, "burst")


def test_a_flow_without_a_captured_packet_has_no_charts(synthetic: Explanation):
    run = simulate(1)
    run.segments.clear()
    run.acks.clear()
    run.model.clear()
    found = Explanation(Synthetic(run, synthetic.document))
    assert charts.figures(found, 0) == []


def test_an_unknown_chart_is_refused_with_the_names_there_are(synthetic: Explanation):
    with pytest.raises(KeyError, match="time-sequence"):
        synthetic.chart("pie")


def test_an_unknown_format_is_refused_with_the_formats_there_are(synthetic: Explanation, tmp_path: Path):
    with pytest.raises(ValueError, match="png, svg, pdf"):
        synthetic.write_charts(tmp_path, "gif")


@pytest.mark.slow
def test_png_pictures_are_whole_and_not_blank(synthetic: Explanation, tmp_path: Path):
    written = synthetic.write_charts(tmp_path / "new", "png")
    assert [path.stem for path in written] == AT_THE_SENDER
    for path in written:
        width, height, pixels = decode_png(path.read_bytes())
        assert width >= 1800, path.name
        assert height >= 800, path.name
        assert len(set(pixels[:: 997 * 4])) > 2, path.name


@pytest.mark.slow
def test_svg_pictures_are_well_formed_and_name_the_flow(synthetic: Explanation, tmp_path: Path):
    for path in synthetic.write_charts(tmp_path, "svg"):
        text = path.read_text(encoding="utf-8")
        assert ET.fromstring(text).tag.endswith("svg")
        assert FLOW.replace(">", "&gt;") in text, path.name


@pytest.mark.slow
def test_pdf_pictures_are_whole(synthetic: Explanation, tmp_path: Path):
    for path in synthetic.write_charts(tmp_path, "pdf"):
        content = path.read_bytes()
        assert content.startswith(b"%PDF-"), path.name
        assert content.rstrip().endswith(b"%%EOF"), path.name


@pytest.mark.slow
def test_a_very_long_flow_name_is_whole_and_makes_the_picture_no_wider(tmp_path: Path):
    name = f"[2001:db8:{'f' * 60}::1]:443 > [2001:db8:{'e' * 60}::2]:50000"
    found = Explanation(policed_transfer(packets=400, flow=name))
    seen = ET.fromstring(found.write_charts(tmp_path, "svg")[0].read_text(encoding="utf-8"))
    assert name.replace(" ", "") in "".join(seen.itertext()).replace(" ", "")
    assert float(seen.attrib["width"]) < 1050


def decode_png(content: bytes) -> tuple[int, int, bytes]:
    """Width, height and the raw (still filtered) bytes of a PNG; fails where a chunk is damaged."""
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    position, size, data = 8, (0, 0), b""
    while position < len(content):
        length = int.from_bytes(content[position : position + 4], "big")
        kind = content[position + 4 : position + 8]
        body = content[position + 8 : position + 8 + length]
        checksum = int.from_bytes(content[position + 8 + length : position + 12 + length], "big")
        assert zlib.crc32(kind + body) == checksum
        if kind == b"IHDR":
            size = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big")
        elif kind == b"IDAT":
            data += body
        position += 12 + length
    return *size, zlib.decompress(data)

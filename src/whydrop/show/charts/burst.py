"""Where in a burst the losses fall: after how many bytes sent back to back.

A sender that never pauses has no bursts; then the same question is asked of the round-trip time before each packet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from whydrop.show.charts.scene import Scene, byte_unit, layer, present
from whydrop.show.figure import Axis, Figure, NothingToDraw, Panel
from whydrop.text import quantities

_BARS = 40
# Packets closer together than this share of the round trip belong to one burst, as in a window sent at once.
_GAP_OF_RTT = 0.25
_SHORTEST_GAP_S = 0.001
# Where one burst holds more than this share of the packets, the sender as good as never pauses.
_LARGEST_BURST = 0.25
# The share lost of fewer packets than this is chance.
_FEWEST_PACKETS = 10

_COLUMNS = ("x", "x2", "y", "y2")


@dataclass(frozen=True)
class _Places:
    """``place``: bytes sent before each packet; ``lost``: whether it was."""

    rows: pl.DataFrame
    title: str
    axis: str
    see: str


def figure(scene: Scene) -> Figure:
    """Draw the share of packets lost by what was sent just before them."""
    scene.need_segments()
    if scene.lost.is_empty():
        raise NothingToDraw(f"{scene.flow.flow}: nothing was lost")
    rtt_s = scene.flow.rtt_min_s or 0.0
    places = _in_bursts(scene.segments, max(rtt_s * _GAP_OF_RTT, _SHORTEST_GAP_S))
    if places is None:
        places = _in_round_trip(scene.segments, max(rtt_s, _SHORTEST_GAP_S))
    bars = _bars(places.rows)
    largest = bars["x2"].max()
    scale, unit = byte_unit(float(largest) if isinstance(largest, float) else 0.0)
    bars = bars.with_columns(pl.col("x", "x2") / scale)
    few = pl.col("sent") < _FEWEST_PACKETS
    layers = [
        layer(f"of fewer than {_FEWEST_PACKETS} packets", "few-bar", "bars", bars.filter(few).select(_COLUMNS)),
        layer("share of packets lost", "lost-bar", "bars", bars.filter(~few).select(_COLUMNS)),
    ]
    return Figure(
        "burst",
        places.title,
        scene.flow.flow,
        (
            Panel(
                Axis(places.axis.format(unit=unit)),
                Axis("Packets lost (% of sent)", from_zero="always"),
                present(layers),
            ),
        ),
        see=places.see if bars.filter(few).is_empty() else f"{places.see} Pale bars are based on few packets.",
    )


def _in_bursts(segments: pl.DataFrame, gap_s: float) -> _Places | None:
    """Bytes sent before each packet in its burst; ``None`` where the sender hardly pauses."""
    burst = (pl.col("t").diff().fill_null(math.inf) > gap_s).cum_sum()
    numbered = segments.with_columns(burst=burst)
    largest = numbered["burst"].value_counts()["count"].max()
    if isinstance(largest, int) and largest > _LARGEST_BURST * numbered.height:
        return None
    before = (_bytes().cum_sum() - _bytes()).over("burst")
    return _Places(
        numbered.select(place=before, lost=pl.col("fate") == "lost"),
        title="Where in a burst packets were lost",
        axis=f"Sent before in the same burst ({{unit}}; a pause of {quantities.duration(gap_s)} ends a burst)",
        see="Packets are sent in bursts. Each bar covers packets at one place in their burst, counted in bytes sent "
        "before them, and shows how many of them were lost. A policer spares the start of a burst and drops what "
        "follows once its bucket is empty; a bad link drops anywhere.",
    )


def _in_round_trip(segments: pl.DataFrame, rtt_s: float) -> _Places:
    """Bytes sent in the round-trip time before each packet."""
    total = segments.select("t", total=_bytes().cum_sum(), own=_bytes(), lost=pl.col("fate") == "lost")
    start = total.select(t=pl.col("t") - rtt_s)
    until = start.join_asof(total.select("t", "total"), on="t")["total"].fill_null(0)
    rows = total.select(place=pl.col("total") - pl.col("own") - until, lost="lost")
    return _Places(
        rows.with_columns(pl.col("place").clip(0)),
        title="How much was sent just before packets were lost",
        axis=f"Sent in the round-trip time ({quantities.duration(rtt_s)}) before the packet ({{unit}})",
        see="Each bar covers packets that followed the same amount of data within one round-trip time, and shows how "
        "many of them were lost. Losses only at the right: an element of the path takes no more than that at once. "
        "Losses everywhere: a bad link.",
    )


def _bytes() -> pl.Expr:
    return pl.col("ip_bytes").cast(pl.Int64)


def _bars(placed: pl.DataFrame) -> pl.DataFrame:
    """Equal bins up to the largest place; the share lost in each, in per cent."""
    last = placed["place"].max()
    width = max((float(last) + 1 if isinstance(last, int) else 1.0) / _BARS, 1.0)
    bins = placed.group_by((pl.col("place") / width).floor().alias("bin")).agg(lost=pl.col("lost").sum(), sent=pl.len())
    return bins.sort("bin").select(
        x=pl.col("bin") * width,
        x2=(pl.col("bin") + 1) * width,
        y=pl.col("lost") / pl.col("sent") * 100,
        y2=0.0,
        sent=pl.col("sent"),
    )

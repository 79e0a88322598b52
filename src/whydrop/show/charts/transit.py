"""Transit times between two captures, over time and by how often; and the clocks that they rest on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import polars as pl

from whydrop.show import pair_words
from whydrop.show.charts.pair_scene import DIRECTIONS, TIME_TITLE, Direction, PairScene, lost, matched
from whydrop.show.charts.scene import as_float, layer, marks, present, readable, rule
from whydrop.show.figure import Axis, Figure, Layer, NothingToDraw, Panel, padded, span
from whydrop.text import quantities
from whydrop.text.phrases import capital

SEE_CLOCK = (
    "Each mark is one packet: its time by the second clock minus its time by the first. Transit times move packets of "
    "one direction above the true difference of the clocks and packets of the other direction below it; the fastest "
    "packets are nearest to it. The line is the estimated difference, from which all transit times are computed. In "
    "the lower panel the line is subtracted: if the estimate is right, the fastest packets stay on one level."
)

# Shown below: so many times what this share of the packets takes, for the fit rests on the fastest ones.
_AROUND = 2.0
_FAST = 0.1


@dataclass(frozen=True)
class _Clouds:
    """``t``, ``difference_ns`` (second clock less first), ``line_ns`` (fitted), for each direction and for both."""

    there: pl.DataFrame
    back: pl.DataFrame
    both: pl.DataFrame


def clock(scene: PairScene) -> Figure:
    """Draw the difference of the clocks with the fitted line, and below what is left without it."""
    clouds = _clouds(scene)
    title = capital(pair_words.clocks(scene.pair))
    return Figure("clock", title, scene.path, (_difference(scene, clouds), _residuals(scene, clouds)), see=SEE_CLOCK)


def _clouds(scene: PairScene) -> _Clouds:
    """Both directions. A transit is the difference less the fitted line, so the line is the difference less it.

    Not so of a transit of zero, which stands for one below it.
    """
    rows = matched(scene.rows).drop_nulls(["time_1_ns", "time_2_ns"])
    told = pl.col("transit_ns") > 0
    if rows.filter(told).is_empty():
        raise NothingToDraw("no packet was seen at both captures")
    sign = pl.when(pl.col("direction") == "2-to-1").then(-1).otherwise(1)
    difference = pl.col("time_2_ns") - pl.col("time_1_ns")
    line = pl.when(told).then(difference - sign * pl.col("transit_ns")).forward_fill().backward_fill()
    rows = rows.with_columns(difference_ns=difference, line_ns=line)
    there = rows["direction"] == "1-to-2"
    return _Clouds(rows.filter(there), rows.filter(~there), rows)


def _difference(scene: PairScene, clouds: _Clouds) -> Panel:
    base_ns = int(clouds.both["line_ns"][0])
    spread = clouds.both.select((pl.col("difference_ns") - base_ns).abs().max()).item()
    scale, unit = readable(spread, "ns")
    difference, line = ((pl.col(name) - base_ns) / scale for name in ("difference_ns", "line_ns"))
    beyond = f" beyond {quantities.clock(base_ns / 1e9)}" if base_ns else ""
    layers = [
        *_directions(scene, clouds, difference),
        marks("difference found", "fit", "line", clouds.both, line),
    ]
    return Panel(
        Axis(TIME_TITLE),
        Axis(f"Difference{beyond} ({unit})"),
        present(layers),
        zoom="time",
        title=f"{capital(scene.second)}'s clock less {scene.first}'s",
    )


def _residuals(scene: PairScene, clouds: _Clouds) -> Panel:
    low, high = _window_ns(scene, clouds)
    scale, unit = readable(max(-low, high), "ns")
    left = (pl.col("difference_ns") - pl.col("line_ns")) / scale
    found = rule("difference found", "fit", 0.0)
    rules = [rule(name, style, value * 1e9 / scale) for name, style, value in _bounds(scene)]
    return Panel(
        Axis(TIME_TITLE),
        Axis(f"Left over ({unit})", ends=(low / scale, high / scale)),
        (*present(_directions(scene, clouds, left)), found, *rules),
        zoom="time",
        title="The same less the difference found: the transit times, those back below zero",
    )


def _directions(scene: PairScene, clouds: _Clouds, y: pl.Expr) -> list[Layer]:
    return [
        marks(f"from {scene.first} to {scene.second}", "point-1", "points", clouds.there, y),
        marks(f"from {scene.second} to {scene.first}", "point-2", "points", clouds.back, y),
    ]


def _bounds(scene: PairScene) -> list[tuple[str, str, float]]:
    """Where the difference can lie at most, beside the one found."""
    pair = scene.pair
    found, low, high = pair.clock_offset_s, pair.clock_offset_low_s, pair.clock_offset_high_s
    if found is None or low is None or high is None:
        return []
    return [
        (f"{what}, for certain: {quantities.signed(quantities.duration, end - found)}", style, end - found)
        for what, style, end in (("at least", "fastest", low), ("at most", "slow", high))
    ]


def _window_ns(scene: PairScene, clouds: _Clouds) -> tuple[float, float]:
    """The range around the fastest packets and the bounds."""
    ends = [value * 1e9 for _, _, value in _bounds(scene)]
    for cloud, sign in ((clouds.there, 1.0), (clouds.back, -1.0)):
        if not cloud.is_empty():
            fastest, fast = (as_float(cloud["transit_ns"].quantile(share)) for share in (0.0, _FAST))
            ends += [sign * fastest, sign * (fastest + _AROUND * (fast - fastest))]
    low, high = min([*ends, 0.0]), max([*ends, 0.0])
    room = max((high - low) * 0.15, 1.0)
    return low - room, high + room


SEE = (
    "Each dot is the time that one packet took from one capture to the other. Dots that climb before losses (crosses, "
    "on the base line) show a queue that fills up; dots that stay on one level while packets are lost show that "
    "nothing queues, as with a policer. Triangles are packets that came after a pause."
)
SEE_HISTOGRAM = (
    "The number of packets for each transit time; each horizontal grid line is ten times the one below it. One narrow "
    "peak: the path delays all packets alike. A broad hill or a long tail to the right: packets are queued."
)

_BARS = 60
# Where the shortest time is more than so many times the variation, the axis begins near it, with some room below.
_FAR = 2.0
_ROOM = 0.2
# Where the logarithmic axis of counts begins, so that a bar of one packet is seen.
_FOOT = 0.5
# Beyond this ratio of the longest to the shortest time a linear axis would put all packets into one bar.
_LOG_FROM = 40.0


def transit(scene: PairScene) -> Figure:
    """Draw transit time against time, a panel for each direction."""
    drawn = [panel for direction in DIRECTIONS if (panel := _panel(scene, direction)) is not None]
    if not drawn:
        raise NothingToDraw("no packet was seen at both captures")
    last = span(layer.data["x"] for panel in drawn for layer in panel.layers if "x" in layer.data)[1]
    x = replace(drawn[0].x, ends=padded((0.0, last), 0.01))
    return Figure(
        key="transit",
        title=_title(scene),
        subtitle=scene.path,
        see=SEE,
        panels=tuple(replace(panel, x=x) for panel in drawn),
    )


def histogram(scene: PairScene) -> Figure:
    """Draw how many packets took how long, a panel for each direction."""
    drawn = [panel for direction in DIRECTIONS if (panel := _counts(scene, direction)) is not None]
    if not drawn:
        raise NothingToDraw("no packet was seen at both captures")
    return Figure(
        key="transit-histogram",
        title=_typical(scene),
        subtitle=scene.path,
        see=SEE_HISTOGRAM,
        panels=tuple(drawn),
        columns=len(drawn),
    )


def _panel(scene: PairScene, direction: Direction) -> Panel | None:
    going = scene.going(direction)
    both = matched(going)
    if both.is_empty():
        return None
    start, end = scene.ends(direction)
    scale, unit = readable(both["transit_ns"].max(), "ns")
    took = pl.col("transit_ns") / scale
    low, high = (as_float(end) / scale for end in (both["transit_ns"].min(), both["transit_ns"].max()))
    # Of a long path the variation would vanish if the axis began at zero.
    base = low - _ROOM * (high - low) if low > _FAR * (high - low) > 0 else min(0.0, low)
    gap = scene.pair.after_gap
    paused = pl.col("gap_ns") >= (math.inf if gap is None or gap.direction != direction else gap.gap_s * 1e9)
    layers = [
        marks("transit time of a packet", "segment", "points", both, took),
        rule("shortest", "limit", low),
        marks(_after_gap(scene), "after-gap", "points", both.filter(paused), took),
        marks("marked between the captures (CE)", "marked", "points", both.filter("ce_set"), took, rare=True),
        marks("lost packet", "lost", "points", lost(going), pl.lit(base), rare=True),
    ]
    return Panel(
        Axis(TIME_TITLE),
        Axis(f"Transit time ({unit})", ends=(base, high + max(0.05 * (high - base), 1e-9))),
        present(layers),
        zoom="time",
        title=f"From {start} to {end}",
    )


def _after_gap(scene: PairScene) -> str:
    gap = scene.pair.after_gap
    return "after a pause" if gap is None else f"after a pause of {quantities.duration(gap.gap_s)} or more"


def _title(scene: PairScene) -> str:
    """A sentence on the main direction."""
    direction = _main(scene)
    start, end = scene.ends(direction)
    took = scene.transit(direction)
    gone = scene.pair.lost_1_to_2 if direction == "1-to-2" else scene.pair.lost_2_to_1
    losses = f"{quantities.count(gone) if gone else 'none'} {'were' if gone > 1 else 'was'} lost"
    if took is None:
        return f"Transit time between {scene.first} and {scene.second}; {losses}"
    took_s = quantities.interval(quantities.duration, took.min, took.max)
    return f"From {start} to {end} packets took {took_s}; {losses}"


def _typical(scene: PairScene) -> str:
    direction = _main(scene)
    start, end = scene.ends(direction)
    took = scene.transit(direction)
    if took is None:
        return "How long packets took"
    return (
        f"From {start} to {end} half of the packets took no more than {quantities.duration(took.p50)}, "
        f"99 % no more than {quantities.duration(took.p99)}"
    )


def _main(scene: PairScene) -> Direction:
    """The direction that a title speaks of: the one with losses, else the one with more data."""
    if scene.pair.lost:
        return scene.lossy
    sent = {direction: scene.going(direction)["ip_bytes"].sum() for direction in DIRECTIONS}
    return max(DIRECTIONS, key=lambda direction: sent[direction])


def _counts(scene: PairScene, direction: Direction) -> Panel | None:
    both = matched(scene.going(direction))
    if both.is_empty():
        return None
    start, end = scene.ends(direction)
    scale, unit = readable(both["transit_ns"].max(), "ns")
    times = both["transit_ns"] / scale
    shortest, longest = as_float(times.min()), as_float(times.max())
    log = longest > _LOG_FROM * shortest > 0
    bars = _bars(times, log)
    top = as_float(bars["y"].max()) * 1.6
    lines = [
        ("fastest", "fastest", shortest),
        ("median", "median", as_float(times.quantile(0.5))),
        ("99 % took no longer", "slow", as_float(times.quantile(0.99))),
    ]
    layers = [layer("packets", "count-bar", "bars", bars)]
    for name, style, x in lines:
        upright = pl.DataFrame({"x": [x], "y": [_FOOT], "x2": [x], "y2": [top]})
        layers.append(layer(f"{name}: {quantities.duration(x * scale / 1e9)}", style, "slants", upright))
    return Panel(
        Axis(f"Transit time ({unit})", scale="log" if log else "linear"),
        Axis("Packets (count)", ends=(_FOOT, top), scale="log"),
        tuple(layers),
        title=f"From {start} to {end}",
    )


def _bars(times: pl.Series, log: bool) -> pl.DataFrame:
    """Equal bins (of the logarithm, where the axis is one) with the number of packets in each."""
    values = times.log() if log else times
    low, high = as_float(values.min()), as_float(values.max())
    width = max((high - low) / _BARS, abs(high) * 1e-6, 1e-9)
    bins = ((values - low) / width).floor().clip(0, _BARS - 1).rename("bin")
    counted = bins.value_counts(name="y").sort("bin")
    edges = counted.select(
        x=low + pl.col("bin") * width, x2=low + (pl.col("bin") + 1) * width, y=pl.col("y").cast(pl.Float64), y2=_FOOT
    )
    return edges.with_columns(pl.col("x", "x2").exp()) if log else edges

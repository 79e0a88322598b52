"""One-way transit between the captures: over time, and how often which time was taken."""

from __future__ import annotations

import math
from dataclasses import replace

import polars as pl

from whydrop.show.charts.pair_scene import DIRECTIONS, TIME_TITLE, Direction, PairScene, lost, matched
from whydrop.show.charts.scene import as_float, layer, points, present, rule
from whydrop.show.figure import Axis, Figure, NothingToDraw, Panel, padded, span
from whydrop.text import quantities

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


def figure(scene: PairScene) -> Figure:
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


def time_unit(largest_s: float) -> tuple[float, str]:
    """Nanoseconds in the unit in which times up to ``largest_s`` read well, and the unit."""
    for scale, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if largest_s * 1e9 >= 2 * scale:
            return scale, unit
    return 1.0, "ns"


def _panel(scene: PairScene, direction: Direction) -> Panel | None:
    going = scene.going(direction)
    both = matched(going)
    if both.is_empty():
        return None
    start, end = scene.ends(direction)
    scale, unit = time_unit(_longest(both) / 1e9)
    took = pl.col("transit_ns") / scale
    low, high = _shortest(both) / scale, _longest(both) / scale
    # Of a long path the variation would vanish if the axis began at zero.
    base = low - _ROOM * (high - low) if low > _FAR * (high - low) > 0 else min(0.0, low)
    gap = scene.pair.after_gap
    paused = pl.col("gap_ns") >= (math.inf if gap is None or gap.direction != direction else gap.gap_s * 1e9)
    layers = [
        layer("transit time of a packet", "segment", "points", points(both, pl.col("t"), took)),
        rule("shortest", "limit", low),
        layer(_after_gap(scene), "after-gap", "points", points(both.filter(paused), pl.col("t"), took)),
        layer(
            "marked between the captures (CE)", "marked", "points",
            points(both.filter(pl.col("ce_set")), pl.col("t"), took), rare=True,
        ),
        layer("lost packet", "lost", "points", points(lost(going), pl.col("t"), pl.lit(base)), rare=True),
    ]  # fmt: skip
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
    losses = "none was lost" if not gone else f"{quantities.count(gone)} {'was' if gone == 1 else 'were'} lost"
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
    scale, unit = time_unit(_longest(both) / 1e9)
    times = both["transit_ns"] / scale
    log = _shortest(both) > 0 and _longest(both) > _LOG_FROM * _shortest(both)
    bars = _bars(times, log)
    top = as_float(bars["y"].max()) * 1.6
    marks = [
        ("fastest", "fastest", as_float(times.min())),
        ("median", "median", as_float(times.quantile(0.5))),
        ("99 % took no longer", "slow", as_float(times.quantile(0.99))),
    ]
    layers = [
        layer("packets", "count-bar", "bars", bars),
        *(
            layer(f"{name}: {quantities.duration(x * scale / 1e9)}", style, "slants", _upright(x, top))
            for name, style, x in marks
        ),
    ]
    return Panel(
        Axis(f"Transit time ({unit})", scale="log" if log else "linear"),
        Axis("Packets (count)", ends=(_FOOT, top), scale="log"),
        tuple(layers),
        title=f"From {start} to {end}",
    )


def _upright(x: float, top: float) -> pl.DataFrame:
    return pl.DataFrame({"x": [x], "y": [_FOOT], "x2": [x], "y2": [top]})


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


def _longest(both: pl.DataFrame) -> float:
    return as_float(both["transit_ns"].max())


def _shortest(both: pl.DataFrame) -> float:
    return as_float(both["transit_ns"].min())

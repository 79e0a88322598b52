"""The two clocks: their difference as packets of both directions show it, and the line between."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from whydrop.show import pair_words
from whydrop.show.charts.pair_scene import TIME_TITLE, PairScene, matched
from whydrop.show.charts.scene import as_float, marks, present, readable, rule
from whydrop.show.figure import Axis, Figure, Layer, NothingToDraw, Panel
from whydrop.text import quantities
from whydrop.text.phrases import capital

SEE = (
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
    return Figure("clock", title, scene.path, (_difference(scene, clouds), _residuals(scene, clouds)), see=SEE)


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

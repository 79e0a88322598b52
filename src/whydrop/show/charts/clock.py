"""The two clocks: their difference as packets of both directions show it, and the line between."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from whydrop.show import pair_words
from whydrop.show.charts.pair_scene import TIME_TITLE, PairScene, matched
from whydrop.show.charts.scene import as_float, layer, points, present, rule
from whydrop.show.charts.transit import time_unit
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
    """``t``, ``difference_ns`` (second clock less first), ``line_ns`` (fitted), for each direction."""

    there: pl.DataFrame
    back: pl.DataFrame
    line: pl.DataFrame


def figure(scene: PairScene) -> Figure:
    """Draw the difference of the clocks with the fitted line, and below what is left without it."""
    clouds = _clouds(scene)
    return Figure(
        key="clock",
        title=capital(pair_words.clocks(scene.pair)),
        subtitle=scene.path,
        see=SEE,
        panels=(_difference(scene, clouds), _residuals(scene, clouds)),
    )


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
    return _Clouds(
        there=rows.filter(pl.col("direction") == "1-to-2"),
        back=rows.filter(pl.col("direction") == "2-to-1"),
        line=rows,
    )


def _difference(scene: PairScene, clouds: _Clouds) -> Panel:
    base_ns = int(clouds.line["line_ns"][0])
    spread = clouds.line.select((pl.col("difference_ns") - base_ns).abs().max()).item()
    scale, unit = time_unit(as_float(spread) / 1e9)

    def above(column: str) -> pl.Expr:
        return (pl.col(column) - base_ns) / scale

    layers = [
        *_directions(scene, clouds, above("difference_ns")),
        layer("difference found", "fit", "line", points(clouds.line, pl.col("t"), above("line_ns"))),
    ]
    return Panel(
        Axis(TIME_TITLE),
        Axis(f"Difference beyond {_base(base_ns)} ({unit})" if base_ns else f"Difference ({unit})"),
        present(layers),
        zoom="time",
        title=f"{scene.second.capitalize()}'s clock less {scene.first}'s",
    )


def _base(base_ns: int) -> str:
    """The difference at the start with all its digits: of an hour, the microseconds count."""
    if abs(base_ns) < 1_000_000_000:
        return quantities.duration(base_ns / 1e9)
    return f"{base_ns / 1e9:.6f} s"


def _residuals(scene: PairScene, clouds: _Clouds) -> Panel:
    left = pl.col("difference_ns") - pl.col("line_ns")
    low, high = _window_ns(scene, clouds)
    scale, unit = time_unit(max(-low, high) / 1e9)
    found = rule("difference found", "fit", 0.0)
    rules = [rule(name, style, value * 1e9 / scale) for name, style, value in _bounds(scene)]
    return Panel(
        Axis(TIME_TITLE),
        Axis(f"Left over ({unit})", ends=(low / scale, high / scale)),
        (*present(_directions(scene, clouds, left / scale)), found, *rules),
        zoom="time",
        title="The same less the difference found: the transit times, those back below zero",
    )


def _directions(scene: PairScene, clouds: _Clouds, y: pl.Expr) -> list[Layer]:
    return [
        layer(f"from {scene.first} to {scene.second}", "point-1", "points", points(clouds.there, pl.col("t"), y)),
        layer(f"from {scene.second} to {scene.first}", "point-2", "points", points(clouds.back, pl.col("t"), y)),
    ]


def _bounds(scene: PairScene) -> list[tuple[str, str, float]]:
    """Where the difference can lie at most, beside the one found."""
    pair = scene.pair
    found, low, high = pair.clock_offset_s, pair.clock_offset_low_s, pair.clock_offset_high_s
    if found is None or low is None or high is None:
        return []
    return [
        (f"at least, for certain: {_signed(low - found)}", "fastest", low - found),
        (f"at most, for certain: {_signed(high - found)}", "slow", high - found),
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


def _signed(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '−'}{quantities.duration(abs(seconds))}"

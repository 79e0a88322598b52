"""Layers of plots: by series and recording, in the colours and dashes of a palette."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import polars as pl

from whydrop.show import figure
from whydrop.show.figure import Axis, Counts, Ends, Layer, Panel
from whydrop.show.theme import COLOURS, CYCLE, DASHES, Shape, Style, cycled

# As the numbers of a plot call them; the figure's own are fewer.
Mark = Literal["line", "points", "crosses", "ticks", "spans", "bars", "cells", "outline", "text", "band"]
Of = tuple[str, str, str]
Weight = Literal["pale", "normal", "heavy"]

# The colour of ink: for what summarises the others.
INK = -1

_EVENTS: tuple[Shape, ...] = ("triangle-up", "triangle-down", "cross")
_WIDTHS = {"pale": 1.0, "normal": 1.4, "heavy": 2.6}
_OPACITIES = {"pale": 0.35, "normal": 0.9, "heavy": 1.0}
_DOT, _LARGE_DOT, _EVENT = 3.7, 5.9, 6.8


def trace(
    label: str,
    of: Of,
    mark: Mark,
    data: pl.DataFrame,
    colour: int = 0,
    dash: int = 0,
    weight: Weight = "normal",
    *,
    rare: bool = False,
    helper: bool = False,
) -> Layer:
    """Marks of one series of one recording.

    Args:
        label: in the legend; empty: not there.
        of: the series, the recording or group, and the units of what it shows, for the numbers.
        mark: what is drawn; spans and bars reach to ``x2`` or ``y2`` where they have them.
        data: in plain units.
        colour: a place in the palette, or ``INK``; of crosses the shape.
        dash: a place among the dashes.
        weight: of lines.
        rare: never thinned, and drawn on top.
        helper: repeats numbers that another trace has.
    """
    drawn = _drawn(mark)
    if mark in ("spans", "ticks") and "x2" in data.columns:
        drawn, data = "slants", data.with_columns(y2="y")
    series, recording, units = of
    numbers_of = {"recording": recording, "series": series, "units": units, "mark": mark}
    return Layer(label, _style(mark, colour, dash, weight, rare), drawn, data, rare, of=numbers_of, helper=helper)


def _drawn(mark: Mark) -> figure.Mark:
    match mark:
        case "crosses":
            return "points"
        case "ticks":
            return "spans"
        case "cells":
            return "bars"
        case _:
            return mark


def _style(mark: Mark, colour: int, dash: int, weight: Weight, rare: bool) -> Style:
    light, dark = COLOURS["ink"] if colour == INK else cycled(colour)
    match mark:
        case "crosses":
            return Style(*COLOURS["vermillion"], _EVENTS[colour % len(_EVENTS)], size=_EVENT, width=1.8)
        case "line" | "outline":
            # Where the colours begin again, the dashes differ.
            dashes = DASHES[(dash + max(0, colour) // len(CYCLE)) % len(DASHES)]
            return Style(light, dark, width=_WIDTHS[weight], dash=dashes, opacity=_OPACITIES[weight])
        case "ticks":
            return Style(light, dark, width=2.4, opacity=_OPACITIES[weight])
        case "bars" | "cells" | "band":
            return Style(light, dark, opacity=0.8)
        case _:
            size = _LARGE_DOT if rare or weight == "heavy" else _DOT
            return Style(light, dark, size=size, width=_WIDTHS[weight], opacity=_OPACITIES[weight])


def panel(
    title: str,
    x_title: str,
    y_title: str,
    traces: Sequence[Layer],
    *,
    x_ends: Ends | None = None,
    y_ends: Ends | None = None,
    x_log: bool = False,
    y_log: bool = False,
    x_time: bool = False,
    x_words: tuple[tuple[float, str], ...] = (),
    y_words: tuple[tuple[float, str], ...] = (),
    legend: str = "",
    left_out: Counts | None = None,
    notes: Sequence[str] = (),
) -> Panel:
    """One pair of axes; ``x_words`` and ``y_words`` are words at places of an axis of categories."""
    rows = {round(float(y), 6) for one in traces if not one.helper for y in one.data["y"]} if y_words else ()
    # What is on top comes first in the legend.
    order = sorted(traces, key=lambda one: (not one.rare, one.style.width != _WIDTHS["heavy"]))
    return Panel(
        Axis(x_title, scale="time" if x_time else "log" if x_log else "linear", ends=x_ends, words=x_words),
        Axis(
            y_title, scale="log" if y_log else "linear", ends=y_ends, words=y_words, rows=max(len(rows), len(y_words))
        ),
        tuple(traces),
        title=title,
        zoom="time" if x_time or x_title == TIME else "",
        legend=legend,
        order=tuple(dict.fromkeys(one.name for one in order)),
        left_out=left_out or Counts(),
        notes=tuple(notes),
    )


TIME = "Time (s)"

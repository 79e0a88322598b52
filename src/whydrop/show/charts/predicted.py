"""A prediction as a picture: what was recorded, one run that reproduces it, and one with the change."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from whydrop.explaining.predicting.course import Course
from whydrop.show.figure import Axis, Figure, Layer, Panel
from whydrop.show.theme import BLUE, COLOURS, GREY, SKY, VERMILLION, Style

_STYLES = {
    "recorded": ("recorded", Style(GREY, "#9aa4b2", width=2.6, opacity=0.75)),
    "reproduced": ("simulated", Style(BLUE, SKY, width=1.4, dash=(6, 3))),
    "changed": ("with the change", Style(VERMILLION, COLOURS["vermillion"][1], width=1.6)),
}
_PANELS = (
    ("goodput_bps", "Goodput", "Mbit/s", 1e-6),
    ("in_flight_bytes", "Data in flight", "kB", 1e-3),
    ("delay_s", "Queueing delay", "ms", 1e3),
)
SEE = (
    "Where the simulated line follows the recorded one, the model behaves as the connections did. Single moments "
    "differ: each line is one run, and where losses fall is partly chance. The predicted values are those of many runs."
)


def figure(courses: Sequence[Course], changes: Sequence[str]) -> Figure:
    """Goodput, data in flight and queueing delay over time, of all connections together."""
    panels = [_panel(courses, *panel) for panel in _PANELS]
    shown = tuple(panel for panel in panels if panel.layers)
    with_change = f", and with {', '.join(changes)}" if changes else ""
    return Figure(
        "prediction",
        f"Connections as recorded, as simulated{with_change}",
        "All connections together",
        shown,
        see=SEE,
        share="x",
        one_legend=True,
    )


def _panel(courses: Sequence[Course], name: str, title: str, unit: str, factor: float) -> Panel:
    layers = [
        Layer(*_STYLES[course.of], "line", data)
        for course in courses
        if not (data := course.rows.select(x="time_s", y=pl.col(name) * factor)).drop_nulls().is_empty()
    ]
    return Panel(
        Axis("Time since the first packet", "s"),
        Axis(title, unit, from_zero="always"),
        tuple(layers),
        title,
        zoom="time",
    )

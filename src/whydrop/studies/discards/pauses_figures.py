"""Pictures of pause frames beside tests: a point for each day of a site."""

from __future__ import annotations

import polars as pl

from whydrop.show.figure import Figure, Panel
from whydrop.show.plots.traces import panel, trace
from whydrop.studies.discards.document import site_name
from whydrop.studies.discards.pauses import Pauses
from whydrop.text.quantities import plural

# Sites of a picture: those with most days.
_MOST_SITES = 12
# From a column of days to a title, an axis and its factor.
_MEASURES = {
    "speeds": ("speed_bps", "Pause frames and speeds of downloads", "Median speed (Mbit/s)", 1e-6),
    "discards": ("discard_ratio", "Pause frames and discards", "Discard ratio (ppm)", 1e6),
}
_DIRECTIONS = {"rx_per_s": "received by the switch", "tx_per_s": "sent by the switch"}
_NOTE = (
    "Each point is a day. The table of correlations has the rank correlations with their intervals. They prove no "
    "cause: busy days bring both."
)


def figures(found: Pauses) -> dict[str, Figure]:
    """Those for which there are days with both values."""
    made = {}
    for name, (column, title, axis, factor) in _MEASURES.items():
        known = found.days.drop_nulls(column).filter(pl.any_horizontal(pl.col(*_DIRECTIONS).is_not_null()))
        sites = known.group_by("site", maintain_order=True).len().sort("len", descending=True, maintain_order=True)
        shown = sites.head(_MOST_SITES)
        if shown.is_empty():
            continue
        panels = [
            _panel(known.filter(pl.col("site").eq_missing(site)), site, axis, factor, column) for site in shown["site"]
        ]
        left_out = sites.height - shown.height
        subtitle = f"{plural(int(shown['len'].sum()), 'day')} of {plural(shown.height, 'site')}"
        more = [f"Not drawn: {plural(left_out, 'site')} with fewer days."] if left_out else []
        made[name] = Figure(name, title, subtitle, tuple(panels), 2, notes=(_NOTE, *more))
    return made


def _panel(days: pl.DataFrame, site: str | None, axis: str, factor: float, column: str) -> Panel:
    layers = []
    for number, (direction, words) in enumerate(_DIRECTIONS.items()):
        data = days.drop_nulls(direction).select(x=pl.col(direction), y=pl.col(column) * factor)
        if data.height:
            layers.append(trace(words, (site_name(site), direction, axis), "points", data, number))
    return panel(site_name(site), "Pause frames per second", axis, layers, legend="Pause frames")

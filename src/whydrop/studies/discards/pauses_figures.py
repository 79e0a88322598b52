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
        panels = _panels(found.days, column, axis, factor)
        if panels:
            days = plural(found.days[column].drop_nulls().len(), "day")
            made[name] = Figure(name, title, f"{days} of {plural(len(panels), 'site')}", panels, 2, notes=(_NOTE,))
    return made


def _panels(days: pl.DataFrame, column: str, axis: str, factor: float) -> tuple[Panel, ...]:
    known = days.drop_nulls(column)
    most = known.group_by("site", maintain_order=True).len().sort("len", descending=True, maintain_order=True)
    panels = []
    for site in most["site"][:_MOST_SITES].to_list():
        own = known.filter(pl.col("site").eq_missing(site))
        layers = []
        for number, (direction, words) in enumerate(_DIRECTIONS.items()):
            data = own.drop_nulls(direction).select("day", x=pl.col(direction), y=pl.col(column) * factor)
            if data.height:
                of = (site_name(site), direction, axis)
                layers.append(trace(words, of, "points", data.drop("day"), number))
        if layers:
            panels.append(panel(site_name(site), "Pause frames per second", axis, layers, legend="Pause frames"))
    return tuple(panels)

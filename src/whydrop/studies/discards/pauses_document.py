"""Pause frames beside tests as a document: the answer, correlations by site, and days."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from whydrop.show.document import Document, Items, Section, parts
from whydrop.studies.discards.document import ppm, site_name
from whydrop.studies.frame_tables import FrameColumn, pictures, table_of
from whydrop.text import quantities

if TYPE_CHECKING:
    from collections.abc import Mapping

    from whydrop.show.figure import Figure
    from whydrop.studies.discards.pauses import Pauses


_MEASURES = {"speed": "speeds", "discards": "discard ratios"}
_ELSEWHERE = "--json has all of them"


def _two_places(value: float) -> str:
    return f"{value:.2f}"


_CORRELATIONS = (
    FrameColumn("Site", ("site",), site_name),
    FrameColumn("Pause frames", ("direction",), str),
    FrameColumn("Measure", ("measure",), str),
    FrameColumn("Conclusion", ("conclusion",), str),
    FrameColumn("Correlation", ("rho",), _two_places),
    FrameColumn("95 % interval", ("low", "high"), _two_places, 1),
    FrameColumn("adjusted p", ("adjusted_p",), quantities.p_value, 2),
    FrameColumn("Days", ("days",), quantities.count, 3),
    FrameColumn("Independent days", ("effective_days",), quantities.significant, 4),
)
_DAYS = (
    FrameColumn("Site", ("site",), site_name),
    FrameColumn("Day", ("day",), str),
    FrameColumn("Received per s", ("rx_per_s",), quantities.significant),
    FrameColumn("Sent per s", ("tx_per_s",), quantities.significant),
    FrameColumn("Median speed", ("speed_bps",), quantities.rate),
    FrameColumn("Discard ratio", ("discard_ratio",), ppm),
)


def document(found: Pauses, figures: Mapping[str, Figure] | None = None) -> Document:
    """The comparison, with its pictures on a page."""
    if found.days.is_empty():
        return Document("Pause frames and tests", tuple(parts(Items.of(found.notes))))
    note = (
        "rx: pause frames that the switch received on the port; tx: that it sent. Spearman's rank correlation over "
        "days; higher or lower: the measure on days with more pause frames. This proves no cause: busy days bring both."
    )
    correlations = table_of(
        "Rank correlations over days", found.correlations, _CORRELATIONS, notes=[note], elsewhere=_ELSEWHERE
    )
    days = table_of("Days", found.days, _DAYS, elsewhere=_ELSEWHERE)
    shown = Section(_answer(found.correlations), parts(Items.of([*_unknown(found.correlations), *found.notes])))
    drawn = [pictures(figures, {})] if figures else []
    return Document("Pause frames and tests", (shown, *drawn, *parts(correlations, days)))


def _answer(correlations: pl.DataFrame) -> str:
    said = [
        f"{site_name(row['site'])}: {_MEASURES[row['measure']]} are {row['conclusion']} on days with more pause frames "
        f"{'received' if row['direction'] == 'rx' else 'sent'} by the switch"
        for row in correlations.filter(pl.col("conclusion").is_in(["higher", "lower"])).iter_rows(named=True)
    ]
    if said:
        return "; ".join(said[:4]) + (f"; and {len(said) - 4} more." if len(said) > 4 else ".")
    if (correlations["conclusion"] == "unknown").all():
        return "Whether pause frames go with slow downloads or discards is unknown."
    return "No site has a significant correlation of pause frames with speeds or discards."


def _unknown(correlations: pl.DataFrame) -> list[str]:
    unknown = correlations.filter(conclusion="unknown").group_by("why", maintain_order=True)
    said = []
    for (why,), rows in unknown:
        which = [
            f"{site_name(row['site'])} ({row['direction']}, {row['measure']})" for row in rows.iter_rows(named=True)
        ]
        more = f" and {len(which) - 6} more" if len(which) > 6 else ""
        said.append(f"Unknown, because {why}: {', '.join(which[:6])}{more}.")
    return said

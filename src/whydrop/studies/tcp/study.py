"""The study of TCP's own statistics, from a store's table to its conclusions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.studies.tcp import analysis
from whydrop.text.quantities import count

if TYPE_CHECKING:
    from whydrop.store.engines import Backend

# What is being done, how many steps are done, and how many there are.
Progress = Callable[[str, float, int], None]


@dataclass(frozen=True)
class Parameters:
    """The subject of a study.

    Attributes:
        first: UTC day; ``None``: from the first on.
        last: the last UTC day, included.
        sites: only these; none: all.
    """

    first: date | None = None
    last: date | None = None
    sites: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        days = [None if day is None else str(day) for day in (self.first, self.last)]
        return {"first": days[0], "last": days[1], "sites": list(self.sites)}


@dataclass(frozen=True)
class Results:
    """Results of the study.

    Attributes:
        parameters: what was chosen.
        tables: ``limits``, ``distributions``, ``days``, ``changes`` (see `analysis`).
        notes: what is to be known about it: sentences.
        facts: ``connections``, ``samples``, ``sites``, ``backend`` (the engine's name), ``first`` and ``last`` (days).
    """

    parameters: Parameters
    tables: dict[str, pl.DataFrame]
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def run(backend: Backend, parameters: Parameters, progress: Progress | None = None) -> Results:
    """Sum up a store's connections. The engine makes them of samples; what follows is done here.

    Raises:
        BackendError: the engine failed.
    """
    from whydrop.studies.tcp import queries

    tell = progress or (lambda *_: None)
    tell("reading samples", 0, 2)
    expression = queries.connections(backend, parameters.first, parameters.last)
    if parameters.sites:
        expression = expression.filter(expression.site.isin(parameters.sites))
    # The columns that distinguish connections of a client are not needed any more.
    found = backend.run(expression.drop("test_id", "local_port", "remote_port"))
    tell("summing up", 1, 2)
    facts: dict[str, Any] = {
        "connections": found.height,
        "samples": int(found["samples"].sum()),
        "sites": found["site"].n_unique(),
        "backend": backend.name,
    }
    frame = analysis.described(found)
    of_days = analysis.days(frame)
    days = frame["day"].unique().cast(pl.String)
    facts |= {"first": days.min(), "last": days.max()}
    tables = {
        "limits": analysis.limits(frame),
        "distributions": analysis.distributions(frame),
        "days": of_days,
        "changes": analysis.changes(of_days),
    }
    return Results(parameters, tables, [*_notes(frame), *backend.notes], facts)


def _notes(frame: pl.DataFrame) -> list[str]:
    notes = []
    for column, what in (("site", "site"), ("network", "client's address"), ("day", "day")):
        lacking = frame[column].null_count()
        if lacking:
            notes.append(f"{count(lacking)} of the connections have no {what}: no group by {what} includes them.")
    short = int((frame["span_ns"] < analysis.LEAST_SPAN_NS).sum())
    if short:
        why = "their throughput is not computed, because it would be that of slow start"
        notes.append(f"{count(short)} of the connections lasted less than a second: {why}.")
    few = int((frame["segments"] < analysis.LEAST_SEGMENTS).sum())
    if few:
        what = "their share of retransmitted segments is not computed"
        notes.append(f"{count(few)} of the connections have no more than ten segments: {what}.")
    return notes

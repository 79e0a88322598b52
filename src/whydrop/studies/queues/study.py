"""The study of queues, from a store's recordings to its conclusions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.errors import Error
from whydrop.runtime.user_files.spelling import suggestion
from whydrop.studies.queues import cells, differences, judging, pictured, queries, ranking
from whydrop.studies.queues import runs as of_runs
from whydrop.studies.queues.families import sort_key
from whydrop.studies.queues.measures import CONTAIN
from whydrop.text.phrases import listed
from whydrop.text.quantities import plural

if TYPE_CHECKING:
    from whydrop.store.engines import Backend
    from whydrop.studies.queues.parameters import Parameters

# What is being done, how many steps are done, and how many there are.
Progress = Callable[[str, float, int], None]

_MOST_REASONS = 5
_MOST_NAMES, _LONGEST_NAME = 12, 40
# Every two queues are compared: far more of them are the values of another variable.
_MOST_QUEUES = 50


class TooManyQueuesError(Error, ValueError):
    """The variable of the queue has so many values that it is another's."""


@dataclass(frozen=True)
class Results:
    """Results of the study.

    Attributes:
        parameters: what was chosen.
        tables: ``runs``, ``values``, ``cells``, ``medians``, ``containment``, ``differences``, ``ranks``,
            ``hypotheses``, ``checks``, ``distributions`` and ``delays`` (docs/queue-study.md).
        notes: what is to be known about it: sentences.
        facts: ``recordings``, ``runs`` (with a queue), ``used``, ``cells``, ``kernels``, ``backend`` (its name).
    """

    parameters: Parameters
    tables: dict[str, pl.DataFrame]
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def run(backend: Backend, parameters: Parameters, progress: Progress | None = None) -> Results:
    """Sum up a store's recordings. The engine reduces steps and histograms to rows of recordings; the rest is here.

    Raises:
        BackendError: the engine failed.
        TooManyQueuesError: the variable of the queue has far too many values.
    """
    tell = progress or (lambda *_: None)
    tell("reading recordings", 0, 5)
    # Engines give rows in any order; that of results is always the same.
    recordings = backend.run(backend.table("recordings").drop("day")).sort("recording")
    metrics = backend.run(backend.table("metrics").select("recording", "metric", "value")).sort("recording", "metric")
    found = of_runs.runs(recordings, metrics["recording"].unique(), parameters)
    queues = found["queue"].drop_nulls().n_unique()
    if queues > _MOST_QUEUES:
        raise TooManyQueuesError(
            f"the variable {parameters.queue!r} has {queues} values: expected the names of at most {_MOST_QUEUES} "
            "queues; another variable may name them (--queue VARIABLE)"
        )
    tell("reading delays", 1, 5)
    containment = backend.run(queries.containment(backend, round(parameters.target_ms * 1e6))).sort("recording")
    tell("reading distributions", 2, 5)
    counts = backend.run(queries.distributions(backend)).sort("recording", "bin")
    steps = backend.run(queries.over_time(backend)).sort("recording", "step")
    tell("summing up", 3, 5)
    used = found.filter(pl.col("left_out").is_null())
    values = of_runs.values(used, metrics, containment).sort("recording", "metric")
    tell("comparing", 4, 5)
    hypotheses, checks = judging.judged(used, values, parameters)
    tables = {
        "runs": found,
        "values": values,
        "cells": cells.cells(found, parameters),
        "medians": cells.medians(used, values, parameters),
        "containment": cells.contained(used, containment, parameters),
        "differences": differences.compared(used, values, parameters),
        "ranks": ranking.ranks(used, values, parameters),
        "hypotheses": hypotheses,
        "checks": checks,
        "distributions": pictured.distributions(used, counts, parameters),
        "delays": pictured.delays(used, steps, parameters),
    }
    facts = {
        "recordings": found.height, "runs": found["queue"].count(), "used": used.height,
        "cells": used.select(cells.cell_columns(parameters)).unique().height,
        "kernels": sorted(used["kernel"].drop_nulls().unique()), "backend": backend.name,
    }  # fmt: skip
    notes = [*_misnamed(of_runs.variables(recordings), found, parameters), *_notes(found, values, parameters)]
    return Results(parameters, tables, [*notes, *backend.notes], facts)


def _misnamed(known: list[str], runs: pl.DataFrame, parameters: Parameters) -> list[str]:
    """Names that were asked for and that nothing has: what there is instead."""
    notes = [
        f"No recording has the variable {name!r}{suggestion(name, known, _there_are(known))}."
        for name in (parameters.queue, *parameters.strata)
        if known and name not in known
    ]
    queues = sorted(runs["queue"].drop_nulls().unique(), key=sort_key)
    if queues and parameters.baseline not in queues:
        hint = suggestion(parameters.baseline, queues, _there_are(queues))
        notes.append(f"No run has the queue {parameters.baseline!r}, with which others are to be compared{hint}.")
    return notes


def _there_are(names: list[str]) -> str:
    return f"there are {listed([name[:_LONGEST_NAME] for name in names], most=_MOST_NAMES)}"


def _notes(runs: pl.DataFrame, values: pl.DataFrame, parameters: Parameters) -> list[str]:
    notes = []
    reasons = runs.drop_nulls("left_out")["left_out"].value_counts(sort=True)
    for reason, count in reasons.head(_MOST_REASONS).iter_rows():
        notes.append(f"{plural(count, 'recording')} left out: {reason}.")
    if reasons.height > _MOST_REASONS:
        left = int(reasons["count"][_MOST_REASONS:].sum())
        notes.append(f"{plural(left, 'recording')} left out for other reasons: the table of runs has them.")
    used = runs.filter(pl.col("left_out").is_null())
    for name in parameters.strata:
        lacking = used.filter(pl.col(name) == of_runs.MISSING).height
        if lacking:
            notes.append(
                f"{plural(lacking, 'recording')} without the variable {name!r}: compared with each other only."
            )
    kernels = used["kernel"].drop_nulls().unique()
    if len(kernels) > 1:
        notes.append(f"The runs are of {len(kernels)} kernels ({', '.join(sorted(kernels)[:4])}): queues may differ.")
    twice = used.group_by([*cells.cell_columns(parameters), "repetition", "seed"]).len().filter(pl.col("len") > 1)
    if twice.drop_nulls("repetition").height:
        notes.append(f"{plural(twice.height, 'repetition')} of a cell ran more than once: each run counts.")
    if values.filter(pl.col("metric") == CONTAIN, pl.col("censored")).height:
        notes.append("A time to contain with > is a lower bound: the load ended before latency was contained.")
    return notes

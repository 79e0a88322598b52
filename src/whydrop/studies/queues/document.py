"""The study of queues as a document: the answer, the hypotheses, figures, and tables of cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.show.document import Document, Items, Section, Table, parts
from whydrop.studies.frame_tables import FrameColumn, pictures, table_of
from whydrop.studies.queues import sentences
from whydrop.studies.queues.measures import MEASURES
from whydrop.text import quantities

if TYPE_CHECKING:
    from whydrop.show.figure import Figure
    from whydrop.studies.queues.study import Results

_ELSEWHERE = "--output DIR writes all of them"
# Columns of the table of cells, and the order in which they are left out where the width is short.
_SHOWN = {
    "induced-latency": ("Latency, ms", 0), "induced-latency-p99": ("99 %, ms", 3), "contain-time": ("Contained, s", 4),
    "goodput-down": ("Down, Mbit/s", 1), "goodput-up": ("Up, Mbit/s", 2), "fairness-down": ("Jain down", 5),
    "fairness-up": ("Jain up", 6), "retransmits": ("Retransmitted, %", 7), "drops-down": ("Drops down, %", 8),
    "marks-down": ("Marks down, %", 11), "mos": ("MOS", 9), "page-time": ("Page, ms", 10),
    "burst-time-p95": ("Frame 95 %, ms", 12), "bursts-incomplete": ("Frames incomplete, %", 13),
}  # fmt: skip


_TITLES = [title for title, _ in _SHOWN.values()]


def document(results: Results, figures: Mapping[str, Figure] | None = None) -> Document:
    """The study for people; with ``figures`` a page, which has all tables."""
    from whydrop import _core

    first, *rest = sentences.answer(results)
    is_page = figures is not None
    facts = results.facts
    judged = sentences.hypotheses(results) if facts["used"] else []
    head = Section(first, parts(Items.of(rest)), key="summary")
    others = parts(
        Section("Findings and predictions", parts(Items.of(judged)), key="hypotheses") if judged else None,
        pictures(figures, {}) if figures else None,
        Section("", parts(_cells(results))) if not is_page else None,
        Section("", parts(Items.of(results.notes))) if results.notes and not is_page else None,
        Section("Tables", parts(*_tables(results)), key="tables") if is_page else None,
    )
    runs = f"{quantities.count(facts['used'])} of {quantities.plural(facts['recordings'], 'recording')} used"
    kernels = f"; Linux {', '.join(facts['kernels'][:3])}" if facts["kernels"] else ""
    source = f"{sentences.TITLE}: {runs}, {quantities.plural(facts['cells'], 'cell')}{kernels}"
    footer = f"Made by whydrop {_core.__version__}."
    return Document(sentences.TITLE, (head, *others), source, tuple(results.notes) if is_page else (), footer)


def _conditions(results: Results) -> list[FrameColumn]:
    return [FrameColumn(name.capitalize(), (name,), str) for name in results.parameters.strata]


_QUEUE = FrameColumn("Queue", ("queue",), str)


def _cells(results: Results) -> Table | None:
    """One row for each cell, with the medians of its runs."""
    names = [*results.parameters.strata, "queue"]
    medians = results.tables["medians"].filter(pl.col("metric").is_in(list(_SHOWN)))
    texts = medians.with_columns(
        text=pl.Series([_median(row) for row in medians.iter_rows(named=True)], dtype=pl.String)
    )
    wide = texts.pivot("metric", index=names, values="text", maintain_order=True) if texts.height else texts
    table = results.tables["cells"].join(wide, on=names, how="left", maintain_order="left")
    columns = [*_conditions(results), _QUEUE, FrameColumn("Runs", ("used",), quantities.count, 3)]
    columns += [FrameColumn(title, (key,), str, rank) for key, (title, rank) in _SHOWN.items()]
    note = "Medians over the runs of a cell. The tables of --output and --json have their 95 % intervals."
    return _aligned(table_of("Cells", table, columns, notes=[note], elsewhere=_ELSEWHERE), _TITLES)


def _aligned(table: Table | None, titles: list[str]) -> Table | None:
    """The table with the texts of these columns aligned as the numbers that they are."""
    if table is None:
        return None
    columns = tuple(replace(one, number=one.number or one.title in titles) for one in table.columns)
    return replace(table, columns=columns)


def _median(row: Mapping[str, Any]) -> str:
    text = quantities.significant(row["median"])
    return f">{quantities.NO_BREAK}{text}" if row["censored"] else text


def _tables(results: Results) -> list[Table | None]:
    tables = results.tables
    return [_cells(results), _hypotheses(tables["checks"], results), *_medians(results), _ranks(tables["ranks"]),
            _differences(results), _left_out(tables["runs"], results)]  # fmt: skip


def _hypotheses(checks: pl.DataFrame, results: Results) -> Table | None:
    columns = [
        FrameColumn("Hypothesis", ("hypothesis",), str), *_conditions(results), _QUEUE,
        FrameColumn("Against", ("against",), str), FrameColumn("Conclusion", ("conclusion",), str),
        FrameColumn("Median", ("median",), quantities.significant),
        FrameColumn("Its median", ("median_against",), quantities.significant),
        FrameColumn("Ahead by", ("estimate",), quantities.significant),
        FrameColumn("95 % interval", ("low", "high"), quantities.significant),
        FrameColumn("Claimed", ("claimed",), quantities.significant),
        FrameColumn("Within", ("within",), quantities.count), FrameColumn("Runs", ("runs",), quantities.count),
        FrameColumn("Decides", ("decides",), lambda decides: "yes" if decides else "no"),
    ]  # fmt: skip
    note = (
        "Ahead by: the ratio of the larger measure to the smaller as the statement has them, or their difference; more "
        "than claimed supports it. Of limits the interval is that of the median. Rows that do not decide are of "
        "conditions other than those of the statement."
    )
    return table_of("Checks of the hypotheses", checks, columns, notes=[note], elsewhere=_ELSEWHERE)


def _medians(results: Results) -> list[Table | None]:
    found = []
    for key, measure in MEASURES.items():
        own = results.tables["medians"].filter(pl.col("metric") == key)
        unit = f", {measure.unit}" if measure.unit else ""
        texts = pl.Series("text", [_median(row) for row in own.iter_rows(named=True)], dtype=pl.String)
        columns = [
            *_conditions(results), _QUEUE, FrameColumn("Runs", ("runs",), quantities.count),
            FrameColumn(f"Median{unit}", ("text",), str),
            FrameColumn("95 % interval", ("low", "high"), quantities.significant),
            FrameColumn("Method", ("method",), str),
        ]  # fmt: skip
        table = table_of(measure.title, own.with_columns(texts), columns, elsewhere=_ELSEWHERE)
        found.append(_aligned(table, [f"Median{unit}"]))
    return found


def _ranks(ranks: pl.DataFrame) -> Table | None:
    columns = [
        FrameColumn("Group", ("group",), str), FrameColumn("Measure", ("metric",), lambda key: MEASURES[key].title),
        FrameColumn("Rank", ("rank",), quantities.count), _QUEUE,
        FrameColumn("Geometric mean", ("mean",), quantities.significant),
        FrameColumn("Ratio to the best", ("ratio",), quantities.significant),
        FrameColumn("95 % interval", ("ratio_low", "ratio_high"), quantities.significant),
        FrameColumn("adjusted p", ("adjusted_p",), quantities.p_value),
        FrameColumn("Runs", ("runs",), quantities.count),
    ]  # fmt: skip
    note = (
        "Mixed model of the logarithm: queue, and random intercepts of conditions and of repetitions within them. "
        "Rank: one more than the number of queues that are better and distinguished (differences within blocks that "
        "have both queues, Holm, 5 %); two queues of different ranks need not be distinguished from each other."
    )
    return table_of("Ranks over conditions", ranks, columns, notes=[note], elsewhere=_ELSEWHERE)


def _differences(results: Results) -> Table | None:
    columns = [
        *_conditions(results), FrameColumn("Measure", ("metric",), lambda key: MEASURES[key].title),
        FrameColumn("First", ("first",), str), FrameColumn("Second", ("second",), str),
        FrameColumn("Second is", ("conclusion",), str), FrameColumn("Difference", ("difference",), _signed),
        FrameColumn("95 % interval", ("low", "high"), _signed),
        FrameColumn("Ratio", ("ratio",), quantities.significant),
        FrameColumn("95 % interval", ("ratio_low", "ratio_high"), quantities.significant),
        FrameColumn("Effect", ("effect_size",), str),
        FrameColumn("adjusted p", ("adjusted_p",), quantities.p_value),
        FrameColumn("Pairs", ("pairs",), quantities.count),
    ]  # fmt: skip
    note = "Holm's correction is over the pairs of queues of one measure under the same conditions."
    return table_of(
        "Differences between queues", results.tables["differences"], columns, notes=[note], elsewhere=_ELSEWHERE
    )


def _signed(value: float) -> str:
    return quantities.signed(quantities.significant, value)


def _left_out(runs: pl.DataFrame, results: Results) -> Table | None:
    columns = [
        FrameColumn("Recording", ("name",), str), *_conditions(results), _QUEUE,
        FrameColumn("Repetition", ("repetition",), quantities.count), FrameColumn("Left out", ("left_out",), str),
    ]  # fmt: skip
    return table_of("Recordings that were left out", runs.drop_nulls("left_out"), columns, elsewhere=_ELSEWHERE)

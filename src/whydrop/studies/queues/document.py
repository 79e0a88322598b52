"""The study of queues as a document: the answer, the hypotheses, figures, and tables of cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from whydrop.show.document import Document, Items, Section, Table, Text, parts
from whydrop.studies.frame_tables import FrameColumn, pictures, table_of
from whydrop.studies.queues import ranking, sentences
from whydrop.studies.queues.cells import line_key
from whydrop.studies.queues.hypotheses import hypothesis_of
from whydrop.studies.queues.measures import MEASURES, Measure
from whydrop.text import quantities

if TYPE_CHECKING:
    from whydrop.show.figure import Figure
    from whydrop.studies.queues.study import Results

_ELSEWHERE = "--output DIR writes all of them"
# Columns of the table of medians, and the order in which they are left out where the width is short.
_SHOWN = {
    "induced-latency": ("Latency, ms", 0), "induced-latency-p99": ("99 %, ms", 4), "contain-time": ("Contained, s", 3),
    "goodput-down": ("Down, Mbit/s", 1), "goodput-up": ("Up, Mbit/s", 2), "fairness-down": ("Jain down", 5),
    "fairness-up": ("Jain up", 6), "retransmits": ("Retransmitted, %", 8), "drops-down": ("Dropped down, %", 9),
    "marks-down": ("Marked down, %", 12), "mos": ("MOS", 10), "page-time": ("Page, ms", 11),
    "burst-time-p95": ("Frame 95 %, ms", 13), "bursts-incomplete": ("Frames incomplete, %", 14),
}  # fmt: skip
_HEADS = (
    "Latency: induced latency, the round-trip time that load adds, median and 99th percentile of probes. Contained: "
    "time from the start of the last flow until this latency is at most {target}, for 1 s without exception and for "
    "95 % of the remaining time. Down and up: goodput. Jain: Jain's index of the flows' goodputs, 1 if all are equal."
)
# Variables of examples/queues, which name the conditions by default.
_VARIABLES = {"control": "TCP's congestion control", "scene": "the test"}
_JUDGED = (
    "Supported or contradicted: 95 % intervals of these runs decide, or a sign test of them. Open: they do not decide."
)


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
        Section("Findings and predictions", parts(Text(_JUDGED, "quiet"), Items.of(judged)), key="hypotheses")
        if judged
        else None,
        pictures(figures, {}) if figures else None,
        Section("", parts(_cells(results))) if not is_page else None,
        Section("", parts(Items.of(results.notes))) if results.notes and not is_page else None,
        Section("Tables", parts(*_tables(results)), key="tables") if is_page else None,
    )
    runs = f"{quantities.count(facts['used'])} of {quantities.plural(facts['recordings'], 'recording')} used"
    kernels = f"; Linux {', '.join(facts['kernels'][:3])}" if facts["kernels"] else ""
    queues = results.tables["medians"]["queue"].n_unique()
    source = f"{sentences.TITLE}: {quantities.plural(queues, 'queue')}, {runs}{kernels}"
    footer = f"Made by whydrop {_core.__version__}."
    return Document(sentences.TITLE, (head, *others), source, tuple(results.notes) if is_page else (), footer)


_MEASURE = FrameColumn("Measure", ("metric",), lambda key: _measure(MEASURES[key]))


def _measure(measure: Measure) -> str:
    return f"{measure.title} ({measure.unit})" if measure.unit else measure.title


def _conditions(results: Results) -> list[FrameColumn]:
    return [FrameColumn(name.capitalize(), (name,), str) for name in results.parameters.strata]


_QUEUE = FrameColumn("Queue", ("queue",), sentences.name)


def _cells(results: Results, *, is_page: bool = False) -> Table | None:
    """One row for each cell, with the medians of its runs."""
    names = [*results.parameters.strata, "queue"]
    medians = results.tables["medians"].filter(pl.col("metric").is_in(list(_SHOWN)))
    texts = medians.with_columns(text=_texts(medians))
    wide = texts.pivot("metric", index=names, values="text", maintain_order=True) if texts.height else texts
    table = results.tables["cells"].join(wide, on=names, how="left", maintain_order="left")
    # A terminal has no room for conditions that all rows share.
    shared = [name for name in names[:-1] if not is_page and table.height and table[name].n_unique() == 1]
    conditions = [column for column in _conditions(results) if column.names[0] not in shared]
    columns = [*conditions, _QUEUE, FrameColumn("Runs", ("used",), quantities.count, 7)]
    columns += [FrameColumn(title, (key,), str, rank) for key, (title, rank) in _SHOWN.items()]
    intervals = "the tables below have" if is_page else "--output DIR and --json write"
    notes = [
        f"All rows: {', '.join(f'{name} {table[name][0]}' for name in shared)}." if shared else "",
        f"Medians over the runs; {intervals} their 95 % intervals.",
        _HEADS.format(target=quantities.with_unit(f"{results.parameters.target_ms:g}", "ms")),
        _variables(results),
    ]
    return _aligned(table_of("Medians", table, columns, notes=notes, elsewhere=_ELSEWHERE), _TITLES)


def _variables(results: Results) -> str:
    """The meaning of the conditions, and the rates of each line where they are known."""
    strata = results.parameters.strata
    known = [f"{name.capitalize()}: {_VARIABLES[name]}." for name in strata if name in _VARIABLES]
    if "line" in strata:
        runs = results.tables["runs"].filter(pl.col("left_out").is_null())
        rates = runs.select("line", "rate_down_bps", "rate_up_bps").drop_nulls().unique()
        lines = sorted(rates.iter_rows(), key=lambda row: line_key(row[0]))
        texts = [f"{line} has {quantities.rate(down)} down and {quantities.rate(up)} up" for line, down, up in lines]
        known[:0] = [f"Line: {'; '.join(texts)}."] if texts else []
    return " ".join(known)


def _texts(medians: pl.DataFrame) -> pl.Series:
    """The median of each row as text, without its unit."""
    rows = medians.iter_rows(named=True)
    texts = [sentences.written(row["metric"], row["median"], censored=row["censored"]) for row in rows]
    return pl.Series("text", texts, dtype=pl.String)


def _intervals(rows: pl.DataFrame) -> pl.Series:
    """The interval of each row's median as text, without its unit."""
    texts = [sentences.written_interval(row["metric"], row["low"], row["high"]) for row in rows.iter_rows(named=True)]
    return pl.Series("interval", texts, dtype=pl.String)


def _aligned(table: Table | None, titles: list[str]) -> Table | None:
    """The table with the texts of these columns aligned as the numbers that they are."""
    if table is None:
        return None
    columns = tuple(replace(one, number=one.number or one.title in titles) for one in table.columns)
    return replace(table, columns=columns)


def _tables(results: Results) -> list[Table | None]:
    tables = results.tables
    return [_cells(results, is_page=True), _checks(results), *_medians(results), _ranks(results), _differences(results),
            _left_out(tables["runs"], results)]  # fmt: skip


def _checks(results: Results) -> Table | None:
    rows = []
    for row in results.tables["checks"].iter_rows(named=True):
        one = hypothesis_of(row["hypothesis"])
        is_pair = bool(row["against"])
        claimed = f"{row['estimate_of']} above {row['claimed']:g}" if is_pair else sentences.limits(one)
        interval = (
            quantities.interval(quantities.significant, row["low"], row["high"])
            if is_pair and row["low"] is not None and row["high"] is not None
            else "–"
        )
        rows.append(
            {
                **row, "against": sentences.name(row["against"]) if is_pair else "–", "claim": claimed,
                "own": sentences.value(one.metric, row["median"], censored=row["censored"]),
                "other": sentences.value(one.metric, row["median_against"]) if is_pair else "–",
                "interval": interval,
                "counted": "–" if is_pair else f"{row['within']} of {row['runs']}",
            }
        )  # fmt: skip
    columns = [
        FrameColumn("Claim", ("hypothesis",), str), *_conditions(results), _QUEUE,
        FrameColumn("Other queue", ("against",), str), FrameColumn("Conclusion", ("conclusion",), str),
        FrameColumn("Claimed", ("claim",), str), FrameColumn("Median", ("own",), str),
        FrameColumn("Other's median", ("other",), str),
        FrameColumn("Estimate", ("estimate",), quantities.significant),
        FrameColumn("95 % interval", ("interval",), str),
        FrameColumn("Runs within", ("counted",), str),
        FrameColumn("Decides", ("decides",), lambda decides: "yes" if decides else "no"),
    ]  # fmt: skip
    notes = [
        "Estimate: the ratio, or the difference, of the queue that is claimed to have more to the other one, with its "
        "95 % interval. Runs within: runs that are as claimed, of all.",
        'A row of "all" counts the runs under all conditions of the claim. Rows that do not decide are of single '
        "conditions, or of conditions that the claim does not name.",
    ]
    table = table_of("Checks", pl.DataFrame(rows, infer_schema_length=None), columns, notes=notes, elsewhere=_ELSEWHERE)
    return _aligned(table, ["Median", "Other's median", "95 % interval", "Runs within"])


def _medians(results: Results) -> list[Table | None]:
    found = []
    for key, measure in MEASURES.items():
        own = results.tables["medians"].filter(pl.col("metric") == key)
        unit = f", {measure.unit}" if measure.unit else ""
        columns = [
            *_conditions(results), _QUEUE, FrameColumn("Runs", ("runs",), quantities.count),
            FrameColumn(f"Median{unit}", ("text",), str),
            FrameColumn(f"95 % interval{unit}", ("interval",), str),
            FrameColumn("Interval by", ("method",), str),
        ]  # fmt: skip
        texts = own.with_columns(text=_texts(own), interval=_intervals(own))
        table = table_of(measure.title, texts, columns, notes=[measure.meaning], elsewhere=_ELSEWHERE)
        found.append(_aligned(table, [f"Median{unit}", f"95 % interval{unit}"]))
    return found


def _ranks(results: Results) -> Table | None:
    ranks = results.tables["ranks"]
    means = [sentences.value(row["metric"], row["mean"]) for row in ranks.iter_rows(named=True)]
    groups = [
        "all" if row["by"] == ranking.ALL else f"{row['by']} {row['group']}" for row in ranks.iter_rows(named=True)
    ]
    shown = ranks.with_columns(text=pl.Series(means, dtype=pl.String), conditions=pl.Series(groups, dtype=pl.String))
    columns = [
        FrameColumn("Conditions", ("conditions",), str), _MEASURE,
        FrameColumn("Rank", ("rank",), quantities.count), _QUEUE,
        FrameColumn("Geometric mean", ("text",), str),
        FrameColumn("Ratio to the best", ("ratio",), quantities.significant),
        FrameColumn("95 % interval of the ratio", ("ratio_low", "ratio_high"), quantities.significant),
        FrameColumn("Adjusted p", ("adjusted_p",), quantities.p_value),
        FrameColumn("Runs", ("runs",), quantities.count),
    ]  # fmt: skip
    note = (
        "Rank: one more than the number of queues that are better and distinguished (differences within blocks that "
        "have both queues, Holm, 5 %). Two queues of different ranks need not be distinguished from each other. Means: "
        "a mixed model of logarithms; queues are fixed effects, conditions and the repetitions within them random "
        "intercepts."
    )
    table = table_of("Ranks", shown, columns, notes=[note], elsewhere=_ELSEWHERE)
    return _aligned(table, ["Geometric mean"])


def _differences(results: Results) -> Table | None:
    columns = [
        *_conditions(results), _MEASURE,
        FrameColumn("Queue A", ("first",), sentences.name), FrameColumn("Queue B", ("second",), sentences.name),
        FrameColumn("B is", ("conclusion",), str), FrameColumn("B less A", ("difference",), _signed),
        FrameColumn("95 % interval", ("low", "high"), _signed),
        FrameColumn("Ratio B to A", ("ratio",), quantities.significant),
        FrameColumn("95 % interval", ("ratio_low", "ratio_high"), quantities.significant),
        FrameColumn("Effect size", ("effect_size",), str),
        FrameColumn("Adjusted p", ("adjusted_p",), quantities.p_value),
        FrameColumn("Pairs", ("pairs",), quantities.count),
    ]  # fmt: skip
    note = (
        "Adjusted p: Holm's correction over the pairs of queues of one measure under the same conditions; below 5 % B "
        "is better or worse. Pairs: repetitions that both queues have, 0 if whole runs are compared."
    )
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

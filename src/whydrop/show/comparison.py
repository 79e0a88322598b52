"""A comparison in words, as rows, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from whydrop.recording import document
from whydrop.show.document import Column, Columns, Document, Look, Section, Table, Text, known, parts
from whydrop.text import quantities
from whydrop.text.quantities import NO_BREAK, plural, significant

if TYPE_CHECKING:
    from whydrop.recording.comparing.comparison import Comparison, Row

# More differences than this hide those that matter; JSON has all of them.
_MOST_KEYS = 30
_ROUNDING = 1e-12
_LONGEST_VALUE = 48
_LOOKS: dict[str, Look] = {
    "established": "strong", "apart": "strong", "too small to matter": "quiet", "not resolved": "quiet",
}  # fmt: skip


def text(found: Comparison, *, with_metadata: bool) -> Document:
    """For people: what is established first, then all metrics, then the differences of the metadata."""
    first, *rest = summary(found) or ["There is nothing to compare."]
    tables = [_metrics([row for row in found.rows if row.second == side.label]) for side in found.sides[1:]]
    equal = Text("The metadata are equal, except for times, counters and similar values.")
    shown = (
        Section(first, tuple(map(Text, rest))),
        *parts(
            *tables,
            (_metadata(found) if found.metadata else equal) if with_metadata else None,
            Section("Methods", tuple(Text(line, "quiet") for line in _foot(found))),
        ),
    )
    return Document("Comparison", shown)


def answer(found: Comparison) -> Document:
    """Established differences with effects and intervals: the beginning of a page."""
    first, *rest = summary(found) or ["There is nothing to compare."]
    certain = [row for row in found.rows if row.verdict in ("established", "apart")]
    several = len(found.sides) > 2
    columns: Columns[Row] = {
        **({Column("Recordings"): lambda row: _short(row.second)} if several else {}),
        Column("Metric"): lambda row: row.metric.name,
        Column("Difference", number=True): _difference,
        Column("95 % interval", True): _interval,
        Column("Effect"): effect_words,
        Column("Finding"): lambda row: row.verdict + {True: ", better", False: ", worse", None: ""}[row.better],
    }
    table = Table.of("Established differences", columns, certain) if certain else None
    return Document("Comparison", (Section(first, tuple(map(Text, rest))), *parts(table)))


def details(found: Comparison) -> Document:
    """All metrics, the differences of the metadata, and the methods: the grounds of the answer."""
    return Document("Comparison", text(found, with_metadata=True).parts[1:])


def _difference(row: Row) -> str:
    return signed(row.difference.value) + (f"{NO_BREAK}{row.metric.units}" if row.metric.units else "")


def summary(found: Comparison) -> list[str]:
    """One sentence for each pair of sides: the answer first."""
    lines = []
    for side in found.sides[1:]:
        rows = [row for row in found.rows if row.second == side.label]
        established = [row for row in rows if row.verdict in ("apart", "established")]
        against = f"{side.label} against {found.sides[0].label}"
        if established:
            lines.append(f"{against}: {'; '.join(_finding(row) for row in established)}.")
        elif rows:
            small = sum(row.verdict == "too small to matter" for row in rows)
            counts = (("too small to matter", small), ("not resolved", len(rows) - small))
            parts = [f"in {plural(count, 'metric')} it is {verdict}" for verdict, count in counts if count]
            lines.append(f"{against}: no difference is established; {', '.join(parts)}.")
    return lines


def _finding(row: Row) -> str:
    more = "higher" if row.difference.value > 0 else "lower"
    judged = "" if row.better is None else " (better)" if row.better else " (worse)"
    interval = f"{number(row.difference.low)} to {number(row.difference.high)}"
    if row.verdict == "apart":
        interval = "no overlap in these runs"
    unit = f" {row.metric.units}" if row.metric.units else ""
    return f"{row.metric.name} {more} by {number(abs(row.difference.value))}{unit} [{interval}]{judged}"


def _metrics(rows: Sequence[Row]) -> Table | None:
    if not rows:
        return None

    def cell(write: Callable[[Row], str]) -> Callable[[Row], Text]:
        return lambda row: Text(write(row), _LOOKS[row.verdict])

    columns: Columns[Row] = {
        Column("Metric"): cell(lambda row: row.metric.name + (f" ({row.metric.units})" if row.metric.units else "")),
        Column(_short(rows[0].first), True, 2): cell(lambda row: number(row.values[0])),
        Column(_short(rows[0].second), True, 3): cell(lambda row: number(row.values[1])),
        Column("Difference", number=True): cell(lambda row: signed(row.difference.value)),
        Column("95 % interval", True, 1): cell(_interval),
        Column("Effect", False, 4): cell(effect_words),
        Column("Finding"): cell(lambda row: row.verdict + {True: ", better", False: ", worse", None: ""}[row.better]),
        Column("p (Holm)", True, 5): cell(lambda row: known(row.p, quantities.p_value)),
    }
    return Table.of("Metrics", columns, rows)


def _metadata(found: Comparison) -> Table:
    columns = (Column("Key"), *(Column(_short(side.label)) for side in found.sides))
    rows = tuple((one.key, *(_short(value) if value else "–" for value in one.values)) for one in found.metadata)
    elsewhere = "--json lists all"
    return Table("Differences of the metadata", columns, rows, most=_MOST_KEYS, elsewhere=elsewhere)


def _foot(found: Comparison) -> list[str]:
    methods = dict.fromkeys(row.difference.method for row in found.rows if row.difference.method)
    effects = "Effect sizes: Cliff's δ, Hedges' g, Cohen's h of losses."
    lines = [f"Intervals: {'; '.join(methods)}. Seed {found.seed}. {effects}"] if methods else []
    reasons: dict[str, dict[str, None]] = {}
    for row in found.rows:
        if row.why:
            reasons.setdefault(row.why, {})[row.metric.name] = None
    return [*lines, *(f"{', '.join(metrics)}: {why}." for why, metrics in reasons.items()), *found.notes]


def number(value: float) -> str:
    """A value with three significant digits, or a dash where there is none.

    >>> number(-0.0123), number(float("nan"))
    ('−0.0123', '–')
    """
    if not math.isfinite(value):
        return "–"
    # Rounding errors of equal values are no difference.
    if abs(value) <= _ROUNDING:
        return "0"
    return significant(value) if value > 0 else quantities.signed(significant, value)


def signed(value: float) -> str:
    """The same with its sign."""
    return quantities.signed(number, value) if abs(value) > _ROUNDING else number(value)


def _interval(row: Row) -> str:
    if not math.isfinite(row.difference.low):
        return "–"
    return f"{signed(row.difference.low)} to {signed(row.difference.high)}"


def effect_words(row: Row) -> str:
    """The size of the effect in a word and a number."""
    from whydrop.recording.statistics.differences import size_in_words

    if math.isnan(row.effect):
        return "–"
    name = {"cliffs-delta": "δ", "hedges-g": "g", "cohens-h": "h"}[row.effect_kind]
    shown = quantities.signed(significant, row.effect) if math.isfinite(row.effect) else "∞"
    word = size_in_words(row.effect_kind, row.effect)
    if row.effect_kind == "cohens-h" and word == "negligible" and abs(row.difference.value) > row.margin:
        # A loss that is rare for statistics is much for TCP.
        word = "small"
    return f"{word} ({name}{NO_BREAK}{shown})"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def rows_of(found: Comparison) -> list[dict[str, Any]]:
    """One flat row for each metric and pair; what is not known is ``None``."""
    rows = [
        {
            "metric": row.metric.key,
            "name": row.metric.name,
            "units": row.metric.units,
            "first": row.first,
            "second": row.second,
            "first_value": row.values[0],
            "second_value": row.values[1],
            "difference": row.difference.value,
            "low": row.difference.low,
            "high": row.difference.high,
            "effect": row.effect,
            "effect_kind": row.effect_kind,
            "negligible": row.margin,
            "finding": row.verdict,
            "better": row.better,
            "p": row.difference.p,
            "p_holm": row.p,
            "method": row.difference.method,
            "note": row.why,
        }
        for row in found.rows
    ]
    plain: list[dict[str, Any]] = document.plain(rows)
    return plain


def as_json(found: Comparison) -> dict[str, Any]:
    """Everything as JSON."""
    return {
        "schema": 1,
        "sides": [
            {"label": side.label, "recordings": [str(one.path) for one in side.recordings]} for side in found.sides
        ],
        "summary": summary(found),
        "metrics": rows_of(found),
        "metadata": [{"key": one.key, "values": list(one.values)} for one in found.metadata],
        "notes": list(found.notes),
        "seed": found.seed,
    }

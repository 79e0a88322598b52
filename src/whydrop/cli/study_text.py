"""The study of discards on a terminal: sentences first, then the tables that back them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.cli import aligned
from whydrop.cli.ending import printable
from whydrop.studies.discards import phrases, sentences
from whydrop.text import quantities

if TYPE_CHECKING:
    from whydrop.studies.discards.study import Results

# Tables of more sites are cut on a terminal; files have all of them.
_MOST_ROWS = 40
# Columns that a narrow terminal goes without, in this order.
_SPARE = ("p", "would show", "days", "clients", "tests", "sent again", "median rate", "before", "after", "95 %")


def lines(results: Results) -> list[str]:
    """Everything that is printed: the answer, a table of what it rests on for each site, and what to keep in mind.

    What a table shows of each site is not said again in sentences: of forty sites these would be a wall.
    """
    found = [aligned.paragraph(results.parameters.title), ""]
    found += [aligned.paragraph(line) for line in sentences.verdict(results)]
    for title, rows in (
        ("Discards before and after the change", changes(results)),
        ("Clients' speeds before and after the change", comparisons(results)),
        ("Sites", sites(results)),
    ):
        if len(rows) > 1:
            found += ["", f"{title}:", *table(rows, aligned.width() if sys.stdout.isatty() else None)]
    published = results.parameters.definitions == "published"
    rest = [
        *([] if published else sentences.largest_differ(results)),
        *sentences.exposure(results),
        *sentences.caveats(results),
        *results.notes,
    ]
    return [*found, "", *(aligned.paragraph(line) for line in rest)] if rest else found


def table(rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Rows below their head: the first column to the left, numbers to the right.

    What is wider than ``width`` goes without some columns, and says without which: broken lines cannot be read.
    """
    spare = [name for name in _SPARE if name in rows[0]]
    text = _aligned(rows)
    gone: list[str] = []
    while width is not None and spare and max(map(len, text)) > width:
        gone.append(spare.pop(0))
        left = [number for number, name in enumerate(rows[0]) if name not in gone]
        text = _aligned([[row[number] for number in left] for row in rows])
    if not gone:
        return text
    return [*text, aligned.paragraph(f"(Too narrow for: {', '.join(gone)}.)", "  ")]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    cut = len(rows) - 1 - _MOST_ROWS
    cells = [[printable(cell) for cell in row] for row in rows[: _MOST_ROWS + 1]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    text = ["  " + "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in cells]
    return [*text, f"  and {quantities.count(cut)} more: --output DIR writes all of them"] if cut > 0 else text


def sites(results: Results) -> list[list[str]]:
    """One row for each site: what its figures 1 to 4 and 7 come to."""
    tables = results.tables
    parts = {
        "rate": tables["utilisation"].group_by("site").agg(pl.col("rate_bps").median()),
        "speed": tables["download_speed"].group_by("site").agg(pl.col("speed_bps").median()),
        "discards": _of_sums(tables["discard_ratio"], "discards", "packets"),
        "again": _of_sums(tables["retransmission_ratio"], "retransmitted", "segments"),
        "tests": tables["contact_days"].group_by("site").agg(pl.col("tests").sum()),
        "exposed": tables["contact_days"]
        .filter(pl.col("class") == "non-zero")
        .group_by("site")
        .agg(pl.col("tests").sum()),
    }
    values: dict[str, dict[Any, Any]] = {name: dict(frame.iter_rows()) for name, frame in parts.items()}
    names = sorted({name for part in values.values() for name in part}, key=lambda name: (name is None, name))
    head = ["site", "median rate", "median speed", "discards", "sent again", "tests", "exposed"]
    rows = []
    for name in names:
        exposed = values["exposed"].get(name, 0) if name in values["tests"] else None
        written = (
            _cell(values["rate"].get(name), quantities.rate),
            _cell(values["speed"].get(name), quantities.rate),
            _cell(values["discards"].get(name), _per_million),
            _cell(values["again"].get(name), phrases.percent),
            _cell(values["tests"].get(name), quantities.count),
            _cell(exposed, quantities.count),
        )
        rows.append([name or "-", *written])
    return [head, *rows]


def _of_sums(frame: pl.DataFrame, above: str, below: str) -> pl.DataFrame:
    sums = frame.filter(pl.col(below) > 0).group_by("site").agg(pl.col(above).sum(), pl.col(below).sum())
    return sums.select("site", pl.col(above) / pl.col(below))


def comparisons(results: Results) -> list[list[str]]:
    """One row for each site of figure 6, by the mean of each client's speeds; as published also by the largest."""
    frame = results.tables["comparisons"]
    if results.parameters.definitions == "published":
        head = ["site", "of each client", "before", "after", "KS distance", "p", "conclusion"]
        return [head] + [
            [
                row["site"] or "-", row["statistic"], quantities.count(row["before"]), quantities.count(row["after"]),
                _cell(row["ks_distance"], quantities.significant), phrases.p_value(row["ks_p"]), row["conclusion"],
            ]
            for row in frame.iter_rows(named=True)
        ]  # fmt: skip
    head = ["site", "clients", "after / before", "95 %", "p", "would show", "conclusion"]
    return [head] + [
        [
            row["site"] or "-", quantities.count(min(row["before"], row["after"])),
            _cell(row["ratio"], _ratio), _interval(row), phrases.p_value(row["adjusted_paired_p"]),
            _cell(row["detectable_ratio"], _ratio), row["conclusion"],
        ]
        for row in frame.filter(pl.col("statistic") == "mean").iter_rows(named=True)
    ]  # fmt: skip


def changes(results: Results) -> list[list[str]]:
    """One row for each site whose switch was measured before or after the change."""
    head = ["site", "days", "before", "after", "after / before", "95 %", "p", "conclusion"]
    return [head] + [
        [
            row["site"] or "-", f"{row['days_before']} + {row['days_after']}", _cell(row["ratio_before"], _per_million),
            _cell(row["ratio_after"], _per_million), _cell(row["ratio"], _ratio), _interval(row),
            phrases.p_value(row["adjusted_p"]), row["conclusion"],
        ]
        for row in results.tables["discard_changes"].iter_rows(named=True)
    ]  # fmt: skip


def _cell(value: Any, write: Any) -> str:
    return "-" if value is None else str(write(value))


def _ratio(value: float) -> str:
    return quantities.significant(value) if value >= 0.001 or not value else f"{value:.2g}"


def _interval(row: dict[str, Any]) -> str:
    return "-" if row["ratio_low"] is None else f"{_ratio(row['ratio_low'])} to {_ratio(row['ratio_high'])}"


def _per_million(ratio: float) -> str:
    return f"{quantities.significant(ratio * 1e6)} ppm" if ratio else "0"

"""The one frame that faceted pictures are made from, from tables: figure, panel, group, x, y, low, high."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.show.facets.schema import FacetSpec, Rows

# ``line`` may be there too: points of one group that belong to different lines.
FRAME: dict[str, pl.DataType] = {
    "figure": pl.String(), "panel": pl.String(), "group": pl.String(),
    "x": pl.Float64(), "y": pl.Float64(), "low": pl.Float64(), "high": pl.Float64(),
}  # fmt: skip

_PLACE = re.compile(r"\{(\w+)\}")


def frame(figures: Mapping[str, FacetSpec], tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Every row of every figure, in the order of the catalogue; rows without a value stay, their ``y`` null.

    Raises:
        KeyError: a figure names a table or a column that is not there; the message names both.
    """
    parts = [pl.DataFrame(schema=FRAME)]
    for name, spec in figures.items():
        for rows in spec.rows:
            if rows.table not in tables:
                raise KeyError(f"figure {name}: there is no table {rows.table}; there are {', '.join(tables)}")
            _check(name, rows, tables[rows.table])
            made = _density(rows, tables[rows.table]) if rows.density else _plain(rows, tables[rows.table])
            parts.append(made.with_columns(figure=pl.lit(name)))
    return pl.concat(parts, how="diagonal")


def _check(figure: str, rows: Rows, table: pl.DataFrame) -> None:
    wanted = [name for name in (rows.x, rows.y) if name] + _PLACE.findall(rows.panel) + _PLACE.findall(rows.group)
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        raise KeyError(f"figure {figure}: table {rows.table} has no column {missing[0]}; it has {table.columns}")


def _text(template: str, name: str) -> pl.Expr:
    """A column of text from a template; what is null reads ``unknown``."""
    words = _PLACE.split(template)
    parts = [
        pl.col(word).cast(pl.String).fill_null("unknown") if number % 2 else pl.lit(word)
        for number, word in enumerate(words)
    ]
    return pl.concat_str(parts).alias(name)


def _number(table: pl.DataFrame, column: str, factor: float) -> pl.Expr:
    """A column as numbers; UTC days as text are seconds since the Unix epoch at their midnight."""
    if table.schema[column] == pl.String():
        # Text that is no day is no place on an axis either: it is counted as missing.
        return pl.col(column).str.to_date("%Y-%m-%d", strict=False).cast(pl.Int32).cast(pl.Float64) * 86_400.0
    return pl.col(column).cast(pl.Float64) * factor


def _plain(rows: Rows, table: pl.DataFrame) -> pl.DataFrame:
    return table.select(
        _text(rows.panel, "panel"),
        _text(rows.group, "group"),
        _number(table, rows.x, rows.x_factor).alias("x"),
        _number(table, rows.y, rows.y_factor).alias("y"),
    )


def _density(rows: Rows, table: pl.DataFrame) -> pl.DataFrame:
    """Densities of log10 of a column in floor(sqrt(n)) bins, for each panel and group.

    ``left-edges``: each group has bins of its own, and each bin's value stands at its left edge. ``centres``: the
    groups of a panel share their bins, so that they can be compared, and values stand in the middle (of the
    logarithms). A number that has no logarithm is a row without x and y.
    """
    named = table.select(
        _text(rows.panel, "panel"), _text(rows.group, "group"), _number(table, rows.x, rows.x_factor).alias("x")
    )
    parts = [pl.DataFrame(schema={name: FRAME[name] for name in ("panel", "group", "x", "y")})]
    for (panel,), own in named.group_by("panel", maintain_order=True):
        logs = {str(group): _logarithms(part["x"]) for (group,), part in own.group_by("group", maintain_order=True)}
        counts = dict(own.group_by("group").len().iter_rows())
        shared = _edges(list(logs.values())) if rows.density == "centres" else None
        for group, values in logs.items():
            edges, heights = _histogram(values, shared)
            places = edges[:-1] if shared is None else (edges[:-1] + edges[1:]) / 2
            without = [None] * (counts[group] - len(values))
            columns = {"x": [*(10.0**places), *without], "y": [*heights, *without]}
            made = pl.DataFrame(columns, schema={"x": pl.Float64, "y": pl.Float64})
            parts.append(made.select(pl.lit(panel).alias("panel"), pl.lit(group).alias("group"), "x", "y"))
    return pl.concat(parts)


def _logarithms(values: pl.Series) -> NDArray[np.float64]:
    known = values.drop_nulls().to_numpy()
    return np.asarray(np.log10(known[np.isfinite(known) & (known > 0)]), dtype=np.float64)


def _edges(groups: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Bins over all groups, as many as the largest group would have alone."""
    together = np.concatenate(groups)
    if not len(together):
        return np.array([0.0, 1.0])
    return np.histogram_bin_edges(together, max(1, math.isqrt(max(map(len, groups)))))


def _histogram(
    values: NDArray[np.float64], edges: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if not len(values):
        return np.array([0.0]), np.array([])
    bins = max(1, math.isqrt(len(values))) if edges is None else edges
    heights, found = np.histogram(values, bins, density=True)
    return found, heights

"""Distributions of a store's rows: an engine counts the rows of each bin or pixel, however many there are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from whydrop.text import quantities

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from whydrop.store.engines import Backend

KINDS = ("cdf", "histogram")

_KEYS = ("figure", "panel", "group")
# Cells of the value axis of a whole picture: half a pixel.
_COLUMNS = 1800
_MOST_BINS = 100


@dataclass(frozen=True)
class _Cells:
    """Cells of equal width on an axis of values, or of their logarithms."""

    low: float
    width: float
    number: int


@dataclass(frozen=True)
class Distributions:
    """The rows of which distributions are asked.

    Attributes:
        backend: the engine.
        rows: figure, panel, group and y.
        overview: counts and ends of each figure, panel and group.
        log: whether the axis of values is logarithmic. Rows at 0 and below have no place on it, but are part of all.
        over: the keys within which values share an axis.
    """

    backend: Backend
    rows: ir.Table
    overview: pl.DataFrame
    log: bool
    over: tuple[str, ...]

    def frame(self, kind: str) -> pl.DataFrame:
        """Figure, panel, group, x (values) and y (shares of the group's rows, in %)."""
        return self._cdf() if kind == "cdf" else self._histogram()

    @property
    def below(self) -> int:
        """The number of rows that have no place on a logarithmic axis."""
        return int(self.overview["zeros"].sum()) + int(self.overview["negative"].sum())

    def words(self, kind: str) -> list[str]:
        """Sentences below a picture: rows without a place, and the width of bins."""
        if kind == "histogram":
            of_all = ["Shares are of all rows with a value, also of those at 0 or below."] if self.below else []
            return [*of_all, self._bins_in_words()]
        begin = "where a logarithmic axis has no place: curves begin at their share"
        return [f"{quantities.count(self.below)} of these are 0 or below, {begin}."] if self.below else []

    def _bins_in_words(self) -> str:
        widths = {(cells.number, cells.width) for cells in self._bins().values()}
        if len(widths) > 1:
            return "Each panel has its own bins."
        ((number, width),) = widths
        if self.log:
            wide = f"the upper end of each is {quantities.significant(10**width)} times its lower end"
            return f"{quantities.plural(number, 'bin')}; {wide}."
        return f"{quantities.plural(number, 'bin')} of a width of {quantities.significant(width)}."

    def _cdf(self) -> pl.DataFrame:
        """Steps: each cell's rows are at the largest value of the cell, half a pixel away at most."""
        panels = max(self.overview.group_by("figure").agg(pl.col("panel").n_unique())["panel"].to_list())
        number = max(300, _COLUMNS // min(4, panels))
        counted = self._counted(self._cells(number, whole=False)).sort(*_KEYS, "highest")
        total = self._totals()
        shares = counted.join(total, on=_KEYS).with_columns(
            above=100.0 * (pl.col("below") + pl.col("count").cum_sum().over(_KEYS)) / pl.col("known")
        )
        start = 100.0 * pl.col("below") / pl.col("known")
        before = pl.col("above").shift(1).over(_KEYS).fill_null(start)
        corners = [
            shares.select(*_KEYS, x="highest", y=before, corner=0),
            shares.select(*_KEYS, x="highest", y="above", corner=1),
        ]
        # Rows without a place on a logarithmic axis are left of it. A group with no others is a line at 100 %.
        left = total.filter(pl.col("below") > 0).join(self._ends(), on=self.over)
        corners.append(left.select(*_KEYS, x="low", y=start, corner=0))
        corners.append(left.filter(pl.col("below") == pl.col("known")).select(*_KEYS, x="high", y=start, corner=1))
        return pl.concat(corners).sort(*_KEYS, "x", "y", "corner").select(*_KEYS, "x", "y")

    def _histogram(self) -> pl.DataFrame:
        """The share of a group's rows in each bin, empty bins too."""
        cells = self._bins()
        counted = self._counted(cells)
        parts = []
        for row in self._totals().iter_rows(named=True):
            own = cells[tuple(row[key] for key in self.over)]
            centres = own.low + own.width * (np.arange(own.number) + 0.5)
            parts.append(
                pl.DataFrame({"cell": np.arange(own.number), "x": 10.0**centres if self.log else centres}).with_columns(
                    *(pl.lit(row[key]).alias(key) for key in _KEYS), known=pl.lit(row["known"])
                )
            )
        every = pl.concat(parts).join(counted, on=[*_KEYS, "cell"], how="left")
        share = 100.0 * pl.col("count").fill_null(0) / pl.col("known")
        return every.select(*_KEYS, "x", y=share).sort(*_KEYS, "x")

    def _totals(self) -> pl.DataFrame:
        """For each group the number of rows with a value, and of those below a logarithmic axis."""
        known = pl.col("rows") - pl.col("missing")
        return self.overview.select(*_KEYS, known=known, below=pl.col("zeros") + pl.col("negative")).filter(
            pl.col("known") > 0
        )

    def _ends(self) -> pl.DataFrame:
        return self.overview.group_by(self.over).agg(
            low=pl.col("y_low").min(), high=pl.col("y_high").max(), whole=pl.col("whole").min() == 1,
            most=(pl.col("rows") - pl.col("missing")).max(),
        ).filter(pl.col("low").is_not_null())  # fmt: skip

    def _bins(self) -> dict[tuple[str, ...], _Cells]:
        """At most a hundred bins, the square root of the largest group's number of rows."""
        return self._cells(None, whole=not self.log)

    def _cells(self, number: int | None, *, whole: bool) -> dict[tuple[str, ...], _Cells]:
        found = {}
        for row in self._ends().iter_rows(named=True):
            low, high = (math.log10(row[end]) if self.log else row[end] for end in ("low", "high"))
            count = number or max(1, min(_MOST_BINS, math.isqrt(row["most"])))
            width = (high - low) / count
            if whole and row["whole"] and width:
                # Bins that hold now one, now two whole numbers would look like a comb.
                width = float(math.ceil((high - low + 1) / count))
                low, count = low - 0.5, math.ceil((high - low + 1) / width)
            if width <= 0:
                low, width, count = low - 0.5 * _width_alone(low, log=self.log), _width_alone(low, log=self.log), 1
            found[tuple(row[key] for key in self.over)] = _Cells(low, width, count)
        return found

    def _counted(self, cells: dict[tuple[str, ...], _Cells]) -> pl.DataFrame:
        """The number of rows of each cell, and the highest of their values."""
        rows = self.rows.filter(self.rows.y.notnull())
        if self.log:
            rows = rows.filter(rows.y > 0)
        value = rows.y.log10() if self.log else rows.y
        low, width, last = (self._chosen(rows, cells, name) for name in ("low", "width", "last"))
        place = ((value - low) / width).floor()
        place = (place < 0.0).ifelse(0.0, (place > last).ifelse(last, place)).cast("int64")
        celled = rows.mutate(cell=place)
        query = celled.group_by(*_KEYS, "cell").agg(count=celled.count(), highest=celled.y.max())
        return self.backend.run(query)

    def _chosen(self, rows: ir.Table, cells: dict[tuple[str, ...], _Cells], name: str) -> Any:
        """A number of each row's cells."""
        import ibis

        numbers = {key: float(own.number - 1) if name == "last" else getattr(own, name) for key, own in cells.items()}
        if len(set(numbers.values())) == 1:
            return ibis.literal(next(iter(numbers.values())))
        branches = []
        for key, number in numbers.items():
            holds = ibis.literal(True)
            for column, text in zip(self.over, key, strict=True):
                holds = holds & (rows[column] == text)
            branches.append((holds, number))
        return ibis.cases(*branches, else_=None)


def _width_alone(value: float, *, log: bool) -> float:
    """The width of a single bin of equal values, as they are drawn."""
    return 0.1 if log else abs(value) * 0.1 or 1.0

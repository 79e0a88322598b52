"""The series of a recording: which ones its tables hold, and the samples of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import Any

import polars as pl

from whydrop.recording import quantities
from whydrop.recording.quantities import Quantity

SEPARATOR = "::"

# What patterns of names have that stands for anything else than itself.
_MAGIC = frozenset("*?[]")

# Column "host" of counters for the host that the test ran on.
LOCAL = "local"

_SAMPLES = {"time_ns": pl.Int64(), "value": pl.Float64()}


@dataclass(frozen=True)
class Series:
    """One series of a recording.

    Attributes:
        name: as of its flow ("TCP upload BE"); further quantities of a flow are ``NAME::key``
            ("TCP upload BE::tcp_cwnd"); computed series have their own ("Ping (ms) avg").
        flow: the flow's number; ``None`` for computed series and counters.
        kind: of the flow; ``computed`` or ``counter``.
        quantity: ``goodput``, ``rtt``, ``one-way-delay-up``, ``loss``, ``fetch-time``, ...
        units: of its values: ``Mbit/s``, ``ms``, ``packets``, ...
        key: what stands behind ``::`` for a further quantity of a flow or a counter; empty for a flow's own series.
    """

    name: str
    flow: int | None
    kind: str
    quantity: str
    units: str
    key: str = ""

    def matches(self, pattern: str) -> bool:
        """True if a pattern (``fnmatch``, with case) means it.

        ``*`` in a pattern without ``::`` does not reach further quantities: "TCP upload*" means the flows' own
        series, "TCP upload*::tcp_cwnd" their congestion windows.

        >>> flow = Series("TCP upload", 1, "tcp", "goodput", "Mbit/s")
        >>> window = Series("TCP upload::tcp_cwnd", 1, "tcp", "congestion-window", "packets", "tcp_cwnd")
        >>> [series.matches("TCP*") for series in (flow, window)], window.matches("*::tcp_cwnd")
        ([True, False], True)
        """
        if pattern == self.name:
            return True
        return fnmatchcase(self.name, pattern) and (not self.key or SEPARATOR in pattern)


def _always() -> bool:
    return True


@dataclass(frozen=True)
class SampledSeries:
    """A series together with how its samples are had, and whether it has any value at all."""

    series: Series
    samples: Callable[[], pl.DataFrame]
    skip_null: bool = False
    averaged: bool = False
    is_there: Callable[[], bool] = _always


class Sources(Mapping[str, SampledSeries]):
    """The measured series by name, in the order of the test; whether one has values is looked up when it is asked for.

    What a plot does not show need not be read for it.
    """

    def __init__(self, candidates: Iterable[SampledSeries]) -> None:
        """Series that may have values; of one name the first that has."""
        self._candidates: dict[str, list[SampledSeries]] = {}
        for source in candidates:
            self._candidates.setdefault(source.series.name, []).append(source)
        self._known: dict[str, SampledSeries | None] = {}
        self._meant: dict[str, frozenset[str]] = {}

    def __getitem__(self, name: str) -> SampledSeries:
        if name not in self._known:
            self._known[name] = next((one for one in self._candidates[name] if one.is_there()), None)
        found = self._known[name]
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._candidates if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def matching(self, patterns: Iterable[str]) -> list[Series]:
        """The series that any pattern means and that have values, in the order of the test."""
        meant = frozenset[str]().union(*map(self._meant_by, patterns))
        return [self[name].series for name in sorted(meant, key=self._places.__getitem__) if name in self]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self._candidates)}

    @cached_property
    def _by_end(self) -> dict[str | None, list[str]]:
        """The names by what stands behind their last separator; under ``None`` those of series without a key."""
        found: dict[str | None, list[str]] = {}
        for name, candidates in self._candidates.items():
            if not all(one.series.key for one in candidates):
                found.setdefault(None, []).append(name)
            if SEPARATOR in name:
                found.setdefault(name.rpartition(SEPARATOR)[2], []).append(name)
        return found

    def _meant_by(self, pattern: str) -> frozenset[str]:
        """The names that a pattern means: kept, as the plots of a catalogue ask for the same ones."""
        if pattern not in self._meant:
            end = pattern.rpartition(SEPARATOR)[2] if SEPARATOR in pattern else None
            # Most patterns end as names do: of the many names of a recording with many flows, those are compared.
            known = end is None or _MAGIC.isdisjoint(end)
            names = (pattern, *self._by_end.get(end, ())) if known else self._candidates
            self._meant[pattern] = frozenset(
                name for name in names if any(one.series.matches(pattern) for one in self._candidates.get(name, ()))
            )
        return self._meant[pattern]


class Tables:
    """The tables of a recording as their series need them: some columns of the rows of a flow."""

    def __init__(
        self,
        table: Callable[[str], pl.DataFrame],
        columns: Callable[..., pl.DataFrame],
        nulls: Callable[[str, str], tuple[int, int] | None],
    ) -> None:
        """The tables of a recording.

        Args:
            table: reads a table by its name.
            columns: reads those of its columns that are named after it.
            nulls: the nulls and the rows of a column, if they are known without its values.
        """
        self.table = table
        self._columns = columns
        self._nulls = nulls
        self._rows: dict[str, dict[Any, slice | pl.Series]] = {}
        self._told: dict[tuple[str, str], frozenset[Any]] = {}

    def of_flow(self, name: str, flow: int, columns: Iterable[str]) -> pl.DataFrame:
        """Columns of the rows of a flow."""
        frame, rows = self._columns(name, *columns), self._rows_of(name).get(flow)
        return frame.clear() if rows is None else frame[rows]

    def has_rows(self, name: str, flow: int) -> bool:
        """True if a flow has any row."""
        return flow in self._rows_of(name)

    def tells(self, name: str, flow: int, column: str) -> bool:
        """True if a flow has any value in a column."""
        if (name, column) not in self._told:
            nulls, height = self._nulls(name, column) or self._counted(name, column)
            rows = self._rows_of(name)
            if nulls and nulls == height:
                self._told[name, column] = frozenset()
            elif nulls and column != "flow":
                # Most columns have values for all flows or for none.
                told = self._columns(name, "flow", column).drop_nulls(column)["flow"].unique()
                self._told[name, column] = frozenset(told)
            else:
                self._told[name, column] = frozenset(rows)
        return flow in self._told[name, column]

    def _counted(self, name: str, column: str) -> tuple[int, int]:
        values = self._columns(name, column)[column]
        return values.null_count(), len(values)

    def flows(self) -> list[dict[str, Any]]:
        """The rows of table ``flows`` in order of their numbers."""
        return self.table("flows").sort("flow").to_dicts()

    def _rows_of(self, name: str) -> dict[Any, slice | pl.Series]:
        if name not in self._rows:
            self._rows[name] = _rows_of_flows(self._columns(name, "flow")["flow"])
        return self._rows[name]


def _rows_of_flows(flows: pl.Series) -> dict[Any, slice | pl.Series]:
    """The places of each flow's rows; in order of flows, as recordings are written, they are had without a copy."""
    if not flows.is_sorted():
        numbered = pl.DataFrame({"flow": flows}).with_row_index("row").group_by("flow", maintain_order=True)
        return dict(numbered.agg("row").iter_rows())
    runs = flows.rle().struct.unnest()
    ends = runs["len"].cum_sum()
    return {flow: slice(end - length, end) for length, flow, end in zip(runs["len"], runs["value"], ends, strict=True)}


def sources(tables: Tables) -> Sources:
    """Every measured series, in the order of the test."""
    rows = [row for row in tables.flows() if row["flow"] is not None and row["name"] is not None]
    only_on_grid = _only_on_grid(tables, rows)
    of_flows = (source for row in rows for source in (*_of_flow(tables, row), *only_on_grid.get(row["flow"], ())))
    return Sources((*of_flows, *_counters(tables), *_drops(tables)))


def _of_flow(tables: Tables, row: dict[str, Any]) -> Iterator[SampledSeries]:
    own = quantities.OWN.get(row["kind"])
    # A flow's own series is listed also where nothing was measured.
    yield from [_measured(tables, row, own, _always)] if own else _own_value(tables, row)
    told = _keys(tables, row)
    for quantity in quantities.ALL:
        if quantity is own or quantity.key in told or (not quantity.key and own is not None):
            continue
        yield _measured(tables, row, quantity, partial(_has_any, tables, row["flow"], quantity))
    for key in told:
        yield _told_value(tables, row, key, quantities.units_of_key(key))


def _measured(tables: Tables, row: dict[str, Any], quantity: Quantity, is_there: Callable[[], bool]) -> SampledSeries:
    series = Series(
        name=_joined(row["name"], quantity.key),
        flow=row["flow"],
        kind=row["kind"] or "value",
        quantity=quantity.name,
        units=quantity.units,
        key=quantity.key,
    )

    def samples() -> pl.DataFrame:
        return _by_quantity(tables.of_flow(quantity.table, row["flow"], quantity.columns), quantity)

    return SampledSeries(series, samples, quantity.skip_null, quantity.averaged, is_there)


def _by_quantity(rows: pl.DataFrame, quantity: Quantity) -> pl.DataFrame:
    if not rows.height:
        return pl.DataFrame(schema=_SAMPLES)
    in_order = not quantity.order or (len(quantity.order) == 1 and rows[quantity.order[0]].is_sorted())
    ordered = rows if in_order else rows.sort(*quantity.order, maintain_order=True)
    samples = ordered.select(time_ns=quantity.time_ns.cast(pl.Int64), value=quantity.value.cast(pl.Float64))
    return _tidy(samples)


def _tidy(samples: pl.DataFrame) -> pl.DataFrame:
    """In order of time, without those of unknown time; a value that is no number is none."""
    known = samples.drop_nulls("time_ns") if samples["time_ns"].null_count() else samples
    ordered = known if known["time_ns"].is_sorted() else known.sort("time_ns", maintain_order=True)
    return ordered.with_columns(pl.when(pl.col("value").is_finite()).then(pl.col("value")))


def _has_any(tables: Tables, flow: int, quantity: Quantity) -> bool:
    if not tables.has_rows(quantity.table, flow):
        return False
    if quantity.needs:
        return all(tables.tells(quantity.table, flow, column) for column in quantity.needs)
    rows = tables.of_flow(quantity.table, flow, quantity.columns)
    return bool(rows.select(quantity.value.is_not_null().any()).item())


def _own_value(tables: Tables, row: dict[str, Any]) -> list[SampledSeries]:
    # A flow of values may consist of further ones only, as the statistics of a queue do.
    rows = tables.of_flow("values", row["flow"], ["key"])
    if rows.height and not (rows["key"].fill_null("") == "").any():
        return []
    return [_told_value(tables, row, "", row["units"] or "")]


def _keys(tables: Tables, row: dict[str, Any]) -> list[str]:
    rows = tables.of_flow("values", row["flow"], ["key"])
    return [key for key in rows["key"].unique(maintain_order=True).to_list() if key]


def _told_value(tables: Tables, row: dict[str, Any], key: str, units: str) -> SampledSeries:
    def samples() -> pl.DataFrame:
        rows = tables.of_flow("values", row["flow"], ("time_ns", "key", "value")).filter(
            pl.col("key").fill_null("") == key
        )
        return _tidy(rows.select("time_ns", "value"))

    quantity = key.rpartition(SEPARATOR)[2].replace("_", "-") if key else "value"
    series = Series(_joined(row["name"], key), row["flow"], row["kind"] or "value", quantity, units, key)
    return SampledSeries(series, samples)


def _only_on_grid(tables: Tables, rows: list[dict[str, Any]]) -> dict[int, list[SampledSeries]]:
    """Further quantities of flows that another tool's file has on its grid, by the number of the flow."""
    found: dict[int, list[SampledSeries]] = {}
    by_name = {row["name"]: row for row in rows}
    for name in tables.table("grids")["name"].unique(maintain_order=True).to_list():
        flow, separator, key = name.rpartition(SEPARATOR)
        if name not in by_name and separator and flow in by_name:
            row = by_name[flow]
            series = Series(name, row["flow"], row["kind"], key.replace("_", "-"), quantities.units_of_key(key), key)
            found.setdefault(row["flow"], []).append(SampledSeries(series, lambda: pl.DataFrame(schema=_SAMPLES)))
    return found


def _counters(tables: Tables) -> Iterator[SampledSeries]:
    frame = tables.table("counters")
    if not frame.height:
        return
    by = ["host", "source", "object", "counter"]
    for parts, rows in frame.partition_by(by, as_dict=True, maintain_order=True).items():
        yield _counter(*(str(part) if part is not None else "" for part in parts), rows=rows)


def _counter(host: str, source: str, thing: str, counter: str, *, rows: pl.DataFrame) -> SampledSeries:
    where = "" if host in ("", LOCAL) else f" @{host}"
    counts_up = bool(rows["cumulative"].fill_null(False).any())
    units = quantities.units_of_key(counter)
    if counts_up:
        units = "%" if units == "s" else f"{units or '1'}/s"
    name = f"{source} {thing.rstrip(':')}{where}{SEPARATOR}{counter}"
    series = Series(name, None, "counter", counter.replace("_", "-"), units, counter)

    def samples() -> pl.DataFrame:
        ordered = rows.select("time_ns", "value").sort("time_ns", maintain_order=True)
        return _tidy(_rates(ordered, 100.0 if units == "%" else 1.0) if counts_up else ordered)

    return SampledSeries(series, samples)


def _drops(tables: Tables) -> Iterator[SampledSeries]:
    """The packets that the host dropped, by reason."""
    frame = tables.table("drops")
    for (reason,), rows in frame.partition_by("reason", as_dict=True, maintain_order=True).items():
        yield _dropped(str(reason), rows)


def _dropped(reason: str, rows: pl.DataFrame) -> SampledSeries:
    name = f"drops {reason}{SEPARATOR}packets"

    def samples() -> pl.DataFrame:
        sums = rows.group_by("start_ns", "end_ns").agg(pl.col("packets").sum()).sort("end_ns")
        # An interval without drops has no row.
        before = pl.col("end_ns").shift(1).fill_null(0) < pl.col("start_ns")
        quiet = sums.filter(before).select(time_ns="start_ns", value=pl.lit(0.0))
        rate = pl.col("packets") * 1e9 / (pl.col("end_ns") - pl.col("start_ns"))
        return _tidy(pl.concat([quiet, sums.select(time_ns="end_ns", value=rate)]))

    return SampledSeries(Series(name, None, "counter", "drops", "packets/s", "packets"), samples)


def _rates(ordered: pl.DataFrame, factor: float) -> pl.DataFrame:
    """The increase a second of a cumulative counter; nothing after a reset."""
    increase = pl.col("value").diff()
    elapsed_s = pl.col("time_ns").diff() / 1e9
    return ordered.select(
        "time_ns", value=pl.when((increase >= 0) & (elapsed_s > 0)).then(increase / elapsed_s * factor)
    ).slice(1)


def _joined(name: str, key: str) -> str:
    return f"{name}{SEPARATOR}{key}" if key else name

"""The series of a recording: which ones its tables hold, and the samples of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import polars as pl

from whydrop.recording import quantities
from whydrop.recording.quantities import Quantity

SEPARATOR = "::"

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


@dataclass(frozen=True)
class SampledSeries:
    """A series together with how its samples are had."""

    series: Series
    samples: Callable[[], pl.DataFrame]
    skip_null: bool = False
    averaged: bool = False


class Tables:
    """The tables of a recording as their series need them: divided by flow, once."""

    def __init__(self, table: Callable[[str], pl.DataFrame]) -> None:
        """``table`` reads a table by its name."""
        self.table = table
        self._divided: dict[str, dict[Any, pl.DataFrame]] = {}
        self._told: dict[str, dict[Any, frozenset[str]]] = {}

    def of_flow(self, name: str, flow: int) -> pl.DataFrame:
        """The rows of a flow."""
        if name not in self._divided:
            self._divided[name] = _divided(self.table(name))
        found = self._divided[name].get(flow)
        return self.table(name).clear() if found is None else found

    def told(self, name: str, flow: int) -> frozenset[str]:
        """The columns in which a flow has any value."""
        if name not in self._told:
            frame = self.table(name)
            nulls = frame.null_count().row(0, named=True)
            always = {column for column, count in nulls.items() if not count and frame.height}
            # Of most columns all flows tell, or none does.
            some = [column for column, count in nulls.items() if 0 < count < frame.height and column != "flow"]
            any_of = frame.select("flow", *some).group_by("flow").agg(pl.all().is_not_null().any())
            self._told[name] = {
                row.pop("flow"): frozenset({*always, *(column for column, there in row.items() if there)})
                for row in any_of.iter_rows(named=True)
            }
        return self._told[name].get(flow, frozenset())

    def flows(self) -> list[dict[str, Any]]:
        """The rows of table ``flows`` in order of their numbers."""
        return self.table("flows").sort("flow").to_dicts()


def _divided(frame: pl.DataFrame) -> dict[Any, pl.DataFrame]:
    """The rows of each flow; of a table in order of flows, as recordings are written, without a copy."""
    if not frame.height:
        return {}
    if not frame["flow"].is_sorted():
        parts = frame.partition_by("flow", as_dict=True, maintain_order=True)
        return {key[0]: part for key, part in parts.items()}
    runs = frame["flow"].rle().struct.unnest()
    ends = runs["len"].cum_sum()
    return {
        flow: frame.slice(end - length, length)
        for length, flow, end in zip(runs["len"], runs["value"], ends, strict=True)
    }


def sources(tables: Tables) -> dict[str, SampledSeries]:
    """Every measured series by its name, in the order of the test."""
    found: dict[str, SampledSeries] = {}
    rows = [row for row in tables.flows() if row["flow"] is not None and row["name"] is not None]
    only_on_grid = _only_on_grid(tables, rows)
    for row in rows:
        for source in (*_of_flow(tables, row), *only_on_grid.get(row["flow"], ())):
            found.setdefault(source.series.name, source)
    for source in (*_counters(tables), *_drops(tables)):
        found.setdefault(source.series.name, source)
    return found


def _of_flow(tables: Tables, row: dict[str, Any]) -> Iterator[SampledSeries]:
    own = quantities.OWN.get(row["kind"])
    yield from [_measured(tables, row, own)] if own else _own_value(tables, row)
    told = _keys(tables, row)
    for quantity in quantities.ALL:
        if quantity is own or quantity.key in told or (not quantity.key and own is not None):
            continue
        if _has_any(tables, row["flow"], quantity):
            yield _measured(tables, row, quantity)
    for key in told:
        yield _told_value(tables, row, key, quantities.units_of_key(key))


def _measured(tables: Tables, row: dict[str, Any], quantity: Quantity) -> SampledSeries:
    series = Series(
        name=_joined(row["name"], quantity.key),
        flow=row["flow"],
        kind=row["kind"] or "value",
        quantity=quantity.name,
        units=quantity.units,
        key=quantity.key,
    )

    def samples() -> pl.DataFrame:
        return _by_quantity(tables.of_flow(quantity.table, row["flow"]), quantity)

    return SampledSeries(series, samples, quantity.skip_null, quantity.averaged)


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
    if quantity.needs:
        return tables.told(quantity.table, flow).issuperset(quantity.needs)
    rows = tables.of_flow(quantity.table, flow)
    if not rows.height:
        return False
    return bool(rows.select(quantity.value.is_not_null().any()).item())


def _own_value(tables: Tables, row: dict[str, Any]) -> list[SampledSeries]:
    # A flow of values may consist of further ones only, as the statistics of a queue do.
    rows = tables.of_flow("values", row["flow"])
    if rows.height and not (rows["key"].fill_null("") == "").any():
        return []
    return [_told_value(tables, row, "", row["units"] or "")]


def _keys(tables: Tables, row: dict[str, Any]) -> list[str]:
    rows = tables.of_flow("values", row["flow"])
    return [key for key in rows["key"].unique(maintain_order=True).to_list() if key]


def _told_value(tables: Tables, row: dict[str, Any], key: str, units: str) -> SampledSeries:
    def samples() -> pl.DataFrame:
        rows = tables.of_flow("values", row["flow"]).filter(pl.col("key").fill_null("") == key)
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
    """Of a counter that counts up, its increase a second; nothing where it began anew."""
    increase = pl.col("value").diff()
    elapsed_s = pl.col("time_ns").diff() / 1e9
    return ordered.select(
        "time_ns", value=pl.when((increase >= 0) & (elapsed_s > 0)).then(increase / elapsed_s * factor)
    ).slice(1)


def _joined(name: str, key: str) -> str:
    return f"{name}{SEPARATOR}{key}" if key else name

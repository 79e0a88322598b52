"""States of switches' ports by what a store has of them: discards, rates, and when each was read last."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

import polars as pl

from whydrop.monitoring.switches import pending
from whydrop.store.store import Store
from whydrop.store.tables import TABLES

_SECOND_NS = 1_000_000_000
# A collector writes what it read every minute: a store with no newer poll than this is not being written.
_LATE_INTERVALS, _LATE_NS = 3, 120 * _SECOND_NS
_OF_PORT = ["switch", "site", "port", "machine"]
_COLLECTORS = ".collecting"
# Points of a chart of one port.
_MOST_POINTS = 1000

DISCARDING = "discarding"
DISCARDED = "discarded before"
NO_DISCARDS = "no discards"
RESET = "counters restarted"
NO_ANSWER = "no answer"
NOT_POLLED = "not polled"
UNKNOWN = "unknown"

_COUNTED = ("octets.rx", "octets.tx", "discards.rx", "discards.tx", "errors.rx", "errors.tx")


@dataclass(frozen=True)
class PortStates:
    """The ports of a store's switches.

    Attributes:
        ports: one row each: ``switch``, ``site``, ``port``, ``machine``; ``state`` in words; ``read_ns``, when its
            counters were read last; ``received_bps`` and ``sent_bps`` at that reading, as the switch sees it;
            ``discards_rx``, ``discards_tx``, ``errors_rx`` and ``errors_tx``, packets in the window; ``quality`` of the
            last sample; ``poll`` and ``message``, the result of the switch's last poll. What the store has not is null.
        polled_ns: when a switch was polled last; ``None`` if there are no samples.
        interval_s: from one poll to the next; ``None`` if there are too few.
        is_written: whether a collector goes on writing the store.
        window_s: for which discards and errors are counted, until ``polled_ns``.
        notes: what could not be read.
    """

    ports: pl.DataFrame
    polled_ns: int | None
    interval_s: float | None
    is_written: bool
    window_s: float
    notes: tuple[str, ...] = ()


def port_states(store: str | PathLike[str], *, window_s: float = 3600.0, now_ns: int | None = None) -> PortStates:
    """Read the states of the ports of a store that ``whydrop collect`` writes, or that was imported.

    Args:
        store: its folder.
        window_s: discards and errors are counted for this time before the last poll.
        now_ns: since the Unix epoch; by default the time of the clock.

    Raises:
        whydrop.Error: there is no store.
    """
    if not window_s > 0:
        raise ValueError(f"window_s={window_s}: expected a time above 0")
    rows = _Rows(store)
    latest_ns = rows.latest_ns()
    if latest_ns is None:
        return PortStates(_states(*rows.since(0), None, 0), None, None, False, window_s, rows.notes)
    counters, polls = rows.since(latest_ns - round(window_s * 1e9))
    interval_ns = _interval_ns(polls, counters)
    late_ns = _LATE_INTERVALS * (interval_ns or 0) + _LATE_NS
    now_ns = time.time_ns() if now_ns is None else now_ns
    return PortStates(
        _states(counters, polls, latest_ns, late_ns), latest_ns, None if interval_ns is None else interval_ns / 1e9,
        now_ns - latest_ns <= late_ns, window_s, rows.notes,
    )  # fmt: skip


def port_history(
    store: str | PathLike[str], switch: str, port: str, machine: str | None = None, *, window_s: float = 3600.0
) -> pl.DataFrame:
    """Read how the counters of one port grew over time.

    Args:
        store: its folder.
        switch: its name in the store.
        port: its name in the store.
        machine: the host behind the port; ``None`` where the store names none.
        window_s: before the last poll of the store.

    Returns:
        ``time_ns``, ``counter`` and ``per_second`` (octets, packets or frames), at most a thousand rows of each
        counter; beyond, a row is the mean of several samples. A sample without a value has no row.

    Raises:
        whydrop.Error: there is no store.
    """
    if not window_s > 0:
        raise ValueError(f"window_s={window_s}: expected a time above 0")
    rows = _Rows(store)
    latest_ns = rows.latest_ns() or 0
    counters, _ = rows.since(latest_ns - round(window_s * 1e9))
    is_it = (pl.col("switch") == switch) & (pl.col("port") == port) & pl.col("machine").eq_missing(pl.lit(machine))
    step_ns = max(1, round(window_s * 1e9 / _MOST_POINTS))
    own = counters.filter(is_it & pl.col("value").is_not_null() & (pl.col("span_ns") > 0))
    return (
        own.group_by("counter", pl.col("end_ns") // step_ns)
        .agg(time_ns=pl.col("end_ns").max(), per_second=pl.col("value").sum() * 1e9 / pl.col("span_ns").sum())
        .select("time_ns", "counter", "per_second")
        .sort("counter", "time_ns")
    )


class _Rows:
    """The newest rows of a store, with those that its collectors have not put into Parquet yet."""

    def __init__(self, store: str | PathLike[str]) -> None:
        self._store = Store.open(store)
        self._folder = Path(fspath(store))
        self._notes: list[str] = []
        self._databases = sorted(self._folder.glob(f"{_COLLECTORS}/*/{pending.NAME}"))

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self._store.notes, *dict.fromkeys(self._notes))

    def latest_ns(self) -> int | None:
        """When a switch was polled last, by either table."""
        found = [self._last_of("counters", "end_ns"), self._last_of("polls", "due_ns")]
        return max((one for one in found if one is not None), default=None)

    def since(self, since_ns: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Rows of ``counters`` and of ``polls`` behind a time."""
        return self._of("counters", "end_ns", since_ns), self._of("polls", "due_ns", since_ns)

    def _last_of(self, table: str, column: str) -> int | None:
        frames = [self._store.read(table, lambda rows: rows.select(column), day) for day in self._days(table)[-1:]]
        frames += [frame.select(column) for frame in self._pending(table, column, 0)]
        found = [int(latest) for frame in frames if isinstance(latest := frame[column].max(), int)]
        return max(found, default=None)

    def _of(self, table: str, column: str, since_ns: int) -> pl.DataFrame:
        first = time.strftime("%Y-%m-%d", time.gmtime(max(0, since_ns) // _SECOND_NS))
        days = [day for [day] in self._days(table) if day >= first]
        names = list(TABLES[table])
        frames = [
            self._store.read(table, lambda rows: rows.filter(pl.col(column) > since_ns).select(names), days)
            if days else pl.DataFrame(schema=TABLES[table]),
            *self._pending(table, column, since_ns),
        ]  # fmt: skip
        # Rows are in both places for a moment.
        keys = [name for name in (*_OF_PORT, "counter", column) if name in names]
        return pl.concat(frames).unique(keys, keep="last", maintain_order=True)

    def _days(self, table: str) -> list[list[str]]:
        found = (path.name.removeprefix("day=") for path in (self._folder / table).glob("day=[0-9]*"))
        return [[day] for day in sorted(found)]

    def _pending(self, table: str, column: str, since_ns: int) -> Iterable[pl.DataFrame]:
        for path in self._databases:
            try:
                yield pending.rows_in_database(path, table, since_ns).filter(pl.col(column) > since_ns)
            except (sqlite3.Error, OSError, pl.exceptions.PolarsError) as reason:
                self._notes.append(f"{path}: not read, so the polls of the last hour may be missing: {reason}")


def _interval_ns(polls: pl.DataFrame, counters: pl.DataFrame) -> int | None:
    times = polls.select("switch", at="due_ns") if polls.height else counters.select("switch", at="end_ns")
    steps = times.unique().sort("switch", "at").select(pl.col("at").diff().over("switch"))["at"].drop_nulls()
    middle = steps.median()
    return round(middle) if isinstance(middle, (int, float)) else None


def _states(counters: pl.DataFrame, polls: pl.DataFrame, latest_ns: int | None, late_ns: int) -> pl.DataFrame:
    here = counters.sort("end_ns")
    last = pl.col("end_ns") == pl.col("end_ns").max().over(_OF_PORT)
    whole = here.group_by(_OF_PORT).agg(
        pl.col("end_ns").max().alias("read_ns"),
        *(_sum(name) for name in _COUNTED if not name.startswith("octets")),
    )
    newest = here.filter(last).group_by(_OF_PORT).agg(
        _rate("octets.rx").alias("received_bps"),
        _rate("octets.tx").alias("sent_bps"),
        pl.col("value").filter(pl.col("counter").is_in(["discards.rx", "discards.tx"])).sum().alias("new_discards"),
        pl.col("quality").filter(pl.col("quality") != "ok").first().fill_null("ok").alias("quality"),
    )  # fmt: skip
    answers = polls.sort("due_ns").group_by("switch").agg(
        pl.col("due_ns").last(), pl.col("status").last().alias("poll"), pl.col("message").last()
    )  # fmt: skip
    # A port without a machine has null there, which joins to itself.
    found = whole.join(newest, on=_OF_PORT, nulls_equal=True).join(answers, on="switch", how="left")
    return found.with_columns(state=_state(latest_ns or 0, late_ns)).select(
        *_OF_PORT, "state", "read_ns", "received_bps", "sent_bps",
        *(_name(one) for one in _COUNTED if not one.startswith("octets")), "quality", "poll", "message",
    ).sort(_OF_PORT)  # fmt: skip


def _state(latest_ns: int, late_ns: int) -> pl.Expr:
    discards = pl.sum_horizontal(pl.col("discards_rx").fill_null(0), pl.col("discards_tx").fill_null(0))
    counted = pl.col("discards_rx").is_not_null() | pl.col("discards_tx").is_not_null()
    states = (
        (pl.col("due_ns").fill_null(pl.col("read_ns")) < latest_ns - late_ns, NOT_POLLED),
        (pl.col("poll").is_in(["timeout", "refused", "error"]), NO_ANSWER),
        (pl.col("quality").str.contains("reset"), RESET),
        (pl.col("new_discards") > 0, DISCARDING),
        (discards > 0, DISCARDED),
        (counted, NO_DISCARDS),
    )
    return pl.coalesce(*(pl.when(applies).then(pl.lit(state)) for applies, state in states), pl.lit(UNKNOWN))


def _name(counter: str) -> str:
    return counter.replace(".", "_")


def _sum(counter: str) -> pl.Expr:
    """The growth in the window; null where no sample has a value."""
    values = pl.col("value").filter((pl.col("counter") == counter) & pl.col("value").is_not_null())
    return pl.when(values.len() > 0).then(values.sum()).alias(_name(counter))


def _rate(counter: str) -> pl.Expr:
    of = (pl.col("counter") == counter) & (pl.col("span_ns") > 0)
    return (pl.col("value") * 8e9 / pl.col("span_ns")).filter(of).last()

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
# Rows that are read at once: some millions of a thousand ports.
_AT_ONCE_NS = 3 * 3600 * _SECOND_NS
_END_NS = (1 << 63) - 1

DISCARDING = "discarding"
DISCARDED = "discarded before"
NO_DISCARDS = "no discards"
RESET = "counters restarted"
NO_ANSWER = "no answer"
NOT_POLLED = "not polled"
UNKNOWN = "unknown"

_SUMMED = ("discards.rx", "discards.tx", "errors.rx", "errors.tx")
_COUNTED = ("octets.rx", "octets.tx", *_SUMMED)
_USED = {
    name: {column: TABLES[name][column] for column in columns.split()}
    for name, columns in {
        "counters": "end_ns span_ns switch site port machine counter value quality",
        "polls": "due_ns switch status message",
    }.items()
}


@dataclass(frozen=True)
class PortStates:
    """The ports of a store's switches.

    Attributes:
        ports: one row each, of those with octets, discards or errors in the window: ``switch``, ``site``, ``port``,
            ``machine``; ``state`` in words; ``read_ns``, when its counters were read last; ``received_bps`` and
            ``sent_bps`` at that reading, as the switch sees it; ``discards_rx``, ``discards_tx``, ``errors_rx`` and
            ``errors_tx``, packets in the window; ``quality`` of the last sample; ``poll`` and ``message``, the result
            of the switch's last poll. What the store has not is null.
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
        nothing = _states(_Grown(), pl.DataFrame(schema=TABLES["polls"]), 0, 0)
        return PortStates(nothing, None, None, False, window_s, rows.notes)
    grown, since_ns = _Grown(), latest_ns - round(window_s * 1e9)
    # A day of a fleet does not fit into memory at once.
    for begin_ns in range(since_ns, latest_ns, _AT_ONCE_NS):
        grown.add(rows.counters(begin_ns, min(begin_ns + _AT_ONCE_NS, latest_ns), pl.col("counter").is_in(_COUNTED)))
    polls = rows.polls(since_ns)
    interval_ns = _interval_ns(polls, grown.newest)
    late_ns = _LATE_INTERVALS * (interval_ns or 0) + _LATE_NS
    now_ns = time.time_ns() if now_ns is None else now_ns
    return PortStates(
        _states(grown, polls, latest_ns, late_ns), latest_ns, None if interval_ns is None else interval_ns / 1e9,
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
    is_it = (pl.col("switch") == switch) & (pl.col("port") == port) & pl.col("machine").eq_missing(pl.lit(machine))
    step_ns = max(1, round(window_s * 1e9 / _MOST_POINTS))
    is_known = pl.col("value").is_not_null() & (pl.col("span_ns") > 0)
    own = rows.counters(latest_ns - round(window_s * 1e9), latest_ns, is_it & is_known)
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

    def counters(self, after_ns: int, until_ns: int, which: pl.Expr) -> pl.DataFrame:
        """Rows of ``counters`` behind a time, and until another one."""
        return self._of("counters", "end_ns", after_ns, until_ns, which)

    def polls(self, after_ns: int) -> pl.DataFrame:
        """Rows of ``polls`` behind a time."""
        return self._of("polls", "due_ns", after_ns, _END_NS, pl.lit(True))

    def _last_of(self, table: str, column: str) -> int | None:
        frames = [self._store.read(table, lambda rows: rows.select(column), day) for day in self._days(table)[-1:]]
        frames += [frame.select(column) for frame in self._pending(table, column, 0)]
        found = [int(latest) for frame in frames if isinstance(latest := frame[column].max(), int)]
        return max(found, default=None)

    def _of(self, table: str, column: str, after_ns: int, until_ns: int, which: pl.Expr) -> pl.DataFrame:
        first, last = (time.strftime("%Y-%m-%d", time.gmtime(max(0, at) // _SECOND_NS)) for at in (after_ns, until_ns))
        days = [day for [day] in self._days(table) if first <= day <= last]
        is_wanted = (pl.col(column) > after_ns) & (pl.col(column) <= until_ns) & which
        stored = pl.DataFrame(schema=_USED[table])
        if days:
            stored = self._store.read(table, lambda rows: rows.filter(is_wanted).select(list(_USED[table])), days)
        waiting = [rows.filter(is_wanted).select(list(_USED[table])) for rows in self._pending(table, column, after_ns)]
        if not any(rows.height for rows in waiting):
            return stored
        # Rows are in both places for a moment.
        keys = [name for name in (*_OF_PORT, "counter", column) if name in _USED[table]]
        return pl.concat([stored, *waiting]).unique(keys, keep="last", maintain_order=True)

    def _days(self, table: str) -> list[list[str]]:
        found = (path.name.removeprefix("day=") for path in (self._folder / table).glob("day=[0-9]*"))
        return [[day] for day in sorted(found)]

    def _pending(self, table: str, column: str, since_ns: int) -> Iterable[pl.DataFrame]:
        for path in self._databases:
            try:
                yield pending.rows_in_database(path, table, since_ns).filter(pl.col(column) > since_ns)
            except (sqlite3.Error, OSError, pl.exceptions.PolarsError) as reason:
                self._notes.append(f"{path}: not read, so the polls of the last hour may be missing: {reason}")


def _interval_ns(polls: pl.DataFrame, newest: pl.DataFrame) -> int | None:
    """From one poll to the next; of a store without polls, what the newest samples span."""
    due = polls.select("switch", "due_ns").unique().sort("switch", "due_ns")
    steps = due.select(pl.col("due_ns").diff().over("switch"))["due_ns"].drop_nulls()
    middle = (steps if steps.len() else newest["span_ns"]).median()
    return round(middle) if isinstance(middle, (int, float)) else None


class _Grown:
    """Sums of samples, taken part by part, and the newest samples of each port."""

    def __init__(self) -> None:
        self.newest = pl.DataFrame(schema=_USED["counters"])
        self.sums = self._sums(self.newest)

    def add(self, counters: pl.DataFrame) -> None:
        """Take the samples of a later time."""
        known = (pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in map(_name, _SUMMED))
        self.sums = pl.concat([self.sums, self._sums(counters)]).group_by(_OF_PORT).agg(pl.col("read_ns").max(), *known)
        last = pl.col("end_ns") == pl.col("end_ns").max().over(_OF_PORT)
        self.newest = pl.concat([self.newest, counters]).filter(last)

    def _sums(self, counters: pl.DataFrame) -> pl.DataFrame:
        return counters.group_by(_OF_PORT).agg(pl.col("end_ns").max().alias("read_ns"), *map(_sum, _SUMMED))


def _states(grown: _Grown, polls: pl.DataFrame, latest_ns: int, late_ns: int) -> pl.DataFrame:
    newest = grown.newest.group_by(_OF_PORT).agg(
        _rate("octets.rx").alias("received_bps"),
        _rate("octets.tx").alias("sent_bps"),
        pl.col("value").filter(pl.col("counter").is_in(["discards.rx", "discards.tx"])).sum().alias("new_discards"),
        pl.col("quality").filter(pl.col("quality") != "ok").first().fill_null("ok").alias("quality"),
    )  # fmt: skip
    answers = polls.sort("due_ns").group_by("switch").agg(
        pl.col("due_ns").last(), pl.col("status").last().alias("poll"), pl.col("message").last()
    )  # fmt: skip
    # A port without a machine has null there, which joins to itself.
    found = grown.sums.join(newest, on=_OF_PORT, nulls_equal=True).join(answers, on="switch", how="left")
    return found.with_columns(state=_state(latest_ns, late_ns)).select(
        *_OF_PORT, "state", "read_ns", "received_bps", "sent_bps",
        *map(_name, _SUMMED), "quality", "poll", "message",
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

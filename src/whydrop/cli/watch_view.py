"""The display of a watch while it runs: a table on a terminal, a line a second elsewhere; and its summary."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from whydrop.cli import ending
from whydrop.monitoring.sockets.board import Board
from whydrop.text import quantities

if TYPE_CHECKING:
    import polars as pl

    from whydrop.monitoring.sockets.connections import Connection
    from whydrop.monitoring.sockets.host import Dropped
    from whydrop.monitoring.sockets.sampler import Taken
    from whydrop.monitoring.sockets.watch import Watch, Watched

_LINE_EVERY_S = 1.0
# Beside the rows: the title, the heads, and what does not fit.
_BESIDE_ROWS = 6
_FEWEST_ROWS = 5
# Of the kernel's reasons for drops, in a line.
_FEW_REASONS = 3


class View(Protocol):
    """Where a watch shows how it stands."""

    def show(self, watch: Watch, taken: Taken) -> None:
        """How it stands now, by what was seen since the last time."""

    def say(self, line: str) -> None:
        """A line that stays."""


@contextmanager
def viewing(*, live: bool) -> Iterator[View]:
    """Show it on a terminal, as lines where standard output is none, or not at all."""
    if not live:
        yield Silent()
    elif not sys.stdout.isatty():
        yield Lines()
    else:
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(), transient=True, auto_refresh=False) as display:
            yield Table(display)


class Silent:
    """Nothing but what goes wrong."""

    def show(self, watch: Watch, taken: Taken) -> None:
        """Nothing."""

    def say(self, line: str) -> None:
        """On standard error."""
        print(f"whydrop: {ending.printable(line)}", file=sys.stderr, flush=True)


class Lines(Silent):
    """One line a second."""

    def __init__(self) -> None:
        self._due_s = time.monotonic() + _LINE_EVERY_S
        self._board = Board()

    def show(self, watch: Watch, taken: Taken) -> None:
        """A line, where one is due."""
        self._board.take(taken.frames.get("tcp_info"), watch.connections)
        if time.monotonic() < self._due_s:
            return
        self._due_s += _LINE_EVERY_S
        moment = time.strftime("%H:%M:%S", time.gmtime())
        print(f"{moment}  {ending.printable(in_a_line(watch, self._board.rows(watch.connections)))}", flush=True)


def in_a_line(watch: Watch, rows: pl.DataFrame) -> str:
    """How all connections stand together; ``rows`` are those of a :class:`Board`."""
    counts = rows["limit"].value_counts(sort=True)
    limits = ", ".join(f"{count} {limit}" for limit, count in counts.iter_rows())
    parts = [
        _number(len(watch.connections.there), "connection"),
        f"sent {quantities.rate(float(rows['sent_bps'].sum()))}",
        f"received {quantities.rate(float(rows['received_bps'].sum()))}",
        f"{quantities.count(float(rows['retransmitted'].sum()))} retransmitted",
    ]
    if limits:
        parts.append(f"limited by: {limits}")
    if watch.host.dropped.reasons:
        parts.append(f"dropped here: {dropped_in_words(watch.host.dropped, _FEW_REASONS)}")
    if watch.tally.missed:
        parts.append(f"{quantities.count(watch.tally.missed)} polls missed")
    return "  ".join(parts)


def dropped_in_words(dropped: Dropped, most: int | None = None) -> str:
    """The drops of this host by the kernel's reasons, the most frequent first.

    >>> from collections import Counter
    >>> from whydrop.monitoring.sockets.host import Dropped
    >>> dropped_in_words(Dropped(reasons=Counter(QDISC_DROP=7, NO_SOCKET=2)), 1)
    '7 QDISC_DROP, 2 others'
    """
    named = [f"{quantities.count(packets)} {reason}" for reason, packets in dropped.reasons.most_common(most)]
    rest = dropped.reasons.total() - sum(packets for _, packets in dropped.reasons.most_common(most))
    return ", ".join([*named, *([f"{quantities.count(rest)} others"] if rest else [])])


class Table:
    """A table that is always up to date, with the connections that carry most."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._board = Board()

    def say(self, line: str) -> None:
        """Above the table."""
        from rich.text import Text

        self._display.console.print(Text(f"whydrop: {ending.printable(line)}"))

    def show(self, watch: Watch, taken: Taken) -> None:
        """Draw it again."""
        self._board.take(taken.frames.get("tcp_info"), watch.connections)
        room = max(_FEWEST_ROWS, self._display.console.size.height - _BESIDE_ROWS)
        self._display.update(table(watch, self._board.rows(watch.connections), room), refresh=True)


def table(watch: Watch, stand: pl.DataFrame, most_rows: int) -> Any:
    """The connections that carry most, with what limits each, as rich draws it; ``stand`` is of a :class:`Board`."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    rows = stand.with_columns(
        load=_sum_of("sent_bps", "received_bps")
    ).sort("load", "acked_bytes", descending=True, nulls_last=True)  # fmt: skip
    drawn = RichTable(box=box.SIMPLE_HEAD, title=Text(in_a_line(watch, stand)), title_justify="left", expand=True)
    drawn.add_column("connection", overflow="ellipsis", no_wrap=True, ratio=1)
    drawn.add_column("process", overflow="ellipsis", no_wrap=True, max_width=16)
    for head in ("sent", "received", "cwnd", "RTT", "retransmitted", "limited by"):
        drawn.add_column(head, justify="left" if head == "limited by" else "right", no_wrap=True)
    for row in rows.head(most_rows).iter_rows(named=True):
        drawn.add_row(*(Text(ending.printable(cell)) for cell in _cells(row, watch.connections.there[row["flow"]])))
    if rows.height > most_rows:
        drawn.caption = f"and {quantities.count(rows.height - most_rows)} more that carry less"
    return drawn


def _sum_of(*columns: str) -> pl.Expr:
    import polars as pl

    return pl.sum_horizontal(pl.col(column).fill_null(0) for column in columns)


def _cells(row: dict[str, Any], connection: Connection) -> tuple[str, ...]:
    owner = "" if connection.owner is None else f"{connection.owner[1]} {connection.owner[0]}"
    again = row["retransmitted"]
    grown = f" (+{quantities.count(again)})" if again else ""
    return (
        " > ".join(connection.ends),
        owner,
        _rate(row["sent_bps"]),
        _rate(row["received_bps"]),
        quantities.count(row["congestion_window_packets"]),
        quantities.duration(row["srtt_ns"] / 1e9),
        f"{quantities.count(row['retransmitted_packets'])}{grown}",
        row["limit"] if row["state"] == "established" else f"{row['limit']}, {row['state']}",
    )


def _rate(rate_bps: float | None) -> str:
    return "" if rate_bps is None else quantities.rate(rate_bps)


def _number(count: int, thing: str) -> str:
    return f"{quantities.count(count)} {thing}{'' if count == 1 else 's'}"


def summary(watched: Watched) -> list[str]:
    """The summary of a watch, in lines."""
    tally = watched.tally
    lines = [f"{_number(watched.connections, 'connection')} seen"]
    polls = f"{_number(tally.polls, 'poll')} of the kernel's sockets, {quantities.count(tally.missed)} missed"
    if tally.cpu_share is not None:
        polls += f"; {quantities.percent(tally.cpu_share)} of a processor"
    lines.append(polls)
    dropped = watched.dropped
    if dropped.method != "off":
        lines.append(f"Dropped by this host: {dropped_in_words(dropped) or 'nothing'}")
    if dropped.retransmitted:
        again = _number(dropped.retransmitted, "segment")
        lines.append(
            f"{again} retransmitted, {quantities.count(dropped.retransmitted_after_drop)} of them after a drop on this "
            "host"
        )
    return lines

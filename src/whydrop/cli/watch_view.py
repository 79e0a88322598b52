"""The display of a watch while it runs: a table on a terminal, a line a second elsewhere; and its summary."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, Any

from whydrop.cli import ending
from whydrop.cli.progress import Screen
from whydrop.monitoring.sockets.limits import Board
from whydrop.show.document import Column, Columns, Document, Section, Table, Text, known
from whydrop.text.quantities import count, duration, percent, plural, rate

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


class View:
    """The state of a watch: a table on a terminal, a line a second where standard output is none."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._board = Board()
        self._due_s = math.inf if sys.stdout.isatty() else time.monotonic() + _LINE_EVERY_S

    def show(self, watch: Watch, taken: Taken) -> None:
        """Show the state now, by what was seen since the last call."""
        self._board.take(taken.frames.get("tcp_info"), watch.connections)
        if self._screen.height:
            most = max(_FEWEST_ROWS, self._screen.height - _BESIDE_ROWS)
            self._screen.draw(document(watch, self._board.rows(watch.connections), most))
        elif time.monotonic() >= self._due_s:
            self._due_s += _LINE_EVERY_S
            moment = time.strftime("%H:%M:%S", time.gmtime())
            line = in_a_line(watch, self._board.rows(watch.connections))
            print(f"{moment}  {ending.printable(line)}", flush=True)


def in_a_line(watch: Watch, rows: pl.DataFrame) -> str:
    """The state of all connections together; ``rows`` are those of a :class:`Board`."""
    counts = rows["limit"].value_counts(sort=True)
    limits = ", ".join(f"{count(number)} {limit}" for limit, number in counts.iter_rows())
    parts = [
        plural(len(watch.connections.there), "connection"),
        f"sent {rate(float(rows['sent_bps'].sum()))}",
        f"received {rate(float(rows['received_bps'].sum()))}",
        f"{count(float(rows['retransmitted'].sum()))} retransmitted",
    ]
    if limits:
        parts.append(f"limited by: {limits}")
    if watch.host.dropped.reasons:
        parts.append(f"dropped here: {dropped_in_words(watch.host.dropped, _FEW_REASONS)}")
    if watch.tally.missed:
        parts.append(f"{count(watch.tally.missed)} polls missed")
    return "  ".join(parts)


def dropped_in_words(dropped: Dropped, most: int | None = None) -> str:
    """The drops of this host by the kernel's reasons, the most frequent first.

    >>> from collections import Counter
    >>> from whydrop.monitoring.sockets.host import Dropped
    >>> dropped_in_words(Dropped(reasons=Counter(QDISC_DROP=7, NO_SOCKET=2)), 1)
    '7 QDISC_DROP, 2 others'
    """
    named = [f"{count(packets)} {reason}" for reason, packets in dropped.reasons.most_common(most)]
    rest = dropped.reasons.total() - sum(packets for _, packets in dropped.reasons.most_common(most))
    return ", ".join([*named, *([f"{count(rest)} others"] if rest else [])])


def document(watch: Watch, stand: pl.DataFrame, most_rows: int) -> Document:
    """The connections that carry most, with the limit of each; ``stand`` is of a :class:`Board`."""
    import polars as pl

    load = pl.sum_horizontal(pl.col(column).fill_null(0) for column in ("sent_bps", "received_bps"))
    rows = stand.sort(load, "acked_bytes", descending=True, nulls_last=True)

    def connection(row: dict[str, Any]) -> Connection:
        return watch.connections.there[row["flow"]]

    def process(row: dict[str, Any]) -> str:
        owner = connection(row).owner
        return "" if owner is None else f"{owner[1]} {owner[0]}"

    def retransmitted(row: dict[str, Any]) -> str:
        new = f" (+{count(row['retransmitted'])})" if row["retransmitted"] else ""
        return f"{count(row['retransmitted_packets'])}{new}"

    columns: Columns[dict[str, Any]] = {
        Column("Connection"): lambda row: " > ".join(connection(row).ends),
        Column("Process", rank=6): process,
        Column("Sent", True, 1): lambda row: known(row["sent_bps"], rate),
        Column("Received", True, 2): lambda row: known(row["received_bps"], rate),
        Column("cwnd", True, 4): lambda row: count(row["congestion_window_packets"]),
        Column("RTT", True, 3): lambda row: duration(row["srtt_ns"] / 1e9),
        Column("Retransmitted", True, 5): retransmitted,
        Column("Limited by"): lambda row: (
            row["limit"] if row["state"] == "established" else f"{row['limit']}, {row['state']}"
        ),
    }
    shown = Table.of("", columns, rows.iter_rows(named=True), most=most_rows, elsewhere="they carry less")
    title = in_a_line(watch, stand)
    return Document(title, (Section(title, (shown,)),))


def summary(watched: Watched) -> Document:
    """The summary of a watch."""
    tally, dropped = watched.tally, watched.dropped
    polls = f"{plural(tally.polls, 'poll')} of the kernel's sockets, {count(tally.missed)} missed"
    if tally.cpu_share is not None:
        polls += f"; {percent(tally.cpu_share)} of a processor"
    lines = [f"{plural(watched.connections, 'connection')} seen", polls]
    if dropped.method != "off":
        lines.append(f"Dropped by this host: {dropped_in_words(dropped) or 'nothing'}")
    if dropped.retransmitted:
        after = f"{count(dropped.retransmitted_after_drop)} of them after a drop on this host"
        lines.append(f"{plural(dropped.retransmitted, 'segment')} retransmitted, {after}")
    lines += watched.events.lines()
    return Document("Watch", tuple(map(Text, lines)))

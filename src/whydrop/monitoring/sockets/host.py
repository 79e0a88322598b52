"""The packets that the kernel of this host drops, with its reasons, and the host's counters of drops and errors."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import polars as pl

from whydrop import _core
from whydrop.measure.host import CounterSampler
from whydrop.measure.host.counters import Reading
from whydrop.recording.tables import COUNTERS

# The methods of watching drops, the most informative first; `auto` takes the first that the kernel allows.
AUTO, PROGRAM, DROP_MONITOR, TRACEPOINT, OFF = "auto", "program", "drop-monitor", "tracepoint", "off"
METHODS = (AUTO, PROGRAM, DROP_MONITOR, TRACEPOINT, OFF)

LOST = (
    "packets were dropped faster than they could be counted; the counter lost_events of source drops has their number"
)
NOT_LOOKED_AT = "packets were dropped so fast that some were counted without their addresses"


@dataclass
class Dropped:
    """The drops of this host since the watch began.

    Attributes:
        method: how drops are watched: one of :data:`METHODS`.
        shortfall: why drops are not watched, or not completely; ``None`` where nothing is missing.
        reasons: packets by the kernel's reason; of the watch's own network namespace, where the kernel reports it.
        lost: events that the kernel had no room for; they are in no count.
        not_looked_at: drops that were counted without their addresses.
        retransmitted: TCP segments of this host; ``None`` where the method does not report them.
        retransmitted_after_drop: those of them that this host had dropped before.
    """

    method: str = OFF
    shortfall: str | None = None
    reasons: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    not_looked_at: int = 0
    retransmitted: int | None = None
    retransmitted_after_drop: int = 0

    def add(self, frames: dict[str, pl.DataFrame]) -> None:
        """Count the drops and retransmissions of some samples."""
        if "drops" in frames:
            here = pl.col("here").fill_null(self.method != PROGRAM)
            sums = frames["drops"].filter(here).group_by("reason").agg(pl.col("packets").sum())
            for reason, packets in sums.iter_rows():
                self.reasons[reason] += packets
        if "retransmissions" in frames:
            again = frames["retransmissions"]
            self.retransmitted = (self.retransmitted or 0) + int(again["packets"].sum())
            self.retransmitted_after_drop += int(again.filter(pl.col("reason").is_not_null())["packets"].sum())


class Host:
    """Samples from :meth:`start` until :meth:`stop`.

    Attributes:
        dropped: the drops of this host so far.
        latest: the last result of :meth:`take`.
    """

    def __init__(self, counters_every_s: float, drops: str) -> None:
        """Read counters at this interval (0: never), and watch drops by one of :data:`METHODS`."""
        self.dropped = Dropped()
        self.latest: list[tuple[str, pl.DataFrame]] = []
        self._drops = drops
        self._monitor: _core.DropMonitor | None = None
        self._counters: CounterSampler | None = None
        self._every_s = counters_every_s

    def start(self) -> None:
        """Begin; what the kernel does not allow is left out, and named by :attr:`dropped`."""
        if self._drops != OFF:
            self._begin_drops()
        if self._every_s > 0:
            sources = {} if self._monitor is None else {"drops": partial(_monitored, self._monitor)}
            self._counters = CounterSampler(None, self._every_s, further=sources)
            self._counters.start()

    def _begin_drops(self) -> None:
        try:
            self._monitor = _core.DropMonitor(self._drops)
        except OSError as reason:
            self.dropped = Dropped(OFF, _in_words(reason))
            return
        standing = self._monitor.standing()
        shortfall = standing["shortfall"]
        again = 0 if standing["tells_sent_again"] else None
        self.dropped = Dropped(standing["way"], shortfall, retransmitted=again)

    def take(self) -> list[tuple[str, pl.DataFrame]]:
        """Rows by the tables of a recording, since the last call."""
        found: list[tuple[str, pl.DataFrame]] = []
        if self._monitor is not None:
            frames = {name: pl.DataFrame(table) for name, table in self._monitor.take()}
            self.dropped.add(frames)
            standing = self._monitor.standing()
            self.dropped.lost, self.dropped.not_looked_at = standing["lost"], standing["not_looked_at"]
            found += frames.items()
        if self._counters is not None:
            found.append(("counters", self._counters.drain()))
        self.latest = found
        return found

    def warnings(self) -> list[str]:
        """Warnings on the counts, for the reader."""
        return [LOST] * (self.dropped.lost > 0) + [NOT_LOOKED_AT] * (self.dropped.not_looked_at > 0)

    def stop(self) -> None:
        """Sample for the last time; the last rows can be taken afterwards."""
        if self._monitor is not None:
            self._monitor.stop()
        if self._counters is not None:
            self._counters.stop()

    def metadata(self) -> dict[str, Any]:
        """The methods of the watch, for the metadata of a recording."""
        dropped = self.dropped
        return {"counters_every_s": self._every_s, "drops": dropped.method, "drops_shortfall": dropped.shortfall}


def _in_words(reason: OSError) -> str:
    advice = {
        errno.EPERM: ": it needs root, or the capabilities CAP_BPF, CAP_PERFMON and CAP_SYSLOG",
        errno.EACCES: ": it needs root, or the capabilities CAP_BPF, CAP_PERFMON and CAP_SYSLOG",
        errno.EBUSY: ": another program uses the drop monitor",
        errno.ENOENT: ": this kernel lacks it (for the drop monitor try `modprobe drop_monitor`)",
    }.get(reason.errno or 0, "")
    return f"{reason.strerror or reason}{advice}"


def _monitored(monitor: _core.DropMonitor) -> Iterator[Reading]:
    """Counters of the drop monitor itself since the watch began: drops that it could not count, and its CPU time."""
    standing = monitor.standing()
    yield "drops", "monitor", "lost_events", float(standing["lost"]), True
    yield "drops", "monitor", "not_looked_at_packets", float(standing["not_looked_at"]), True
    yield "drops", "monitor", "busy_s", standing["cpu_ns"] / 1e9, True


def datagram_counters(frame: pl.DataFrame) -> pl.DataFrame:
    """The queues of UDP sockets as rows of ``counters``."""
    to = pl.when(pl.col("remote").str.ends_with(":0")).then(pl.lit("")).otherwise(pl.lit(" > ") + pl.col("remote"))
    # Several sockets may have one address (SO_REUSEPORT); their cookies differ.
    name = pl.lit("udp ") + pl.col("local") + to + pl.lit(" ") + pl.col("cookie").cast(pl.String())
    sockets = frame.select(
        "time_ns", "receive_queue_bytes", "drops", host=pl.lit("local"), source=pl.lit("socket"), object=name
    )
    counters = [
        sockets.with_columns(
            counter=pl.lit(counter), value=pl.col(counter).cast(pl.Float64), cumulative=pl.lit(counts_up)
        )
        for counter, counts_up in (("receive_queue_bytes", False), ("drops", True))
    ]
    return pl.concat(counters).drop_nulls("value").select(*COUNTERS)

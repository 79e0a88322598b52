"""This host beside its connections: the packets that its kernel drops, with their reasons, and counters of trouble."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from whydrop import _core
from whydrop.measure.host import CounterSampler
from whydrop.measure.host.kernel_sources import Reading
from whydrop.recording.tables import COUNTERS

# How drops may be watched, the one that tells most first; `auto` takes the first that the kernel allows.
AUTO, PROGRAM, DROP_MONITOR, TRACEPOINT, OFF = "auto", "program", "drop-monitor", "tracepoint", "off"
WAYS = (AUTO, PROGRAM, DROP_MONITOR, TRACEPOINT, OFF)

LOST = "more packets were dropped at once than could be counted: counter lost_events of drops has how many"
NOT_LOOKED_AT = "so many packets were dropped at once that some were counted without their addresses"


@dataclass
class Dropped:
    """The drops of this host since the watch began.

    Attributes:
        way: how drops are watched: one of :data:`WAYS`.
        shortfall: why not, or not in full; ``None`` where all is told.
        reasons: packets by the kernel's reason; of the network namespace of the watch, where that is told.
        lost: events that the kernel had no room for; they are in no count.
        not_looked_at: drops that were counted without their addresses.
        sent_again: TCP segments of this host; ``None`` where they are not told.
        laid: of those, segments of which a drop on this host was found.
    """

    way: str = OFF
    shortfall: str | None = None
    reasons: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    not_looked_at: int = 0
    sent_again: int | None = None
    laid: int = 0

    def add(self, frames: dict[str, pl.DataFrame]) -> None:
        """Count what was seen."""
        if "drops" in frames:
            here = pl.col("here").fill_null(self.way != PROGRAM)
            sums = frames["drops"].filter(here).group_by("reason").agg(pl.col("packets").sum())
            for reason, packets in sums.iter_rows():
                self.reasons[reason] += packets
        if "retransmissions" in frames:
            again = frames["retransmissions"]
            self.sent_again = (self.sent_again or 0) + int(again["packets"].sum())
            self.laid += int(again.filter(pl.col("reason").is_not_null())["packets"].sum())


class Host:
    """Samples from :meth:`start` until :meth:`stop`.

    Attributes:
        dropped: what this host dropped so far.
        latest: what :meth:`take` returned last.
    """

    def __init__(self, counters_every_s: float, drops: str) -> None:
        """Counters every so often (0: none); drops in one of :data:`WAYS`."""
        self.dropped = Dropped()
        self.latest: list[tuple[str, pl.DataFrame]] = []
        self._drops = drops
        self._monitor: _core.DropMonitor | None = None
        self._counters: CounterSampler | None = None
        self._every_s = counters_every_s

    def start(self) -> None:
        """Begin; what the kernel does not allow is left out, and told by :attr:`dropped`."""
        if self._drops != OFF:
            self._begin_drops()
        if self._every_s > 0:
            sources = () if self._monitor is None else (_Monitored(self._monitor),)
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
        self.dropped = Dropped(standing["way"], shortfall, sent_again=again)

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

    def told(self) -> dict[str, Any]:
        """For the metadata of a recording: how it was watched."""
        return {"counters_every_s": self._every_s, "drops": self.dropped.way, "drops_shortfall": self.dropped.shortfall}


def _in_words(reason: OSError) -> str:
    advice = {
        errno.EPERM: ": it takes the capabilities CAP_BPF, CAP_PERFMON and CAP_SYSLOG, or all of root's",
        errno.EACCES: ": it takes the capabilities CAP_BPF, CAP_PERFMON and CAP_SYSLOG, or all of root's",
        errno.EBUSY: ": another program uses the drop monitor",
        errno.ENOENT: ": this kernel has it not (for the drop monitor try `modprobe drop_monitor`)",
    }.get(reason.errno or 0, "")
    return f"{reason.strerror or reason}{advice}"


class _Monitored:
    """The monitor of drops among the counters: what it could not count, and what it costs."""

    def __init__(self, monitor: _core.DropMonitor) -> None:
        self._monitor = monitor

    def read(self) -> Iterator[Reading]:
        """The counters, since the watch began."""
        standing = self._monitor.standing()
        yield "drops", "monitor", "lost_events", float(standing["lost"]), True
        yield "drops", "monitor", "not_looked_at_packets", float(standing["not_looked_at"]), True
        yield "drops", "monitor", "busy_s", standing["cpu_ns"] / 1e9, True

    def close(self) -> None:
        """Nothing to do."""


def datagram_counters(frame: pl.DataFrame) -> pl.DataFrame:
    """The queues of UDP sockets as rows of ``counters``."""
    to = pl.when(pl.col("remote").str.ends_with(":0")).then(pl.lit("")).otherwise(pl.lit(" > ") + pl.col("remote"))
    # Several sockets may have one address (SO_REUSEPORT): their cookies tell them apart.
    name = pl.lit("udp ") + pl.col("local") + to + pl.lit(" ") + pl.col("cookie").cast(pl.String())
    whose = frame.select(
        "time_ns", "receive_queue_bytes", "drops", host=pl.lit("local"), source=pl.lit("socket"), object=name
    )
    counters = [
        whose.with_columns(
            counter=pl.lit(counter), value=pl.col(counter).cast(pl.Float64), cumulative=pl.lit(counts_up)
        )
        for counter, counts_up in (("receive_queue_bytes", False), ("drops", True))
    ]
    return pl.concat(counters).drop_nulls("value").select(*COUNTERS)

"""Events of TCP in this host's kernel, by programs in it (``crates/events``), and the counts that Linux does not keep.

The events become table ``tcp_events``. The counts become columns of ``tcp_info`` that web100 had (RFC 4898): each
sample gets those at its time.
"""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from whydrop import _core
from whydrop.monitoring.sockets.connections import place
from whydrop.monitoring.sockets.sampler import Taken
from whydrop.monitoring.sockets.selection import Wanted
from whydrop.text.quantities import count, plural

_ENDS = ["source", "destination"]
# Columns of tcp_info that are counted from events.
COUNTS = (
    "congestion_signals", "congestion_over_count", "fast_retransmits", "timeouts", "subsequent_timeouts",
    "abrupt_timeouts", "other_reductions", "send_stalls", "slow_start_increases", "congestion_avoidance_increases",
    "duplicate_acks", "ece_received",
)  # fmt: skip
# The kernel's programs report counts no more often.
_LEAST_S, _MOST_S = 0.01, 1.0
_NS_PER_S = 1e9
_PRIVILEGE = "root, or the capabilities CAP_BPF and CAP_PERFMON"

LOST = (
    "some events of TCP could not be recorded, and reductions of windows may be missing; select fewer connections, "
    "by --port or --to"
)


@dataclass
class Noted:
    """The events since the watch began.

    Attributes:
        active: whether events are recorded.
        reductions: of congestion windows, by cause.
        events: by kind.
        lost: events that the kernel had no room for, and rows that could not be written in time.
        unreported: retransmitted segments that TCP counted, and the kernel did not report.
        cpu_s: processor time of reading the events.
        programs_cpu_s: time of the programs in the kernel; 0 unless the kernel counts it (kernel.bpf_stats_enabled).
        programs_runs: how often they ran, where the kernel counts it.
        missing: tracepoints that this kernel lacks, each with the reason.
    """

    active: bool = False
    reductions: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    unreported: int = 0
    cpu_s: float = 0.0
    programs_cpu_s: float = 0.0
    programs_runs: int = 0
    missing: list[tuple[str, str]] = field(default_factory=list)

    def add(self, rows: pl.DataFrame) -> None:
        """Count the rows of table ``tcp_events``."""
        for column, counter in (("cause", self.reductions), ("event", self.events)):
            for name, number in rows[column].drop_nulls().value_counts().iter_rows():
                counter[name] += number

    def lines(self) -> list[str]:
        """The events in words; none where events were not recorded."""
        if not self.active:
            return []
        named = ", ".join(f"{count(number)} {cause}" for cause, number in self.reductions.most_common())
        lines = [f"{plural(self.reductions.total(), 'reduction')} of congestion windows{': ' if named else ''}{named}"]
        if self.events["undone"]:
            lines.append(f"{plural(self.events['undone'], 'reduction')} undone: nothing had been lost")
        if self.lost:
            lines.append(f"{plural(self.lost, 'event')} lost")
        if self.unreported:
            lines.append(f"{plural(self.unreported, 'retransmitted segment')} counted by TCP, without an event")
        return lines

    def document(self) -> dict[str, Any] | None:
        """The same as JSON; ``None`` where events were not recorded."""
        if not self.active:
            return None
        return {
            "reductions": dict(self.reductions.most_common()),
            "events": dict(self.events.most_common()),
            "lost": self.lost,
            "unreported": self.unreported,
            "cpu_s": self.cpu_s,
            "programs_cpu_s": self.programs_cpu_s,
            "programs_runs": self.programs_runs,
            "missing": dict(self.missing),
        }


class Events:
    """Events from :meth:`start` until :meth:`stop`, of the selected connections.

    Attributes:
        noted: the events so far.
        shortfall: why events are not recorded, or not all kinds of them; ``None`` where nothing is missing.
    """

    def __init__(self, wanted: Wanted, every_s: float, *, active: bool) -> None:
        """Prepare; with ``active`` false there are no events."""
        self.noted = Noted()
        self.shortfall: str | None = None
        self._active = active
        self._selection = wanted
        self._every_ns = round(min(max(every_s, _LEAST_S), _MOST_S) * _NS_PER_S)
        self._monitor: _core.EventMonitor | None = None
        # By both ends: the flows, and when each was first seen. Ports are used again.
        self._flows: dict[tuple[str, str], dict[int, int]] = {}
        self._last = pl.DataFrame()

    def start(self) -> None:
        """Begin; where the kernel does not allow it, :attr:`shortfall` names the reason."""
        if not self._active:
            return
        selected = self._selection
        try:
            self._monitor = _core.EventMonitor(selected.ports, selected.networks, self._every_ns)
        except OSError as reason:
            self.shortfall = f"TCP's events are not recorded: {_in_words(reason)}"
            return
        self.noted = Noted(active=True, missing=self._monitor.standing()["missing"])
        if self.noted.missing:
            lacking = "; ".join(f"{tracepoint}: {reason}" for tracepoint, reason in self.noted.missing)
            self.shortfall = f"TCP's events are recorded without some tracepoints ({lacking})"

    def take(self, taken: Taken) -> pl.DataFrame:
        """The rows of table ``tcp_events`` since the last call; puts the counts into the samples of ``taken``."""
        if self._monitor is None:
            return pl.DataFrame()
        for sampled in taken.connections:
            ends = (place(sampled[f"{end}_address"], sampled[f"{end}_port"]) for end in ("local", "remote"))
            local, remote = ends
            self._flows.setdefault((local, remote), {}).setdefault(sampled["flow"], sampled["seen_ns"])
        events, counts = (pl.DataFrame(table) for table in self._monitor.take())
        standing = self._monitor.standing()
        self.noted.lost = standing["lost"] + standing["lost_rows"]
        self.noted.unreported = standing["unreported"]
        self.noted.cpu_s = standing["cpu_ns"] / _NS_PER_S
        self.noted.programs_cpu_s = standing["programs_ns"] / _NS_PER_S
        self.noted.programs_runs = standing["programs_runs"]
        if "tcp_info" in taken.frames:
            known = self._with_flows(counts).drop_nulls("flow")
            taken.frames["tcp_info"] = self._counted(taken.frames["tcp_info"], known)
        rows = self._with_flows(events.filter(pl.col("event") != "counts"))
        # Processes and control groups are not compared in the kernel: events of others are left out.
        if self._selection.processes or self._selection.cgroups:
            rows = rows.drop_nulls("flow")
        self._forget({flow for flow, _ in taken.ended})
        self.noted.add(rows)
        return rows

    def warnings(self) -> list[str]:
        """Warnings on the events, for the reader."""
        return [LOST] * (self.noted.lost > 0)

    def stop(self) -> None:
        """Read for the last time; the last rows can be taken afterwards."""
        if self._monitor is not None:
            self._monitor.stop()

    def metadata(self) -> dict[str, Any]:
        """The settings, for the metadata of a recording; nothing where no events were asked for."""
        if not self._active:
            return {}
        return {"events": self._monitor is not None, "events_shortfall": self.shortfall}

    def _with_flows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with their flow: the last with these ends that was seen before, or else the first."""
        listed = [
            (source, destination, seen_ns if place else 0, flow)
            for (source, destination), flows in self._flows.items()
            for place, (flow, seen_ns) in enumerate(flows.items())
        ]
        schema = {"source": pl.String(), "destination": pl.String(), "time_ns": pl.Int64(), "flow": pl.Int32()}
        flows = pl.DataFrame(listed, schema=schema, orient="row").sort("time_ns")
        ordered = rows.sort("time_ns", maintain_order=True)
        return ordered.join_asof(flows, on="time_ns", by=_ENDS, check_sortedness=False)

    def _forget(self, ended: set[int]) -> None:
        if not ended:
            return
        for flows in self._flows.values():
            for flow in ended & flows.keys():
                del flows[flow]
        self._flows = {ends: flows for ends, flows in self._flows.items() if flows}
        if self._last.height:
            self._last = self._last.filter(~pl.col("flow").is_in(list(ended)))

    def _counted(self, samples: pl.DataFrame, counts: pl.DataFrame) -> pl.DataFrame:
        """The samples with the counts at their times; zero before the first event of a connection."""
        columns = ["flow", "time_ns", *COUNTS]
        known = pl.concat([self._last, counts.select(columns)]) if self._last.height else counts.select(columns)
        known = known.with_columns(pl.col("flow").cast(samples.schema["flow"])).sort("time_ns", maintain_order=True)
        self._last = known.group_by("flow", maintain_order=True).last().select(columns)
        numbered = samples.with_row_index("place").sort("time_ns", maintain_order=True)
        joined = numbered.select("place", "flow", "time_ns").join_asof(
            known, on="time_ns", by="flow", check_sortedness=False
        )
        joined = joined.with_columns(pl.col(COUNTS).fill_null(0)).sort("place")
        # The kernel's own count of timeouts began with the connection.
        kept = [name for name in COUNTS if name not in samples.columns or not samples[name].is_not_null().any()]
        return samples.with_columns(joined.select(kept))


def _in_words(reason: OSError) -> str:
    why = str(reason.strerror or reason)
    if reason.errno in (errno.EPERM, errno.EACCES):
        return f"{why}: it needs {_PRIVILEGE}"
    return why

"""Flows that an end limits, and not the path: the run warns at once, by the rules of ``explain``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from whydrop.measure.tally import Tally
from whydrop.recording import tables
from whydrop.recording.end_limits import (
    BY_RATE,
    RUNS_DRY,
    TOUCHED_BY_RESPONDER_LIMIT,
    Paced,
    limited_by_send_buffer,
    share_at_responder,
)
from whydrop.text import quantities

# Fewer samples than this are the beginning of a flow.
_FEWEST_SAMPLES = 5
# Rows that are counted together.
_ROWS_AT_ONCE = 20_000
_INTERVAL = ("start_ns", "end_ns", "payload_bytes")
_SAMPLE = [
    "unacked_packets",
    "sacked_packets",
    "lost_packets",
    "in_retransmission_packets",
    "not_sent_bytes",
    "mss_bytes",
    "congestion_window_packets",
    "send_memory_bytes",
    "send_buffer_bytes",
    "srtt_ns",
    "min_rtt_ns",
]


@dataclass
class _Seen:
    """How long one flow was at the responder's pace, and the samples of its send buffer."""

    paced: Paced = field(default_factory=Paced)
    samples: int = 0
    full: int = 0
    memory_bytes: float = 0.0
    rtt_ns: float = 0.0
    first: tuple[int, int] | None = None
    last: tuple[int, int] | None = None

    @property
    def dry_share(self) -> float:
        """The share of the time in which all written data was sent, and the writer waited for room in the buffer."""
        if self.first is None or self.last is None or self.last[0] <= self.first[0]:
            return 0.0
        return (self.last[1] - self.first[1]) / (self.last[0] - self.first[0])


class EndLimits:
    """The flows of the engine that the responder's own limit, or a send buffer, limited."""

    def __init__(self, tallies: Mapping[int, Tally]) -> None:
        self._tallies = {number: tally for number, tally in tallies.items() if tally.flow.runner == "engine"}
        self._seen = {number: _Seen() for number in self._tallies}
        self._waiting: dict[str, list[pl.DataFrame]] = {"intervals": [], "tcp_info": []}
        self._rows = 0

    def count(self, frames: Mapping[str, pl.DataFrame]) -> None:
        """Count rows of the tables ``intervals`` and ``tcp_info``; many at once, since each step costs time."""
        for name, waiting in self._waiting.items():
            if self._tallies and (frame := frames.get(name)) is not None and frame.height:
                waiting.append(frame)
                self._rows += frame.height
        if self._rows >= _ROWS_AT_ONCE:
            self._count_waiting()

    def _count_waiting(self) -> None:
        for number, own in self._by_flow("intervals", _INTERVAL):
            intervals = own.select(_INTERVAL).cast(pl.Float64).to_numpy()
            self._seen[number].paced += Paced.of(self._tallies[number].facts, intervals)
        for number, own in self._by_flow("tcp_info", ("send_memory_bytes", "time_ns")):
            _count_samples(self._seen[number], own.sort("time_ns"))
        self._rows = 0

    def _by_flow(self, name: str, known: tuple[str, ...]) -> list[tuple[int, pl.DataFrame]]:
        frames, self._waiting[name] = self._waiting[name], []
        if not frames:
            return []
        # Alike first: joining unlike frames makes a plan as deep as there are frames, and polars' stack is too small.
        rows = pl.concat([tables.conform(name, frame) for frame in frames])
        rows = rows.filter(pl.col("flow").is_in(list(self._tallies))).drop_nulls(known)
        return [(int(number), own) for (number,), own in rows.partition_by("flow", as_dict=True).items()]

    def warnings(self) -> list[str]:
        """At most one on the responder's limit, and one on send buffers."""
        self._count_waiting()
        return [*self._at_responder(), *self._in_send_buffers()]

    def _at_responder(self) -> list[str]:
        shares: dict[str, float] = {}
        for number, seen in self._seen.items():
            tally = self._tallies[number]
            lasted_ns = (tally.last_ns or 0) - (tally.first_ns or 0)
            share = share_at_responder(tally.facts, seen.paced, lasted_ns)
            if share > TOUCHED_BY_RESPONDER_LIMIT:
                shares[tally.flow.name] = share
        if not shares:
            return []
        longest = quantities.percent(max(shares.values()))
        return [
            f"{several(list(shares))}: the responder's limit for one client, not the path, set the rate for up to "
            f"{longest} of the time; see --max-rate of the responder"
        ]

    def _in_send_buffers(self) -> list[str]:
        limited = [number for number in self._seen if self._is_limited(number)]
        if not limited:
            return []
        least = min((self._seen[number] for number in limited), key=lambda seen: seen.memory_bytes)
        flows = [self._tallies[number].flow for number in limited]
        at = "the responder's" if all(flow.direction == "down" for flow in flows) else "this host's"
        how = (
            "the test's own send_buffer_bytes"
            if all(flow.send_buffer_bytes is not None for flow in flows)
            else f"{at} net.ipv4.tcp_wmem"
        )
        memory, rtt_s = least.memory_bytes, least.rtt_ns / 1e9
        need = f"for each Gbit/s a round trip of {quantities.duration(rtt_s)} needs {quantities.size(2e9 / 8 * rtt_s)}"
        names = several([flow.name for flow in flows])
        return [f"{names}: limited by a send buffer of {quantities.size(memory)}, not by the path; see {how} ({need})"]

    def _is_limited(self, number: int) -> bool:
        """True if the send buffer of a greedy TCP flow was full for most of the time."""
        seen, tally = self._seen[number], self._tallies[number]
        flow = tally.flow
        # A flow with a rate, pauses or a number of bytes has times without data to send.
        if flow.kind != "tcp" or (flow.rate_bps, flow.on_s, flow.off_s, flow.payload_bytes) != (None,) * 4:
            return False
        if seen.samples < _FEWEST_SAMPLES or seen.full <= 0.5 * seen.samples:
            return False
        # A window of twice what the path needs (BBR's) is larger than many a buffer that is large enough.
        return str(tally.facts.get("congestion_control", "")) not in BY_RATE or seen.dry_share >= RUNS_DRY


def _count_samples(seen: _Seen, rows: pl.DataFrame) -> None:
    columns = {name: rows[name].cast(pl.Float64).fill_null(float("nan")).to_numpy() for name in _SAMPLE}
    full = rows.filter(pl.Series(limited_by_send_buffer(columns)))
    seen.samples += rows.height
    seen.full += full.height
    if full.height:
        seen.memory_bytes = float(full["send_buffer_bytes"][-1])
        seen.rtt_ns = float(full["srtt_ns"][-1])
    clock = rows.drop_nulls("send_buffer_limited_ns").select("time_ns", "send_buffer_limited_ns").rows()
    if clock:
        seen.first = seen.first or clock[0]
        seen.last = clock[-1]


def several(names: list[str]) -> str:
    """Flows in few words.

    >>> several(["A"]), several(["A", "B"]), several(["A", "B", "C"])
    ('A', 'A and B', 'A and 2 more flows')
    """
    return " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more flows"

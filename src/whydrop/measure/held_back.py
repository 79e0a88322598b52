"""Flows that an end held back, and not the path: the run says so at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from whydrop.measure.plan import PlannedFlow
from whydrop.measure.tally import Tally
from whydrop.recording import document
from whydrop.recording.buffers import BUFFER_FULL, BY_RATE, RUNS_DRY, WAITS_IN_QUEUE
from whydrop.text import quantities

# A flow up that the responder did not read for this share of its time was held back by the responder's limit.
_HELD_SHARE = 0.05
# Fewer samples than this are the beginning of a flow.
_FEWEST_SAMPLES = 5


def by_responder(tallies: Iterable[Tally]) -> list[str]:
    """A flow that came close to its responder's own limit says nothing about the path."""
    held = []
    for tally in tallies:
        limit_bps = document.number(tally.facts.get("held_to_bps_by_responder"))
        span_ns = (tally.last_ns or 0) - (tally.first_ns or 0)
        waited_s = document.number(tally.facts.get("held_back_s_by_responder")) or 0.0
        # Headers take some 3 % of what is paced; a flow within a tenth of its limit was held by it.
        paced = limit_bps is not None and tally.payload_bytes * 8e9 > 0.9 * limit_bps * span_ns
        if span_ns > 0 and (paced or waited_s * 1e9 > _HELD_SHARE * span_ns):
            held.append(tally.flow.name)
    if not held:
        return []
    return [f"{several(held)}: as fast as the responder allows one client, not the path; see its --max-rate"]


@dataclass
class _Seen:
    """One flow's samples of its send buffer: how many there are, and how many show it full."""

    samples: int = 0
    full: int = 0
    memory_bytes: float = 0.0
    rtt_ns: float = 0.0
    first: tuple[int, int] | None = None
    last: tuple[int, int] | None = None

    @property
    def dry_share(self) -> float:
        """The share of the time in which the kernel found all of the buffer sent, and its writer waiting for room."""
        if self.first is None or self.last is None or self.last[0] <= self.first[0]:
            return 0.0
        return (self.last[1] - self.first[1]) / (self.last[0] - self.first[0])


class SendBuffers:
    """The send buffers of greedy flows: those that were full all the time while the congestion window was not."""

    def __init__(self, flows: Mapping[int, PlannedFlow]) -> None:
        # A flow that is asked for a rate, pauses or a number of bytes has times without anything to send.
        self._flows = {
            number: flow
            for number, flow in flows.items()
            if flow.kind == "tcp"
            and flow.runner == "engine"
            and (flow.rate_bps, flow.on_s, flow.off_s, flow.payload_bytes) == (None,) * 4
        }
        self._seen = {number: _Seen() for number in self._flows}

    def count(self, frame: pl.DataFrame | None) -> None:
        """Count rows of table ``tcp_info``."""
        if frame is None or not self._flows:
            return
        rows = frame.filter(pl.col("flow").is_in(list(self._flows))).drop_nulls(["send_memory_bytes", "time_ns"])
        for (number,), own in rows.sort("time_ns").partition_by("flow", as_dict=True).items():
            self._count(self._seen[number], own)

    @staticmethod
    def _count(seen: _Seen, rows: pl.DataFrame) -> None:
        full = rows.filter(_FULL)
        seen.samples += rows.height
        seen.full += full.height
        if full.height:
            seen.memory_bytes = float(full["send_buffer_bytes"][-1])
            seen.rtt_ns = float(full["srtt_ns"][-1])
        clock = rows.drop_nulls("send_buffer_limited_ns").select("time_ns", "send_buffer_limited_ns").rows()
        if clock:
            seen.first = seen.first or clock[0]
            seen.last = clock[-1]

    def warnings(self, tallies: Mapping[int, Tally]) -> list[str]:
        """One for all flows that their buffers limited for most of their time."""
        held = []
        for number, seen in self._seen.items():
            control = str(tallies[number].facts.get("congestion_control", ""))
            if seen.samples < _FEWEST_SAMPLES or seen.full <= 0.5 * seen.samples:
                continue
            # A window of twice what the path needs (BBR's) is larger than many a buffer that is large enough.
            if control in BY_RATE and seen.dry_share < RUNS_DRY:
                continue
            held.append(number)
        if not held:
            return []
        least = min((self._seen[number] for number in held), key=lambda seen: seen.memory_bytes)
        flows = [self._flows[number] for number in held]
        at = "the responder's" if all(flow.direction == "down" for flow in flows) else "this host's"
        how = (
            "the test's own send_buffer_bytes"
            if all(flow.send_buffer_bytes is not None for flow in flows)
            else f"{at} net.ipv4.tcp_wmem"
        )
        memory, rtt_s = least.memory_bytes, least.rtt_ns / 1e9
        need = (
            f"a round trip of {quantities.duration(rtt_s)} takes {quantities.size(2 * 1e9 / 8 * rtt_s)} for each Gbit/s"
        )
        names = several([flow.name for flow in flows])
        return [f"{names}: limited by a send buffer of {quantities.size(memory)}, not by the path; see {how} ({need})"]


# The memory is full, all that is in it would fit into the congestion window, and nothing of it stands in a queue.
_FULL = (
    (pl.col("send_memory_bytes") >= BUFFER_FULL * pl.col("send_buffer_bytes"))
    & (
        (pl.col("unacked_packets") * pl.col("mss_bytes") + pl.col("not_sent_bytes").fill_null(0))
        < pl.col("congestion_window_packets") * pl.col("mss_bytes")
    )
    & (pl.col("srtt_ns") <= WAITS_IN_QUEUE * pl.col("min_rtt_ns").fill_null(pl.col("srtt_ns")))
).fill_null(False)


def several(names: list[str]) -> str:
    """Flows in few words.

    >>> several(["A"]), several(["A", "B"]), several(["A", "B", "C"])
    ('A', 'A and B', 'A and 2 more flows')
    """
    return " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more flows"

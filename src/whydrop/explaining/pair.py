"""Findings of two captures of one path together, as Python values: the ``pair`` object of the JSON document.

``1`` and ``2`` in names are the two captures, the first nearer to the start of the path; ``1_to_2`` is the direction
from the first to the second. Times are seconds (float), instants since the Unix epoch in UTC by capture 1's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from whydrop.explaining.document import Entry


@dataclass(frozen=True, slots=True)
class Transit(Entry):
    """One-way times of the packets that both captures hold, in seconds; ``p50`` is the median, ``p99`` the 99 %."""

    min: float
    p50: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True)
class ClockInterval(Entry):
    """An interval in which the two clocks ran evenly; a clock that was stepped makes more than one.

    ``offset_s`` is how far capture 2's clock is ahead at ``start``, ``drift_ppm`` how much faster it runs.
    """

    start: float
    end: float
    offset_s: float
    drift_ppm: float


@dataclass(frozen=True, slots=True)
class AfterGap(Entry):
    """Packets that followed an idle time of ``gap_s`` or more, and how long they took beside the others."""

    direction: str
    gap_s: float
    transit_median_s: float
    other_median_s: float
    packets: int


@dataclass(frozen=True, slots=True)
class Changes(Entry):
    """Headers that were rewritten between the captures.

    ``ttl_hops`` is how much the time to live fell; the others count packets: DSCP or ECN changed, marked with
    congestion experienced (RFC 3168), and the maximum segment size option rewritten; ``translated_flows`` counts flows
    with addresses or ports that differ between the captures, ``renumbered_flows`` those with sequence numbers that
    differ by a constant, ``sack_left_flows`` those with selective acknowledgments (SACK) that do not, although they
    should.
    """

    ttl_hops: int | None = None
    dscp: int = 0
    ecn: int = 0
    ce_marked: int = 0
    mss: int = 0
    translated_flows: int = 0
    renumbered_flows: int = 0
    sack_left_flows: int = 0


@dataclass(frozen=True, slots=True)
class PairFlow(Entry):
    """One flow, as both captures saw it.

    ``flow_at_2`` is its name where it arrives, if address translation changed it on the path.
    """

    flow: str
    flow_at_2: str | None
    protocol: str
    direction: str
    packets_1: int
    packets_2: int
    matched: int
    lost: int
    missed_by_1: int
    missed_by_2: int
    reordered: int
    transit: Transit | None


@dataclass(frozen=True, slots=True)
class LeftOut(Entry):
    """Flows of few packets that were let go to bound memory, and their packets by whether both captures hold them."""

    flows: int
    matched: int
    unmatched: int


@dataclass(frozen=True, slots=True)
class Pair(Entry):
    """Two captures of one path: packets matched, clocks aligned, losses placed.

    ``first`` and ``second`` are the numbers of the captures (from 0), which of more than two lie on the path in order.
    ``lost_1_to_2`` counts packets that the path dropped, ``missed_by_1`` those that only the capture failed to record.
    The hard bounds of the clock's offset come from packets in both directions; in between, it cannot be known how the
    round trip divides into its two directions. ``left_out`` counts the packets that were dropped to bound memory.
    ``order`` is the evidence for the order of the captures: ``known``, ``guessed`` (by losses or clocks only), or
    ``contradicted`` (a hint that TTL or transit times contradict).
    """

    first: int = field(metadata={"key": "from"})
    second: int = field(metadata={"key": "to"})
    upstream: str
    matched: int
    lost_1_to_2: int
    lost_2_to_1: int
    missed_by_1: int
    missed_by_2: int
    unmatched: Mapping[str, int]
    overlap_s: float
    clock_offset_s: float | None
    clock_offset_low_s: float | None
    clock_offset_high_s: float | None
    clock_drift_ppm: float | None
    clock_drift_error_ppm: float | None
    clock_stretches: tuple[ClockInterval, ...]
    transit_1_to_2_s: Transit | None
    transit_2_to_1_s: Transit | None
    reordered_1_to_2: int
    reordered_2_to_1: int
    duplicated_1_to_2: int
    duplicated_2_to_1: int
    loss_runs_1_to_2: tuple[tuple[int, int], ...]
    loss_runs_2_to_1: tuple[tuple[int, int], ...]
    after_gap: AfterGap | None
    changes: Changes
    flows: tuple[PairFlow, ...]
    left_out: LeftOut | None = None
    order: str = "known"

    @property
    def lost(self) -> int:
        """Packets that the path dropped between the two captures, in both directions."""
        return self.lost_1_to_2 + self.lost_2_to_1

    def flow_number(self, name: str) -> int | None:
        """The number of the flow that has this name at either capture."""
        for number, flow in enumerate(self.flows):
            if name in (flow.flow, flow.flow_at_2):
                return number
        return None

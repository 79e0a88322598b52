"""A synthetic analysis for tests of output: one bulk transfer through a policer, played by a small simulation.

The sender is window-limited TCP (slow start, additive increase, halving on loss), paced over the round trip; the
policer is a token bucket of 10 Mbit/s and 100 kB. Sizes and times are plausible, nothing more is claimed.
"""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import dataclass, field

import polars as pl

START_NS = 1_700_000_000_000_000_000
MSS = 1448
IP_BYTES = 1500
RTT_NS = 40_000_000
WINDOW_BYTES = 600_000
RATE_BPS = 10e6
BURST_BYTES = 100_000.0
FLOW = "192.0.2.7:443 > 198.51.100.23:50123"


@dataclass
class Policer:
    """A token bucket that drops."""

    rate_bps: float = RATE_BPS
    burst_bytes: float = BURST_BYTES
    level: float = BURST_BYTES
    last_ns: int = START_NS

    def offer(self, time_ns: int, size: int) -> tuple[float, bool]:
        """The bucket's level that a packet finds, and whether it passes."""
        self.level = min(self.burst_bytes, self.level + (time_ns - self.last_ns) * self.rate_bps / 8e9)
        self.last_ns = time_ns
        found, passes = self.level, self.level >= size
        if passes:
            self.level -= size
        return found, passes


@dataclass
class Run:
    """The tables while the simulation fills them."""

    segments: list[tuple] = field(default_factory=list)
    acks: list[tuple] = field(default_factory=list)
    sacks: list[tuple] = field(default_factory=list)
    model: list[tuple] = field(default_factory=list)


class Sender:
    """The state of TCP: its window, what is acknowledged, what to repair."""

    def __init__(self, packets: int) -> None:
        self.packets = packets
        self.window, self.threshold = 10.0, 1e9
        self.following = self.acknowledged = 0
        self.received: set[int] = set()
        self.on_the_way: deque[tuple[int, int]] = deque()
        self.repairs: deque[tuple[int, int]] = deque()
        self.cut_until_ns = 0

    def done(self) -> bool:
        return self.following >= self.packets and not self.repairs

    def next_packet(self, time_ns: int) -> tuple[int, int, bool]:
        """When to send which packet, and whether it is a repair."""
        if self.following >= self.packets:
            time_ns = max(time_ns, self.repairs[0][0])
        if self.repairs and self.repairs[0][0] <= time_ns:
            return time_ns, self.repairs.popleft()[1], True
        self.following += 1
        return time_ns, self.following - 1, False

    def take_acks(self, until_ns: int, run: Run, flow: int) -> None:
        while self.on_the_way and self.on_the_way[0][0] <= until_ns:
            arrival_ns, number = self.on_the_way.popleft()
            self.received.add(number)
            while self.acknowledged in self.received:
                self.acknowledged += 1
            run.acks.append((flow, arrival_ns, self.acknowledged * MSS, WINDOW_BYTES, False))
            if number > self.acknowledged:
                run.sacks.append((flow, arrival_ns, number * MSS, (number + 1) * MSS, False))
            self.window += 1.0 if self.window < self.threshold else 1.0 / self.window

    def note_loss(self, time_ns: int, number: int) -> None:
        self.repairs.append((time_ns + RTT_NS + RTT_NS // 8, number))
        if time_ns > self.cut_until_ns:
            self.threshold = self.window = max(4.0, self.window / 2)
            self.cut_until_ns = time_ns + RTT_NS


def simulate(packets: int, rate_bps: float = RATE_BPS, flow: int = 0, start_ns: int = START_NS) -> Run:
    """Send so many data packets in order, each loss repaired a little more than one round trip later."""
    run, policer, sender = Run(), Policer(rate_bps=rate_bps, last_ns=start_ns), Sender(packets)
    time_ns = start_ns
    while not sender.done():
        time_ns, number, repair = sender.next_packet(time_ns)
        sender.take_acks(time_ns, run, flow)
        level, passes = policer.offer(time_ns, IP_BYTES)
        in_flight = max(1, sender.following - len(sender.received)) * MSS
        kind = (2 if number % 40 == 0 else 1) if repair else 0
        run.segments.append(
            (flow, 0, time_ns, number * MSS, MSS, IP_BYTES, kind, 0 if passes else 1, False,
             RTT_NS + (number * 7919) % 1_500_000 if passes else None, in_flight)
        )  # fmt: skip
        run.model.append((0, flow, time_ns, level, IP_BYTES, not passes, not passes))
        if passes:
            sender.on_the_way.append((time_ns + RTT_NS, number))
        else:
            sender.note_loss(time_ns, number)
        time_ns += int(RTT_NS / min(sender.window, WINDOW_BYTES / MSS))
    sender.take_acks(time_ns + 10 * RTT_NS, run, flow)
    return run


class Synthetic:
    """An analysis as the core would return it."""

    def __init__(self, run: Run, document: dict) -> None:
        self._run = run
        self._document = document

    def document(self) -> dict:
        return copy.deepcopy(self._document)

    def table(self, name: str) -> pl.DataFrame:
        schemas: dict[str, dict] = {
            "segments": {
                "flow": pl.UInt32, "transfer": pl.UInt32, "time_ns": pl.Int64, "sequence": pl.Int64,
                "payload_bytes": pl.UInt32, "ip_bytes": pl.UInt32, "kind": pl.UInt8, "fate": pl.UInt8,
                "spurious": pl.Boolean, "rtt_ns": pl.Int64, "in_flight_bytes": pl.UInt32,
            },
            "acks": {
                "flow": pl.UInt32, "time_ns": pl.Int64, "acknowledged": pl.Int64, "window_bytes": pl.Int64,
                "ecn_echo": pl.Boolean,
            },
            "sacks": {
                "flow": pl.UInt32, "time_ns": pl.Int64, "start": pl.Int64, "end": pl.Int64, "duplicate": pl.Boolean,
            },
            "model": {
                "verdict": pl.UInt32, "flow": pl.UInt32, "time_ns": pl.Int64, "level_bytes": pl.Float64,
                "ip_bytes": pl.UInt32, "predicted_drop": pl.Boolean, "seen_lost": pl.Boolean,
            },
        }  # fmt: skip
        return pl.DataFrame(getattr(self._run, name), schema=schemas[name], orient="row")


def policed_transfer(packets: int = 6000, *, path: str = "synthetic.pcap", flow: str = FLOW) -> Synthetic:
    """One transfer of so many packets through the policer, with the document that belongs to it."""
    run = simulate(packets)
    return Synthetic(run, _document(run, path, flow))


def _document(run: Run, path: str, flow: str) -> dict:
    lost = sum(1 for row in run.segments if row[7] == 1)
    start, end = run.segments[0][2] / 1e9, run.acks[-1][1] / 1e9
    payload = len({row[3] for row in run.segments}) * MSS
    retransmitted = sum(1 for row in run.segments if row[6] > 0)
    return {
        "whydrop": "0.1.0",
        "schema": 1,
        "captures": [
            {
                "path": path, "format": "pcap", "packets": len(run.segments) + len(run.acks), "first": start,
                "last": end, "link_type": "ethernet", "snaplen": 128, "truncated": False,
                "packets_by_kind": {"tcp": len(run.segments) + len(run.acks)}, "duplicates": 0, "out_of_order": 0,
                "notes": [],
            }
        ],
        "flows": [
            {
                "flow": flow, "packets": len(run.segments), "payload_bytes": payload, "lost": lost,
                "retransmitted": retransmitted, "spurious": 0, "reordered": 0, "rtt_min_s": RTT_NS / 1e9,
                "rtt_median_s": RTT_NS / 1e9, "mss": MSS, "vantage": "sender", "start": start, "end": end,
                "missed_by_capture_bytes": 0, "retransmitted_by_kind": {"fast": retransmitted}, "ce_marked": 0,
                "ecn_echoes": 0, "zero_windows": 0, "window_limited_share": 0.0, "window_scale": 7,
                "limits": {
                    "from": start, "until": end, "shares": {"congestion-window": 0.9, "slow-start": 0.1},
                    "spans": [[start, start + 0.1 * (end - start), "slow-start"],
                              [start + 0.1 * (end - start), end, "congestion-window"]],
                },
            }
        ],
        "transfers": [
            {
                "flow": flow, "start": start, "end": end, "payload_bytes": payload, "packets": len(run.segments),
                "lost": lost, "goodput_bps": payload * 8 / (end - start), "cause": "policer", "confidence": 0.98,
            }
        ],
        "verdicts": [
            {
                "cause": "policer", "confidence": 0.98, "flows": [flow], "lost": lost, "explained": 1.0,
                "limited_share": 0.9,
                "parameters": {
                    "rate_bps": {"value": RATE_BPS, "low": 9.9e6, "high": 10.1e6},
                    "burst_bytes": {"value": BURST_BYTES, "low": 98_000, "high": None},
                },
                "byte_basis": "ip",
                "sentence": f"A policer at 10.0 Mbit/s with a 100 kB bucket dropped {lost} of {lost} lost packets.",
                "evidence": [
                    f"A token bucket at 10.0 Mbit/s that holds 100 kB would have dropped {lost} of {lost} losses.",
                    "Round-trip time did not rise before the losses: nothing was queueing.",
                ],
                "against": [
                    {"cause": "deep-queue", "why": "the delay before a loss was no longer than elsewhere"},
                    {"cause": "random-loss", "why": "losses come only when more than the bucket holds was sent"},
                ],
                "advice": [
                    "Pace the sender below the policer's rate:",
                    "$ tc qdisc replace dev eth0 root fq maxrate 9500kbit",
                    "A flow of this round-trip time needs a burst of at least 50 kB.",
                ],
                "throughput_lost": {
                    "bps": 1.2e6, "share": 0.12, "method": "the policer's rate less the goodput achieved",
                },
            }
        ],
        "pair": None,
    }  # fmt: skip

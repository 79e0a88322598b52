"""A synthetic analysis of two captures of one path, around the policed transfer of ``synthetic``.

The second capture's clock is 2.19 ms ahead and 220 ppm slow. Packets take 0.45 ms and a little, and 0.4 ms more after
an idle time. The rival is a queue, which drops other packets and delays some for longer than any was delayed.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from synthetic import FLOW, IP_BYTES, MSS, RATE_BPS, START_NS, Run, Synthetic, _document, simulate

OFFSET_S, DRIFT_PPM = 0.00219, -220.0
TRANSIT_NS, AFTER_GAP_NS, GAP_NS = 450_000, 400_000, 1_300_000
# The number in the header wraps in the middle of the transfer.
FIRST_SEQUENCE = (1 << 32) - 4_000_000
REVERSE_FLOW = " > ".join(reversed(FLOW.split(" > ")))
FLOW_AT_2 = "203.0.113.9:443 > 198.51.100.23:50123"

CROSSINGS: dict[str, Any] = {
    "flow": pl.UInt32, "direction": pl.UInt8, "sent_ns": pl.Int64, "transit_ns": pl.Int64, "time_1_ns": pl.Int64,
    "time_2_ns": pl.Int64, "number_1": pl.UInt32, "number_2": pl.UInt32, "sequence": pl.UInt32,
    "payload_bytes": pl.UInt32, "ip_bytes": pl.UInt32, "crossing": pl.UInt8, "burst_position": pl.UInt32,
    "burst_length": pl.UInt32, "gap_ns": pl.Int64, "retransmission": pl.Boolean, "overtook": pl.Boolean,
    "ce_set": pl.Boolean, "hop": pl.UInt32,
}  # fmt: skip
MODEL: dict[str, Any] = {
    "verdict": pl.UInt32, "flow": pl.UInt32, "time_ns": pl.Int64, "level_bytes": pl.Float64, "ip_bytes": pl.UInt32,
    "predicted_drop": pl.Boolean, "seen_lost": pl.Boolean, "rival": pl.Boolean, "wait_ns": pl.Int64,
    "seen_wait_ns": pl.Int64,
}  # fmt: skip


def by_clock_2(time_ns: int) -> int:
    """A time of the first clock as the second shows it."""
    return time_ns + round(OFFSET_S * 1e9 + (time_ns - START_NS) * DRIFT_PPM / 1e6)


class SyntheticPair(Synthetic):
    """An analysis of two captures as the core would return it."""

    def __init__(self, run: Run, document: dict, crossings: list[tuple], model: list[tuple]) -> None:
        super().__init__(run, document)
        self._pair = {
            "crossings": pl.DataFrame(crossings, schema=CROSSINGS, orient="row"),
            "model": pl.DataFrame(model, schema=MODEL, orient="row"),
        }

    def table(self, name: str) -> pl.DataFrame:
        return self._pair[name] if name in self._pair else super().table(name)


def paired_transfer(packets: int = 6000, *, path: str = "far.pcap", steps: bool = False) -> SyntheticPair:
    """The policed transfer, captured on both sides of the policer; ``steps`` puts the second clock ahead."""
    run = simulate(packets)
    crossings = sorted([*_forward(run), *_backward(run)], key=lambda row: row[2])
    if steps:
        half = crossings[len(crossings) // 2][2]
        crossings = [_stepped(row) if row[2] > half else row for row in crossings]
    document = _document(run, "near.pcap", FLOW)
    far = {**document["captures"][0], "path": path}
    document["captures"].append(far)
    pair = _pair(crossings)
    document["pair"] = pair
    document["hops"] = []
    document["verdicts"][0] |= {
        "place": "between capture 1 and capture 2", "family": None, "models": _models(pair["lost_1_to_2"]),
    }  # fmt: skip
    return SyntheticPair(run, document, crossings, [*_winner(run), *_rival(run)])


def _forward(run: Run) -> list[tuple]:
    rows, before, lost_in_a_row = [], None, 0
    for number, segment in enumerate(run.segments):
        time_ns, sequence, lost = segment[2], segment[3], segment[7] == 1
        gap = 0 if before is None else time_ns - before
        before = time_ns
        transit = TRANSIT_NS + (number * 7919) % 60_000 + (AFTER_GAP_NS if gap > GAP_NS else 0)
        arrived = None if lost else by_clock_2(time_ns + transit)
        lost_in_a_row = lost_in_a_row + 1 if lost else 0
        rows.append(
            (0, 0, time_ns, None if lost else transit, time_ns, arrived, number, None if lost else number,
             (sequence + FIRST_SEQUENCE) % (1 << 32), MSS, IP_BYTES, 1 if lost else 0, lost_in_a_row, lost_in_a_row,
             gap, segment[6] > 0, False, False, 0)
        )  # fmt: skip
    return rows


def _backward(run: Run) -> list[tuple]:
    rows = []
    for number, (_, time_ns, acknowledged, *_) in enumerate(run.acks):
        sent = time_ns - TRANSIT_NS - (number * 104_729) % 40_000
        rows.append(
            (1, 1, sent, time_ns - sent, time_ns, by_clock_2(sent), number, number, acknowledged, 0, 52, 0, 0, 0,
             None, False, False, False, 0)
        )  # fmt: skip
    return rows


def _stepped(row: tuple) -> tuple:
    later = None if row[5] is None else row[5] + 1_000_000_000
    return (*row[:5], later, *row[6:])


def _winner(run: Run) -> list[tuple]:
    waits = [(None if row[6] else (index * 7919) % 60_000) for index, row in enumerate(run.model)]
    return [(*row, False, None if row[5] else 0, wait) for row, wait in zip(run.model, waits, strict=True)]


def _rival(run: Run) -> list[tuple]:
    """A queue of 60 kB behind 9.4 Mbit/s."""
    rows, backlog, last, rate, limit = [], 0.0, START_NS, RATE_BPS * 0.94, 60_000
    for index, (verdict, flow, time_ns, _, size, _, lost) in enumerate(run.model):
        backlog = max(0.0, backlog - (time_ns - last) * rate / 8e9)
        last = time_ns
        dropped = backlog + size > limit
        wait = None if dropped else round(backlog * 8e9 / rate)
        rows.append((verdict, flow, time_ns, backlog, size, dropped, lost, True, wait,
                     None if lost else (index * 7919) % 60_000))  # fmt: skip
        backlog += 0 if dropped else size
    return rows


def _transit(crossings: list[tuple], direction: int) -> dict | None:
    times = sorted(row[3] for row in crossings if row[1] == direction and row[3] is not None)
    if not times:
        return None
    return {
        "min": times[0] / 1e9, "p50": times[len(times) // 2] / 1e9, "p99": times[len(times) * 99 // 100] / 1e9,
        "max": times[-1] / 1e9,
    }  # fmt: skip


def _pair(crossings: list[tuple]) -> dict[str, Any]:
    lost = sum(1 for row in crossings if row[11] == 1)
    there = sum(1 for row in crossings if row[1] == 0)
    back = len(crossings) - there
    one = {"missed_by_1": 0, "missed_by_2": 0, "reordered": 0, "protocol": "tcp"}
    return {
        "from": 0, "to": 1,
        "upstream": "capture 1", "matched": len(crossings) - lost, "lost_1_to_2": lost, "lost_2_to_1": 0,
        "missed_by_1": 0, "missed_by_2": 3, "unmatched": {"outside-overlap": 12, "undecided": 1},
        "overlap_s": (crossings[-1][2] - START_NS) / 1e9,
        "clock_offset_s": OFFSET_S, "clock_offset_low_s": OFFSET_S - 0.00045, "clock_offset_high_s": OFFSET_S + 0.00045,
        "clock_drift_ppm": DRIFT_PPM, "clock_drift_error_ppm": 0.4,
        "clock_stretches": [
            {
                "start": START_NS / 1e9, "end": crossings[-1][2] / 1e9, "offset_s": OFFSET_S, "drift_ppm": DRIFT_PPM,
            }
        ],
        "transit_1_to_2_s": _transit(crossings, 0), "transit_2_to_1_s": _transit(crossings, 1),
        "reordered_1_to_2": 0, "reordered_2_to_1": 0, "duplicated_1_to_2": 0, "duplicated_2_to_1": 0,
        "loss_runs_1_to_2": [[1, lost - 6], [3, 2]], "loss_runs_2_to_1": [],
        "after_gap": {
            "direction": "1-to-2", "gap_s": GAP_NS / 1e9, "transit_median_s": (TRANSIT_NS + AFTER_GAP_NS) / 1e9,
            "other_median_s": TRANSIT_NS / 1e9, "packets": 20,
        },
        "changes": {"ttl_hops": 2, "dscp": 0, "ecn": 0, "ce_marked": 0, "mss": 1, "translated_flows": 1},
        "flows": [
            {"flow": FLOW, "flow_at_2": FLOW_AT_2, "direction": "1-to-2", "packets_1": there,
             "packets_2": there - lost, "matched": there - lost, "lost": lost, "transit": _transit(crossings, 0),
             **one},
            {"flow": REVERSE_FLOW, "flow_at_2": None, "direction": "2-to-1", "packets_1": back, "packets_2": back,
             "matched": back, "lost": 0, "transit": _transit(crossings, 1), **one},
        ],
    }  # fmt: skip


def _models(lost: int) -> list[dict]:
    shared = {"limit_packets": None, "lost": lost, "passed": 6000, "seen_longest_wait_s": 0.00085}
    return [
        {"role": "winner", "element": "policer", "title": "Token bucket of 100 kB at 10.0 Mbit/s", "rate_bps": RATE_BPS,
         "limit_bytes": 100_000, "dropped": lost, "hits": lost, "passed_right": 6000, "longest_wait_s": 0.0,
         "wait_error_s": None, "why": None, **shared},
        {"role": "rival", "element": "fifo", "title": "Queue of 60 kB draining at 9.40 Mbit/s", "rate_bps": 9.4e6,
         "limit_bytes": 60_000, "dropped": 400, "hits": lost // 3, "passed_right": 5700, "longest_wait_s": 0.051,
         "wait_error_s": 0.021,
         "why": "A queue draining at 9.40 Mbit/s would have delayed some packets by 51.0 ms; none took more than "
                "0.850 ms longer than the fastest.", **shared},
    ]  # fmt: skip

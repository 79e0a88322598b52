"""The kernel's queueing disciplines: their options and statistics, with units in the names.

Layouts are those of linux/pkt_sched.h and linux/gen_stats.h. What a discipline has besides, or one that is not known
here, is left out of the options; every discipline has the statistics that all of them share.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from whydrop.runtime.rtnetlink import (
    TCA_OPTIONS,
    TCA_STATS2,
    TCA_XSTATS,
    Attributes,
    Netlink,
    TrafficObject,
    attributes,
    handle,
    unsigned,
)

# A tick of the packet scheduler, which bucket sizes and delays are given in (PSCHED_SHIFT).
_TICK_NS = 64

_STATS_BASIC, _STATS_QUEUE, _STATS_APP = 1, 3, 4


@dataclass(frozen=True)
class Counter:
    """One statistic.

    Attributes:
        cumulative: counts up since the discipline was made, rather than being a level.
    """

    name: str
    value: float
    cumulative: bool


# Options that are attributes with one number each, by their place: names of options.
_OPTIONS: dict[str, dict[int, str]] = {
    "fq_codel": {
        1: "target_us", 2: "limit_packets", 3: "interval_us", 4: "ecn", 5: "flows", 6: "quantum_bytes",
        7: "ce_threshold_us", 8: "drop_batch_packets", 9: "memory_limit_bytes",
    },
    "codel": {1: "target_us", 2: "limit_packets", 3: "interval_us", 4: "ecn", 5: "ce_threshold_us"},
    "pie": {
        1: "target_us", 2: "limit_packets", 3: "tupdate_us", 4: "alpha", 5: "beta", 6: "ecn", 7: "bytemode",
        8: "dq_rate_estimator",
    },
    "fq_pie": {
        1: "limit_packets", 2: "flows", 3: "target_us", 4: "tupdate_us", 5: "alpha", 6: "beta", 7: "quantum_bytes",
        8: "memory_limit_bytes", 9: "ecn_prob_percent", 10: "ecn", 11: "bytemode", 12: "dq_rate_estimator",
    },
    "fq": {
        1: "limit_packets", 2: "flow_limit_packets", 3: "quantum_bytes", 4: "initial_quantum_bytes",
        5: "pacing", 7: "max_rate_bytes_per_s", 8: "buckets_log2", 9: "refill_delay_us", 10: "orphan_mask",
        11: "low_rate_threshold_bytes_per_s", 12: "ce_threshold_us", 13: "timer_slack_ns", 14: "horizon_us",
        15: "horizon_drop",
    },
    "cake": {
        2: "bandwidth_bytes_per_s", 3: "diffserv_mode", 4: "atm", 5: "flow_mode", 6: "overhead_bytes", 7: "rtt_us",
        8: "target_us", 9: "autorate_ingress", 10: "memory_limit_bytes", 11: "nat", 12: "raw", 13: "wash",
        14: "mpu_bytes", 15: "ingress", 16: "ack_filter", 17: "split_gso", 18: "fwmark",
    },
}  # fmt: skip

# Statistics of one discipline: the layout, and for each field its name and whether it counts up; None: passed over.
_Field = tuple[str, bool] | None
_XSTATS: dict[str, tuple[str, tuple[_Field, ...]]] = {
    "fq_codel": (
        "=10I",
        (
            None, ("largest_packet_bytes", False), ("dropped_overlimit_packets", True), ("ecn_marked_packets", True),
            ("new_flows", True), ("new_flows_waiting", False), ("old_flows_waiting", False),
            ("ce_threshold_marked_packets", True), ("memory_used_bytes", False), ("dropped_overmemory_packets", True),
        ),
    ),
    "codel": (
        "=4Ii4I",
        (
            ("largest_packet_bytes", False), ("count", False), ("last_count", False), ("delay_us", False),
            ("drop_next_us", False), ("dropped_overlimit_packets", True), ("ecn_marked_packets", True),
            ("dropping", False), ("ce_threshold_marked_packets", True),
        ),
    ),
    "pie": (
        "=Q8I",
        (
            ("probability_raw", False), ("delay_ms", False), ("dequeue_rate_raw", False), None,
            ("enqueued_packets", True), ("dropped_early_packets", True), ("dropped_overlimit_packets", True),
            ("largest_queue_packets", False), ("ecn_marked_packets", True),
        ),
    ),
    "fq_pie": (
        "=9I",
        (
            ("enqueued_packets", True), ("dropped_early_packets", True), ("dropped_overlimit_packets", True),
            ("dropped_overmemory_packets", True), ("ecn_marked_packets", True), ("new_flows", True),
            ("new_flows_waiting", False), ("old_flows_waiting", False), ("memory_used_bytes", False),
        ),
    ),
    "red": (
        "=4I",
        (
            ("dropped_early_packets", True), ("dropped_overlimit_packets", True), ("dropped_other_packets", True),
            ("ecn_marked_packets", True),
        ),
    ),
    "choke": (
        "=5I",
        (
            ("dropped_early_packets", True), ("dropped_overlimit_packets", True), ("dropped_other_packets", True),
            ("ecn_marked_packets", True), ("dropped_matched_packets", True),
        ),
    ),
    "fq": (
        "=7Qq4I",
        (
            ("flows_collected", True), ("high_priority_packets", True), ("tcp_retransmitted_packets", True),
            ("throttled_packets", True), ("dropped_flow_limit_packets", True), ("too_long_packets", True),
            ("allocation_errors", True), None, ("flows", False), ("inactive_flows", False),
            ("throttled_flows", False), ("unthrottle_latency_ns", False),
        ),
    ),
}  # fmt: skip

_CAKE: dict[int, _Field] = {
    2: ("capacity_estimate_bytes_per_s", False),
    3: ("memory_limit_bytes", False),
    4: ("memory_used_bytes", False),
}
_CAKE_TINS = 10
_CAKE_TIN: dict[int, _Field] = {
    2: ("sent_packets", True),
    3: ("sent_bytes", True),
    4: ("dropped_packets", True),
    5: ("dropped_bytes", True),
    6: ("dropped_ack_packets", True),
    7: ("dropped_ack_bytes", True),
    8: ("ecn_marked_packets", True),
    9: ("ecn_marked_bytes", True),
    10: ("backlog_packets", False),
    11: ("backlog_bytes", False),
    12: ("threshold_rate_bytes_per_s", False),
    18: ("peak_delay_us", False),
    19: ("mean_delay_us", False),
    20: ("base_delay_us", False),
    21: ("sparse_flows", False),
    22: ("bulk_flows", False),
    23: ("unresponsive_flows", False),
}


def counters(qdisc: TrafficObject) -> list[Counter]:
    """Every statistic of a discipline or class."""
    stats = attributes(qdisc.attributes.get(TCA_STATS2, b""))
    found: list[Counter] = []
    basic = stats.get(_STATS_BASIC, b"")
    if len(basic) >= 12:
        sent_bytes, sent_packets = struct.unpack_from("=QI", basic)
        found += [Counter("sent_bytes", sent_bytes, True), Counter("sent_packets", sent_packets, True)]
    queue = stats.get(_STATS_QUEUE, b"")
    if len(queue) >= 20:
        packets, size, drops, requeues, overlimits = struct.unpack_from("=5I", queue)
        found += [
            Counter("backlog_packets", packets, False),
            Counter("backlog_bytes", size, False),
            Counter("dropped_packets", drops, True),
            Counter("requeues", requeues, True),
            Counter("overlimits", overlimits, True),
        ]
    return found + _own(qdisc.kind, stats.get(_STATS_APP) or qdisc.attributes.get(TCA_XSTATS) or b"")


def _own(kind: str, data: bytes) -> list[Counter]:
    if kind == "cake":
        return _cake(attributes(data))
    layout, fields = _XSTATS.get(kind, ("", ()))
    if not layout or len(data) < struct.calcsize(layout):
        return []
    values = struct.unpack_from(layout, data)
    if kind == "fq_codel" and values[0] != 0:
        return []  # of a class of it, with another layout
    named = zip(fields, values, strict=True)
    return [Counter(field[0], value, field[1]) for field, value in named if field is not None]


def _cake(stats: Attributes) -> list[Counter]:
    found = _numbers(stats, _CAKE, "")
    for tin, data in attributes(stats.get(_CAKE_TINS, b"")).items():
        found += _numbers(attributes(data), _CAKE_TIN, f"tin{tin}_")
    return found


def _numbers(found: Attributes, names: dict[int, _Field], prefix: str) -> list[Counter]:
    counters_ = []
    for place, field in names.items():
        value = unsigned(found.get(place))
        if field is not None and value is not None:
            counters_.append(Counter(prefix + field[0], value, field[1]))
    return counters_


def options(qdisc: TrafficObject) -> dict[str, Any]:
    """How a discipline or class is set, as far as its options are known here."""
    data = qdisc.attributes.get(TCA_OPTIONS, b"")
    special = _SPECIAL.get(qdisc.kind)
    if special is not None:
        return special(data)
    found = attributes(data)
    named = {name: unsigned(found.get(place)) for place, name in _OPTIONS.get(qdisc.kind, {}).items()}
    return {name: value for name, value in named.items() if value is not None}


def _fifo(unit: str) -> Callable[[bytes], dict[str, Any]]:
    return lambda data: {f"limit_{unit}": unsigned(data[:4])} if len(data) >= 4 else {}


def _rate(specification: bytes, rate64: int | None) -> int:
    """Bytes a second: a ``tc_ratespec`` holds at most 2^32 - 1, and more in an attribute of its own."""
    return rate64 or struct.unpack_from("=I", specification, 8)[0]


def _bucket_bytes(ticks: int, rate: int) -> int:
    return round(ticks * _TICK_NS * rate / 1e9)


def _tbf(data: bytes) -> dict[str, Any]:
    found = attributes(data)
    settings = found.get(1, b"")
    if len(settings) < 36:
        return {}
    rate = _rate(settings, unsigned(found.get(4)))
    peak = _rate(settings[12:], unsigned(found.get(5)))
    limit, bucket, peak_bucket = struct.unpack_from("=3I", settings, 24)
    result = {"rate_bps": rate * 8, "burst_bytes": _bucket_bytes(bucket, rate), "limit_bytes": limit}
    if peak:
        result |= {"peak_rate_bps": peak * 8, "peak_burst_bytes": _bucket_bytes(peak_bucket, peak)}
    return result


def _htb(data: bytes) -> dict[str, Any]:
    found = attributes(data)
    if len(found.get(2, b"")) >= 12:
        _, rate_to_quantum, default = struct.unpack_from("=3I", found[2])
        return {"default_class": f"{default:x}", "rate_to_quantum": rate_to_quantum}
    settings = found.get(1, b"")
    if len(settings) < 44:
        return {}
    rate, ceil = _rate(settings, unsigned(found.get(6))), _rate(settings[12:], unsigned(found.get(7)))
    bucket, ceil_bucket, quantum, _, priority = struct.unpack_from("=5I", settings, 24)
    return {
        "rate_bps": rate * 8,
        "ceil_bps": ceil * 8,
        "burst_bytes": _bucket_bytes(bucket, rate),
        "ceil_burst_bytes": _bucket_bytes(ceil_bucket, ceil),
        "quantum_bytes": quantum,
        "priority": priority,
    }


def _netem(data: bytes) -> dict[str, Any]:
    if len(data) < 24:
        return {}
    delay, limit, loss, gap, duplicate, jitter = struct.unpack_from("=6I", data)
    found = attributes(data[24:])
    delay_ns, jitter_ns = unsigned(found.get(10)), unsigned(found.get(11))
    result: dict[str, Any] = {
        "delay_ns": delay * _TICK_NS if delay_ns is None else delay_ns,
        "jitter_ns": jitter * _TICK_NS if jitter_ns is None else jitter_ns,
        "limit_packets": limit,
        "loss_percent": loss / 0xFFFFFFFF * 100,
        "duplicate_percent": duplicate / 0xFFFFFFFF * 100,
        "reorder_gap": gap,
    }
    if len(found.get(6, b"")) >= 4:
        result["rate_bps"] = struct.unpack_from("=I", found[6])[0] * 8
    return result


def _red(data: bytes) -> dict[str, Any]:
    settings = attributes(data).get(1, b"")
    if len(settings) < 16:
        return {}
    limit, low, high, weight_log2, _, _, flags = struct.unpack_from("=3I4B", settings)
    return {
        "limit_bytes": limit,
        "min_bytes": low,
        "max_bytes": high,
        "weight_log2": weight_log2,
        "ecn": flags & 1,
        "harddrop": flags >> 1 & 1,
        "adaptive": flags >> 2 & 1,
    }


def _bands(data: bytes) -> dict[str, Any]:
    if len(data) < 20:
        return {}
    return {"bands": struct.unpack_from("=i", data)[0], "priority_map": list(data[4:20])}


_SPECIAL: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "pfifo": _fifo("packets"),
    "bfifo": _fifo("bytes"),
    "pfifo_head_drop": _fifo("packets"),
    "tbf": _tbf,
    "htb": _htb,
    "netem": _netem,
    "red": _red,
    "pfifo_fast": _bands,
    "prio": _bands,
}


def describe(netlink: Netlink, interface: int) -> dict[str, Any]:
    """The disciplines and classes of an interface with their options and statistics.

    Raises:
        OSError: the kernel does not answer.
    """
    return {
        "qdiscs": [_described(qdisc) for qdisc in netlink.qdiscs(interface)],
        "classes": [_described(each) for each in netlink.classes(interface)],
    }


def _described(found: TrafficObject) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "handle": handle(found.handle),
        "parent": handle(found.parent),
        "options": options(found),
        "statistics": {counter.name: counter.value for counter in counters(found)},
    }

"""The kernel's queueing disciplines: their options and statistics, with units in the names.

Layouts are those of linux/pkt_sched.h and linux/gen_stats.h. What a discipline has besides, or one that is not known
here, is left out of the options; every discipline has the statistics that all of them share.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
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

_STATS_APP = 4


@dataclass(frozen=True)
class Counter:
    """One statistic.

    Attributes:
        cumulative: counts up since the discipline was made, rather than being a level.
    """

    name: str
    value: float
    cumulative: bool


# Options that are attributes with one number each, in the order of their places from 1 on; "-" is passed over.
_OPTIONS = {
    "fq_codel": """
        target_us limit_packets interval_us ecn flows quantum_bytes ce_threshold_us drop_batch_packets
        memory_limit_bytes
    """,
    "codel": "target_us limit_packets interval_us ecn ce_threshold_us",
    "pie": "target_us limit_packets tupdate_us alpha beta ecn bytemode dq_rate_estimator",
    "fq_pie": """
        limit_packets flows target_us tupdate_us alpha beta quantum_bytes memory_limit_bytes
        ecn_prob_percent ecn bytemode dq_rate_estimator
    """,
    "fq": """
        limit_packets flow_limit_packets quantum_bytes initial_quantum_bytes pacing - max_rate_bytes_per_s
        buckets_log2 refill_delay_us orphan_mask low_rate_threshold_bytes_per_s ce_threshold_us
        timer_slack_ns horizon_us horizon_drop
    """,
    "cake": """
        - bandwidth_bytes_per_s diffserv_mode atm flow_mode overhead_bytes rtt_us target_us autorate_ingress
        memory_limit_bytes nat raw wash mpu_bytes ingress ack_filter split_gso fwmark
    """,
}

# Statistics of one discipline: the layout, and for each field its name, with "+" where it counts up.
_XSTATS = {
    "fq_codel": """
        =10I - largest_packet_bytes dropped_overlimit_packets+ ecn_marked_packets+ new_flows+ new_flows_waiting
        old_flows_waiting ce_threshold_marked_packets+ memory_used_bytes dropped_overmemory_packets+
    """,
    "codel": """
        =4Ii4I largest_packet_bytes count last_count delay_us drop_next_us dropped_overlimit_packets+
        ecn_marked_packets+ dropping ce_threshold_marked_packets+
    """,
    "pie": """
        =Q8I probability_raw delay_ms dequeue_rate_raw - enqueued_packets+ dropped_early_packets+
        dropped_overlimit_packets+ largest_queue_packets ecn_marked_packets+
    """,
    "fq_pie": """
        =9I enqueued_packets+ dropped_early_packets+ dropped_overlimit_packets+ dropped_overmemory_packets+
        ecn_marked_packets+ new_flows+ new_flows_waiting old_flows_waiting memory_used_bytes
    """,
    "red": "=4I dropped_early_packets+ dropped_overlimit_packets+ dropped_other_packets+ ecn_marked_packets+",
    "choke": """
        =5I dropped_early_packets+ dropped_overlimit_packets+ dropped_other_packets+ ecn_marked_packets+
        dropped_matched_packets+
    """,
    "fq": """
        =7Qq4I flows_collected+ high_priority_packets+ tcp_retransmitted_packets+ throttled_packets+
        dropped_flow_limit_packets+ too_long_packets+ allocation_errors+ - flows inactive_flows throttled_flows
        unthrottle_latency_ns
    """,
}

# Of every discipline, by the kind of statistics.
_OF_ALL = {
    1: "=QI sent_bytes+ sent_packets+",
    3: "=5I backlog_packets backlog_bytes dropped_packets+ requeues+ overlimits+",
}

# Of cake, by the places of attributes, and of each of its tins.
_CAKE = "- capacity_estimate_bytes_per_s memory_limit_bytes memory_used_bytes"
_CAKE_TINS = 10
_CAKE_TIN = """
    - sent_packets+ sent_bytes+ dropped_packets+ dropped_bytes+ dropped_ack_packets+ dropped_ack_bytes+
    ecn_marked_packets+ ecn_marked_bytes+ backlog_packets backlog_bytes threshold_rate_bytes_per_s - - -
    - - peak_delay_us mean_delay_us base_delay_us sparse_flows bulk_flows unresponsive_flows
"""


def counters(qdisc: TrafficObject) -> list[Counter]:
    """Every statistic of a discipline or class."""
    stats = attributes(qdisc.attributes.get(TCA_STATS2, b""))
    found: list[Counter] = []
    for kind, layout in _OF_ALL.items():
        found += _unpacked(layout, stats.get(kind, b""))
    return found + _own(qdisc.kind, stats.get(_STATS_APP) or qdisc.attributes.get(TCA_XSTATS) or b"")


def _own(kind: str, data: bytes) -> list[Counter]:
    if kind == "cake":
        return _cake(attributes(data))
    if kind == "fq_codel" and data[:4] != bytes(4):
        return []  # of a class of it, with another layout
    return _unpacked(_XSTATS.get(kind, "="), data)


def _unpacked(layout: str, data: bytes) -> list[Counter]:
    """The statistics in data of a layout, which names each field; none of data that are too short for it."""
    form, *names = layout.split()
    return _named(" ".join(names), struct.unpack_from(form, data)) if len(data) >= struct.calcsize(form) else []


def _named(fields: str, values: Iterable[float | None], prefix: str = "") -> list[Counter]:
    """The values of fields that have a name, where there are any."""
    return [
        Counter(prefix + field.rstrip("+"), value, field.endswith("+"))
        for field, value in zip(fields.split(), values, strict=True)
        if field != "-" and value is not None
    ]


def _by_place(fields: str, found: Attributes) -> list[int | None]:
    return [unsigned(found.get(place)) for place, _ in enumerate(fields.split(), start=1)]


def _cake(stats: Attributes) -> list[Counter]:
    found = _named(_CAKE, _by_place(_CAKE, stats))
    for tin, data in attributes(stats.get(_CAKE_TINS, b"")).items():
        found += _named(_CAKE_TIN, _by_place(_CAKE_TIN, attributes(data)), f"tin{tin}_")
    return found


def options(qdisc: TrafficObject) -> dict[str, Any]:
    """How a discipline or class is set, as far as its options are known here."""
    data = qdisc.attributes.get(TCA_OPTIONS, b"")
    special = _SPECIAL.get(qdisc.kind)
    if special is not None:
        return special(data)
    names = _OPTIONS.get(qdisc.kind, "")
    return {one.name: one.value for one in _named(names, _by_place(names, attributes(data)))}


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

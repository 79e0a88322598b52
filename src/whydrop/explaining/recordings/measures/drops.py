"""Drops by the host of a recording itself, as its kernel reported them to a watch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

# The kernel's reasons (include/net/dropreason-core.h) that take away what somebody waits for, by what lies behind them.
# The others are of packets without new data, or unrequested ones: old data, resets, closed sockets.
KINDS: dict[str, frozenset[str]] = {
    "receive-buffer": frozenset(
        {"SOCKET_RCVBUFF", "SOCKET_BACKLOG", "PROTO_MEM", "TCP_OFO_QUEUE_PRUNE", "TCP_OFO_DROP", "TCP_ZEROWINDOW"}
    ),
    "queue": frozenset(
        {
            "QDISC_DROP", "QDISC_OVERLIMIT", "QDISC_CONGESTED", "CAKE_FLOOD", "FQ_BAND_LIMIT", "FQ_HORIZON_LIMIT",
            "FQ_FLOW_LIMIT", "DUALPI2_STEP_DROP",
        }
    ),
    "listener": frozenset({"TCP_LISTEN_OVERFLOW"}),
    "processor": frozenset({"CPU_BACKLOG", "FULL_RING"}),
    "memory": frozenset({"NOMEM", "PFMEMALLOC"}),
    "filter": frozenset({"NETFILTER_DROP", "BPF_CGROUP_EGRESS", "SECURITY_HOOK", "XFRM_POLICY", "XDP"}),
    "traffic-control": frozenset({"TC_INGRESS", "TC_EGRESS"}),
    "reverse-path": frozenset({"IP_RPFILTER"}),
    "route": frozenset({"IP_OUTNOROUTES", "IP_INNOROUTES", "IP_INADDRERRORS", "PKT_TOO_BIG"}),
    "neighbour": frozenset({"NEIGH_FAILED", "NEIGH_QUEUEFULL", "NEIGH_DEAD", "NEIGH_CREATEFAIL"}),
    "checksum": frozenset({"TCP_CSUM", "UDP_CSUM", "IP_CSUM", "ICMP_CSUM", "SKB_CSUM"}),
}  # fmt: skip
_KIND = {reason: kind for kind, reasons in KINDS.items() for reason in reasons}

_MOST_NAMES = 10
_BY = ["reason", "direction", "flow"]


@dataclass(frozen=True)
class HostDrops:
    """Packets dropped for one reason, in one direction, all of flows of the recording or all of others.

    Attributes:
        kind: one of :data:`KINDS`, or ``other``: of these only the segments that TCP had to retransmit.
        direction: ``up``: made by this host; ``down``: they came by an interface.
        flows: of the recording; else (``known`` is false) source and destination, or the protocol.
        stood: segments of them that TCP did not retransmit; 0 for other protocols.
        laid, sent_again: segments retransmitted after such a drop, and at all.
        lost_events: drops of any reason that could not be counted.
        late: some of the flows are older than the watch.
    """

    reason: str
    kind: str
    direction: str
    flows: tuple[str, ...]
    known: bool
    packets: int
    location: str
    interface: str
    stood: int
    laid: int
    sent_again: int
    lost_events: int
    late: bool
    first_ns: int
    last_ns: int


def measure(recording: Recording) -> list[HostDrops]:
    """All of them, the most frequent first; only of the network namespace of the watch."""
    frame = recording.table("drops").filter(pl.col("here").fill_null(False))
    if not frame.height:
        return []
    again = recording.table("retransmissions")
    told = {row["name"].partition(" #")[0]: row for row in recording.table("flows").to_dicts() if row["name"]}
    ends = pl.concat_str("source", pl.lit(" > "), "destination")
    repaired = again.with_columns(flow=ends)
    laid = {tuple(key): n for *key, n in _sums(repaired.drop_nulls("reason"), "flow", "reason")}
    every = dict(_sums(repaired, "flow"))
    frame = frame.with_columns(
        flow=pl.coalesce(ends, "protocol"),
        direction=pl.when(pl.col("arrived_by").is_null()).then(pl.lit("up")).otherwise(pl.lit("down")),
    ).with_columns(known=pl.col("flow").is_in(list(told)))
    groups: dict[tuple[str, str, bool], list[dict[str, Any]]] = {}
    rows = frame.group_by("reason", "direction", "known", "flow", "protocol").agg(
        pl.col("packets").sum(),
        pl.col("start_ns").min(),
        pl.col("end_ns").max(),
        location=pl.col("location").drop_nulls().mode().sort().first(),
        interface=pl.col("interface").drop_nulls().mode().sort().first(),
    )
    for row in rows.sort("packets", "flow", descending=[True, False]).iter_rows(named=True):
        row["laid"] = laid.get((row["flow"], row["reason"]), 0)
        if row["reason"] in _KIND or row["laid"]:
            groups.setdefault((row["reason"], row["direction"], row["known"]), []).append(row)
    lost_events = _lost_events(recording)
    found = [_drops(key, members, every, told, lost_events) for key, members in groups.items()]
    return sorted(found, key=lambda one: -one.packets)


def _sums(frame: pl.DataFrame, *by: str) -> list[tuple[Any, ...]]:
    return frame.group_by(*by).agg(pl.col("packets").sum()).rows()


def _drops(
    key: tuple[str, str, bool],
    members: list[dict[str, Any]],
    every: dict[str, int],
    told: dict[str, dict[str, Any]],
    lost_events: int,
) -> HostDrops:
    reason, direction, known = key
    laid = sum(one["laid"] for one in members)
    of_tcp = sum(one["packets"] for one in members if one["protocol"] == "tcp")
    names = tuple(one["flow"] for one in members[:_MOST_NAMES])
    return HostDrops(
        reason,
        _KIND.get(reason, "other"),
        direction,
        names,
        known,
        sum(one["packets"] for one in members),
        members[0]["location"] or "",
        members[0]["interface"] or "",
        max(0, of_tcp - laid),
        laid,
        sum(every.get(one["flow"], 0) for one in members),
        lost_events,
        known and any(json.loads(told[name]["facts"] or "{}").get("older") for name in names),
        min(one["start_ns"] for one in members),
        max(one["end_ns"] for one in members),
    )


def _lost_events(recording: Recording) -> int:
    counted = (
        recording.table("counters")
        .filter((pl.col("source") == "drops") & (pl.col("counter") == "lost_events"))
        .sort("time_ns")
    )
    # It counts since the watch began, which may have been some recordings ago.
    return int(counted["value"][-1] - counted["value"][0]) if counted.height else 0

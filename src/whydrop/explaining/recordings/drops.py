"""Packets that the host of a recording dropped itself: no inference, its kernel reported them to a watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.explaining.recordings.findings import Fact, Finding, Place, Subject
from whydrop.explaining.recordings.thresholds import MOST_NATS
from whydrop.recording.document import json_object

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


def findings(recording: Recording) -> list[Finding]:
    """One for each reason and direction, the most frequent first; only of the network namespace of the watch."""
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
    found = [_finding(key, members, every, told, lost_events) for key, members in groups.items()]
    return sorted(found, key=lambda one: -one.lost)


def _sums(frame: pl.DataFrame, *by: str) -> list[tuple[Any, ...]]:
    return frame.group_by(*by).agg(pl.col("packets").sum()).rows()


def _finding(
    key: tuple[str, str, bool],
    members: list[dict[str, Any]],
    every: dict[str, int],
    told: dict[str, dict[str, Any]],
    lost_events: int,
) -> Finding:
    """Packets dropped for one reason, in one direction, all of flows of the recording or all of others.

    ``up`` are those made by this host, ``down`` those that came by an interface. Others are named by source and
    destination, or by protocol.
    """
    reason, direction, known = key
    kind = _KIND.get(reason, "other")
    names = tuple(one["flow"] for one in members[:_MOST_NAMES])
    packets, laid = (sum(one[name] for one in members) for name in ("packets", "laid"))
    sent_again = sum(every.get(one["flow"], 0) for one in members)
    stood = sum(one["packets"] for one in members if one["protocol"] == "tcp") - laid
    about = {name: members[0][name] or "" for name in ("location", "interface")}
    facts = [Fact.of("dropped-here", reason=reason, kind=kind, packets=packets, **about)]
    if sent_again:
        facts.append(Fact.of("retransmitted-after-local-drops", laid=laid, count=sent_again))
    if stood > 0 and kind == "queue" and direction == "up":
        facts.append(Fact.of("local-stall", packets=stood))
    if lost_events:
        facts.append(Fact.of("drops-not-counted", count=lost_events))
    if known and any(json_object(told[name]["facts"]).get("older") for name in names):
        facts.append(Fact("watched-too-late"))
    return Finding(
        # Of a subject of its own: what else befell the flows is another question.
        Subject(names, min(one["start_ns"] for one in members) / 1e9, max(one["end_ns"] for one in members) / 1e9),
        # What passes through, and what no connection was watched of, has neither end here for sure.
        Place({"up": "sender", "down": "receiver"}[direction], direction) if known else None,
        "host-drop",
        MOST_NATS,
        detail=reason,
        lost=packets,
        explained=1.0,
        facts=tuple(facts),
    )


def _lost_events(recording: Recording) -> int:
    counted = (
        recording.table("counters")
        .filter((pl.col("source") == "drops") & (pl.col("counter") == "lost_events"))
        .sort("time_ns")
    )
    # It counts since the watch began, which may have been some recordings ago.
    return int(counted["value"][-1] - counted["value"][0]) if counted.height else 0

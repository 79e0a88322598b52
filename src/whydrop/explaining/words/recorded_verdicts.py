"""Verdicts on recordings: headlines and advice by cause."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from whydrop.explaining.recordings.thresholds import MOST_OF_THE_TIME, TIMER_S
from whydrop.explaining.words.recorded_facts import LIMITS, flows_of, where
from whydrop.recording.troubles import in_one_sentence
from whydrop.text.phrases import capital, fill, listed
from whydrop.text.quantities import duration, percent, plural, size
from whydrop.text.quantities import share as share_of

Json = Mapping[str, Any]

# The least added delay that is worth a sentence: the resolution of hosts' timers.
_LEAST_ADDED_S = TIMER_S

_GIGABIT_BPS = 1e9

# A shaper ahead of the queue must be a little slower than the queue's own rate; by how much is from sqm-scripts.
_SHAPED_SHARE = 0.95

# What lies behind a reason of the kernel's for a drop (`drops.KINDS`).
_BEHIND_DROPS = {
    "receive-buffer": "a socket's receive buffer was full",
    "queue": "its own queue for sending was full",
    "listener": "the listening socket's queue was full",
    "processor": "a processor's receive queue or a ring was full",
    "memory": "it had no memory left",
    "filter": "one of its filters or policies drops them",
    "traffic-control": "a filter or policer of its traffic control drops them",
    "reverse-path": "the sender is not reached by the interface that they came by",
    "route": "it had no route for them",
    "neighbour": "the next hop did not answer for its address",
    "checksum": "their checksums were wrong",
}

_FOR = " for {limited_share:share} of the time."
_QUEUE = (
    " {where} delays packets by {induced_delay_s} under load[detail=bufferbloat? (bufferbloat)][base_rtt_s?, on a path "
    "with a round trip of {base_rtt_s}][drain_rate_bps?. It drains at {drain_rate_bps}]"
)
_LOST = "[; {lost|loss} under load]."

HEADLINES = {
    "deep-queue": "A long queue" + _QUEUE + _LOST,
    "shallow-queue": "A short queue" + _QUEUE + _LOST,
    "shaper": "A shaper or a long queue" + _QUEUE + "; it drops nothing.",
    "aqm": (
        "A managed queue (AQM) {where} [detail=flow-queueing?has a queue for each flow: load does not delay other "
        "flows|[detail=marking?marks packets before it is full|[detail=held-delay?drops early and keeps the delay "
        "low|is at work]]]."
    ),
    "unfairness": (
        "{number} [one_flow?gets|get] less than a fair share[detail=distance?: the longer the round trip, the less]"
        "[detail=congestion-control?: another congestion control takes more] (Jain's index "
        "{fairness_index:significant})."
    ),
    "host-drop": "This host dropped {packets|packet} of {flows}[why?: {why}] ({reason}).",
    "policer": "A policer {where} drops traffic above about {rate_bps} and delays nothing.",
    "random-loss": "{loss_rate:percent} of the packets are lost at random {where}, with load and without.",
    "receiver-window": "The receive window, not the path, limits {flows}" + _FOR,
    "sender": (
        "[detail=send-buffer?The send buffer of the sender[ ({send_buffer_bytes})]|[rate_is_set?The rate that the test "
        "sets|The sender's {detail}]], not the path, limits {flows}" + _FOR
    ),
    "peer-application": "The responder's own limit, not the path, limits {flows}" + _FOR,
    "outage": "Nothing passed for {duration_s}, then packets passed again.",
    "none": "Load does not delay packets {where}, and no loss was seen.",
    "unknown": "{seen} {mostly}{to_learn_more}",
}

_SHORTEN = (
    "Let the bottleneck's queue be managed (fq_codel or cake, RFC 8290). If you cannot, shape in front of it, a little "
    "below its rate, so that packets queue where you manage the queue",
    "[kbit?$ tc qdisc replace dev IFACE root cake bandwidth {kbit}kbit]",
)

ADVICE: dict[tuple[str, str | None], tuple[str, ...]] = {
    ("deep-queue", None): _SHORTEN,
    ("shaper", None): _SHORTEN,
    ("shallow-queue", None): (
        "The queue is too short for this rate: give it room for the data of a round trip, and manage it with fq_codel",
    ),
    ("policer", None): (
        "Send below the policer's rate, so that packets are queued at your end instead of dropped by the policer",
        "$ tc qdisc replace dev IFACE root tbf rate {kbit}kbit burst 16kb latency 50ms",
    ),
    ("random-loss", None): (
        "Look for a damaged link: error counters of interfaces along the path, radio quality, cables",
    ),
    ("receiver-window", None): (
        "At the receiver, see first whether the application reads too slowly (unread bytes in Recv-Q) or sets "
        "SO_RCVBUF",
        "$ ss -tinm",
        "If it does neither, let the window grow to the rate times the round trip",
        "$ sysctl net.ipv4.tcp_rmem net.core.rmem_max",
    ),
    ("sender", "pacing"): (
        "Raise or remove the rate that is set for the socket (SO_MAX_PACING_RATE); whether the path carries more is "
        "not known",
    ),
    ("sender", "send-buffer"): (
        "[full?[set?Leave out the send buffer that the test requests, or request more than {now} "
        "({each})|[at_responder?at the responder, which sends: ]let the send buffer grow beyond {now}, to twice the "
        "rate times the round trip of {rtt_s}: {each}; the path carries at least {sent_bps}]|let the send buffer grow "
        "to twice the rate times the round trip]",
        "[full?[!set?$ sysctl -w net.ipv4.tcp_wmem='4096 16384 {wmem}']|$ sysctl net.ipv4.tcp_wmem net.core.wmem_max]",
    ),
    ("sender", None): (
        "[rate_is_set?The test sets this rate: to measure the path, repeat the test with a higher rate or none|See "
        "why the application sends no more; whether the path carries more is not known]",
    ),
    ("peer-application", None): (
        "To measure the path, start the responder with a higher --max-rate, or with --secret-file instead of --open",
    ),
    ("unfairness", "distance"): (
        "Use a queue for each flow at the bottleneck (fq_codel, cake): it shares its rate whatever the round trips",
    ),
    ("unfairness", "congestion-control"): (
        "Use a queue for each flow at the bottleneck (fq_codel, cake): it shares its rate whatever the congestion "
        "control",
    ),
    ("unfairness", None): ("Compare the flows' congestion control, round trips and losses",),
    ("outage", None): ("Look for what changed then: a route, a radio link, a failover, a restart",),
    ("host-drop", "receive-buffer"): (
        "Let the application read faster, or give its socket a larger receive buffer",
        "$ sysctl net.core.rmem_max net.ipv4.tcp_rmem net.ipv4.udp_mem",
    ),
    ("host-drop", "queue"): ("Let the queue be managed and long enough for a round trip", "$ tc -s qdisc show"),
    ("host-drop", "listener"): (
        "Let the application accept faster, or listen with a longer queue",
        "$ sysctl net.core.somaxconn",
    ),
    ("host-drop", "processor"): (
        "Spread interrupts and receive processing over more processors, or give the rings more room",
        "$ sysctl net.core.netdev_max_backlog net.core.netdev_budget",
    ),
    ("host-drop", "memory"): ("$ sysctl net.ipv4.tcp_mem net.ipv4.udp_mem; nstat -az TcpExtTCPMemoryPressures",),
    ("host-drop", "filter"): (
        "Look for the rule, and whether connection tracking is full",
        "$ nft list ruleset; conntrack -S",
    ),
    ("host-drop", "traffic-control"): ("$ tc -s filter show dev IFACE ingress",),
    ("host-drop", "reverse-path"): ("$ sysctl net.ipv4.conf.all.rp_filter; ip route get SENDER",),
    ("host-drop", "route"): ("$ ip route get DESTINATION; nstat -az | grep -i -e NoRoutes -e HdrErrors -e AddrErrors",),
    ("host-drop", "neighbour"): ("$ ip neigh show; sysctl net.ipv4.neigh.default.gc_thresh3",),
    ("host-drop", "checksum"): (
        "Look at the interface's offloads, and for a device that changes packets on the path",
        "$ ethtool -k IFACE",
    ),
    ("end-in-trouble", None): (
        "Look at what kept that host from running (its load, its hypervisor, a suspended process), then repeat the "
        "test",
    ),
}


def sentence(verdict: Json) -> str:
    """A verdict in one sentence."""
    if troubles := _of_code(verdict, "end-in-trouble"):
        values = (troubles[0][name] for name in ("host", "pauses", "paused_s", "thrown_away"))
        return capital(f"{in_one_sentence(*values)}.")
    words = HEADLINES.get(verdict["cause"], f"{verdict['cause'].replace('-', ' ').capitalize()}.")
    return fill(words, _values(verdict))


def advice(verdict: Json) -> list[str]:
    """Advice; commands to paste begin with ``$ ``."""
    cause, detail = verdict["cause"], verdict["detail"]
    if _of_code(verdict, "end-in-trouble"):
        cause = "end-in-trouble"
    elif cause == "host-drop":
        detail = _of_code(verdict, "dropped-here")[0]["kind"]
    steps = ADVICE.get((cause, detail)) or ADVICE.get((cause, None), ())
    values = _values(verdict)
    return [capital(step) for step in (fill(one, values) for one in steps) if step]


def _values(verdict: Json) -> dict[str, Any]:
    """The values of templates for a verdict."""
    direction = (verdict["place"] or {}).get("direction")
    parameters = {name: one["value"] for name, one in verdict["parameters"].items()}
    values = {
        "induced_delay_s": 0.0,
        **parameters,
        "detail": verdict["detail"],
        "lost": verdict["lost"],
        "limited_share": verdict["limited_share"],
        "where": where(direction),
        "flows": listed(verdict["flows"]),
        "number": plural(len(verdict["flows"]), flows_of(direction)),
        "one_flow": len(verdict["flows"]) == 1,
        "rate_is_set": _rate_is_set(verdict),
    }
    bottleneck_bps = parameters.get("rate_bps" if verdict["cause"] == "policer" else "drain_rate_bps")
    if bottleneck_bps is not None:
        values["kbit"] = str(max(1, round(_SHAPED_SHARE * bottleneck_bps / 1000)))
    of_cause: dict[str, Callable[[Json], dict[str, Any]]] = {
        "host-drop": _host_drop,
        "sender": _send_buffer,
        "unknown": _unknown,
    }
    derive = of_cause.get(verdict["cause"])
    return {**values, **(derive(verdict) if derive is not None else {})}


def _of_code(verdict: Json, code: str) -> list[Json]:
    return [fact["values"] for fact in verdict["facts"] if fact["code"] == code]


def _host_drop(verdict: Json) -> dict[str, Any]:
    (fact,) = _of_code(verdict, "dropped-here") or [{"packets": 0, "reason": "", "kind": ""}]
    return {"packets": fact["packets"], "reason": fact["reason"], "why": _BEHIND_DROPS.get(fact["kind"])}


def _rate_is_set(verdict: Json) -> bool:
    """True if the test sets the rate of all of these flows."""
    own = _of_code(verdict, "kernel-limited")
    return verdict["detail"] == "application" and bool(own) and all(one.get("set_rate_bps") for one in own)


def _send_buffer(verdict: Json) -> dict[str, Any]:
    full = _of_code(verdict, "send-buffer-full")
    if not full:
        return {}
    first = full[0]
    return {
        "full": True,
        "set": first["set"],
        "at_responder": first["direction"] == "down",
        "now": size(first["buffer_bytes"]),
        "rtt_s": first["rtt_s"],
        "each": f"{size(2 * _GIGABIT_BPS / 8 * first['rtt_s'])} for each Gbit/s",
        "sent_bps": first["rate_bps"],
        "wmem": str(_power_of_two(2 * first["buffer_bytes"])),
    }


def _power_of_two(value: float) -> int:
    """The next power of two.

    >>> _power_of_two(5e6)
    8388608
    """
    return 1 << max(12, math.ceil(math.log2(max(1.0, value))))


def _unknown(verdict: Json) -> dict[str, Any]:
    return {"seen": _seen(verdict), "mostly": _mostly(verdict), "to_learn_more": _to_learn_more(verdict)}


def _seen(verdict: Json) -> str:
    """One sentence on the losses and the delay that were measured."""
    lost = _losses_seen(verdict)
    delays = [*_of_code(verdict, "delay-under-load"), *_of_code(verdict, "own-delay-under-load")]
    place = where((verdict["place"] or {}).get("direction"))
    if not delays:
        return f"{lost} {place}; the queueing delay was not measured." if lost else f"{_nothing_seen(verdict)} {place}."
    added_s = delays[0]["induced_s"]
    if added_s <= _LEAST_ADDED_S:
        return f"{lost} {place}, without added delay." if lost else f"Load does not delay packets {place}."
    delay = f"oad delays packets by {duration(added_s)}"
    return f"{lost} {place}; l{delay}." if lost else f"L{delay} {place}."


def _nothing_seen(verdict: Json) -> str:
    """Of no loss and no known delay: whether losses were counted at all."""
    counted = any(one["sent"] or one["idle_sent"] for one in _of_code(verdict, "probes-lost"))
    if counted or _of_code(verdict, "retransmissions") or _of_code(verdict, "datagrams-lost"):
        return "Nothing was lost, and the queueing delay was not measured"
    return "This recording measured neither losses nor delay under load"


def _losses_seen(verdict: Json) -> str:
    """The segments that were retransmitted, and the packets and probes that were lost; empty where there were none."""
    again = [one for one in _of_code(verdict, "retransmissions") if one["count"]]
    datagrams = [one for one in _of_code(verdict, "datagrams-lost") if one["count"]]
    probes = [one for one in _of_code(verdict, "probes-lost") if one["lost"] or one["idle_lost"]]
    parts = []
    if again:
        segments = sum(one["count"] for one in again)
        share = f" ({percent(again[0]['share'])})" if len(again) == 1 else ""
        parts.append(f"{plural(segments, 'segment')}{share} {_was(segments)} retransmitted")
    if datagrams:
        lost, sent = (sum(one[name] for one in datagrams) for name in ("count", "sent"))
        parts.append(fill("{lost} of {sent|UDP packet} ({share:percent})", _share(lost, sent)) + f" {_was(lost)} lost")
    if probes:
        lost, sent = (sum(one[name] + one[f"idle_{name}"] for one in probes) for name in ("lost", "sent"))
        parts.append(fill("{lost} of {sent|probe}", _share(lost, sent)) + f" {_was(lost)} lost")
    return " and ".join(parts)


def _share(lost: float, sent: float) -> dict[str, float]:
    return {"lost": lost, "sent": sent, "share": lost / sent if sent else 0.0}


def _was(number: float) -> str:
    return "was" if number == 1 else "were"


def _to_learn_more(verdict: Json) -> str:
    """Advice to learn more, where there is something to explain."""
    limited = _most_of_the_time(verdict)
    if limited is not None and limited[1] == "far-end":
        # A capture would show the same limit.
        return "To measure the path, start the responder with a higher --max-rate."
    if verdict["lost"] or any(one["induced_s"] > _LEAST_ADDED_S for one in _of_code(verdict, "delay-under-load")):
        return "A recording alone does not show why: capture at the sender."
    return "No cause can be named."


def _most_of_the_time(verdict: Json) -> tuple[str, str, float] | None:
    """The one flow with the one limit for most of the time, and the share of that time."""
    limits = _of_code(verdict, "limited-by")
    if len(limits) != 1 or not limits[0]["shares"] or limits[0]["shares"][0] <= MOST_OF_THE_TIME:
        return None
    return limits[0]["flow"], limits[0]["limits"][0], limits[0]["shares"][0]


def _mostly(verdict: Json) -> str:
    """The limit of the flows for most of the time, where that is one flow's one limit."""
    found = _most_of_the_time(verdict)
    if found is None:
        return ""
    flow, limit, share = found
    return f"{flow} is limited by {LIMITS[limit]} for {share_of(share)} of the time. "

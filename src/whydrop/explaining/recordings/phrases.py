"""Findings from recordings in words: a phrase for each code of a fact, a sentence and advice for each cause."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from whydrop.explaining.recordings.thresholds import MOST_OF_THE_TIME, TIMER_S
from whydrop.recording.troubles import in_one_sentence
from whydrop.text.quantities import count, duration, percent, rate, significant, size

Values = Mapping[str, Any]

# The least added delay that is worth a sentence: the resolution of hosts' timers.
_LEAST_ADDED_S = TIMER_S
# Most names in a sentence.
_MOST_NAMES = 4


def _ways(direction: str | None) -> str:
    return {"up": "on the way up", "down": "on the way down"}.get(direction or "", "on the path")


def _flows(direction: str | None) -> str:
    return {"up": "uploads", "down": "downloads"}.get(direction or "", "flows")


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"


def _number(many: float, one: str) -> str:
    return f"{count(many)} {one if many == 1 else _many(one)}"


def _delay_under_load(v: Values) -> str:
    what = f"one-way delay {_ways(v['direction'])}" if v["one_way"] else "round-trip time of probes"
    induced, low, high = (_signed(v[name]) for name in ("induced_s", "low_s", "high_s"))
    # Clocks that are apart make one-way delays of any size; their difference is right all the same.
    change = "" if v["one_way"] else f" {duration(v['idle_s'])} idle, {duration(v['loaded_s'])} under load:"
    return (
        f"the median {what}:{change} {induced} (95 % interval {low} to {high}; "
        f"{count(v['idle_samples'])} probes idle, {count(v['samples'])} under load)"
    ).replace("::", ":")


def _signed(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '−'}{duration(abs(seconds))}"


def _own_delay(v: Values) -> str:
    return (
        f"the flows' own smoothed round-trip time stood {duration(max(0.0, v['induced_s']))} above the least of "
        f"{duration(v['idle_s'])}, and grew with their windows"
    )


def _rate(v: Values) -> str:
    varied = "" if v["variation"] is None else f", varying by {percent(v['variation'])} from second to second"
    # Goodput of the whole test, as `show` has it, is another number: it holds the start of the load.
    flows = _number(v["flows"], _flows(v["direction"])[:-1])
    return f"{flows} carried {rate(v['rate_bps'])} of IP packets in the steady load, its start left out{varied}"


def _retransmissions(v: Values) -> str:
    if not v["count"]:
        return f"the {_flows(v['direction'])} retransmitted nothing"
    share = f"{significant(100 * v['share'])} %"
    return f"the {_flows(v['direction'])} retransmitted {_number(v['count'], 'segment')} ({share})"


def _datagrams_lost(v: Values) -> str:
    share = f" ({significant(100 * v['share'])} %)" if v["count"] else ""
    return f"the {_flows(v['direction'])} lost {count(v['count'])} of {_number(v['sent'], 'UDP packet')}{share}"


def _counted_otherwise(v: Values) -> str:
    counts = (
        f"the senders' kernels counted {_number(v['kernel'], 'retransmission')}, the capture {count(v['captured'])}"
    )
    why = {
        "lost-on-the-way": ": taken at the receiver, it lacks those that were lost, too",
        "after-last-sample": ": it goes on after their last samples",
    }
    return counts + why.get(str(v["reason"]), "")


def _probes_lost(v: Values) -> str:
    way = f" {_ways(v['direction'])}" if v["direction"] != "both" else ""
    parts = [f"{count(v['lost'])} of {count(v['sent'])} probes were lost{way} under load"] if v["sent"] else []
    if v["idle_sent"]:
        probes = "" if parts else f" probes were lost{way}"
        parts.append(f"{count(v['idle_lost'])} of {count(v['idle_sent'])}{probes} without load")
    return ", ".join(parts) or "no probe was sent"


def _with_and_without_load(v: Values) -> str:
    idle, loaded = v["idle_share"], v["share"]
    if idle is None:
        return f"{_share(loaded)} of the probes were lost under load; none was sent without it"
    if loaded is None:
        return f"{_share(idle)} of the probes were lost without load; none was sent under it"
    if not idle:
        return f"{_share(loaded)} of the probes were lost under load, none of those sent without it"
    return f"losses do not follow load: {_share(idle)} without it, {_share(loaded)} under it"


def _kernel_limited(v: Values) -> str:
    what = {
        "receive-window": "the receive window stopped",
        "send-buffer": "the send buffer was too small for",
        "application": "the application had nothing to send on",
        "pacing": "the pacing rate that is set there limited",
    }[v["limit"]]
    by = "kernel" if v.get("by", "kernel") == "kernel" else "samples"
    if v["limit"] == "application" and v.get("set_rate_bps"):
        what = f"the rate of {rate(v['set_rate_bps'])} that the test sets limited"
    return f"by the sender's {by} {what} {v['flow']} for {percent(v['share'])} of {duration(v['span_s'])}"


_LIMITS = {
    "receive-window": "the receive window",
    "send-buffer": "the send buffer",
    "application": "the application",
    "congestion-window": "the congestion window",
    "pacing": "pacing",
    "path-rate": "the path's rate",
    "far-end": "the responder (its --max-rate)",
}


def _end_in_trouble(v: Values) -> str:
    told = f"from {duration(max(0.0, v['start_s']))} after the first sample on"
    if v["pauses"]:
        told += (
            f", its process did not run for {duration(v['paused_s'])} ({_number(v['pauses'], 'pause')}, the longest "
        )
        told += f"of {duration(v['longest_s'])})"
    if v["thrown_away"]:
        told += f", its kernel counted {_number(v['thrown_away'], 'datagram')} that found the receive buffer full"
    return f"{told}; these are left out of the losses and times below"


def _held_by_responder(v: Values) -> str:
    to = f" to {rate(v['to_bps'])}" if v["to_bps"] else ""
    did = "read {} no faster" if v["direction"] == "up" else f"paced {{}}{to}"
    return (
        f"the responder {did.format(v['flow'])} for {percent(v['share'])} of the time: "
        "its own limit of a test's rate (--max-rate)"
    )


def _send_buffer_full(v: Values) -> str:
    return (
        f"the send buffer of {size(v['buffer_bytes'])} held {size(v['data_bytes'])} of data of {v['flow']}, all that "
        f"can be sent in a round trip of {duration(v['rtt_s'])}: it carried {rate(v['rate_bps'])}, and its congestion "
        "window would have let it send more"
    )


def _limited_by(v: Values) -> str:
    held = zip(v["limits"], v["shares"], strict=True)
    shares = ", ".join(f"{_LIMITS[name]} {percent(share)}" for name, share in held)
    if v["queue_delay_s"] is not None and "path-rate" in v["limits"]:
        shares += f"; while the path's rate did, its packets waited {duration(v['queue_delay_s'])} in queues"
    by = "the sender's kernel and its samples" if v["by"] == "kernel" else "the samples"
    return f"by {by} what limited {v['flow']} in {duration(v['span_s'])}: {shares}"


_SIGNALS = {
    "fast_retransmit": "fast retransmit",
    "timeout": "timeout",
    "ecn": "mark (ECN)",
    "local_stall": "stall of this host's own queue",
    "unexplained": "unexplained one",
}


def _congestion_signals(v: Values) -> str:
    kinds = ", ".join(_number(v[kind], words) for kind, words in _SIGNALS.items() if v[kind])
    told = f"{v['flow']} reduced its window {_number(v['count'], 'time')}" + (f": {kinds}" if kinds else "")
    if v["undone"]:
        told += f"; {_number(v['undone'], 'time')} this was taken back"
    if v["timeouts_apart"]:
        told += f"; its kernel counts {_number(v['timeouts_apart'], 'timeout')} apart from these"
    return told


def _throughput_by_window(v: Values) -> str:
    kink, low, high = (size(v[f"kink_bytes{end}"]) for end in ("", "_low", "_high"))
    told = (
        f"throughput of {v['flow']} grows with its congestion window (one window in {duration(v['rtt_s'])}) "
        f"up to {kink} (95 % interval {low} to {high}), and stays at {rate(v['plateau_bps'])} beyond: "
    )
    if v["of"] == "receive-window":
        return told + f"there the receive window of {size(v['receive_window_bytes'])} stops it, not the path"
    return told + "the bandwidth-delay product of the path"


def _port_discards(v: Values) -> str:
    polls = f"in {_number(v['bins'], 'poll')} of {duration(v['span_s'])} together"
    if not v["discards"]:
        return f"{v['port']} discarded nothing while the flows ran ({polls})"
    of = f" of {count(v['packets'])} packets" if v["packets"] else ""
    told = f"{v['port']} discarded {count(v['discards'])}{of} while the flows ran ({polls})"
    if not v["with_losses"]:
        return f"{told}; the flows retransmitted nothing"
    return (
        f"{told}: in {count(v['with_both'])} of the {_number(v['with_losses'], 'poll')} in which the flows "
        f"retransmitted (by chance: {significant(100 * v['chance'], 2)} %)"
    )


def _unequal(v: Values) -> str:
    pairs = sorted(zip(v["rates_bps"], v["flows"], strict=True), reverse=True)
    shown = [pairs[0], pairs[-1]] if len(pairs) > _MOST_NAMES else pairs
    told = ", ".join(f"{name} {rate(bps)}" for bps, name in shown)
    most = "most and least: " if len(pairs) > _MOST_NAMES else ""
    return f"Jain's index of {len(pairs)} flows is {significant(v['index'])} (1 is fair); {most}{told}"


# What lies behind a reason of the kernel's for a drop (`measures.drops.KINDS`).
_BEHIND_DROPS = {
    "receive-buffer": "a socket's receive buffer was full",
    "queue": "its own queue for sending was full",
    "listener": "the listening socket's queue was full",
    "processor": "a processor's receive queue or a ring was full",
    "memory": "it had no memory left",
    "filter": "a filter or policy of its own says so",
    "traffic-control": "a filter or policer of its traffic control says so",
    "reverse-path": "the sender is not reached by the interface that they came by",
    "route": "it had no route for them",
    "neighbour": "the next hop did not answer for its address",
    "checksum": "their checksums were wrong",
}


def _dropped_here(v: Values) -> str:
    at = f" at {v['interface']}" if v["interface"] else ""
    function = f", in {v['location']}" if v["location"] else ""
    return f"the kernel of this host dropped {_number(v['packets'], 'packet')}{at}: {v['reason']}{function}"


def _many(one: str) -> str:
    """The plural of the words that stand here: of the first noun, where more follow it.

    >>> _many("segment"), _many("stall of this host's own queue"), _many("mark (ECN)")
    ('segments', "stalls of this host's own queue", 'marks (ECN)')
    """
    noun, space, rest = one.partition(" ")
    return f"{noun}s {rest}" if space and rest.startswith(("of ", "(")) else f"{one}s"


PHRASES: dict[str, Callable[[Values], str]] = {
    "dropped-here": _dropped_here,
    "sent-again-after-drops-here": lambda v: (
        f"{count(v['laid'])} of {_number(v['count'], 'segment')} that were retransmitted came after a drop here of the "
        f"same bytes{'; where the others were lost is not known' if v['laid'] < v['count'] else ''}"
    ),
    "local-stall": lambda v: (
        f"{_number(v['packets'], 'segment')} needed no retransmission: what a full queue of its own refuses TCP "
        "keeps until there is room (a local stall, no congestion of the path)"
    ),
    "drops-not-counted": lambda v: (
        f"{_number(v['count'], 'drop')} came too fast to be counted, and may be of any reason"
    ),
    "watched-too-late": lambda _: "connections are older than the watch: what was dropped before is not known",
    "delay-under-load": _delay_under_load,
    "own-delay-under-load": _own_delay,
    "rate-under-load": _rate,
    "retransmissions": _retransmissions,
    "datagrams-lost": _datagrams_lost,
    "counted-otherwise": _counted_otherwise,
    "probes-lost": _probes_lost,
    "kernel-limited": _kernel_limited,
    "end-in-trouble": _end_in_trouble,
    "held-by-responder": _held_by_responder,
    "send-buffer-full": _send_buffer_full,
    "limited-by": _limited_by,
    "congestion-signals": _congestion_signals,
    "throughput-by-window": _throughput_by_window,
    "port-discards": _port_discards,
    "port-not-known-then": lambda v: f"the counters of {v['port']} do not cover the time of these flows",
    "unequal-shares": _unequal,
    "queue-never-empties": lambda v: (
        f"the queue never empties: 95 % of the probes under load waited more than {duration(v['low_s'])}"
    ),
    "queue-empties": lambda v: f"the queue is empty for {percent(v['share'])} of the time under load",
    "direction-unknown": lambda _: "both ways had load, and no one-way delay tells on which of them packets wait",
    "congestion-marks": lambda v: (
        f"{_number(v['count'], 'packet')} of {_number(v['flows'], 'flow')} arrived with a congestion mark "
        "(CE, RFC 3168), which only managed queues set"
    ),
    "flows-wait-apart": lambda v: (
        f"the flows waited {duration(v['flows_s'])} for themselves, "
        f"probes of the same class {duration(v['probes_s'])}: they have queues of their own"
    ),
    "flows-lose-apart": lambda v: (
        f"the flows fill the link (their sum varies by {percent(v['variation'])}) and had to retransmit "
        f"{significant(100 * v['share'])} %, while none of {count(v['sent'])} probes was lost or waited"
    ),
    "drops-below-proven-depth": lambda v: (
        f"segments were lost {count(v['episodes'])} times while no more than {duration(v['standing_s'])} were waited, "
        f"although the queue has held {duration(v['peak_s'])}"
    ),
    "waits-unmanaged": lambda v: (
        f"half of all probes waited for {duration(v['typical_s'])}: queue management lets none wait so long"
    ),
    "delay-stays-low": lambda v: (
        f"under load packets wait at most {duration(v['high_s'])} longer (median, upper end of its 95 % interval)"
    ),
    "losses-not-told": lambda _: "neither flows nor probes of this recording tell what was lost",
    "step-down-without-flow-control": lambda v: (
        f"{v['interface']} sends at {rate(v['speed_bps'])}, the queue drains at {rate(v['drain_rate_bps'])}, and flow "
        + ("control never held it back (no pause frame came)" if v["receive"] else "control is off")
        + ": what is sent at once arrives faster than it can leave"
    ),
    "no-load": lambda _: "the test made no load: what a queue would do is not known",
    "no-delay-known": lambda _: "too few samples with and without load tell how long packets took",
    "losses-with-and-without-load": _with_and_without_load,
    "losses-without-delay": lambda v: (
        f"packets were lost under load, and none waited more than {duration(v['limit_s'])}: no queue was full"
    ),
    "shares-follow-distance": lambda v: (
        f"the farther a flow's host, the less it got (round trips of {duration(v['near_s'])} "
        f"to {duration(v['far_s'])}; by chance in {percent(v['chance'])} of all orders)"
    ),
    "shares-follow-congestion-control": lambda v: f"every flow of {v['most']} got more than any flow of {v['least']}",
    "nothing-passed": lambda v: (
        f"from {duration(v['start_s'])} after the first sample on, "
        f"nothing came through for {duration(v['duration_s'])}: "
        f"{_number(v['probes'], 'probe')} of {_number(v['streams'], 'stream')} were not answered"
        + (f", {_number(v['silent_flows'], 'flow')} carried nothing" if v["silent_flows"] else "")
    ),
    # Vetoes.
    "queue-stands-anyway": lambda v: (
        f"the bottleneck's queue stands at {duration(v['induced_s'])} and never empties: a larger window would make it "
        "longer and nothing faster"
    ),
    "load-held-by-responder": lambda v: (
        f"the responder's own limit kept the rate down for {percent(v['share'])} of the time: what the path does "
        "under a full load is not known"
    ),
    "load-held-by-host": lambda v: (
        f"the flows were limited at an end for {percent(v['share'])} of the time: they did not fill the path"
    ),
    "too-few-drops": lambda v: f"losses came at {_number(v['count'], 'moment')} only: no queue overflows so",
    "managed-queue-possible": lambda v: (
        f"the delay stands near its highest ({duration(v['median_s'])} of {duration(v['highest_s'])}) and losses come "
        "there: a short queue does so, and so may a managed one; a capture tells them apart"
    ),
    "managed-deep-queue-possible": lambda v: (
        f"packets wait for {duration(v['standing_s'])}: a long queue does that, and so may a managed one that these "
        "flows do not obey; a capture tells them apart"
    ),
    "no-ceiling": lambda v: (
        f"a queue of fixed length stands near its limit; here the median is {duration(v['median_s'])}, "
        f"the highest {duration(v['highest_s'])}"
    ),
    "drops-at-any-delay": lambda v: (
        f"only {percent(v['share'])} of the losses came while more than half of {duration(v['highest_s'])} was waited: "
        "a short queue drops when it is full"
    ),
    "rate-not-fixed": lambda v: (
        "the rate is not fixed"
        if v["variation"] is None
        else f"the rate varies by {percent(v['variation'])} from second to second"
    ),
    "flows-may-wait": lambda v: (
        "the flows' own round trips are not known, which may wait where probes do not"
        if v["queue_s"] is None
        else f"the flows themselves waited {duration(v['queue_s'])}"
    ),
    "short-queue-possible": lambda v: (
        f"a queue of {_number(round(v['packets']), 'packet')} would delay by no more than {duration(v['limit_s'])}, "
        "which these probes do not tell from nothing"
    ),
}


def _share(value: float | None) -> str:
    return "not known" if value is None else f"{significant(100 * value)} %"


def phrase(fact: Mapping[str, Any]) -> str:
    """A fact in words; one of an unknown code as its code and numbers.

    >>> phrase({"code": "no-load", "values": {}})
    'the test made no load: what a queue would do is not known'
    """
    known = PHRASES.get(fact["code"])
    if known is not None:
        return known(fact["values"])
    numbers = ", ".join(f"{name} {value}" for name, value in fact["values"].items())
    return f"{fact['code'].replace('-', ' ')}{': ' if numbers else ''}{numbers}"


def place(where: Mapping[str, Any] | None, *, of_connections: bool = False) -> str | None:
    """A place in words; of connections that one end's kernel told of, which may be a server's.

    >>> place({"kind": "path", "direction": "up"})
    'on the way up (from the client to the server)'
    >>> place({"kind": "path", "direction": "up"}, of_connections=True)
    'on the way from the host that was watched'
    """
    if where is None:
        return None
    direction = where.get("direction")
    if where["kind"] == "far-end":
        return "at the responder"
    if where["kind"] == "this-host":
        return "on this host"
    if where["kind"] in ("sender", "receiver"):
        return f"at the {where['kind']}" + ("" if of_connections else f" of the {_flows(direction)}")
    if of_connections:
        here = {"up": "from the host that was watched", "down": "to the host that was watched"}
        return f"on the way {here[direction]}" if direction in here else _ways(direction)
    ends = {"up": " (from the client to the server)", "down": " (from the server to the client)"}
    return _ways(direction) + ends.get(direction or "", ", one way or both")


def _value(verdict: Mapping[str, Any], name: str) -> float | None:
    quantity = verdict["parameters"].get(name)
    return None if quantity is None else quantity["value"]


def _of_code(verdict: Mapping[str, Any], code: str) -> list[Values]:
    return [fact["values"] for fact in verdict["facts"] if fact["code"] == code]


def _way(verdict: Mapping[str, Any]) -> str | None:
    return (verdict["place"] or {}).get("direction")


def _queue_sentence(verdict: Mapping[str, Any]) -> str:
    induced, base, drain = (_value(verdict, name) for name in ("induced_delay_s", "base_rtt_s", "drain_rate_bps"))
    what = {"deep-queue": "A long queue", "shaper": "A shaper or a long queue", "shallow-queue": "A short queue"}
    text = (
        f"{what[verdict['cause']]} {_ways(_way(verdict))} makes packets wait for {duration(induced or 0.0)} under load"
    )
    if verdict["detail"] == "bufferbloat":
        text += " (bufferbloat)"
    if base is not None:
        text += f", on a path of {duration(base)}"
    if drain is not None:
        text += f"; it drains at {rate(drain)}"
    if verdict["cause"] == "shaper":
        return f"{text}; it drops nothing."
    lost = verdict["lost"]
    return f"{text}; {count(lost)} {'loss' if lost == 1 else 'losses'} under it." if lost else f"{text}."


def _aqm_sentence(verdict: Mapping[str, Any]) -> str:
    what = {
        "flow-queueing": "keeps a queue for each flow: others need not wait behind the load",
        "marking": "marks packets before it is full",
        "held-delay": "drops early, and holds the delay low",
    }
    return f"A managed queue (AQM) {_ways(_way(verdict))} {what.get(verdict['detail'], 'is at work')}."


def _unfair_sentence(verdict: Mapping[str, Any]) -> str:
    reason = {
        "distance": ": the farther, the less",
        "congestion-control": ": another congestion control takes more",
    }.get(verdict["detail"], "")
    index = _value(verdict, "fairness_index")
    flows = len(verdict["flows"])
    got = f"{_number(flows, _flows(_way(verdict))[:-1])} get{'s' if flows == 1 else ''} less than a fair share"
    return f"{got}{reason} (Jain's index {significant(index or 0.0)})."


def _trouble_sentences(verdict: Mapping[str, Any]) -> list[str]:
    """The sentence on an end that was in trouble itself; none of other verdicts."""
    found = (
        in_one_sentence(v["host"], v["pauses"], v["paused_s"], v["thrown_away"])
        for v in _of_code(verdict, "end-in-trouble")
    )
    return [f"{said[:1].upper()}{said[1:]}." for said in found]


_TROUBLE_ADVICE = [
    "look at what kept that host from running (its load, its hypervisor, a suspended process), then repeat the test",
]


def _host_drop_sentence(verdict: Mapping[str, Any]) -> str:
    (fact,) = _of_code(verdict, "dropped-here")
    why = _BEHIND_DROPS.get(fact["kind"])
    because = f": {why} ({fact['reason']})" if why else f" ({fact['reason']})"
    return f"This host itself dropped {_number(fact['packets'], 'packet')} of {_listed(verdict['flows'])}{because}."


def _sender_sentence(verdict: Mapping[str, Any]) -> str:
    if verdict["detail"] == "send-buffer":
        return _send_buffer_sentence(verdict)
    what = "The rate that the test sets" if _rate_is_set(verdict) else f"The sender's {verdict['detail']}"
    return (
        f"{what}, not the path, limits {_listed(verdict['flows'])} for {percent(verdict['limited_share'])} of the time."
    )


def _rate_is_set(verdict: Mapping[str, Any]) -> bool:
    """True if the test lets all of these flows send at a set rate only."""
    own = _of_code(verdict, "kernel-limited")
    return verdict["detail"] == "application" and bool(own) and all(one.get("set_rate_bps") for one in own)


def _send_buffer_sentence(verdict: Mapping[str, Any]) -> str:
    bytes_now = _value(verdict, "send_buffer_bytes")
    of = "" if bytes_now is None else f" of {size(bytes_now)}"
    return (
        f"The sender's send buffer{of}, not the path, limits {_listed(verdict['flows'])} "
        f"for {percent(verdict['limited_share'])} of the time."
    )


def _sender_advice(verdict: Mapping[str, Any]) -> list[str]:
    if verdict["detail"] == "pacing":
        return [
            "raise or remove the rate that is set for the socket (SO_MAX_PACING_RATE); "
            "whether the path carries more is not known"
        ]
    if _rate_is_set(verdict):
        return ["the test sets that rate: to learn what the path carries, repeat it with a higher one or none"]
    if verdict["detail"] != "send-buffer":
        return ["see why the application sends no more; whether the path would carry more is not known"]
    full = _of_code(verdict, "send-buffer-full")
    if not full:
        return [
            "let the send buffer grow to twice the rate times the round trip",
            "$ sysctl net.ipv4.tcp_wmem net.core.wmem_max",
        ]
    first = full[0]
    now, rtt_s = first["buffer_bytes"], first["rtt_s"]
    each = f"{size(2 * _GIGABIT_BPS / 8 * rtt_s)} for each Gbit/s"
    if first["set"]:
        return [f"leave out the send buffer that the test asks for, or ask for more than {size(now)} ({each})"]
    where = "at the responder, which sends: " if first["direction"] == "down" else ""
    return [
        f"{where}let the send buffer grow beyond {size(now)}, to twice the rate times the round trip of "
        f"{duration(rtt_s)}: {each}; what the path would carry is not known, at least {rate(first['rate_bps'])}",
        f"$ sysctl -w net.ipv4.tcp_wmem='4096 16384 {_power_of_two(2 * now)}'",
    ]


_GIGABIT_BPS = 1e9


def _power_of_two(value: float) -> int:
    """The next power of two.

    >>> _power_of_two(5e6)
    8388608
    """
    return 1 << max(12, math.ceil(math.log2(max(1.0, value))))


_DROP_ADVICE: dict[str, list[str]] = {
    "receive-buffer": [
        "let the application read faster, or give its socket a larger receive buffer",
        "$ sysctl net.core.rmem_max net.ipv4.tcp_rmem net.ipv4.udp_mem",
    ],
    "queue": ["let the queue be managed and long enough for a round trip", "$ tc -s qdisc show"],
    "listener": ["let the application accept faster, or listen with a longer queue", "$ sysctl net.core.somaxconn"],
    "processor": [
        "spread interrupts and receive processing over more processors, or give the rings more room",
        "$ sysctl net.core.netdev_max_backlog net.core.netdev_budget",
    ],
    "memory": ["$ sysctl net.ipv4.tcp_mem net.ipv4.udp_mem; nstat -az TcpExtTCPMemoryPressures"],
    "filter": ["look for the rule, and whether connection tracking is full", "$ nft list ruleset; conntrack -S"],
    "traffic-control": ["$ tc -s filter show dev IFACE ingress"],
    "reverse-path": ["$ sysctl net.ipv4.conf.all.rp_filter; ip route get SENDER"],
    "route": ["$ ip route get DESTINATION; nstat -az | grep -i -e NoRoutes -e HdrErrors -e AddrErrors"],
    "neighbour": ["$ ip neigh show; sysctl net.ipv4.neigh.default.gc_thresh3"],
    "checksum": ["look at the interface's offloads, and at what changes packets on the way", "$ ethtool -k IFACE"],
}


def _host_drop_advice(verdict: Mapping[str, Any]) -> list[str]:
    (fact,) = _of_code(verdict, "dropped-here")
    return _DROP_ADVICE.get(fact["kind"], [])


SENTENCES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "deep-queue": _queue_sentence,
    "shaper": _queue_sentence,
    "shallow-queue": _queue_sentence,
    "aqm": _aqm_sentence,
    "unfairness": _unfair_sentence,
    "host-drop": _host_drop_sentence,
    "policer": lambda v: (
        f"A policer {_ways(_way(v))} drops what exceeds about {rate(_value(v, 'rate_bps') or 0.0)}, and delays nothing."
    ),
    "random-loss": lambda v: (
        f"{significant(100 * (_value(v, 'loss_rate') or 0.0))} % of the packets are lost at random {_ways(_way(v))}, "
        "with load and without."
    ),
    "receiver-window": lambda v: (
        f"The receive window, not the path, limits {_listed(v['flows'])} for {percent(v['limited_share'])} of the time."
    ),
    "sender": _sender_sentence,
    "peer-application": lambda v: (
        f"The responder's own limit, not the path, limits {_listed(v['flows'])} "
        f"for {percent(v['limited_share'])} of the time."
    ),
    "outage": lambda v: f"Nothing passed for {duration(_value(v, 'duration_s') or 0.0)}, then it went on.",
    "none": lambda v: f"Under load packets wait no longer {_ways(_way(v))} than without it, and no loss was seen.",
    "unknown": lambda v: f"{_seen(v)} {_mostly(v)}{_not_known(v)}",
}


def _seen(verdict: Mapping[str, Any]) -> str:
    """One sentence on the losses and the delay that were measured."""
    lost = _losses_seen(verdict)
    delays = [*_of_code(verdict, "delay-under-load"), *_of_code(verdict, "own-delay-under-load")]
    if not delays:
        waited = "; whether packets waited was not measured" if lost else _nothing_seen(verdict)
    elif delays[0]["induced_s"] > _LEAST_ADDED_S:
        waited = (
            f"{' while packets' if lost else 'Packets'} waited {duration(delays[0]['induced_s'])} longer under load"
        )
    else:
        waited = ", without added delay" if lost else "Under load packets waited no longer than without"
    return f"{lost}{waited} {_ways(_way(verdict))}."


def _nothing_seen(verdict: Mapping[str, Any]) -> str:
    """Of no loss and no known delay: whether losses were counted at all."""
    counted = any(one["sent"] or one["idle_sent"] for one in _of_code(verdict, "probes-lost"))
    if counted or _of_code(verdict, "retransmissions") or _of_code(verdict, "datagrams-lost"):
        return "Nothing was lost, and whether packets waited was not measured"
    return "This recording measured neither losses nor delay under load"


def _losses_seen(verdict: Mapping[str, Any]) -> str:
    """The segments that were retransmitted, and the packets and probes that were lost; empty where there were none."""
    again = [one for one in _of_code(verdict, "retransmissions") if one["count"]]
    probes = [one for one in _of_code(verdict, "probes-lost") if one["lost"] or one["idle_lost"]]
    parts = []
    if again:
        segments = sum(one["count"] for one in again)
        share = f" ({significant(100 * again[0]['share'])} %)" if len(again) == 1 else ""
        parts.append(f"{_number(segments, 'segment')}{share} {'was' if segments == 1 else 'were'} retransmitted")
    datagrams = [one for one in _of_code(verdict, "datagrams-lost") if one["count"]]
    if datagrams:
        lost, sent = (sum(one[name] for one in datagrams) for name in ("count", "sent"))
        share = f"{significant(100 * lost / sent)} %"
        parts.append(f"{count(lost)} of {_number(sent, 'UDP packet')} ({share}) {'was' if lost == 1 else 'were'} lost")
    if probes:
        lost, sent = (sum(one[name] + one[f"idle_{name}"] for one in probes) for name in ("lost", "sent"))
        parts.append(f"{count(lost)} of {_number(sent, 'probe')} {'was' if lost == 1 else 'were'} lost")
    return " and ".join(parts)


def _not_known(verdict: Mapping[str, Any]) -> str:
    """Advice to learn more, where there is something to explain."""
    limited = _most_of_the_time(verdict)
    if limited is not None and limited[1] == "far-end":
        # A capture would show the same limit.
        return "To measure the path, start the responder with a higher --max-rate."
    if verdict["lost"] or any(one["induced_s"] > _LEAST_ADDED_S for one in _of_code(verdict, "delay-under-load")):
        return "A recording alone does not show why: capture at the sender."
    return "No cause can be named."


def _most_of_the_time(verdict: Mapping[str, Any]) -> tuple[str, str, float] | None:
    """The one flow with the one limit that held it for most of the time, and the share of that time."""
    limits = _of_code(verdict, "limited-by")
    if len(limits) != 1 or not limits[0]["shares"] or limits[0]["shares"][0] <= MOST_OF_THE_TIME:
        return None
    return limits[0]["flow"], limits[0]["limits"][0], limits[0]["shares"][0]


def _mostly(verdict: Mapping[str, Any]) -> str:
    """The limit of the flows for most of the time, where that is one flow's one limit."""
    found = _most_of_the_time(verdict)
    if found is None:
        return ""
    flow, limit, share = found
    return f"{flow} is limited by {_LIMITS[limit]} for {percent(share)} of the time. "


def sentence(verdict: Mapping[str, Any]) -> str:
    """A verdict in one sentence."""
    if troubles := _trouble_sentences(verdict):
        return troubles[0]
    known = SENTENCES.get(verdict["cause"])
    return known(verdict) if known is not None else f"{verdict['cause'].replace('-', ' ').capitalize()}."


# A shaper ahead of the queue must be a little slower than what is behind it; by how much is what sqm-scripts advise.
_SHAPED_SHARE = 0.95


def _queue_advice(verdict: Mapping[str, Any]) -> list[str]:
    drain = _value(verdict, "drain_rate_bps")
    found = [
        "let the bottleneck's queue be managed (fq_codel or cake, RFC 8290); where it is not yours, shape a little "
        "below its rate ahead of it, so that packets queue where you manage them"
    ]
    if drain is not None:
        kbit = max(1, round(drain * _SHAPED_SHARE / 1000))
        found.append(f"$ tc qdisc replace dev IFACE root cake bandwidth {kbit}kbit")
    return found


ADVICE: dict[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "deep-queue": _queue_advice,
    "shaper": _queue_advice,
    "shallow-queue": lambda _: [
        "a few packets of room are too little for this rate: give the queue room for a round trip, managed by fq_codel"
    ],
    "policer": lambda v: [
        "send below its rate, so that packets wait at your end instead of being dropped there",
        f"$ tc qdisc replace dev IFACE root tbf rate {max(1, round(0.95 * (_value(v, 'rate_bps') or 0) / 1000))}kbit "
        "burst 16kb latency 50ms",
    ],
    "random-loss": lambda _: [
        "look for a bad link: error counters of interfaces along the path, radio quality, cables"
    ],
    "receiver-window": lambda _: [
        "at the receiver, see first whether the application reads too slowly (bytes wait in Recv-Q) or sets SO_RCVBUF",
        "$ ss -tinm",
        "if it does neither, let the window grow to the rate times the round trip",
        "$ sysctl net.ipv4.tcp_rmem net.core.rmem_max",
    ],
    "sender": _sender_advice,
    "peer-application": lambda _: [
        "start the responder with a higher --max-rate, or with --secret-file instead of --open, to measure the path"
    ],
    "unfairness": lambda v: (
        ["a queue for each flow at the bottleneck (fq_codel, cake) shares its rate whatever the distance"]
        if v["detail"] == "distance"
        else [
            "a queue for each flow at the bottleneck (fq_codel, cake) shares its rate whatever the congestion control"
        ]
        if v["detail"] == "congestion-control"
        else ["compare the flows' congestion control, round trips and losses"]
    ),
    "host-drop": _host_drop_advice,
    "outage": lambda _: ["look for what changed then: a route, a radio link, a failover, a restart"],
}


def advice(verdict: Mapping[str, Any]) -> list[str]:
    """Advice; commands to paste begin with ``$ ``."""
    if _of_code(verdict, "end-in-trouble"):
        return _TROUBLE_ADVICE
    known = ADVICE.get(verdict["cause"])
    return known(verdict) if known is not None else []


def against(runner_up: Mapping[str, Any]) -> str:
    """Why a cause lost."""
    if runner_up["veto"] is not None:
        return phrase(runner_up["veto"])
    times = _times(runner_up["behind_nats"])
    return f"it makes what was seen {times} times less likely" if times else "it explains what was seen no better"


def _times(nats: float) -> str:
    """A log-likelihood ratio as a factor; empty where it is about one.

    >>> _times(2.9), _times(46.0), _times(0.04), _times(-1.0)
    ('18', '10^20', '', '')
    """
    if not nats > 0.1:
        return ""
    return significant(math.exp(nats), 2) if nats < math.log(1000) else f"10^{nats / math.log(10):.0f}"

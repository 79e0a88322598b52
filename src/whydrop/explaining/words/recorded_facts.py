"""Facts that recordings show, for and against a cause."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from whydrop.text.phrases import table
from whydrop.text.quantities import count, duration, interval, plural, rate, share, signed, size

if TYPE_CHECKING:
    from whydrop.text.phrases import Phrase

Values = Mapping[str, Any]

# Most flows that a sentence lists.
_MOST_NAMES = 4

LIMITS = {
    "receive-window": "the receive window",
    "send-buffer": "the send buffer",
    "application": "the application",
    "congestion-window": "the congestion window",
    "pacing": "pacing",
    "path-rate": "the path's rate",
    "far-end": "the responder (its --max-rate)",
}

# From so many losses to a signal on they are said to come in groups.
_GROUPED = 1.5
_OTHERS = {
    "application-limited": "because it was not used or idle (RFC 7661)",
    "path-mtu": "because the path's MTU fell",
    "congestion-control": "by the congestion control's model",
}
_SIGNALS = {
    "fast_retransmit": "fast retransmit",
    "timeout": "timeout",
    "ecn": "mark (ECN)",
    "local_stall": "stall of this host's own queue",
    "tail_loss_probe": "tail loss probe",
    "unexplained": "unexplained one",
}


def where(direction: str | None) -> str:
    """The direction of a test: upstream, from the client to the server, or downstream."""
    return {"up": "upstream", "down": "downstream"}.get(direction or "", "on the path")


def flows_of(direction: str | None) -> str:
    """The name of one flow of this direction."""
    return {"up": "upload", "down": "download"}.get(direction or "", "flow")


def derived(v: Values) -> dict[str, Any]:
    """Values that the phrases need beside the values of a fact."""
    direction = v.get("direction")
    flow = flows_of(direction)
    return {
        "where": where(direction),
        "flow_kind": flow,
        "counted_flows": plural(v["flows"], flow) if isinstance(v.get("flows"), (int, float)) else "",
        "others_lost": v.get("laid", 0) < v.get("count", 0),
        "change": _change(v) if "idle_samples" in v else "",
        "above_s": max(0.0, v.get("induced_s") or 0.0),
        "after_s": max(0.0, v.get("start_s") or 0.0),
        "room": plural(round(v["packets"]), "packet") if v.get("packets") and "limit_s" in v else "",
        "sets_rate": v.get("limit") == "application" and v.get("set_rate_bps"),
        "by_samples": v.get("by", "kernel") != "kernel",
        "is_up": direction == "up",
        "queued_s": v["queue_delay_s"] if "path-rate" in v.get("limits", ()) else None,
    }


def _change(v: Values) -> str:
    ends = interval(partial(signed, duration), v["low_s"], v["high_s"])
    return f"{signed(duration, v['induced_s'])} under load (95 % interval {ends})"


def _limited_by(v: Values) -> str:
    shares = ", ".join(f"{LIMITS[name]} for {share(part)}" for name, part in zip(v["limits"], v["shares"], strict=True))
    return (
        "[by=kernel?the sender's kernel and its samples|the samples] show what limited {flow} during {span_s}: "
        f"{shares} of the time"
        "[queued_s?; while the path's rate was the limit, its packets were queued for {queued_s}]"
    )


def _congestion_signals(v: Values) -> str:
    kinds = ", ".join(plural(v[kind], words) for kind, words in _SIGNALS.items() if v.get(kind))
    others = zip(v.get("others", ()), v.get("other_counts", ()), strict=True)
    further = "".join(f"; {plural(number, 'time')} {_OTHERS[name]}" for name, number in others)
    falls = ""
    if v.get("falls"):
        falls = f"; {share(v['falls_attributed_share'])} of the falls between its samples have a known cause"
    return (
        f"{{flow}} reduced its window {{count|time}}{': ' if kinds else ''}{kinds}[; {{undone|time}} it reverted this]"
        f"[; its kernel counts {{timeouts_apart|timeout}} beside these]{further}{falls}"
        "[; {duplicate_acks|duplicate acknowledgment} came]"
        "[, {duplicate_acks_of_reordering} of them by reordering alone]"
    )


def _at_both_ends(v: Values) -> str:
    lost = ""
    if v["missing_packets"] is not None and v["sent_packets"]:
        missing = v["missing_packets"]
        lost = f": about {plural(round(missing), 'packet')} ({share(missing / v['sent_packets'])}) did not arrive"
    needless = ""
    if v["retransmitted_packets"]:
        needless = f"; {plural(round(v['retransmitted_packets']), 'packet')} were retransmitted"
        if v["needless_retransmissions"]:
            needless += f", about {count(round(v['needless_retransmissions']))} of them without need"
    clocks = ""
    if v["ahead_low_s"] is not None:
        between = interval(partial(signed, duration), v["ahead_low_s"], v["ahead_high_s"])
        clocks = f"; the receiver's clock differs by {between} (the clocks are left as they are)"
    return (
        "both ends of {flow}: the sender sent {sent_packets|data packet}, and {received_packets} reached the receiver"
        f"{lost}{needless}[; {{out_of_order_packets|packet}} came out of order]"
        f"[; up to {{waited_bytes}} waited for the receiver's application]{clocks}"
    )


def _udp_beside_tcp(v: Values) -> str:
    said = f"{v['signals_per_s']:.3g} congestion signals" if v["signals_per_s"] is not None else ""
    signals = f" and {said}" if said else ""
    agree = "the two agree"
    if not v["agrees"]:
        agree = f"TCP lost {'more' if v['more'] else 'less'} often than the stream: they did not meet the same losses"
    groups = ""
    if v["agrees"] and (v["per_signal"] or 0) >= _GROUPED:
        groups = f", with {v['per_signal']:.2g} losses to a signal: TCP reacts once a round trip"
    return (
        f"{where(v['direction'])} a UDP stream lost {share(v['udp_share'])} "
        f"(95 % interval {interval(share, v['udp_low'], v['udp_high'])}); at this rate TCP's "
        f"{v['packets_per_s']:,.0f} packets a second would lose {v['expected_per_s']:.3g} a second, and there were "
        f"{v['retransmitted_per_s']:.3g} retransmissions{signals} a second: {agree}{groups}"
    )


def _window_fit(v: Values) -> str:
    low, high = v["kink_bytes_low"], v["kink_bytes_high"]
    return (
        "throughput of {flow} grows with its congestion window (one window in {rtt_s}) up to {kink_bytes} (95 % "
        f"interval {interval(size, low, high)}), and stays at {{plateau_bps}} beyond: [of=receive-window?the receive "
        "window of {receive_window_bytes}, not the path, stops it there|that is the bandwidth-delay product of the "
        "path]"
    )


def _unequal(v: Values) -> str:
    pairs = sorted(zip(v["rates_bps"], v["flows"], strict=True), reverse=True)
    shown = [pairs[0], pairs[-1]] if len(pairs) > _MOST_NAMES else pairs
    most = "most and least: " if len(pairs) > _MOST_NAMES else ""
    shares = ", ".join(f"{name} {rate(bps)}" for bps, name in shown)
    return f"Jain's index of {len(pairs)} flows is {{index:significant}} (1 is fair); {most}{shares}"


def _with_and_without_load(v: Values) -> str:
    if v["idle_share"] is None:
        return "{share:percent} of the probes were lost under load; none was sent without load"
    if v["share"] is None:
        return "{idle_share} of the probes were lost without load; none was sent under load"
    if not v["idle_share"]:
        return "{share:percent} of the probes were lost under load, none without it"
    return "losses do not follow load: {idle_share} without it, {share:percent} under it"


FACTS: dict[str, Phrase] = {
    **table("""
    # this host
    dropped-here: the kernel of this host dropped {packets|packet}[ at {interface}]: {reason}[, in {location}]
    retransmitted-after-local-drops: {laid} of {count|retransmitted segment} followed a drop of the same bytes on this
        host[others_lost?; where the others were lost is not known]
    local-stall: a full queue of this host refused {packets|segment}, and TCP sent them later without a retransmission
        (a local stall, not congestion of the path)
    drops-not-counted: {count|drop} came too fast to be attributed, and may have any reason
    watched-too-late: connections are older than the watch: earlier drops are not known
    step-down-without-flow-control: {interface} sends at {speed_bps}, the queue drains at {drain_rate_bps}, and flow
        control [receive?never stopped the sender (no pause frame came)|is off]: bursts arrive faster than they can
        leave
    # delay and loss
    segment-of-delay: pings of the access point {access_point} show that the delay arises[mainly? mainly|]
        [side=near?between this host and it|][side=beyond?beyond it|][side=both?on both sides of it|][, {condition}]:
        {near_s} before it, {beyond_s} beyond it, on average
    segment-of-loss: pings of the access point {access_point} show that the loss arises[mainly? mainly|]
        [side=near?between this host and it|][side=beyond?beyond it|][side=both?on both sides of it|][, {condition}]:
        {near:share} before it, {beyond:share} beyond it
    responsiveness: responsiveness of the {load} is {rpm} round trips a minute: {new_rpm} on new connections,
        {loaded_rpm} inside loaded ones (confidence {confidence})
    delay-under-load: median [one_way?one-way delay {where}: |round-trip time of probes: {idle_s} idle, {loaded_s}
        under load, ]{change}; {idle_samples|probe} idle, {samples} under load
    own-delay-under-load: the flows' smoothed round-trip time was {above_s} above its minimum of {idle_s}, and grew
        with their windows
    rate-under-load: {counted_flows} carried {rate_bps} of IP packets under load, after its start[variation?, varying
        by {variation:percent} from second to second]
    retransmissions: the {flow_kind}s retransmitted [count?{count|segment} ({share:percent})|nothing]
    datagrams-lost: the {flow_kind}s lost {count} of {sent|UDP packet}[count? ({share:percent})]
    counted-otherwise: the senders' kernels counted {kernel|retransmission}, the capture
        {captured}[reason=lost-on-the-way?: taken at the receiver, it lacks those that were
        lost][reason=after-last-sample?: it goes on after their last samples]
    losses-without-delay: packets were lost under load, and none was queued for more than {limit_s}: no queue was full
    losses-not-reported: neither the flows nor the probes of this recording count losses
    no-load: the test made no load: the behaviour of queues is not known
    no-delay-known: delays are not known: too few samples with and without load
    direction-unknown: both directions had load, and no one-way delay shows in which of them packets are queued
    nothing-passed: from {after_s} after the first sample on, nothing passed for {duration_s}: {probes|probe} of
        {streams|stream} were not answered[, {silent_flows|flow} carried nothing]
    congestion-marks: {count|packet} of {flows|flow} arrived with a congestion mark (CE, RFC 3168), which only managed
        queues set
    # limits
    kernel-limited: the sender's [by_samples?samples show|kernel shows] that [sets_rate?the rate of {set_rate_bps}
        that the test sets limited|[limit=receive-window?the receive window limited][limit=send-buffer?the send buffer
        limited][limit=application?the application had nothing to send on][limit=pacing?the pacing rate of the socket
        limited]] {flow} for {share:share} of {span_s}
    end-in-trouble: from {after_s} after the first sample on[pauses?, its process did not run for {paused_s}
        ({pauses|pause}, the longest of {longest_s})][thrown_away?, its kernel counted {thrown_away|datagram} that
        found the receive buffer full]; these are left out of the losses and times below
    limited-by-responder: the responder [is_up?limited its reading of {flow}|paced {flow}[ to {to_bps}]] for
        {share:share} of the time: this is its own --max-rate
    send-buffer-full: the send buffer of {buffer_bytes} had room for {data_bytes} of data of {flow}, the most that can
        be sent in a round trip of {rtt_s}: {flow} carried {rate_bps}, and its congestion window allowed more
    # switches
    port-discards: {port} discarded [discards?{discards}[ of {packets|packet}]|nothing] while the flows ran
        ({bins|poll}, {span_s} in all)[discards?[with_losses?: in {with_both} of the {with_losses|poll} in which the
        flows retransmitted (by chance: {chance:percent})|; the flows retransmitted nothing]]
    port-not-known-then: the counters of {port} do not cover the time of these flows
    shares-follow-distance: the longer a flow's round trip ({near_s to far_s}), the less it got; chance makes such an
        order in {chance:percent} of all cases
    shares-follow-congestion-control: every flow of {most} got more than any flow of {least}
    # queues
    queue-never-empties: the queue never empties: 95 % of the probes under load were queued for more than {low_s}
    queue-empties: the queue is empty for {share:percent} of the time under load
    flows-wait-apart: the flows' packets were queued for {flows_s}, probes of the same class for {probes_s}: each flow
        has its own queue
    flows-lose-apart: the flows fill the link (their sum varies by {variation:percent}) and retransmitted
        {share:percent}, but none of {sent|probe} was lost or delayed
    drops-below-proven-depth: segments were lost {episodes|time} at a queueing delay of no more than {standing_s},
        although the queue has reached {peak_s}
    waits-unmanaged: half of all probes were queued for {typical_s}: queue management allows no such delay
    delay-stays-low: load delays packets by at most {high_s} (median, upper end of its 95 % interval)
    # why causes are ruled out
    queue-stands-regardless: the bottleneck's queue stays at {induced_s} and never empties: a larger window would
        lengthen it and speed up nothing
    load-limited-by-responder: the responder's own limit reduced the rate for {share:share} of the time: the path under
        full load is not known
    load-limited-by-host: a host, not the path, limited the flows for {share:share} of the time: they did not fill the
        path
    too-few-drops: losses came at {count|moment} only: a queue overflows more often
    managed-queue-possible: the delay stays near its highest ({median_s} of {highest_s}) and losses come there: the
        queue is short or managed, and a capture shows which
    managed-deep-queue-possible: packets are queued for {standing_s}, either in a long queue or in a managed one that
        does not slow these flows down; a capture shows which
    no-ceiling: a queue of fixed length stays near its limit; here the median delay is {median_s}, the highest
        {highest_s}
    drops-at-any-delay: a short queue drops when it is full; only {share:percent} of the losses came at more than half
        of the highest delay, {highest_s}
    rate-not-fixed: the rate [variation?varies by {variation:percent} from second to second|is not fixed]
    flows-may-wait: [queue_s?the flows' own packets were queued for {queue_s}|the flows' own round trips are not
        known; they may be queued where probes are not]
    short-queue-possible: a queue of {room} would delay by no more than {limit_s}, which these probes cannot detect
    """),
    "probes-lost": lambda v: (
        ("[sent?{lost} of {sent|probe} lost" + ("" if v["direction"] == "both" else " {where}") + " under load]")
        + ("[sent?[idle_sent?, ]][idle_sent?{idle_lost} of {idle_sent|probe} lost without load]")
        if v["sent"] or v["idle_sent"]
        else "no probe was sent"
    ),
    "losses-with-and-without-load": _with_and_without_load,
    "limited-by": _limited_by,
    "congestion-signals": _congestion_signals,
    "at-both-ends": _at_both_ends,
    "udp-loss-beside-tcp": _udp_beside_tcp,
    "throughput-by-window": _window_fit,
    "unequal-shares": _unequal,
}

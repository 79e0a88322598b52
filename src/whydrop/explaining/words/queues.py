"""Queues, shapers and active queue management: headlines, evidence for and against, and advice."""

from __future__ import annotations

from whydrop.explaining.words.common import BBR, PACED_SHARE, Advice, Derived, Phrases, Values, kbit
from whydrop.text.phrases import table
from whydrop.text.quantities import duration

HEADLINES = table("""
    dropped-by-shallow-queue: A shallow queue of about {about|packet}, draining at {drain_rate_bps}, overflowed and
        dropped {losses}.
    dropped-by-deep-queue: A deep queue draining at {drain_rate_bps} delayed packets by up to {longest_wait_s} and
        dropped {losses} when it was full.
    delayed-by-shaper: A shaper at {rate_bps} delayed packets by up to {longest_wait_s}[lost_besides?[; this does not
        explain {lost_besides|loss}]| and dropped none].
    delayed-on-return-path: Acknowledgments were queued on the return path: half of them for {typical_wait_s} or longer,
        none for longer than {longest_wait_s}. This limits the sender.
    marked-by-aqm: Active queue management marked packets instead of dropping them: [marked?{marked|packet} got the
        congestion mark|{echoes|echo} of congestion marks came back to the sender].
    dropped-by-aqm: Active queue management dropped {losses} to keep its queue short.
""")


EVIDENCE = table("""
    no-queue: a full queue of this size would have delayed packets by {queue_s} just before a drop; they were
        [more_s?delayed by {more_s}|not delayed]
    no-queue-at-losses: a full queue of this size would have delayed packets by {queue_s}; just before a loss they
        were delayed by {waited_s}
    burst-came-through: {burst_bytes} arrived within {over_s}; a queue that drains at {rate_bps} sends no faster than
        its rate
    gaps-left: at {empty} of {runs|loss}, a gap remains that is as long as sending the lost packets would have taken:
        a busy queue would have closed it
    gaps-closed: at {closed} of {runs|loss}, the packets before and after the lost ones are as close together as
        others: a queue dropped the lost packets and went on sending
    waited-a-round-trip: half of the data was queued for longer than a round trip of {base_rtt_s}
    delay-before-losses: just before a loss, the queueing delay was {median_s}[is_interval? ({low_s to high_s})],
        longer than for {longer_than_share} of all packets
    queue-drains: a queue that drains at {rate_bps} explains {explained_share} of the variance of the delays, with a
        median error of {residual_s}
    queue-overflows: a queue that drains at {rate_bps} and overflows at {limit_bytes} predicts which packets are lost:
        prediction score {certainty_share} (0 % is chance, 100 % is perfect)
    departures-at-rate: queued packets left at {rate_bps} (IP bytes, measured over {departures|departure})[;
        {unseen_share} of this rate carried packets that are in neither capture]
    found-as-much-queued: each lost packet found {inside|packet} in the queue; no other packet found more than {most}
    found-queued: lost packets found {low} to {high} packets in the queue (median {median}); others found up to {most}
    queue-not-full: a full queue drops whatever arrives; lost packets found {low} to {high} in the queue, and others
        were accepted when {most} were in it
    acknowledgments-thinned: a link of {rate_bps} on which a newer acknowledgment replaces a queued one would have
        dropped {dropped|packet}, {hits} of them among the {lost} that were lost
    nothing-waited: a full queue delays packets; here the longest queueing delay was {longest_wait_s}
    link-busy: a link of {rate_bps} on the path was sending for {busy_share} of the time[is_full?: its rate sets the
        goodput, not the losses]
    # active queue management
    delay-unmanaged: queue management acts on delay; just before a loss the queueing delay was only {median_s}
    losses-at-many-delays: a full queue drops packets at one delay, its longest; here losses came at {low_s to high_s},
        and other packets were delayed by up to {largest_s}
    overtook-other-flows: {between_flows|packet} overtook packets of other flows, and
        [within_flows?{within_flows}|none] overtook packets of the same flow: each flow has its own queue
    full-queue-likelier: these drops are {by_nats} as likely from a full queue as from any law of queue management
    law-followed: the control law of this family, applied to the observed delays, makes the {events} drops and marks
        {gain_nats} more likely than chance does
    marked-between: {marked|packet} got the congestion mark between the captures
    losses-not-at-longest-waits: a full queue drops when delays are longest; before these losses they were longer than
        only {longer_than_share} of all delays
    drops-only-when-full: queue management drops before the queue is full; these losses came only at the longest
        delays, of {median_s}
    stood-unmanaged: for {stood_s} without a break all packets were queued for more than {longer_than_s}, and none was
        dropped: queue management acts sooner
    waits-unmanaged: half of all packets were queued for more than {typical_s}: queue management does not allow so long
        a delay
    drops-begin-late: queue management drops long before delays of {low_s}, at which these losses began
    found-nothing-queued: queue management acts on queued packets; {share:share} of the lost packets found the queue
        empty
    # models replayed
    fifo-would-queue: a FIFO draining at {rate_bps} would have delayed packets by up to {longest_wait_s}, and
        {held_too_long} of them by more than the captures show; [seen_longer?all but {seen_longer} packets took less
        than|no packet took more than] {seen_longest_wait_s} longer than the fastest
    shaper-would-queue: a shaper at {rate_bps} drops nothing until its queue is full: it would have delayed packets by
        up to {longest_wait_s} instead of losing {lost}; [seen_longer?all but {seen_longer} packets took less than|no
        packet took more than] {seen_longest_wait_s} longer than the fastest
    policer-misses: no policer fits: the best one would have dropped [dropped?{dropped|packet}, but [hits?only
        {hits}|none] of the {lost} lost ones|no packet, although {lost} were lost]
    full-queue-misses: no full queue fits: the best one, at {rate_bps}, would have dropped [dropped?{dropped|packet},
        but [hits?only {hits}|none] of the {lost} lost ones|no packet, although {lost} were lost]
    model-replayed: a simulation of it with the packets that entered drops {dropped|packet}: {hits} of the {lost} lost
        ones, and {mistaken} that arrived[several?; of {variants} variants, this one agrees best with the losses]
""")


def with_interval(v: Values) -> Derived:
    """True under ``is_interval`` if the written ends of an interval differ."""
    low_s, high_s = v.get("low_s"), v.get("high_s")
    return {"is_interval": None not in (low_s, high_s) and duration(low_s) != duration(high_s)}  # type: ignore[arg-type]


MODELS: Phrases = {
    "policer": (
        "Policer at {rate_bps} with a {limit_bytes} bucket[peak_rate_bps? and {peak_rate_bps} with {peak_burst_bytes}]"
    ),
    "fifo": (
        "FIFO draining at {rate_bps} [limit_packets?with room for {limit_packets|packet}|[limit_bytes?with room for "
        "{limit_bytes}|without limit]]"
    ),
    "shaper": "Shaper at {rate_bps} with a burst of {limit_bytes}",
    "codel": "CoDel draining at {rate_bps}",
}


def _shallow_queue(v: Values) -> Derived:
    if "drain_rate_bps" not in v or "limit_bytes" not in v:
        return {"is_unknown": True}
    drain_bps, limit_bytes = v["drain_rate_bps"], v["limit_bytes"]
    product = drain_bps / 8.0 * v["base_rtt_s"]
    return {
        "product_bytes": product,
        "missing_bytes": product - limit_bytes if product >= limit_bytes + v["mss_bytes"] else None,
        "paced_bps": drain_bps * PACED_SHARE,
        "kbit": kbit(drain_bps),
    }


def _drained(v: Values) -> Derived:
    return {"kbit": kbit(v["drain_rate_bps"])} if "drain_rate_bps" in v else {"is_unknown": True}


def _shaper(v: Values) -> Derived:
    if "typical_wait_s" in v:
        return {"is_on_return_path": True}
    return {"kbit": kbit(v["rate_bps"])} if "rate_bps" in v else {"is_unknown": True}


ADVICE: Advice = {
    ("shallow-queue", None): (
        "[missing_bytes?The queue has room for {limit_bytes}. To keep the link busy, one flow needs room for its "
        "bandwidth-delay product of {product_bytes} ({drain_rate_bps} x {base_rtt_s}), {missing_bytes} more than it "
        "has. For n flows, divide the product by the square root of n (Appenzeller et al. 2004).]",
        "Bursts overflow the queue. Pace at {paced_bps} or below (DEV is the sender's interface):",
        "$ tc qdisc replace dev DEV root fq maxrate {kbit}",
    ),
    ("deep-queue", None): (
        "Manage the queue at the bottleneck: on DEV, the interface of the router in front of it, shape to just below "
        "the link's rate, so that packets queue in that router:",
        "$ tc qdisc replace dev DEV root cake bandwidth {kbit}",
        "Without cake, use fq_codel behind a rate limit:",
        "$ tc qdisc replace dev DEV root handle 1: htb default 1 && tc class add dev DEV parent 1: classid 1:1 htb "
        "rate {kbit} && tc qdisc add dev DEV parent 1:1 fq_codel",
        "If only the sender is yours, use a congestion control that does not fill queues, or pace below the drain "
        "rate:",
        BBR,
    ),
    ("shaper", None): (
        "[is_on_return_path?Find the other traffic on the return path: acknowledgments queue behind it (RFC 3449). "
        "Manage its queue on the router's interface DEV towards the sender, just below the link's rate:|The path is "
        "shaped to {rate_bps}: a higher rate needs another contract or path. To avoid the delay in the shaper's queue, "
        "pace below it:]",
        "[is_on_return_path?$ tc qdisc replace dev DEV root cake bandwidth RATE ack-filter|$ tc qdisc replace dev DEV "
        "root fq maxrate {kbit}]",
    ),
    ("aqm", None): (
        "[ecn_in_use?The queue signals congestion early to keep delay short: it works as intended.|The queue drops "
        "early to keep delay short: it works as intended. With ECN it can mark packets instead of dropping them:]",
        "[!ecn_in_use?$ sysctl -w net.ipv4.tcp_ecn=1]",
    ),
}

DERIVED = {"shallow-queue": _shallow_queue, "deep-queue": _drained, "shaper": _shaper}

"""A phrase for each code of a fact: what is measured, and what rules a cause out.

A fact whose code is in none of the tables is for machines only.
"""

from __future__ import annotations

import math

from whydrop.explaining import datagrams
from whydrop.explaining.filling import fill
from whydrop.text.quantities import plural

# As type checkers know it: importing collections.abc would take a tenth of the start of the command line.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from whydrop.explaining.filling import Phrase

    Values = Mapping[str, Any]


def phrase(fact: Mapping[str, Any], place: str | None = None) -> str | None:
    """The fact in words, ``None`` where there are none; ``place`` is where the verdict's cause is."""
    known = _PHRASES.get(fact["code"])
    if known is None:
        return None
    return fill(known, {"place": place or "on the path", **fact["values"]}) + _numbered(fact.get("packets") or ())


# Packets named in a phrase at most; the document has more.
_MOST_PACKETS = 4


def _numbered(packets: Sequence[int]) -> str:
    """The packets that show a fact, by their numbers in the capture."""
    numbers = ", ".join(str(number) for number in packets[:_MOST_PACKETS])
    more = ", ..." if len(packets) > _MOST_PACKETS else ""
    return f" (packet{'s' if len(packets) > 1 else ''} {numbers}{more})" if packets else ""


def _nothing_lost(v: Values) -> str:
    share = v["window_share"]
    window = "the receive window was full for {window_share} of the time"
    if share is None:
        window = "the scale of the receive window is unknown"
    elif share == 0:
        window = "the receive window was never full"
    # A round trip below the resolution of the capture's clock cannot be counted.
    trips = "" if v["round_trips"] is None else "{round_trips|round trip}, "
    lost = "{lost_besides|packet} lost" if v.get("lost_besides") else "nothing was lost"
    return "in {busy_s} of data in flight, " + trips + lost + "; " + window


# So many losses would show chance, if they came singly.
_ENOUGH_LOSSES = 4


def _too_few_clumps(v: Values) -> str:
    if v["lost"] == 1:
        return "1 loss: too few to call it chance"
    if v["clumps"] == 1 and v["lost"] >= _ENOUGH_LOSSES:
        return "all {lost|loss} in one clump: chance takes packets singly"
    return "{lost|loss} in {clumps|clump}: too few to call them chance"


def _sent_again(v: Values) -> str:
    if v["retransmitted"] == 1:
        return "1 packet was retransmitted" + (", needlessly" if v["spurious"] else ", not needlessly")
    if not v["spurious"]:
        return "{retransmitted|packet} were retransmitted, none of them needlessly"
    return "of {retransmitted|packet} that were retransmitted only {spurious} had arrived"


def _misses(what: str, v: Values) -> str:
    hits = "only {hits}" if v["hits"] else "none"
    return (
        f"the best {what}, at {{rate_bps}}, would have dropped {{dropped|packet}}, {hits} of them among the {{lost}} "
        "that were lost"
    )


def _link_busy(v: Values) -> str:
    link = "a link of {rate_bps} on the way was sending for {busy_share} of the time"
    return link + (": its rate sets the goodput, not the losses" if v["is_full"] else "")


def _window_open(v: Values) -> str:
    if v["window_share"] == 0:
        return "the receiver's window was never full"
    return "the receiver's window was full for only {window_share} of the time"


def _model_replayed(v: Values) -> str:
    alone = v["variants"] == 1
    chosen = "" if alone else "; of {variants|variant} that were replayed this one agrees best with the losses"
    return (
        "replayed over the packets that entered, it drops "
        "{dropped|packet}: {hits} of the {lost} lost ones, and {mistaken} of the others by mistake" + chosen
    )


def _came_out_at(v: Values) -> str:
    unseen = "; {unseen_share} of its service went to packets that are in neither capture" if v["unseen_share"] else ""
    return "while packets waited they came out at {rate_bps} (IP bytes), by {departures|departure}" + unseen


def _overtook(v: Values) -> str:
    own = "{within_flows}" if v["within_flows"] else "none"
    each = "each flow has a queue of its own"
    return f"{{between_flows|packet}} overtook packets of other flows, and {own} of their own: {each}"


def _vanished(v: Values) -> str:
    more = "{lost_between} more vanished between the captures"
    return "{lost|packet} vanished {place}; " + (more if v["lost_between"] else "between the captures nothing was lost")


def _seen_longest(v: Values) -> str:
    if v["seen_longer"]:
        return "all but {seen_longer} took less than {seen_longest_wait_s} longer than the fastest"
    return "none took more than {seen_longest_wait_s} longer than the fastest"


def _window_closed(v: Values) -> str:
    closed = "the receiver closed its window altogether {times|time}"
    if not v.get("closed_s"):
        return closed
    probes = ", and the sender probed it {probes|time}" if v.get("probes") else ""
    return closed + ": data waited for it for {closed_s} in all" + probes


def _reset_under_way(v: Values) -> str:
    by = "the responder" if v["by_responder"] == v["connections"] else "the initiator"
    if 0 < v["by_responder"] < v["connections"]:
        by = "either end"
    elsewhere = (
        "; {from_elsewhere} of the resets came from another distance than the packets of that host: from something on "
        "the path"
    )
    reset = f"reset by {by} with {{outstanding_bytes}} not acknowledged"
    return reset + (elsewhere if v["from_elsewhere"] else "")


def _reset_by_middlebox(v: Values) -> str:
    signs = []
    if v["other_distance"]:
        signs.append("{other_distance} came from another distance than the packets of the host that they name")
    if v["went_on"]:
        signs.append("after {went_on} that host went on as if it had sent none")
    return "of the resets " + ", and ".join(signs)


def _reset_fields(v: Values) -> str:
    usual = v["least_ttl"]
    if usual is not None and v["largest_ttl"] != usual:
        usual = f"{usual} to {v['largest_ttl']}"
    said = "the reset has TTL {ttl}, IP identification {identification} and window {window}; the packets before it "
    before = "TTL " + ("unknown" if usual is None else str(usual))
    said += f"from the same address {before}, identification {{previous_identification}} and window {{previous_window}}"
    after = "; {packets_after|packet} of that host came after it" if v["packets_after"] else ""
    return said + after


def _forgotten(v: Values) -> str:
    survived = "no longer pause" if not v["survived_s"] else "no pause longer than {survived_s}"
    answer = "{resets|reset}" if v["resets"] else "nothing, though the same host answered others meanwhile"
    return f"after {{idle_s}} without a packet data was answered by {answer}; {survived} had been survived before"


def _too_big_messages(v: Values) -> str:
    told = "no MTU" if v["mtu_bytes"] is None else f"an MTU of {v['mtu_bytes']} bytes"
    large = f"packets of {v['packet_bytes']} bytes are too large"
    return f"{{router}} answered {{messages|time}} that {large}, and told {told}"


def _sizes_tell(v: Values) -> str:
    when = "some of them in between"
    if v.get("lowered"):
        when = "the sender having given up the larger ones"
    return (
        f"all {{failed|transmission}} of {v['smallest_lost_bytes']} bytes or more failed, and {{passed|packet}} of up "
        f"to {v['largest_passed_bytes']} bytes arrived, {when}"
    )


def _copies_from(v: Values) -> str:
    hops = v["hops_further"]
    further = f", {plural(hops, 'hop')} further" if hops > 0 else ""
    if not v["first"] and not v["copy"]:
        return "{copies|copy} of the same point" + further
    first, copy = (v[name] or "unnamed" for name in ("first", "copy"))
    return f"{{copies|copy}} of what came first at another point ({first}): {copy}" + further


def _hole_stays_open(v: Values) -> str:
    said = "{missing_bytes} stayed missing for {waited_s}, to the end, although data or packets behind arrived"
    if v.get("full_bytes"):
        said += f"; what is missing are whole segments of {v['full_bytes']} bytes, of which none ever arrived"
    return said


_PHRASES: Mapping[str, Phrase] = {
    **datagrams.PHRASES,
    # a token bucket
    "bucket-followed": (
        "a token bucket followed over all {data_packets|data packet} expects {expected} of the {lost} losses to "
        "within one packet, and removes {certainty_share} of the uncertainty about which packets are lost"
    ),
    "bucket-replayed": (
        "replayed by itself, the same bucket drops {dropped|packet}, {hits} of them packets that were lost"
    ),
    "delay-at-spent-bucket": (
        "packets that found the bucket nearly spent were delayed by {more_s} more than others; a queue of that size "
        "would have added {queue_s}"
    ),
    "waited-before-losses": "just before a loss, packets had waited {median_s} longer than the fastest",
    "best-bucket-poor": (
        "the best token bucket removes only {certainty_share} of the uncertainty about which packets are lost"
    ),
    "bucket-tells-little": (
        "no rate and burst tell the lost packets from the others: the best accounts for {certainty_share} of the "
        "uncertainty over {lost|loss}"
    ),
    "fits-some-bucket": "{lost|loss} in {runs|run}: some rate and burst fit so few by chance",
    "bucket-had-room": "the best bucket, at {rate_bps}, has {room_bytes} of room on average for packets that were lost",
    "no-bucket-better-than-chance": "no rate and burst make these losses more likely than chance does",
    "chance-less-likely": lambda v: (
        f"losses that ignore the load would make this pattern 10^{v['gain_nats'] / math.log(10):.0f} times less likely"
    ),
    "two-buckets": (
        "two buckets of a dual-rate policer: {committed_alone|lost packet} that found no room in the one of {rate_bps} "
        "did find it in the one of {peak_rate_bps}, and {peak_alone} the other way round"
    ),
    "queue-not-ruled-out": (
        "a queue that drains at {rate_bps} would drop the same packets, and nothing tells whether packets waited for it"
    ),
    "no-such-bucket": (
        "the best bucket fills at {rate_bps} and holds {packets|packet}: no sender empties it, or no burst fits into it"
    ),
    "drains-as-drops": (
        "nearly all packets came out at {drain_rate_bps} while they waited, the rate of the bucket: it is that queue"
    ),
    "drains-unlike-drops": "the queue here drains at {drain_rate_bps}; what drops fills at {rate_bps}",
    "policer-before-queue": (
        "the policer stands before a queue that drains at {drain_rate_bps}, and delays packets by up to {long_wait_s}"
    ),
    "policer-behind-queue": (
        "the policer stands behind a queue that drains at {drain_rate_bps}, and delays packets by up to {long_wait_s}"
    ),
    # a queue
    "no-queue": (
        "a queue of this size would have held packets for {queue_s} just before it dropped; they took {more_s} longer "
        "than on an idle path"
    ),
    "no-queue-at-losses": (
        "a full queue of this size would have held packets for {queue_s}; just before a loss they had waited {waited_s}"
    ),
    "burst-came-through": (
        "{burst_bytes} came within {over_s}; a queue that drains at {rate_bps} lets out no more than its rate"
    ),
    "holes-left": (
        "around {empty} of {runs} losses the packets came further apart, by the time that the lost ones would have "
        "taken: no queue that was busy dropped them"
    ),
    "holes-closed": (
        "around {closed} of {runs} losses the packets came as close as others: a queue was sending what it held"
    ),
    "packets-waited": "a policer delays nothing; packets just before a loss had waited {waited_s}",
    "waited-a-round-trip": "half of the data waited for longer than a round trip of {base_rtt_s}",
    "packets-waited-inside": (
        "a policer delays nothing; the packets before a loss waited {waited_s}, and each lost one found {inside} "
        "packets inside"
    ),
    "packets-seen-to-wait": (
        "a policer at {rate_bps} delays nothing; packets were seen to wait for up to {seen_longest_wait_s}"
    ),
    "delay-before-losses": (
        "just before a loss, packets waited {median_s} ({low_s} to {high_s}) longer than the fastest: longer than "
        "{longer_than_share} of all packets"
    ),
    "queue-drains": (
        "a queue that drains at {rate_bps} accounts for {explained_share} of the spread of all delays, to within "
        "{residual_s} (median)"
    ),
    "queue-overflows": (
        "a queue that drains at {rate_bps} and overflows at {limit_bytes} removes {certainty_share} of the "
        "uncertainty about which packets are lost"
    ),
    "came-out-at": _came_out_at,
    "found-as-much-inside": "each lost packet found {inside|packet} inside; no other found more than {most}",
    "found-inside": "lost packets found {low} to {high} packets inside (median {median}); others found up to {most}",
    "queue-not-full": (
        "a full queue drops what finds it full; lost packets found {low} to {high} inside, and others got in with "
        "{most} there"
    ),
    "acknowledgments-thinned": (
        "a link of {rate_bps} on which a newer acknowledgment replaces one that waits would have dropped "
        "{dropped|packet}, {hits} of them among the {lost} that were lost"
    ),
    "came-out-in-silence": (
        "an outage lets nothing out; packets came out for {out_s} of the {silence_s} in which all that went in was lost"
    ),
    "nothing-waited": "a full queue holds packets up; here none waited for more than {longest_wait_s}",
    "link-busy": _link_busy,
    # queue management
    "delay-unmanaged": "queue management acts on delay; just before a loss there was {median_s}",
    "losses-at-many-delays": lambda v: (
        "a full queue drops at one delay; losses came at "
        + ("{low_s}" if v["low_s"] == v["high_s"] else "{low_s} to {high_s}")
        + ", and other packets waited up to {largest_s}"
    ),
    "overtook-other-flows": _overtook,
    "full-queue-likelier": (
        "a full queue makes these drops likelier than any law of queue management does, by {by_nats} nats"
    ),
    "law-followed": (
        "led along the waits that were seen, the law of this family makes the {events} drops and marks likelier than "
        "chance does, by {gain_nats} nats"
    ),
    "marked-between": "{marked|packet} got the congestion mark between the captures",
    # chance
    "losses-follow-no-queue": (
        "the delay just before a loss was longer than {longer_than_share} of all delays: losses do not follow the queue"
    ),
    "losses-not-at-longest-waits": (
        "a full queue drops when packets wait longest; before these losses they waited longer than only "
        "{longer_than_share} of all"
    ),
    "drops-only-when-full": (
        "queue management drops before the queue is full; these losses came at the longest waits only, of {median_s}"
    ),
    "stood-unmanaged": (
        "for {stood_s} on end all packets waited for more than {longer_than_s}, and none was dropped: queue management "
        "acts sooner"
    ),
    "waits-unmanaged": "half of all packets waited for more than {typical_s}: queue management lets none wait so long",
    # chance
    "drops-begin-late": "queue management drops long before packets wait for {low_s}, where these losses began",
    "found-nothing-inside": "queue management acts on what waits; {share} of the lost packets found nothing inside",
    "most-were-lost": "{lost} of {sent|packet} were lost: no chance that a path has by itself takes most",
    "too-few-clumps": _too_few_clumps,
    "losses-in-runs": lambda v: (
        f"losses came in runs of {v['mean_run']:.1f} packets: independent ones come singly, and without delays nothing "
        "tells bursts by chance from a full queue"
    ),
    "losses-in-runs-without-queue": lambda v: (
        f"losses came in runs of {v['mean_run']:.1f} packets: independent ones come singly, and a policer "
        "leaves as much room"
    ),
    # the ends
    "window-full": (
        "for {window_share} of the {busy_s} that data was in flight, less than one segment of the receive window was "
        "left"
    ),
    "window-closed": _window_closed,
    "window-open": _window_open,
    # connections that failed
    "syns-unanswered": "{syns|SYN} in {lasted_s} of trying, none answered",
    "syns-refused": "{syns|SYN}, each answered by a reset",
    "data-unanswered": lambda v: (
        "{outstanding_bytes} were retransmitted {repeats|time}, and no packet came back from then on to the end"
        + ("; the silent side had sent its FIN" if v.get("closed_before") else "")
    ),
    "reset-under-way": _reset_under_way,
    "request-unanswered": (
        "all {data_bytes} of the request were acknowledged, so the path delivered them: the wait of {waited_s} from "
        "then on is that of the application"
    ),
    "set-up-repeated": (
        "{syns|SYN} in all; those without an answer were lost on the way, or dropped by a host whose queue of new "
        "connections was full"
    ),
    "request-reset": "all {data_bytes} of the request were acknowledged before the reset came",
    "reset-when-idle": "all that had been sent was acknowledged, and neither side had closed",
    "reset-mid-stream": (
        "the last segment before the reset was full, as those before it, and neither side had closed: the stream was "
        "not over"
    ),
    "reset-after-close": (
        "data that comes for a side that has closed is answered by a reset (RFC 9293, section 3.10.4); "
        "{data_bytes} were "
        "not acknowledged"
    ),
    "reset-by-middlebox": _reset_by_middlebox,
    "reset-fields": _reset_fields,
    "syns-rejected": "{syns|SYN}, answered by an ICMP error instead of a SYN/ACK",
    "icmp-error": lambda v: f"{{router}} reported: {v['kind'].replace('-', ' ')}",
    "forgotten-when-idle": _forgotten,
    # causes that show by themselves
    "repeated-into-silence": (
        "in {silence_s} {trials|transmission}, a round trip or more apart, had no answer; losses as frequent as in the "
        "rest of the capture (at most {loss_share}) do not do that by chance"
    ),
    "too-big-messages": _too_big_messages,
    "sizes-tell": _sizes_tell,
    "joined-before-router": (
        "each packet that {router} refused is the sum of two or more that were sent one by one: large or generic "
        "receive offload joined them on the way, where packets are forwarded"
    ),
    "hole-stays-open": _hole_stays_open,
    "window-shrank": lambda v: (
        f"the SYN of the receiver offered {v['offered_bytes']} bytes and no scale that the sender could see; its next "
        f"window reads {v['read_bytes']}, with nothing sent to fill it"
    ),
    "window-capped": lambda v: (
        "the SYN of {side} has no window scale, so that no window exceeds 65535 bytes; the largest was "
        f"{v['window_bytes']}, and it was full for {{window_share}} of the time"
    ),
    "sack-mangled": (
        "{outside} of {blocks|block} of selective acknowledgments report sequence numbers that were never sent: "
        "something shifts the numbers of segments and not those of the option"
    ),
    "sack-stripped": (
        "both ends permit selective acknowledgments; {holes|hole} were repaired after duplicate acknowledgments, and "
        "none of these said what had arrived behind the hole"
    ),
    "sack-refused": "the SYN of one end permits selective acknowledgments, that of the other does not",
    "damaged": "{damaged} of the lost packets came as far as here with a wrong checksum; all others have a right one",
    "marks-not-echoed": "{marked|data packet} passed here with the congestion mark, and no acknowledgment tells of one",
    "ecn-bleached": "of {data_packets|new data packet} none is capable of ECN here, although both ends agreed on it",
    "ecn-blocked": (
        "{syns|SYN} that offered ECN had no answer; {connections|connection} were answered when it was not offered"
    ),
    "ecn-refused": "{connections|connection} offered ECN, and the answer to the SYN did not take it up",
    "delay-varies-alone": (
        "{packets|packet} found none of their traffic between the points, after pauses longer than the waits, and "
        "took times that differ by {spread_s} (10th to 90th percentile); {change_s} from one to the next in the median"
    ),
    "released-in-batches": (
        "{batches} times packets that went in one after the other came out at one moment; the first of them had waited "
        "up to {held_s}"
    ),
    "doubled-on-path": (
        "the receiver reports {copies} of {data_packets|data packet} as received twice that were sent once"
    ),
    "copies-from": _copies_from,
    "translated-in-capture": lambda v: (
        "{connections|connection} passed the capture on both sides of address translation, and is given once: "
        f"{v['copy']} is {v['kept']}"
        if v["connections"] == 1
        else "{connections|connection} passed the capture on both sides of address translation, and are given once: "
        f"{v['copy']}, for one, is {v['kept']}"
    ),
    "doubled-by-tap": "{copies} of {packets|packet} are copies: equal to one shortly before, but for what hops change",
    "nothing-lost-in-flight": _nothing_lost,
    "application-silent": (
        "all that had been sent was acknowledged, and the sender sent nothing more for {limited_s}, {limited_share} of "
        "the time"
    ),
    "arrives-evenly": (
        "packets arrive evenly, at {rate_bps} for {steady_share} of the time: either a link of that rate is full, or "
        "the sender paces its packets. TCP timestamps, or a capture at the sender, would tell which"
    ),
    "idle": "nothing was in flight for {idle_share} of the time between first and last data",
    "losses-without-sack": (
        "without SACK (RFC 2018) acknowledgments do not say which of the packets that were retransmitted had arrived; "
        "between {low} and {high|packet} were lost"
    ),
    "line-rate": (
        "packets were taken to leave the capture point one after the other, as a line of {line_rate_bps} sends them"
    ),
    # order and repetition
    "acknowledged-late": (
        "{reordered} of {data_packets|data packet} were acknowledged after later ones without having been retransmitted"
    ),
    "overtaken-between": "{overtaken|packet} came out between the captures after one that had gone in later",
    "sent-again": _sent_again,
    # where
    "never-came-out": "{lost} of {entered|packet} that entered never came out: lost {place}",
    "vanished-outside": _vanished,
    "seen-by-one": (
        "lost where only one of the captures recorded: outside the time of the other, or on a path that does not lead "
        "past it"
    ),
    "paused-unseen": (
        "data paused for {paused_share} of the time, for longer than a round trip each time; why, only acknowledgments "
        "would show, and none were captured"
    ),
    "acknowledgments-by-echoes": (
        "no acknowledgments were captured; when they came is told by the timestamps that the data echoes (RFC 7323)"
    ),
    "round-trips-by-retransmissions": (
        "the round trips of {packets|packet} behind lost ones are told by when those were retransmitted (RFC 5681)"
    ),
    "stands-unseen": (
        "what is in flight stands at one size: the receiver's window or the send buffer; only acknowledgments would "
        "tell which, and none were captured"
    ),
    "echoes-late": (
        "acknowledgments reached the sender {late_s} later than the fastest, though newer ones had left: they waited "
        "on the way back, where nothing was captured"
    ),
    "not-between": "not between the captures, where packets passed in order, unmarked and without a queue",
    "capture-missed": "capture {capture} did not record {missed|packet} that passed its point: {missed_share} of them",
    # models replayed
    "model-replayed": _model_replayed,
    "fifo-would-hold": lambda v: (
        "a FIFO draining at {rate_bps} would have held some packets for {longest_wait_s}, and {held_too_long} of them "
        "for longer than any was seen to wait; " + _seen_longest(v)
    ),
    "shaper-would-hold": lambda v: (
        "a shaper at {rate_bps} drops nothing until its queue is full: it would have held packets for up to "
        "{longest_wait_s} instead of losing {lost}; " + _seen_longest(v)
    ),
    "policer-misses": lambda v: _misses("policer", v),
    "full-queue-misses": lambda v: _misses("full queue", v),
}

CODES = frozenset(_PHRASES)

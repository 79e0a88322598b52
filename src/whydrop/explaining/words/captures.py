"""Captures that miss packets or hold them twice, and places: headlines, evidence, advice."""

from __future__ import annotations

from whydrop.explaining.words.common import MOST_MISSING, Advice, Derived, Phrases, Values
from whydrop.text.phrases import table

# The largest part of a packet that is needed: all headers of Ethernet, VLAN tags, IPv6 and TCP with options.
_HEADERS_BYTES = 128


def _most(v: Values) -> bool:
    return bool(v.get("missed_share", 0.0) > MOST_MISSING)


def _missed_by_capture(v: Values) -> str:
    acknowledged = v.get("acknowledged", v["missed"])
    if acknowledged == v["missed"]:
        share = ", {missed_share} of the data" if _most(v) else ""
        return f"The capture missed {{missed|packet}} that the receiver acknowledged{share}."
    return (
        "The capture lacks {missed|packet}, as gaps in the sequence numbers show"
        "[acknowledged?; the receiver acknowledged {acknowledged} of them|; it does not show whether they arrived]."
    )


def _missed_by_captures(v: Values) -> str:
    if v["missed_1"] and v["missed_2"]:
        return (
            "Capture 1 missed {missed_1|packet} and capture 2 {missed_2|packet}: the captures lost them, not the path."
        )
    which = 1 if v["missed_1"] else 2
    return f"Capture {which} missed {{missed_{which}|packet}}: the capture lost them, not the path."


def _copies_from(v: Values) -> str:
    further = "[is_further?, {hops_further|hop} further]"
    if not v["first"] and not v["copy"]:
        return "{copies|copy} of packets, from the same capture point as the first ones" + further
    first, copy = (v[name] or "unnamed" for name in ("first", "copy"))
    return f"{{copies|copy}} of packets, from another capture point ({copy}) than the first ones ({first})" + further


HEADLINES: Phrases = {
    **table("""
    direction-not-captured: The capture holds one direction only: {connections|connection} acknowledged
        {acknowledged_bytes}, and none of these data were captured.
    times-unknown: [lost?{lost|packet} lost. ]The capture shows no times ([reason=equal?all timestamps are
        equal|[reason=coarse?its timestamps have a resolution of {tick_s}|its timestamps run backwards]]); delays, rates
        and most causes need them.
    """),
    "missed-by-capture": _missed_by_capture,
    "missed-by-captures": _missed_by_captures,
}

EVIDENCE: Phrases = {
    **table("""
    translated-in-capture: {connections|connection} passed the capture on both sides of address translation, and
        [one_connection?is|are] listed once: {copy}[one_connection?|, for example,] is {kept}
    doubled-by-tap: {copies} of {packets|packet} are copies: equal to a packet shortly before except for the fields
        that hops change
    line-rate: packets are assumed to leave the capture point one at a time, at a line rate of {line_rate_bps}
    lost-between: {lost} of {entered|packet} that entered were lost {place}
    vanished-outside: {lost|packet} vanished {place}; [lost_between?{lost_between} more vanished between the
        captures|between the captures nothing was lost]
    captured-at-one-point: only one capture covers these losses: the other one was not running then, or is not on their
        path
    acknowledgments-by-echoes: no acknowledgments were captured; the timestamps that the data echoes show when they
        came (RFC 7323)
    round-trips-by-retransmissions: the times of retransmissions give the round trips of {packets|packet} behind lost
        ones (RFC 5681)
    echoes-late: acknowledgments reached the sender {late_s} later than the fastest, although newer ones had left:
        they were delayed on the return path, where nothing was captured
    not-between: not between the captures, where packets passed in order, unmarked and without a queue
    capture-missed: capture {capture} did not record {missed|packet} that passed its point: {missed_share} of them
    """),
    "copies-from": _copies_from,
}


def with_numbers(v: Values) -> Derived:
    """Values that distinguish one from several, and further from not."""
    return {"one_connection": v.get("connections") == 1, "is_further": (v.get("hops_further") or 0) > 0}


def _capture_loss(v: Values) -> Derived:
    kept = min(v["snaplen_bytes"], _HEADERS_BYTES)
    filtered = v.get("acknowledged") == 0
    return {
        "filtered": filtered,
        "most": not filtered and _most(v),
        "few": not filtered and not _most(v),
        "kept": str(kept),
        "shorter": kept < v["snaplen_bytes"],
    }


ADVICE: Advice = {
    ("unknown", "times-unknown"): (
        "See whether the program that wrote the file, or one that anonymised or converted it, dropped the timestamps; "
        "explain the original, or capture again:",
        "$ tcpdump -i DEV -s 128 -w FILE.pcap",
    ),
    ("capture-loss", None): (
        "[filtered?The missing packets were filtered out, sampled or not recorded. Explain the original capture, "
        "made before any display filter and with both directions. Or make a new one without sampling that has all "
        "packets of the connection:]",
        "[filtered?$ tcpdump -i DEV -s 128 -B 65536 -w FILE.pcap host HOST and tcp port PORT]",
        "[most?So many packets are missing that the capture shows neither the path nor the hosts. If it was sampled or "
        "filtered, explain the original. Otherwise give it a larger buffer:]",
        "[most?$ tcpdump -i DEV -s 128 -B 65536 -w FILE.pcap]",
        "[few?To capture all packets, use [shorter?a shorter snapshot length, ]a larger buffer or a filter:]",
        "[few?$ tcpdump -i DEV -s {kept} -B 65536 -w FILE.pcap]",
    ),
    ("capture-loss", "one-direction"): (
        "Capture both directions: packets of the other one do not pass the capture point. A capture on the host itself "
        "has both. Configure a mirror port to copy both. If the directions take different paths, merge two captures:",
        "$ mergecap -w BOTH.pcap ONE.pcap OTHER.pcap",
    ),
}

DERIVED = {"capture-loss": _capture_loss}

PLACES = {
    "path": "on the path",
    "sender": "at the sender",
    "receiver": "at the receiver",
    "this-host": "on this host",
    "switch-port": "at a switch port",
}

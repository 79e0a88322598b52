"""A verdict in one sentence, the models that were replayed and the places of a path in a few words."""

from __future__ import annotations

import math

from whydrop.explaining import datagrams
from whydrop.explaining.filling import fill
from whydrop.text.quantities import count, plural

# As type checkers know it: importing collections.abc would take a tenth of the start of the command line.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from whydrop.explaining.filling import Phrase

    Values = Mapping[str, Any]


def sentence(verdict: Mapping[str, Any], *, among_lossy: bool = False) -> str:
    """The verdict in one sentence: that of its headline fact, else that of its cause."""
    headline = next((fact for fact in verdict["facts"] if fact["code"] in _SENTENCES), None)
    code = headline["code"] if headline else _BY_CAUSE.get(verdict["cause"], "unexplained")
    if code == "nothing-lost" and among_lossy:
        return _NOTHING_LOST_HERE
    parameters = {name: quantity["value"] for name, quantity in verdict["parameters"].items()}
    values = {**parameters, "lost": verdict["lost"], **(headline["values"] if headline else {})}
    values["about"] = int(max(parameters.get("limit_packets", 0), 1))
    values["limited_share_of_all"] = verdict.get("limited_share", 1.0)
    values["loss_share"] = parameters.get("loss_probability")
    flows = values.get("flows") or 0
    values["losses"] = _losses(verdict["lost"], verdict["explained"]) + (f" of {flows} flows" if flows > 1 else "")
    return fill(_SENTENCES[code], values)


def _losses(lost: int, explained: float) -> str:
    if lost == 1:
        return "the one lost packet"
    if explained >= 0.9995:
        return f"all {count(lost)} lost packets"
    return f"{count(math.floor(explained * lost + 0.5))} of {count(lost)} lost packets"


def _reordered(v: Values) -> str:
    needless = " and {spurious|needless retransmission}" if v.get("spurious") else ""
    reorders = "The path reorders: " if v.get("lost_besides") else "Nothing was lost: the path reorders, "
    return reorders + "{reordered|packet} arrived late" + needless + _lost_besides(v) + "."


def _lost_besides(v: Values) -> str:
    return "; {lost_besides|packet} lost besides" if v.get("lost_besides") else ""


def _marked_by_aqm(v: Values) -> str:
    told = "{marked|packet} got the congestion mark" if v.get("marked") else "{echoes|echo} of congestion came back"
    return f"Active queue management marked packets instead of dropping them: {told}."


def _dropped_at_random(v: Values) -> str:
    loss = "Random loss of {loss_share} took {losses}; "
    if v.get("link_is_full"):
        return loss + "a full link of {link_rate_bps} set the goodput, not the loss."
    return loss + "no pattern of load or time was found."


def _responders(v: Values) -> str:
    return "{responder}" + (" and {other_responders|other endpoint}" if v.get("other_responders") else "")


def _unexplained(v: Values) -> str:
    if not v["lost"]:
        return "No cause accounts for the time markedly better than the others."
    if v.get("few"):
        return f"{{lost|packet}} lost, too few to tell {'its' if v['lost'] == 1 else 'their'} cause."
    them = "it" if v["lost"] == 1 else "them"
    return f"{{lost|packet}} lost, and no cause accounts for {them} markedly better than the others."


# A window that is closed for so much of the time that it holds its sender back is not too small: nobody reads.
_MOSTLY_CLOSED = 0.1

# Beyond this share nothing else is told of a capture's flows.
_MOST_MISSING = 0.4

# Shares round to whole percent: a half is not most.
_MOST_OF_THE_TIME = 0.505

_AT_THE_SENDER = {
    "application": "its application had nothing to send",
    "send-buffer": "its send buffer was full of what was not yet acknowledged",
    "pacing": "it let packets out at a rate that is set there",
}


def _held_by_sender(v: Values) -> str:
    if v.get("limiter") in _AT_THE_SENDER:
        share = min(v.get("limiter_share", 1.0), v["limited_share_of_all"])
        part = "most" if share > _MOST_OF_THE_TIME else f"{share * 100:.0f} %"
        return f"The sender held the flow back, not the path: {_AT_THE_SENDER[v['limiter']]} for {part} of the time."
    window = ", the receiver's window was open" if v["window_known"] else ""
    lost = "" if v.get("lost_besides") else "nothing was lost, "
    return f"The sender held the flow back, not the path: {lost}no queue grew{window}{_lost_besides(v)}."


def _held_by_window(v: Values) -> str:
    held = "The receiver's window held the sender back for {window_share} of the time"
    if v.get("closed_share", 0.0) > _MOSTLY_CLOSED:
        held = "The receiver did not read what came: its window was closed for {closed_s} while data waited"
    return held + (_lost_besides(v) or "; the path dropped nothing") + "."


def _missed_by_capture(v: Values) -> str:
    acknowledged = v.get("acknowledged", v["missed"])
    if acknowledged == v["missed"]:
        share = f", {v['missed_share'] * 100:.0f} % of the data" if v.get("missed_share", 0.0) > _MOST_MISSING else ""
        return f"The capture missed {{missed|packet}} that the receiver acknowledged{share}."
    some = ", {acknowledged} of them acknowledged" if acknowledged else ", and nothing tells what became of them"
    return "The capture lacks {missed|packet} that the sequence numbers pass over" + some + "."


# A wait that a person feels, and what is long for a transfer.
_FELT_S = 0.5
_LONG_S = 1.0


def _nothing_lost(v: Values) -> str:
    if v.get("longest_trip_s", 0.0) > _FELT_S:
        return "Nothing was lost; the round trip is long, up to {longest_trip_s}, and that is what was waited for."
    if v.get("others_waited"):
        return "Nothing was lost in these flows, and no cause of their own held them up."
    if v.get("lasted_s", 0.0) > _LONG_S:
        return "Nothing was lost, and nothing shows what held up the {lasted_s} that data was under way."
    return "Nothing was lost and nothing waited for long."


def _missed_by_captures(v: Values) -> str:
    if v["missed_1"] and v["missed_2"]:
        return "The captures missed {missed_1|packet} and {missed_2|packet}: capture loss, no loss of the path."
    which = 1 if v["missed_1"] else 2
    return f"Capture {which} missed {{missed_{which}|packet}}: capture loss, no loss of the path."


def _nothing_passed(v: Values) -> str:
    outage = "Nothing passed for {outage_s}, then packets passed again"
    if v["outages"] > 1:
        outage = "{outages} times nothing passed, for {total_s} in all and up to {longest_s}"
    return outage + ": {losses} fell into it."


def _too_large(v: Values) -> str:
    size = f"Packets of more than {v['mtu_bytes']:.0f} bytes do not pass"
    if v.get("failed_bytes"):
        size = f"Packets of {v['failed_bytes']} bytes do not pass, those of {v['passed_bytes']} bytes do"
    who = ", as {router} told their sender" if v.get("router") else ", and no router tells their sender"
    verb = "was" if v["lost"] == 1 else "were"
    return size + who + (f": {{losses}} {verb} too large." if v["lost"] else ".")


def _forgotten(v: Values) -> str:
    idle = "{connections|connection} with " + _responders(v) + " did not survive a pause of {idle_s}: "
    return idle + "something on the path, or the other end, had forgotten them."


def _request_unanswered(v: Values) -> str:
    took = _responders(v) + " acknowledged {connections|request} and sent no answer"
    if v["by_nobody"] == v["connections"]:
        return took + " in the {longest_s} until the capture ended."
    if v["by_asked"] == v["connections"]:
        return took + ": it closed the connection {longest_s} later."
    who = "the other side" if v["connections"] == 1 else "the others"
    return took + f": {who} gave up after {{longest_s}}."


def _reset_after_close(v: Values) -> str:
    who = _responders(v) if v["by_responder"] == v["connections"] else "One side"
    if not v["by_responder"]:
        who = "The client of " + _responders(v)
    return (
        f"{who} closed {{connections|connection}} while data still came, and answered {{data_bytes}} of it by a reset."
    )


_SENTENCES: Mapping[str, Phrase] = {
    **datagrams.SENTENCES,
    "nothing-passed": _nothing_passed,
    "lost-in-silence": lambda v: (
        "Nothing passed for {silence_s}; {losses} fell into it."
        if v["lost"]
        else "Nothing was acknowledged for {silence_s}, then it went on; no packet was lost."
    ),
    "too-large-told": _too_large,
    "too-large-untold": _too_large,
    "joined-before-router": lambda v: (
        f"Something on the way joins packets: {{router}} refused one of {v['packet_bytes']} bytes as too large, and "
        f"none of more than {v['largest_sent_bytes']} bytes was sent"
        + (": {losses} were among them." if v["lost"] else ".")
    ),
    "hole-stays-open": (
        "{missing_bytes} never arrived at the receiver, which asked for it until the capture ended, {waited_s} later."
    ),
    "forgotten-when-idle": _forgotten,
    "reset-by-middlebox": lambda v: (
        "Something on the path reset {connections|connection} with "
        + _responders(v)
        + ", not the host it claims to be."
    ),
    "window-misread": lambda v: (
        f"The sender reads the receive window {2 ** v['shift']} times too small: the window scale option was lost."
    ),
    "window-unscaled": (
        "The receive window cannot exceed 64 KiB: the SYN of {side} came without the window scale option."
    ),
    "sack-mangled": "Something on the path spoils selective acknowledgments: they report what was never sent.",
    "sack-stripped": "Selective acknowledgments are agreed on and never arrive.",
    "sack-refused": "The ends do without selective acknowledgments: only one of them permits them.",
    "damaged": "Packets are damaged on the way: the receiver dropped {losses} for a wrong checksum.",
    "marks-not-echoed": "Congestion marks do not come back to the sender: it does not learn of {marked|mark}.",
    "ecn-bleached": "ECN was agreed on, and data comes without it: removed on the way, or never set.",
    "ecn-blocked": (
        "SYNs to {host} that offer ECN are dropped: {connections|connection} waited {waited_s} in all to do without."
    ),
    "ecn-refused": "{host} does not take up ECN that is offered, or something on the way removes the offer.",
    "delay-varies-alone": "Delays vary by {spread_s} without load of this traffic.",
    "released-in-batches": "Packets come out in batches of {batch_packets|packet}, one each {interval_s}.",
    "doubled-on-path": "The path delivers packets twice: {copies} of {data_packets|data packet}.",
    "doubled-by-tap": "The capture holds {copies|packet} twice: its copies, not the path's.",
    "dropped-by-policer": "A policer at {rate_bps} with a {burst_bytes} bucket dropped {losses}.",
    "dropped-by-shallow-queue": (
        "A shallow queue of about {about|packet}, draining at {drain_rate_bps}, overflowed and dropped {losses}."
    ),
    "dropped-by-deep-queue": (
        "A deep queue draining at {drain_rate_bps} held packets for up to {longest_wait_s} and dropped {losses} when "
        "it was full."
    ),
    "held-by-shaper": lambda v: (
        "A shaper at {rate_bps} held packets for up to {longest_wait_s}"
        + (_lost_besides(v) or " and dropped none")
        + "."
    ),
    "held-on-the-way-back": (
        "Acknowledgments waited in a queue on the way back, half of them for {typical_wait_s} or longer, and the "
        "sender with them (at most {longest_wait_s})."
    ),
    "marked-by-aqm": _marked_by_aqm,
    "dropped-by-aqm": "Active queue management dropped {losses} to keep its queue short.",
    "dropped-at-random": _dropped_at_random,
    "reordered": _reordered,
    "held-by-window": _held_by_window,
    "held-by-sender": _held_by_sender,
    "answered-late": (
        "Transfers waited for the application at the data's sender to answer: for {limited_s}, {limited_share} of "
        "their time."
    ),
    "acknowledgments-held": (
        "The receiver held acknowledgments back for {limited_s}, {limited_share} of the transfers' time."
    ),
    "missed-by-capture": _missed_by_capture,
    "direction-not-captured": (
        "The capture holds one direction only: of {acknowledged_bytes} that {connections|connection} acknowledged, not "
        "one packet."
    ),
    "missed-by-captures": _missed_by_captures,
    "nothing-lost": _nothing_lost,
    "unexplained": _unexplained,
    "syns-unanswered": lambda v: (
        _responders(v) + " never answered: {connections|attempt} to connect got nothing back; down, or behind a filter "
        "that drops them."
    ),
    "syns-refused": lambda v: (
        _responders(v) + " refused {connections|connection}: nothing listens there, or a firewall rejects them."
    ),
    "data-unanswered": lambda v: (
        "The other end closed and then fell silent: what was still sent to it in {connections|connection} was "
        "retransmitted again and again without an answer."
        if v.get("closed_before") == v["connections"]
        else "The other end fell silent: data of {connections|connection} was retransmitted again and again without an "
        "answer."
    ),
    "request-unanswered": _request_unanswered,
    "set-up-repeated": lambda v: (
        _responders(v)
        + " answered {connections|connection} only when the SYN was retransmitted: set-up took {longest_s} "
        "longer."
    ),
    "request-reset": lambda v: (
        _responders(v) + " acknowledged {connections|request} and answered with a reset: no data came back."
    ),
    "reset-when-idle": lambda v: (
        _responders(v) + " ended {connections|connection} by a reset after {idle_s} without a packet."
    ),
    "reset-mid-stream": lambda v: (
        "A reset broke off {connections|transfer} with " + _responders(v) + " in the middle of a stream."
    ),
    "reset-after-close": _reset_after_close,
    "reset-under-way": lambda v: (
        "{connections|connection} with " + _responders(v) + " broke off by a reset while data was under way."
    ),
}

# Where others did lose packets, it is said of whom this is true.
_NOTHING_LOST_HERE = "These flows lost nothing, and nothing waited for long."

CODES = frozenset(_SENTENCES)

# Of findings whose producer has no headline of its own.
_BY_CAUSE = {
    "policer": "dropped-by-policer",
    "shallow-queue": "dropped-by-shallow-queue",
    "deep-queue": "dropped-by-deep-queue",
    "shaper": "held-by-shaper",
    "aqm": "dropped-by-aqm",
    "random-loss": "dropped-at-random",
    "none": "nothing-lost",
}

_PLACES = {
    "path": "on the path",
    "sender": "at the sender",
    "receiver": "at the receiver",
    "this-host": "on this host",
    "switch-port": "at a switch port",
}


def place(where: Mapping[str, Any] | None) -> str | None:
    """A place of the path in words.

    >>> place({"kind": "between", "points": [1, 2]}), place({"kind": "switch-port", "name": "xe-0/0/1"})
    ('between capture 1 and capture 2', 'at xe-0/0/1')
    """
    if where is None:
        return None
    points = " and ".join(f"capture {number}" for number in where.get("points", ()))
    if points:
        return f"{where['kind']} {points}"
    return f"at {where['name']}" if where.get("name") else _PLACES.get(where["kind"], where["kind"])


def model(replayed: Mapping[str, Any]) -> str:
    """A mechanism with its parameters.

    >>> model({"element": "codel", "rate_bps": 18e6, "limit_bytes": None, "limit_packets": None})
    'CoDel draining at 18.0 Mbit/s'
    """
    return fill(_MODELS.get(replayed["element"], "{element} at {rate_bps}"), replayed)


def _fifo(v: Values) -> str:
    if v["limit_packets"] is not None:
        return f"FIFO draining at {{rate_bps}} with room for {plural(int(v['limit_packets']), 'packet')}"
    room = " with room for {limit_bytes}" if v["limit_bytes"] is not None else " without limit"
    return "FIFO draining at {rate_bps}" + room


def _policer(v: Values) -> str:
    peak = "" if v.get("peak_rate_bps") is None else " and {peak_rate_bps} with {peak_burst_bytes}"
    return "Policer at {rate_bps} with a {limit_bytes} bucket" + peak


_MODELS: Mapping[str, Phrase] = {
    "policer": _policer,
    "fifo": _fifo,
    "shaper": "Shaper at {rate_bps} with a burst of {limit_bytes}",
    "codel": "CoDel draining at {rate_bps}",
}

"""The verdicts of a document: intervals, shares, the numbers of their facts, and whether they contradict each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plausibility.captures import ordered, parts, span

Entry = Mapping[str, Any]

_ROUNDED = 1e-9

# In facts of any code: a part, and its whole.
_PARTS = (
    ("hits", "dropped"),
    ("hits", "lost"),
    ("expected", "lost"),
    ("lost", "expected_packets"),
    ("spurious", "retransmitted"),
    ("reordered", "data_packets"),
    ("copies", "data_packets"),
    ("copies", "packets"),
    ("empty", "runs"),
    ("closed", "runs"),
    ("clumps", "lost"),
    ("lost", "sent"),
    ("lost", "entered"),
    ("outside", "blocks"),
    ("by_responder", "connections"),
    ("from_elsewhere", "connections"),
    ("connections", "syns"),
    ("longest_s", "total_s"),
)
# ... and what never falls.
_ORDERED = (
    ("low_s", "median_s", "high_s"),
    ("typical_wait_s", "longest_wait_s"),
    ("low", "median", "high"),
    ("smallest_ttl", "largest_ttl"),
)
# What a model would have done lasts as long as it likes, and an instant is no time that passed.
_NOT_SEEN = {"queue_s", "start_s", "end_s", "interval_s"}
_REPLAYED = ("fifo-would-queue", "shaper-would-queue")
# Causes that drop packets: without a loss there was none.
_DROPS = {"policer", "random-loss", "shallow-queue", "deep-queue"}


def found(document: Entry) -> Iterator[str]:
    """Say what cannot be in the verdicts."""
    flows = {flow["flow"]: flow for flow in document["flows"]}
    for number, verdict in enumerate(document["verdicts"]):
        where = f"verdicts[{number}] ({verdict['cause']})"
        yield from _quantities(verdict, where)
        yield from _losses(verdict, where, flows, document)
        for fact in facts(verdict):
            yield from _fact(fact, f"{where} {fact['code']}", document, max(len(verdict["flows"]), 1))
        for model in verdict.get("models", ()):
            yield from parts(
                model, f"{where} {model['element']}", ("hits", "dropped"), ("hits", "lost"), ("passed_right", "passed")
            )
    if not document.get("pair"):
        yield from _sums(document["verdicts"], flows)


def facts(verdict: Entry) -> list[Entry]:
    """All facts of a verdict, those of its rivals and models included."""
    others = [*verdict["against"], *verdict.get("models", ())]
    return [*verdict["facts"], *(one["fact"] for one in others if one.get("fact"))]


def _quantities(verdict: Entry, where: str) -> Iterator[str]:
    for name, quantity in verdict["parameters"].items():
        low, value, high = quantity["low"], quantity["value"], quantity["high"]
        if (low is not None and low > value * (1 + _ROUNDED)) or (high is not None and high < value * (1 - _ROUNDED)):
            yield f"{where}: {name} is {value:g}, which is not within {low} to {high}"
    if (lost := verdict["throughput_lost"]) is not None and lost["bps"] <= 0:
        yield f"{where}: a loss of throughput of {lost['bps']:g} bit/s"


def _losses(verdict: Entry, where: str, flows: Mapping[str, Entry], document: Entry) -> Iterator[str]:
    lost = verdict["lost"]
    of_flows = sum(flows[name]["lost"] for name in verdict["flows"] if name in flows)
    if document.get("pair") is None and verdict["flows"] and lost > of_flows and not document.get("recordings"):
        yield f"{where}: {lost} lost, and {of_flows} of its flows"
    if lost and verdict["cause"] == "none":
        yield f"{where}: nothing dropped packets, and {lost} were lost"
    if not lost and verdict["cause"] in _DROPS and not document.get("recordings"):
        yield f"{where}: it drops packets, and none was lost"


def _sums(verdicts: Sequence[Entry], flows: Mapping[str, Entry]) -> Iterator[str]:
    """Losses that several verdicts account for, and time that several limit, more than once."""
    explained = sum(verdict["lost"] * verdict["explained"] for verdict in verdicts)
    lost = sum(flow["lost"] for flow in flows.values())
    if flows and explained > lost + 0.5:
        yield f"verdicts account for {explained:g} losses, and {lost} were lost"
    limited: dict[str, float] = defaultdict(float)
    for verdict in verdicts:
        for flow in verdict["flows"]:
            limited[flow] += verdict["limited_share"]
    for flow, share in limited.items():
        if share > 1 + 1e-6:
            yield f"verdicts limit {share:.4f} of the time of {flow}"


def _fact(fact: Entry, where: str, document: Entry, flows: int) -> Iterator[str]:
    values = fact["values"]
    yield from parts(values, where, *_PARTS)
    for names in _ORDERED:
        yield from ordered(values, where, *names)
    packets = sum(capture["packets"] + capture.get("left_out", 0) for capture in document["captures"])
    for number in fact.get("packets") or ():
        if document["captures"] and not 1 <= number <= packets:
            yield f"{where}: packet {number} of a capture of {packets}"
    if values.get("round_trips") == 0:
        yield f"{where}: 0 round trips"
    whole = span(document["captures"])
    if whole is None or document.get("recordings"):
        return
    # What is summed over flows is no longer than the capture for each.
    lasted_s = (whole[1] - whole[0]) * flows + 1e-4
    for name, value in values.items():
        is_time = name.endswith("_s") and name not in _NOT_SEEN and isinstance(value, (int, float))
        if is_time and fact["code"] not in _REPLAYED and value > lasted_s:
            yield f"{where}: {name} is {value:g}, and the capture lasted {whole[1] - whole[0]:g} s"

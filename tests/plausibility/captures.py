"""The captures, flows and transfers of a document: parts and wholes, and times within the capture."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

Entry = Mapping[str, Any]

# Floating point, of instants since 1970: their last digit is a quarter of a microsecond.
INSTANT_S = 1e-5
_SHARES = 1e-6


def found(document: Entry) -> Iterator[str]:
    """Say what cannot be in the captures, flows and transfers."""
    for number, capture in enumerate(document["captures"]):
        yield from _capture(capture, f"captures[{number}]")
    for flow in document["flows"]:
        yield from _flow(flow, f"flow {flow['flow']}", span(document["captures"]))
    yield from _transfers(document["transfers"], document["flows"])
    yield from _datagrams(document.get("datagrams"))


def span(captures: Sequence[Entry]) -> tuple[float, float] | None:
    """The first and the last instant of all captures; ``None`` where a clock was set or is none, as before 1970."""
    known = [(one["first"], one["last"]) for one in captures if one["first"] is not None]
    is_set = any("clock was set" in note for capture in captures for note in capture["notes"])
    if is_set or any(first < 0 for first, _ in known):
        return None
    return (min(first for first, _ in known), max(last for _, last in known)) if known else None


def parts(entry: Entry, where: str, *pairs: tuple[str, str]) -> Iterator[str]:
    """Parts that are above their wholes, each pair the names of a part and of its whole."""
    for part, whole in pairs:
        of_part, of_whole = entry.get(part), entry.get(whole)
        if of_part is not None and of_whole is not None and of_part > of_whole:
            yield f"{where}: {part} is {of_part:g}, of {of_whole:g} ({whole})"


def ordered(entry: Entry, where: str, *names: str, slack: float = 0.0) -> Iterator[str]:
    """Values of these names that fall."""
    known = [(name, entry[name]) for name in names if entry.get(name) is not None]
    for (one, low), (other, high) in pairwise(known):
        if low > high + slack:
            yield f"{where}: {one} is {low!r}, and {other} {high!r}"


def _capture(capture: Entry, where: str) -> Iterator[str]:
    yield from ordered(capture, where, "first", "last")
    yield from parts(capture, where, ("duplicates", "packets"), ("out_of_order", "packets"))
    if sum(capture["packets_by_kind"].values()) != capture["packets"]:
        yield f"{where}: the kinds of packets do not add up to {capture['packets']}"
    if small := capture.get("small_connections"):
        yield from parts(
            small, where, ("lost", "packets"), ("spurious", "retransmitted"), ("retransmitted", "packets"),
            ("answered", "connections"), ("attempts", "connections"),
        )  # fmt: skip
        yield from ordered(small, where, "start", "end")


def _flow(flow: Entry, where: str, whole: tuple[float, float] | None) -> Iterator[str]:
    yield from parts(
        flow, where, ("spurious", "retransmitted"), ("retransmitted", "packets"), ("reordered", "packets"),
        ("ce_marked", "packets"), ("ect0", "packets"), ("ect1", "packets"),
    )  # fmt: skip
    # What was lost before the capture point is in no packet of the capture, but its retransmission is.
    if flow["lost"] > flow["packets"] + flow["retransmitted"]:
        yield f"{where}: {flow['lost']} lost of {flow['packets']} packets"
    by_kind = sum(flow["retransmitted_by_kind"].values())
    if by_kind != flow["retransmitted"]:
        yield f"{where}: {flow['retransmitted']} retransmitted, {by_kind} by what started them"
    yield from ordered(flow, where, "start", "end")
    yield from ordered(flow, where, "rtt_min_s", "rtt_median_s", slack=1e-12)
    if whole is not None:
        lasted_s = whole[1] - whole[0]
        if flow["start"] < whole[0] - INSTANT_S or flow["end"] > whole[1] + INSTANT_S:
            yield f"{where}: from {flow['start']} to {flow['end']}, outside of the capture"
        for name in ("rtt_min_s", "rtt_median_s", "window_closed_s"):
            if (flow[name] or 0) > lasted_s + INSTANT_S:
                yield f"{where}: {name} is {flow[name]:g}, and the capture lasted {lasted_s:g} s"
    yield from _limits(flow, where)


def _limits(entry: Entry, where: str) -> Iterator[str]:
    limits = entry["limits"]
    if limits is None:
        return
    yield from ordered(limits, f"{where}.limits", "from", "until")
    shares = sum(limits["shares"].values())
    if limits["shares"] and not math.isclose(shares, 1, abs_tol=_SHARES):
        yield f"{where}.limits: the shares add up to {shares:g}"
    until = limits["from"]
    for one in limits.get("spans", ()):
        if one[0] < until - INSTANT_S or one[1] < one[0] or one[1] > limits["until"] + INSTANT_S:
            yield f"{where}.limits: the span {one} does not follow {until}"
        until = one[1]


def _transfers(transfers: Sequence[Entry], flows: Sequence[Entry]) -> Iterator[str]:
    sums: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for number, transfer in enumerate(transfers):
        where = f"transfers[{number}] ({transfer['flow']})"
        yield from ordered(transfer, where, "start", "end")
        yield from _goodput(transfer, where)
        yield from _limits(transfer, where)
        if transfer["lost"] and transfer["cause"] == "none":
            yield f"{where}: nothing dropped packets, and {transfer['lost']} were lost"
        for name in ("packets", "payload_bytes", "lost"):
            sums[transfer["flow"]][name] += transfer[name]
    for flow in flows:
        # What was lost before the capture point, or escaped it, belongs to a transfer, and is no packet of the flow.
        unseen = flow["lost"] or flow["missed_by_capture_bytes"]
        for name, summed in sums[flow["flow"]].items():
            if summed > flow[name] and (name == "lost" or not unseen):
                yield f"flow {flow['flow']}: {name} is {flow[name]}, and {summed} of its transfers"


def _goodput(transfer: Entry, where: str) -> Iterator[str]:
    lasted_s, goodput_bps = transfer["end"] - transfer["start"], transfer["goodput_bps"]
    if goodput_bps is None:
        return
    # Instants are rounded in the document: they do not give the rate of a transfer of microseconds.
    if goodput_bps * max(lasted_s - INSTANT_S, 0) > transfer["payload_bytes"] * 8 * 1.0001:
        yield f"{where}: {goodput_bps:g} bit/s, with {transfer['payload_bytes']} bytes in {lasted_s:g} s"


def _datagrams(datagrams: Entry | None) -> Iterator[str]:
    if datagrams is None:
        return
    yield from parts(datagrams, "datagrams", ("judged_packets", "packets"), ("judged_ip_bytes", "ip_bytes"))
    for flow in datagrams["flows"]:
        where = f"datagrams {flow['flow']}"
        yield from ordered(flow, where, "start", "end")
        yield from parts(flow, where, ("ce_marked", "packets"), ("ect0", "packets"), ("ect1", "packets"))
        if flow["spin"] is not None:
            yield from ordered(flow["spin"], where, "rtt_min_s", "rtt_median_s")
        for stream in flow["rtp"]:
            yield from parts(
                stream, where, ("packets", "expected"), ("lost", "expected"), ("loss_runs", "lost"),
            )  # fmt: skip
            yield from ordered(stream, where, "jitter_mean_s", "jitter_max_s", slack=1e-12)
            if stream["packets"] + stream["lost"] != stream["expected"]:
                yield f"{where}: {stream['packets']} came, {stream['lost']} were lost, of {stream['expected']}"

"""Captures of one path together: packets of both, transit times, losses and their runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from plausibility.captures import INSTANT_S, ordered, parts

Entry = Mapping[str, Any]


def found(document: Entry) -> Iterator[str]:
    """Say what cannot be in the pairs of a document."""
    pairs = [*([document["pair"]] if document.get("pair") else []), *document.get("hops", ())]
    for number, pair in enumerate(pairs):
        yield from _pair(pair, f"pair {number}", document["captures"])


def _pair(pair: Entry, where: str, captures: list[Entry]) -> Iterator[str]:
    ends = [captures[pair[end]] for end in ("from", "to")]
    lasted_s = min(end["last"] - end["first"] for end in ends)
    # A clock that drifts makes a capture a little longer.
    if pair["overlap_s"] > lasted_s * 1.001 + INSTANT_S:
        yield f"{where}: both ran for {pair['overlap_s']:g} s, and one lasted {lasted_s:g} s"
    yield from ordered(pair, where, "clock_offset_low_s", "clock_offset_s", "clock_offset_high_s", slack=1e-9)
    for direction in ("1_to_2", "2_to_1"):
        runs = sum(length * count for length, count in pair[f"loss_runs_{direction}"])
        if runs > pair[f"lost_{direction}"]:
            yield f"{where}: {runs} lost in runs, and {pair[f'lost_{direction}']} in all ({direction})"
        yield from _transit(pair[f"transit_{direction}_s"], f"{where} {direction}")
    for flow in pair["flows"]:
        of = f"{where} {flow['flow']}"
        yield from parts(flow, of, ("matched", "packets_1"), ("matched", "packets_2"), ("reordered", "matched"))
        yield from _transit(flow["transit"], of)
        if flow["direction"] == "1-to-2" and flow["lost"] > flow["packets_1"]:
            yield f"{of}: {flow['lost']} lost, of {flow['packets_1']}"


def _transit(transit: Entry | None, where: str) -> Iterator[str]:
    if transit is not None:
        yield from ordered(transit, where, "min", "p50", "p99", "max", slack=1e-12)

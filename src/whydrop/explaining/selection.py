"""Looking at some flows only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from whydrop.explaining.explained import ArrowTable, Explained
from whydrop.explaining.pair import Pair

_Found = TypeVar("_Found", bound=Explained)

_LISTED = 3


def matcher(wanted: str) -> Callable[[str], bool]:
    """A test for flow names; every word of ``wanted`` must occur, not inside a longer address or port.

    >>> matches = matcher("10.0.0.1 :443")
    >>> matches("10.0.0.1:50000 > 192.0.2.7:443"), matches("10.0.0.11:50000 > 192.0.2.7:443")
    (True, False)
    >>> matcher(":44")("10.0.0.1:50000 > 192.0.2.7:443")
    False
    """
    words = " ".join(wanted.split())
    # With a direction the filter is one phrase: a whole name, or the end of one address and the start of the other.
    phrases = [words] if ">" in words else words.split()
    patterns = [_whole(phrase) for phrase in phrases]
    return lambda flow: bool(patterns) and all(pattern.search(flow) for pattern in patterns)


def _whole(phrase: str) -> re.Pattern[str]:
    # A phrase that begins with the colon of a port stands right after an address.
    before = "" if phrase.startswith((":", ">")) else r"(?<![0-9a-zA-Z.:])"
    return re.compile(rf"{before}{re.escape(phrase)}(?![0-9a-zA-Z])", re.IGNORECASE)


def no_such_flow(wanted: str, flows: Iterable[str]) -> ValueError:
    """The error for a filter that matches nothing; it names a few flows that exist."""
    known = list(flows)
    if not known:
        return ValueError(f"no flow matches {wanted!r}: the capture holds no TCP data")
    some = ", ".join(known[:_LISTED]) + (f", and {len(known) - _LISTED} more" if len(known) > _LISTED else "")
    return ValueError(f"no flow matches {wanted!r}; the capture holds {some}")


def only_flows(found: _Found, wanted: str) -> _Found:
    """The explanation with the matching flows, their transfers, and the verdicts that concern them.

    A verdict keeps its numbers: they come from all of its flows, also those not shown. Between two captures a flow
    matches by its name at either of them.

    Raises:
        ValueError: no flow matches.
    """
    matches = matcher(wanted)
    document = dict(found.document)
    crossing = [_crossing(segment, matches) for segment in found.path_segments]
    elsewhere = {
        segment.flows[number].flow
        for segment, numbers in zip(found.path_segments, crossing, strict=True)
        for number in numbers
    }
    flows = _kept(document["flows"], lambda flow: matches(flow["flow"]) or flow["flow"] in elsewhere)
    if not flows:
        raise no_such_flow(wanted, (flow["flow"] for flow in document["flows"]))
    names = {document["flows"][number]["flow"] for number in flows}
    transfers = _kept(document["transfers"], lambda transfer: transfer["flow"] in names)
    verdicts = _kept(document["verdicts"], lambda verdict: not names.isdisjoint(verdict["flows"]))
    kept = {"flow": flows, "transfer": transfers, "verdict": verdicts}
    for singular, numbers in kept.items():
        document[f"{singular}s"] = [document[f"{singular}s"][number] for number in numbers]
    if found.pair is not None:
        document["pair"] = _with_flows(document["pair"], _crossing(found.pair, matches))
        hops = zip(document.get("hops", ()), crossing, strict=False)
        document["hops"] = [_with_flows(hop, numbers) for hop, numbers in hops]
    return type(found)(_Narrowed(found, document, kept, crossing))


def _kept(entries: list[dict[str, Any]], keep: Callable[[dict[str, Any]], bool]) -> list[int]:
    return [number for number, entry in enumerate(entries) if keep(entry)]


def _crossing(segment: Pair, matches: Callable[[str], bool]) -> list[int]:
    """The numbers of the flows between two captures that match."""
    flows = enumerate(segment.flows)
    return [number for number, flow in flows if matches(flow.flow) or matches(flow.flow_at_2 or "")]


def _with_flows(pair: dict[str, Any], numbers: list[int]) -> dict[str, Any]:
    return {**pair, "flows": [pair["flows"][number] for number in numbers]}


class _Narrowed:
    """An analysis of which some flows are left; tables refer to the entries that are left by their new numbers."""

    def __init__(
        self, whole: Explained, document: dict[str, Any], kept: dict[str, list[int]], crossing: list[list[int]]
    ) -> None:
        self._whole = whole
        self._document = document
        self._kept = kept
        self._crossing = crossing

    def document(self) -> dict[str, Any]:
        return self._document

    def table(self, name: str) -> ArrowTable:
        import polars

        if name == "crossings":
            return self._crossings()
        frame = self._whole.table(name).filter(polars.col("flow").is_in(self._kept["flow"]))
        for column, numbers in self._kept.items():
            if column in frame.columns:
                new = {old: position for position, old in enumerate(numbers)}
                number = polars.col(column).replace_strict(new, default=None, return_dtype=polars.UInt32)
                frame = frame.with_columns(number)
        if "verdict" in frame.columns:
            frame = frame.drop_nulls("verdict")
        return frame

    def _crossings(self) -> ArrowTable:
        """The flows of this table are those of each pair, which also holds what is no TCP."""
        import polars

        left = [
            {"hop": hop, "flow": old, "new": new}
            for hop, numbers in enumerate(self._crossing)
            for new, old in enumerate(numbers)
        ]
        frame = self._whole.table("crossings")
        schema = {"hop": frame.schema["hop"], "flow": frame.schema["flow"], "new": frame.schema["flow"]}
        renamed = polars.DataFrame(left, schema=schema)
        joined = frame.join(renamed, on=["hop", "flow"], how="inner", maintain_order="left")
        return joined.with_columns(flow="new").drop("new")

"""The text for people, and the words of the document: phrases of no number, and bounds below what was seen."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

Entry = Mapping[str, Any]

_NUMBER = r"\d[\d\u00a0\u202f ]*"

# What is wrong wherever it stands.
_NEVER = {
    "a number that is none": r"(?<!\()\b(?:NaN|nan|inf|None|null)\b(?!-)|-\d+(?:\.\d+)? (?:packets|bytes|s\b|%)",
    "as likely as not": r"(?<![\d.,\u00a0])1(?:\.0+)? times (?:more|less) likely",
    "a perfect score is not only perfect": r"score is only 100 %",
    "no loss has no share": r"\b(?:all 0|0 of \d+) lost",
    "no round trip": r"(?<![\d\u00a0.])0 round trips|round trip of 0 m?s|round trip of unknown",
    "nothing goes out": r"about 0 bytes",
    "a share above the whole": r"(?<![\d.,\u00a0])(?:10[1-9]|1[1-9]\d|[2-9]\d\d|\d{4,}) %",
    "one of many": r"(?<![\d.,\u00a0])1 (?:packets|losses|SYNs|connections|hosts|attempts|times)\b",
    "many of one": r"(?<![\d.,\u00a0])(?!1 )\d+ (?:packet|loss|connection)\b(?! loss)",
    "a value without a place": r"\{\w+",
    "a round trip longer than packets live": (
        r"round trip (?:is long, up to|of) (?:24[1-9]|2[5-9]\d|[3-9]\d\d|\d{4,}) s\b"
    ),
    "needless, and had to be": r"had to be retransmitted and only",
    "many losses are not few": r"(?<!\d)(?:[4-9]|\d{2,}) losses in 1 group are too few",
}
_OF = re.compile(rf"(?<![\d.,\u00a0])({_NUMBER}) of (?:the )?({_NUMBER})(?![\d.]| [kMG]?(?:bit|B)\b| (?:s|ms|bytes)\b)")
_BOUND = re.compile(r"(?:hardly exceeds|at most|no more than) ([\d.]+) ([kMG]?)bit/s")
_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}


def found(document: Entry, text: str) -> Iterator[str]:
    """Say what is said and cannot be."""
    for verdict in document["verdicts"]:
        where = f"verdict {verdict['cause']}"
        lines = [*_words(verdict)]
        for line in lines:
            yield from _line(line, where)
        yield from _nothing_lost(verdict, lines, document, where)
        yield from _bounds(verdict, document, where)
        yield from _acknowledged(verdict, document, where)
        yield from _most(verdict, where)
    for line in text.splitlines():
        yield from _line(line, "text")


def _words(verdict: Entry) -> Iterator[str]:
    yield verdict.get("sentence", "")
    yield from verdict.get("evidence", ())
    yield from (one.get("why", "") for one in verdict["against"])
    yield from (line for line in verdict.get("advice", ()) if not line.startswith("$ "))


def _line(line: str, where: str) -> Iterator[str]:
    # No-break spaces matter within numbers only.
    line = re.sub("\u00a0(?!\\d)", " ", line)
    for what, pattern in _NEVER.items():
        if (match := re.search(pattern, line)) and not line.lstrip().startswith("$ "):
            yield f"{where}: {what}: {_around(line, match)}"
    for match in _OF.finditer(line):
        part, whole = (int(re.sub(r"\D", "", group)) for group in match.groups())
        if part > whole:
            yield f"{where}: a part above its whole: {_around(line, match)}"


def _around(line: str, match: re.Match[str]) -> str:
    return json.dumps(line[max(0, match.start() - 40) : match.end() + 40].strip(), ensure_ascii=False)


def _nothing_lost(verdict: Entry, lines: list[str], document: Entry, where: str) -> Iterator[str]:
    in_all = {flow["flow"]: flow["lost"] for flow in document["flows"]}
    between = {flow["flow"]: flow["lost"] for flow in (document.get("pair") or {}).get("flows", ())}
    for line in lines:
        # what vanished before the first or behind the second of two captures was not lost between them
        flows = between if "between the captures nothing" in line else in_all
        lost = sum(flows.get(name, 0) for name in verdict["flows"])
        if lost and re.search(r"[Nn]othing was lost|no packet was lost|dropped (?:nothing|none)", line):
            yield f"{where}: {lost} packets of its flows were lost: {line[:100]!r}"


def _bounds(verdict: Entry, document: Entry, where: str) -> Iterator[str]:
    """Rates that a flow hardly exceeds, and that it did exceed."""
    got_bps = max(
        (
            transfer["goodput_bps"] or 0.0
            for transfer in document["transfers"]
            if transfer["flow"] in verdict["flows"] and transfer["lost"]
        ),
        default=0.0,
    )
    for line in verdict.get("advice", ()):
        for match in _BOUND.finditer(line):
            bound_bps = float(match[1]) * _SCALES[match[2]]
            if bound_bps < got_bps * 0.99:
                yield f"{where}: it got {got_bps:g} bit/s: {line[:140]!r}"


def _acknowledged(verdict: Entry, document: Entry, where: str) -> Iterator[str]:
    """Acknowledgments that were not captured: each flow without any has no account of its time, and no round trips."""
    flows = [flow for flow in document["flows"] if flow["flow"] in verdict["flows"]]
    unseen = all(flow["limits"] is None and flow["rtt_min_s"] is None for flow in flows)
    if flows and unseen and "that the receiver acknowledged" in " ".join(_words(verdict)):
        yield f"{where}: acknowledged, and no acknowledgment was captured"


def _most(verdict: Entry, where: str) -> Iterator[str]:
    """Most of the time that is a smaller part of it by the verdict's own share."""
    if "for most of the time" in verdict.get("sentence", "") and verdict["limited_share"] < 0.5:
        yield f"{where}: most of the time, and {verdict['limited_share']:.0%} of it is limited"

"""From findings to verdicts by the engine's reducer, in the names of the document."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from whydrop.explaining.recordings.findings import Finding
from whydrop.explaining.recordings.thresholds import LEADING_PAUSE_S

Json = dict[str, Any]


def reduce(findings: Iterable[Finding]) -> list[Json]:
    """Verdicts, what names a cause first, then by losses explained, then by time limited.

    A subject of which no finding stands, and none says that its cause is not known, has no verdict.
    """
    from whydrop import _core

    said = [finding.as_json() for finding in findings]
    verdicts = json.loads(_core.reduce(json.dumps(said)))
    return in_order(_document(_at_host(one)) for one in verdicts if one["facts"] or one["cause"] != "unknown")


# Where that is which a cause accuses, though it competed with causes of the path for the same flows.
_HOSTS = {"receiver-window": "receiver", "sender": "sender", "peer-application": "far-end"}


def _at_host(verdict: Json) -> Json:
    place, kind = verdict["place"], _HOSTS.get(verdict["cause"])
    if kind is None or place is None or place["kind"] != "path":
        return verdict
    return {**verdict, "place": {**place, "kind": kind}}


def in_order(verdicts: Iterable[Json]) -> list[Json]:
    """Sort verdicts: those that name a cause first, then by losses explained, then by time limited."""
    return sorted(verdicts, key=_order)


def _document(verdict: Json) -> Json:
    subject = verdict["subject"]
    return {
        **{name: verdict[name] for name in ("cause", "detail", "confidence", "place")},
        **{name: subject[name] for name in ("flows", "start_s", "end_s")},
        **{name: verdict[name] for name in ("lost", "explained", "limited_share")},
        "parameters": verdict["quantities"],
        "facts": verdict["facts"],
        "sources": verdict["sources"],
        "against": verdict["against"],
    }


def _place_of_trouble(verdict: Json) -> int:
    """Trouble of an end that lost packets or lasted comes before what may be taken for it; what did no harm, last."""
    troubles = [fact["values"] for fact in verdict["facts"] if fact["code"] == "end-in-trouble"]
    if not troubles:
        return 0
    return -1 if any(one["thrown_away"] or one["longest_s"] >= LEADING_PAUSE_S for one in troubles) else 1


def _order(verdict: Json) -> tuple[int, bool, bool, float, float, float]:
    return (
        _place_of_trouble(verdict),
        verdict["cause"] in ("none", "unknown"),
        verdict["cause"] == "none",
        -verdict["lost"] * verdict["explained"],
        -verdict["limited_share"],
        -verdict["confidence"],
    )

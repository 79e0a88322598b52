"""Findings, as producers of evidence hand them to the engine's reducer, and the verdicts that it makes of them.

A finding is one cause that one kind of evidence supports, about one subject: the flows concerned, and a span of time
where it is not all of the test. ``nats`` is its log-likelihood ratio against the background model, in which nothing in
particular is the matter; dependence between neighbouring samples and fitted parameters have been paid for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from whydrop.explaining.recordings.thresholds import LEADING_PAUSE_S

Json = dict[str, Any]

Value = float | int | str | bool | None | list[str] | list[float]


@dataclass(frozen=True)
class Fact:
    """One line of evidence, as data: what it says by its code, the numbers, and of captures the packets."""

    code: str
    values: Mapping[str, Value] = field(default_factory=dict)
    packets: tuple[int, ...] = ()

    @classmethod
    def of(cls, code: str, **values: Value) -> Fact:
        """The fact of this code with these values."""
        return cls(code, values)


@dataclass(frozen=True)
class Quantity:
    """A value with its 95 % interval; an end that the evidence leaves open is ``None``."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Subject:
    """The subject of a finding; findings of one subject compete. Times are seconds since the Unix epoch, UTC."""

    flows: tuple[str, ...]
    start_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True)
class Place:
    """Where on the path: ``path``, ``sender`` or ``receiver``; and in which direction: ``up``, ``down`` or ``both``."""

    kind: str
    direction: str


@dataclass(frozen=True)
class Finding:
    """One cause of one subject, and how strongly the evidence supports it."""

    subject: Subject
    place: Place | None
    cause: str
    nats: float
    detail: str | None = None
    veto: Fact | None = None
    lost: int = 0
    explained: float = 0.0
    limited_share: float = 0.0
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    source: str = "recording"


def reduce(findings: Iterable[Finding]) -> list[Json]:
    """Verdicts, what names a cause first, then by losses explained, then by time limited.

    A subject of which no finding stands, and none says that its cause is not known, has no verdict.
    """
    from whydrop import _core

    verdicts = json.loads(_core.reduce(json.dumps(list(map(asdict, findings)))))
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


_OF_VERDICT = (
    *("cause", "detail", "confidence", "place", "flows", "start_s", "end_s"),
    *("lost", "explained", "limited_share", "parameters", "facts", "sources", "against"),
)


def _document(verdict: Json) -> Json:
    named = {**verdict, **verdict["subject"], "parameters": verdict["quantities"]}
    return {name: named[name] for name in _OF_VERDICT}


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

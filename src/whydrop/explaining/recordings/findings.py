"""Findings, as producers of evidence hand them to the reducer.

A finding is one cause that one kind of evidence supports, about one subject: the flows concerned, and a span of time
where it is not all of the test. ``nats`` is its log-likelihood ratio against the background model, in which nothing in
particular is the matter; dependence between neighbouring samples and fitted parameters have been paid for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Value = float | int | str | bool | None | list[str] | list[float]


@dataclass(frozen=True)
class Fact:
    """One line of evidence, as data: what it says by its code, the numbers, and of captures the packets."""

    code: str
    values: Mapping[str, Value] = field(default_factory=dict)
    packets: tuple[int, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As the reducer takes it."""
        return {"code": self.code, "values": dict(self.values), "packets": list(self.packets)}


@dataclass(frozen=True)
class Quantity:
    """A value with its 95 % interval; an end that the evidence leaves open is ``None``."""

    value: float
    low: float | None = None
    high: float | None = None

    def as_json(self) -> dict[str, float | None]:
        """As the reducer takes it."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Subject:
    """The subject of a finding; findings of one subject compete. Times are seconds since the Unix epoch, UTC."""

    flows: tuple[str, ...]
    start_s: float | None = None
    end_s: float | None = None

    def as_json(self) -> dict[str, Any]:
        """As the reducer takes it; a recording knows no hops."""
        return {"flows": list(self.flows), "hop": None, "start_s": self.start_s, "end_s": self.end_s}


@dataclass(frozen=True)
class Place:
    """Where on the path: ``path``, ``sender`` or ``receiver``; and in which direction: ``up``, ``down`` or ``both``."""

    kind: str
    direction: str

    def as_json(self) -> dict[str, str]:
        """As the reducer takes it."""
        return {"kind": self.kind, "direction": self.direction}


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

    def as_json(self) -> dict[str, Any]:
        """As the reducer takes it."""
        return {
            "subject": self.subject.as_json(),
            "place": None if self.place is None else self.place.as_json(),
            "cause": self.cause,
            "detail": self.detail,
            "nats": self.nats,
            "veto": None if self.veto is None else self.veto.as_json(),
            "lost": self.lost,
            "explained": self.explained,
            "limited_share": self.limited_share,
            "quantities": {name: quantity.as_json() for name, quantity in self.quantities.items()},
            "facts": [fact.as_json() for fact in self.facts],
            "source": self.source,
        }

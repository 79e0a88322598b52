"""One run of a test of pScheduler, and the values that its documents hold: durations, instants, objects."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from whydrop.formats.files import nanoseconds, number

Object = dict[str, Any]

KINDS = ("throughput", "latency", "rtt", "trace")

_DURATION = re.compile(
    r"P(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)
_UNITS_S = (604_800, 86_400, 3_600, 60, 1)


@dataclass
class Run:
    """One run of a test.

    Attributes:
        kind: one of ``KINDS``.
        result: as its test writes it.
        spec: of the test; empty if unknown.
        tool: that measured.
        started_ns, ended_ns: the time of day; ``None``: unknown.
        participants: hosts that took part.
        notes: on how it was found.
    """

    kind: str
    result: Object
    spec: Object = field(default_factory=dict)
    tool: str | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    participants: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def error(self) -> str | None:
        """The reason of a failure."""
        said = self.result.get("error")
        return " ".join(str(said).split()) if said else None

    @property
    def source(self) -> str | None:
        """The host that sends, or this is about; ``None``: unknown."""
        said = self.spec.get("source")
        return str(said) if said else self.participants[0] if self.participants else None

    @property
    def destination(self) -> str | None:
        """The host at the other end; ``None``: unknown."""
        said = self.spec.get("dest")
        return str(said) if said else self.participants[1] if len(self.participants) > 1 else None

    @property
    def is_reverse(self) -> bool:
        """True if data went from the destination to the source."""
        return self.spec.get("reverse") is True

    @property
    def step_s(self) -> float:
        """The time between two values."""
        if self.kind == "throughput":
            spans = sorted(
                end - start
                for one in objects(self.result.get("intervals"))
                if (start := number(as_object(one.get("summary")).get("start"))) is not None
                and (end := number(as_object(one.get("summary")).get("end"))) is not None
                and end > start
            )
            return round(spans[len(spans) // 2], 3) or 1.0 if spans else 1.0
        return self.interval_s

    @property
    def interval_s(self) -> float:
        """The time from one probe to the next, by the test's own defaults where none is named."""
        said = self.spec.get("packet-interval") if self.kind == "latency" else seconds(self.spec.get("interval"))
        known = number(said)
        return known if known is not None and known > 0 else 0.1 if self.kind == "latency" else 1.0

    @property
    def length_s(self) -> float:
        """The length of the test."""
        if self.kind == "throughput":
            ends = [number(as_object(one.get("summary")).get("end")) for one in objects(self.result.get("intervals"))]
            return max((end for end in ends if end is not None), default=0.0)
        if self.started_ns is not None and self.ended_ns is not None and self.ended_ns > self.started_ns:
            return (self.ended_ns - self.started_ns) / 1e9
        return 0.0


def kind_of(value: Object) -> str | None:
    """The kind of a result by its keys; ``None``: it is no result."""
    if isinstance(value.get("intervals"), list) and "start" not in value:
        return "throughput"
    if isinstance(value.get("roundtrips"), list):
        return "rtt"
    if isinstance(value.get("paths"), list) and "succeeded" in value:
        return "trace"
    if isinstance(value.get("histogram-latency"), dict) or isinstance(value.get("raw-packets"), list):
        return "latency"
    return None


def instant_ns(said: Any) -> int | None:
    """A time of day in ISO 8601, or seconds since the epoch, in nanoseconds.

    >>> instant_ns("2019-09-10T14:55:35Z"), instant_ns(5), instant_ns("soon")
    (1568127335000000000, 5000000000, None)
    """
    if not isinstance(said, str):
        return nanoseconds(said)
    try:
        moment = datetime.fromisoformat(said)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000
    except (ValueError, OverflowError):
        return None


def seconds(said: Any) -> float | None:
    """A duration in ISO 8601 in seconds; years and months are none.

    >>> seconds("PT0.0214S"), seconds("PT1M30S"), seconds("P1D"), seconds("P"), seconds("20ms"), seconds(None)
    (0.0214, 90.0, 86400.0, None, None, None)
    """
    found = _DURATION.fullmatch(said) if isinstance(said, str) and len(said) < 100 else None
    if found is None or not any(found.groups()):
        return None
    return sum(float(value) * unit for value, unit in zip(found.groups(), _UNITS_S, strict=True) if value)


def as_object(value: Any) -> Object:
    """An object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[Object]:
    """The objects in a list; none of anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

"""The outcome of a trace: between which two hops the queue is, the counts of each hop, and this in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from whydrop.text.quantities import count, duration, plural

Finding = Literal["ahead", "behind", "unclear", "silent"]
Evidence = Literal["loss", "delay"]

_FINDINGS = ("ahead", "behind", "unclear", "silent")
_MOST_HOPS = 255


@dataclass(frozen=True)
class Hop:
    """A hop, and what became of packets with a time to live that ended there.

    Attributes:
        hop: its number: the time to live that ends at it.
        address: of the router, or the host; ``None``: it never answered.
        is_host: the host at the end of the path, which answers echo requests.
        in_bursts_s: the answer time of each packet at the end of a burst, in seconds; ``None``: no answer.
        alone_s: the same of the packets without a burst.
        finding: ``ahead`` of the queue, ``behind`` it, ``unclear``, or ``silent``.
        evidence: of this finding.
    """

    hop: int
    address: str | None
    is_host: bool = False
    in_bursts_s: tuple[float | None, ...] = ()
    alone_s: tuple[float | None, ...] = ()
    finding: Finding = "silent"
    evidence: tuple[Evidence, ...] = ()

    @property
    def lost_in_bursts(self) -> int:
        """Packets at the end of a burst without an answer."""
        return sum(one is None for one in self.in_bursts_s)

    @property
    def lost_alone(self) -> int:
        """Packets without a burst that got no answer."""
        return sum(one is None for one in self.alone_s)

    def delay_in_bursts_s(self) -> float | None:
        """The median answer time at the end of a burst."""
        return _median(self.in_bursts_s)

    def delay_alone_s(self) -> float | None:
        """The median answer time without a burst."""
        return _median(self.alone_s)

    def __str__(self) -> str:
        return f"the host ({self.address})" if self.is_host else f"hop {self.hop} ({self.address})"


def _median(times_s: tuple[float | None, ...]) -> float | None:
    known = [one for one in times_s if one is not None]
    return median(known) if known else None


@dataclass(frozen=True)
class Place:
    """Where on the path the queue is.

    Attributes:
        after_hop: the last hop that is ahead of the queue; 0: this host; ``None``: unknown.
        before_hop: the first hop that is behind it; ``None``: unknown.
        at_sender: the queue is that of this host's own interface.
        evidence: ``loss``, ``delay``.
        reason: why the place is not known, or only in part.
        bursts: bursts that were sent.
        packets: packets of each burst.
        hops: the hops as far as the host.
    """

    after_hop: int | None = None
    before_hop: int | None = None
    at_sender: bool = False
    evidence: tuple[Evidence, ...] = ()
    reason: str | None = None
    bursts: int = 0
    packets: int = 0
    hops: tuple[Hop, ...] = ()

    @property
    def hop(self) -> int | None:
        """The hop with the queue at its egress; 0: this host; ``None``: unknown, or one of several."""
        if self.at_sender:
            return 0
        if self.after_hop is None or self.before_hop != self.after_hop + 1:
            return None
        return self.after_hop

    @property
    def is_narrow(self) -> bool:
        """True if more bursts would not narrow the place: only hops that never answer are between its ends."""
        after, before = self.after_hop, self.before_hop
        if after is None or before is None:
            return False
        return all(one.finding == "silent" for one in self.hops if after < one.hop < before)

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        hops = [
            {
                **dataclasses.asdict(one),
                "lost_in_bursts": one.lost_in_bursts,
                "lost_alone": one.lost_alone,
                "delay_in_bursts_s": one.delay_in_bursts_s(),
                "delay_alone_s": one.delay_alone_s(),
            }
            for one in self.hops
        ]
        return {"hop": self.hop, **dataclasses.asdict(self), "hops": hops}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Place:
        """The place that a recording keeps.

        Raises:
            ValueError: it is no such document.
        """
        try:
            return cls(
                after_hop=_hop(document["after_hop"]),
                before_hop=_hop(document["before_hop"]),
                at_sender=document["at_sender"] is True,
                evidence=_evidence(document["evidence"]),
                reason=None if document["reason"] is None else str(document["reason"]),
                bursts=int(document["bursts"]),
                packets=int(document["packets"]),
                hops=tuple(map(_of_hop, document["hops"][:_MOST_HOPS])),
            )
        except (KeyError, TypeError, ValueError) as reason:
            raise ValueError(f"not the place of a queue: {reason!r}") from None

    def sentences(self) -> list[str]:
        """The place for a person."""
        if self.at_sender:
            return ["The queue is at hop 0: this host's own interface."]
        if self.after_hop is None or self.before_hop is None:
            return [f"The hop of the queue is unknown: {self.reason}."]
        near, far = self._named(self.after_hop), self._named(self.before_hop)
        if self.hop is None:
            between = f"{plural(self.before_hop - self.after_hop, 'possible place')}"
            first = f"The queue is between {near} and {far}: {between}, as {self.reason}."
        else:
            first = f"The queue is between {near} and {far}: at the egress of {_short(near)}, or in a switch behind it."
        return [first, *self._seen()]

    def _named(self, hop: int) -> str:
        return next((str(one) for one in self.hops if one.hop == hop), f"hop {hop}") if hop else "this host"

    def _seen(self) -> list[str]:
        """The counts of the two hops around the queue."""
        ahead = [one for one in self.hops if one.hop == self.after_hop]
        behind = next((one for one in self.hops if one.hop == self.before_hop), None)
        if behind is None:
            return []
        said = []
        if "loss" in self.evidence:
            lost = " and ".join(
                f"{count(one.lost_in_bursts)} of {count(len(one.in_bursts_s))} at {_short(str(one))}"
                for one in [behind, *ahead]
            )
            alone = sum(one.lost_alone for one in [behind, *ahead])
            said.append(f"Packets that ended there were lost behind {plural(self.bursts, 'burst')}: {lost}; "
                        f"{count(alone)} without a burst.")  # fmt: skip
        times = [(one.delay_in_bursts_s(), one.delay_alone_s(), one) for one in [behind, *ahead]]
        if "delay" in self.evidence:
            times_said = " and ".join(
                f"{duration(loaded)} at {_short(str(one))} ({duration(alone)} without a burst)"
                for loaded, alone, one in times
                if loaded is not None and alone is not None
            )
            said.append(f"Answers behind a burst took {times_said}.")
        return said


def _short(name: str) -> str:
    return name.partition(" (")[0]


def _hop(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_HOPS:
        raise ValueError(f"{value!r} is no hop")
    return value


def _evidence(values: Any) -> tuple[Evidence, ...]:
    known: tuple[Evidence, ...] = ("loss", "delay")
    return tuple(one for one in known if one in values)


def _of_hop(document: Mapping[str, Any]) -> Hop:
    number, finding = _hop(document["hop"]), document["finding"]
    if number is None or finding not in _FINDINGS:
        raise ValueError(f"hop {number} with finding {finding!r}")
    in_bursts_s, alone_s = (
        tuple(None if one is None else float(one) for one in document[name]) for name in ("in_bursts_s", "alone_s")
    )
    address = None if document["address"] is None else str(document["address"])
    is_host, evidence = document["is_host"] is True, _evidence(document["evidence"])
    return Hop(number, address, is_host, in_bursts_s, alone_s, finding, evidence)

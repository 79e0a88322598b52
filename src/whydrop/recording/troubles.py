"""Faults of a test's own ends: an end that stood still, a responder with a full receive buffer.

What was lost then was not lost on the path. Each host's metadata of a recording have them under ``troubles``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from whydrop.text.quantities import duration, plural

# Kernels count what a receive buffer lost with 32 bits.
_MOST_COUNTED = 1 << 32

# The fate of a probe that an end itself lost, or did not answer for its limits.
AT_FAR_END = "far-end"
# Not of the path: what was not sent, and what an end itself lost.
NOT_OF_PATH = ("not-sent", AT_FAR_END)


@dataclass(frozen=True)
class Trouble:
    """One span of time.

    Attributes:
        host: the responder's name; ``None`` of the host that measured.
        kind: ``pause`` (its process did not run) or ``overflow`` (its receive buffer was full).
        start_ns, end_ns: in the clock of the host that measured.
        count: datagrams that were thrown away, of whatever test.
    """

    host: str | None
    kind: str
    start_ns: int
    end_ns: int
    count: int = 0

    def as_json(self) -> dict[str, Any]:
        """As the metadata have it."""
        return {"kind": self.kind, "start_ns": self.start_ns, "end_ns": self.end_ns, "count": self.count}

    @property
    def length_s(self) -> float:
        """How long it lasted."""
        return (self.end_ns - self.start_ns) / 1e9


def of_metadata(metadata: Mapping[str, Any]) -> list[Trouble]:
    """All of a recording, within its time; what is none of ours in it is passed over."""
    hosts = metadata.get("hosts")
    began_ns, over_ns = _whole(metadata.get("started_ns")), _whole(metadata.get("ended_ns"))
    found = []
    for name, host in hosts.items() if isinstance(hosts, Mapping) else ():
        told = host.get("troubles") if isinstance(host, Mapping) else None
        for one in told if isinstance(told, list) else ():
            if isinstance(one, Mapping) and one.get("kind") in ("pause", "overflow"):
                start_ns, end_ns, lost = (_whole(one.get(key)) for key in ("start_ns", "end_ns", "count"))
                if start_ns is None or end_ns is None or lost is None or lost >= _MOST_COUNTED:
                    continue
                start_ns = start_ns if began_ns is None else max(start_ns, began_ns)
                end_ns = end_ns if over_ns is None else min(end_ns, over_ns)
                if start_ns <= end_ns:
                    found.append(Trouble(None if name == "local" else str(name), one["kind"], start_ns, end_ns, lost))
    return found


def _whole(told: Any) -> int | None:
    return told if isinstance(told, int) and not isinstance(told, bool) and 0 <= told < 1 << 63 else None


def in_words(troubles: list[Trouble]) -> list[str]:
    """One sentence for each end.

    >>> in_words([Trouble("far", "pause", 0, 10**9)])
    ['the responder far stood still for 1.00\\xa0s: the path did not cause this']
    """
    found = []
    for host in dict.fromkeys(one.host for one in troubles):
        own = [one for one in troubles if one.host == host]
        pauses = [one for one in own if one.kind == "pause"]
        lost = sum(one.count for one in own if one.kind == "overflow")
        if pauses or lost:
            found.append(in_one_sentence(host, len(pauses), sum(one.length_s for one in pauses), lost))
    return found


def in_one_sentence(host: str | None, pauses: int, paused_s: float, lost: int) -> str:
    """The troubles of one end, as `run`, `show` and `explain` say them.

    >>> in_one_sentence(None, 2, 0.5, 0)
    'this host stood still for 500\\xa0ms in 2 pauses: the path did not cause this'
    """
    did = []
    if pauses:
        times = "" if pauses == 1 else f" in {plural(pauses, 'pause')}"
        did.append(f"stood still for {duration(paused_s)}{times}")
    if lost:
        did.append(f"dropped {plural(lost, 'datagram')}, as its receive buffer was full")
    who = "this host" if host is None else f"the responder {host}"
    return f"{who} {' and '.join(did)}: the path did not cause this"


def withheld_in_words(flows: Iterable[tuple[str, Any]]) -> list[str]:
    """Probes that a responder's limits left unanswered, from flows and their facts.

    >>> withheld_in_words([("Ping", {"answers_withheld_by_responders_limits": "3"}), ("Other", {})])
    ["the responder's limits left 3 probes of Ping without an answer: the path did not lose them"]
    """
    found = []
    for name, told in flows:
        many = told.get("answers_withheld_by_responders_limits") if isinstance(told, Mapping) else None
        if isinstance(many, str) and many.isdecimal() and len(many) < 19:
            probes = f"{plural(int(many), 'probe')} of {name}"
            found.append(f"the responder's limits left {probes} without an answer: the path did not lose them")
    return found


class Fates:
    """Probes with the fates of those corrected that an end itself is known to have lost."""

    def __init__(
        self, troubles: list[Trouble], hosts: Mapping[int, str | None], facts: Mapping[int, Mapping[str, Any]]
    ):
        """Take what is known.

        Args:
            troubles: of all ends.
            hosts: of each flow of probes, the responder's name.
            facts: the runner's facts on each flow of probes.
        """
        self._overflows = [one for one in troubles if one.kind == "overflow" and one.host is not None]
        self._hosts = hosts
        self._withheld = {flow: _ranges(told.get("probes_without_answer_by_limits")) for flow, told in facts.items()}

    def told(self, probes: pl.DataFrame) -> pl.DataFrame:
        """The table with the fates as they are known now."""
        at_far_end = pl.lit(value=False)
        for flow, ranges in self._withheld.items():
            for first, last in ranges:
                of_range = (pl.col("flow") == flow) & pl.col("sequence").is_between(first, last)
                at_far_end |= of_range & (pl.col("fate") == "lost-down")
        for overflow in self._overflows:
            at_far_end |= self._lost_in(probes, overflow)
        return probes.with_columns(
            fate=pl.when(at_far_end.fill_null(value=False)).then(pl.lit(AT_FAR_END)).otherwise("fate")
        )

    def _lost_in(self, probes: pl.DataFrame, overflow: Trouble) -> pl.Expr:
        """The probes that were lost upwards while a buffer was full, and no more of them than it lost."""
        flows = [flow for flow, host in self._hosts.items() if host == overflow.host]
        own = probes.filter(pl.col("flow").is_in(flows))
        # A probe arrives at most a round trip after it was sent.
        longest_ns = own["rtt_ns"].max()
        longest_ns = longest_ns if isinstance(longest_ns, int) else 0
        within = pl.col("sent_ns").is_between(overflow.start_ns - longest_ns, overflow.end_ns)
        lost = own.filter(within & (pl.col("fate") == "lost-up")).sort("sent_ns").head(overflow.count)
        if lost.is_empty():
            return pl.lit(value=False)
        keys = lost.select(pl.struct("flow", "sequence")).to_series()
        return pl.struct("flow", "sequence").is_in(keys.implode())


def _ranges(told: Any) -> list[tuple[int, int]]:
    found = []
    for part in told.split(",")[:1000] if isinstance(told, str) else ():
        first, _, last = part.partition("-")
        if first.isdecimal() and last.isdecimal() and len(part) < 40:
            found.append((int(first), int(last)))
    return found

"""Outcome of each probe, while answers, late answers and duplicates of them come in."""

from __future__ import annotations

from dataclasses import dataclass

from whydrop.measure.runners.parsing.base import Parser

# An answered probe waits this long for a duplicate before its row is final.
_DUPLICATES_WITHIN_NS = 500_000_000


@dataclass
class _Probe:
    sequence: int
    sent_ns: int | None = None
    received_ns: int | None = None
    rtt_ns: int | None = None
    payload_bytes: int | None = None
    lost: str | None = None
    duplicates: int = 0
    reordered: bool = False
    reported_ns: int = 0


class ProbeBook:
    """Rows of table ``probes`` for programs that print one line for each answer.

    A program that prints "no answer yet" may still print the answer: a probe is lost only when no answer came within
    twice the timeout, or by the end. An answer that took longer than the timeout is ``late``.

    Args:
        parser: takes the rows.
        interval_ns: from one probe to the next.
        timeout_ns: after which an answer is late.
        first: the sequence number that the program begins with; probes before the first one reported count too.
    """

    def __init__(self, parser: Parser, *, interval_ns: int, timeout_ns: int, first: int) -> None:
        self._parser = parser
        self._interval_ns = interval_ns
        self._timeout_ns = timeout_ns
        self._next = first
        self._highest = first - 1
        self._highest_answered = first - 1
        self._open: dict[int, _Probe] = {}
        self._started_ns: int | None = None
        self._first = first

    # Programs count in 16 bits and start over; this follows them.
    def unwrapped(self, sequence: int, bits: int = 16) -> int:
        """The sequence number nearest to the highest so far that ends in these bits."""
        size = 1 << bits
        candidate = self._highest - (self._highest - sequence) % size
        return candidate + size if self._highest - candidate > size // 2 else candidate

    def answered(
        self, sequence: int, *, received_ns: int, rtt_ns: int, payload_bytes: int | None = None, duplicate: bool = False
    ) -> None:
        """An answer came."""
        probe = self._probe(sequence, received_ns)
        if probe is None:
            self._count("answers_after_their_probe_was_given_up")
            return
        if probe.rtt_ns is not None:
            probe.duplicates += 1
            return
        probe.received_ns, probe.rtt_ns, probe.payload_bytes = received_ns, rtt_ns, payload_bytes
        probe.sent_ns = received_ns - rtt_ns
        probe.duplicates += duplicate
        probe.lost = None
        probe.reordered = sequence < self._highest_answered
        self._highest_answered = max(self._highest_answered, sequence)
        if self._started_ns is None:
            self._started_ns = probe.sent_ns - (sequence - self._first) * self._interval_ns

    def missed(self, sequence: int, *, sent_ns: int | None, now_ns: int, fate: str = "lost") -> None:
        """No answer, or an error message instead of one; an answer may still come."""
        probe = self._probe(sequence, now_ns)
        if probe is None or probe.rtt_ns is not None:
            return
        # "no answer yet" says less than an error that names the direction
        if probe.lost in (None, "lost"):
            probe.lost = fate
        if probe.sent_ns is None:
            probe.sent_ns = sent_ns

    def expect(self, count: int, now_ns: int) -> None:
        """So many probes were sent in all, also those that nothing was said about."""
        self._probe(self._first + count - 1, now_ns)

    def settle(self, now_ns: int, *, everything: bool = False) -> None:
        """Write the rows of probes with a known fate."""
        while self._next <= self._highest:
            probe = self._open.get(self._next)
            if probe is None:
                probe = self._open[self._next] = _Probe(self._next, reported_ns=now_ns)
            wait_ns = _DUPLICATES_WITHIN_NS if probe.rtt_ns is not None else 2 * self._timeout_ns
            if not everything and now_ns - probe.reported_ns < wait_ns:
                return
            self._write(self._open.pop(self._next))
            self._next += 1

    def _probe(self, sequence: int, now_ns: int) -> _Probe | None:
        """The probe, unless its row was written; a number from nowhere does not make a million of them."""
        if sequence < self._next or sequence > self._highest + 100_000:
            return None
        for skipped in range(self._highest + 1, sequence + 1):
            self._open[skipped] = _Probe(skipped, reported_ns=now_ns)
        self._highest = max(self._highest, sequence)
        probe = self._open.setdefault(sequence, _Probe(sequence, reported_ns=now_ns))
        probe.reported_ns = now_ns
        return probe

    def _write(self, probe: _Probe) -> None:
        sent_ns = probe.sent_ns
        if sent_ns is None and self._started_ns is not None:
            sent_ns = self._started_ns + (probe.sequence - self._first) * self._interval_ns
        self._parser.rows.add(
            "probes",
            flow=self._parser.flow,
            sequence=probe.sequence,
            sent_ns=sent_ns,
            received_ns=probe.received_ns,
            rtt_ns=probe.rtt_ns,
            fate=self._fate(probe),
            duplicates=probe.duplicates,
            reordered=probe.reordered,
            payload_bytes=probe.payload_bytes,
        )

    def _fate(self, probe: _Probe) -> str:
        if probe.rtt_ns is None:
            return probe.lost or "lost"
        return "late" if probe.rtt_ns > self._timeout_ns else "ok"

    def _count(self, what: str) -> None:
        self._parser.facts[what] = self._parser.facts.get(what, 0) + 1

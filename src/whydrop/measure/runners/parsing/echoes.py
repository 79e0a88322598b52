"""Output of ping (iputils, BusyBox, BSD and macOS, in any language) and of fping (versions 3 to 5, for one target)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from whydrop.measure.runners.parsing.base import Parser, number, stamped_ns, whole

# An answered probe waits this long for a duplicate before its row is final.
_DUPLICATES_WITHIN_NS = 500_000_000

_STAMP = re.compile(r"^\[(\d+\.\d+)\]\s+")
# BusyBox says seq, others icmp_seq; BSD's time-outs have a space, and errors of old iputils a space as well.
_SEQUENCE = re.compile(r"\b(?:icmp_)?seq[= ](\d{1,9})\b")
# Words differ with the language (time=, Zeit=, temps=, tiempo=), "time<1 ms" is an upper bound.
_TIME = re.compile(r"\b\w+[=<]\s?(\d+(?:[.,]\d+)?)\s?ms\b")
_BYTES = re.compile(r"^(\d{1,6}) \w+ ")
# Of ICMP, which ping counts in and we do not.
_HEADER_BYTES = 8
_ERROR = re.compile(r"^From (?P<by>\S+)(?: \([^)]*\))?:?\s+icmp_seq[= ]\d+ (?P<what>.+)$")
_BSD_ERROR = re.compile(r"^\d+ bytes from (?P<by>[^:]+): (?P<what>[A-Z][A-Za-z ]+)$")
_UNANSWERED = ("no answer yet", "request timeout", "request timed out")
_COUNTS = re.compile(r"(\d+) packets transmitted, (\d+) (?:packets )?received")
# What is said about the whole, and needs no place among the values.
_ABOUT = ("PING ", "--- ", "rtt ", "round-trip ", "Vr HL TOS", " 4  5  ")

_FPING_ANSWER = re.compile(
    r"""^(?:\[(?P<stamp>\d+\.\d+)\]\s+)?(?P<host>\S+)\s+:\s+\[(?P<sequence>\d{1,9})\],\s+
        (?:\d{1,6}\sbytes,\s+(?P<rtt>\d+(?:[.,]\d+)?(?:e[-+]?\d+)?)\sms|(?P<lost>timed\sout))""",
    re.VERBOSE,
)
_FPING_DUPLICATE = re.compile(r"\s:\s+duplicate for \[(\d{1,9})\], (?:(\d+) bytes, )?(\d+(?:[.,]\d+)?) ms")
_FPING_ERROR = re.compile(r"^ICMP (?P<what>.+?) from (?P<by>\S+) for ICMP Echo sent to ")
_FPING_TOTAL = re.compile(r"xmt/rcv/%loss = (\d+)/(\d+)/")


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


class EchoParser(Parser):
    """Rows of table ``probes``, while answers, late answers and duplicates of them come in.

    A program that prints "no answer yet" may still print the answer: a probe is lost only when no answer came within
    twice the timeout, or by the end. An answer that took longer than the timeout is ``late``.

    An ICMP error in answer to a probe (unreachable, filtered, time to live exceeded) means that the probe was
    lost upwards. The facts count the senders of such errors and their reasons.

    Args:
        flow: number of the flow.
        interval_ns: from one probe to the next.
        timeout_ns: after which an answer is late.
    """

    # The sequence number that the program begins with; probes before the first one reported count too.
    first = 0

    def __init__(self, flow: int, *, interval_ns: int, timeout_ns: int) -> None:
        super().__init__(flow)
        self._interval_ns = interval_ns
        self._timeout_ns = timeout_ns
        self._open: dict[int, _Probe] = {}
        self._started_ns: int | None = None
        self._begin_at(self.first)

    def settle(self, now_ns: int, /, *, everything: bool = False) -> None:
        """Write the rows of probes with a known fate, and of those that were waited for long enough."""
        while self._next <= self._highest:
            probe = self._open.get(self._next)
            if probe is None:
                probe = self._open[self._next] = _Probe(self._next, reported_ns=now_ns)
            wait_ns = _DUPLICATES_WITHIN_NS if probe.rtt_ns is not None else 2 * self._timeout_ns
            if not everything and now_ns - probe.reported_ns < wait_ns:
                return
            self._write(self._open.pop(self._next))
            self._next += 1

    def end(self, now_ns: int, /) -> None:
        """All that were not answered are lost."""
        self.settle(now_ns, everything=True)

    def _begin_at(self, first: int) -> None:
        self._first = self._next = first
        self._highest = self._highest_answered = first - 1

    def _unwrapped(self, sequence: int, bits: int = 16) -> int:
        """The sequence number nearest to the highest so far that ends in these bits: programs print no more."""
        size = 1 << bits
        candidate = self._highest - (self._highest - sequence) % size
        return candidate + size if self._highest - candidate > size // 2 else candidate

    def _answered(
        self, sequence: int, received_ns: int, rtt_ms: float, *, payload_bytes: int | None = None, twice: bool = False
    ) -> None:
        probe = self._probe(sequence, received_ns)
        if probe is None:
            late = "answers_after_their_probe_was_given_up"
            self.facts[late] = self.facts.get(late, 0) + 1
            return
        if probe.rtt_ns is not None:
            probe.duplicates += 1
            return
        probe.received_ns, probe.rtt_ns, probe.payload_bytes = received_ns, whole(rtt_ms * 1e6) or 0, payload_bytes
        probe.sent_ns = received_ns - probe.rtt_ns
        probe.duplicates += twice
        probe.lost = None
        probe.reordered = sequence < self._highest_answered
        self._highest_answered = max(self._highest_answered, sequence)
        if self._started_ns is None:
            self._started_ns = probe.sent_ns - (sequence - self._first) * self._interval_ns

    def _missed(self, sequence: int, *, sent_ns: int | None, now_ns: int, fate: str = "lost") -> None:
        """No answer, or an error message instead of one; an answer may still come."""
        probe = self._probe(sequence, now_ns)
        if probe is None or probe.rtt_ns is not None:
            return
        # "no answer yet" says less than an error that names the direction
        if probe.lost in (None, "lost"):
            probe.lost = fate
        if probe.sent_ns is None:
            probe.sent_ns = sent_ns

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
        in_time = "ok" if probe.rtt_ns is not None and probe.rtt_ns <= self._timeout_ns else "late"
        self.rows.add(
            "probes",
            flow=self.flow,
            sequence=probe.sequence,
            sent_ns=sent_ns,
            received_ns=probe.received_ns,
            rtt_ns=probe.rtt_ns,
            fate=probe.lost or "lost" if probe.rtt_ns is None else in_time,
            duplicates=probe.duplicates,
            reordered=probe.reordered,
            payload_bytes=probe.payload_bytes,
        )

    def _count_error(self, error: re.Match[str]) -> None:
        errors = self.facts.setdefault("icmp_errors", {})
        # from hostile or odd answers there may be any number of kinds
        key = f"{error['what'].strip()[:80]} (from {error['by'][:60]})"
        if key in errors or len(errors) < 50:
            errors[key] = errors.get(key, 0) + 1

    def _count_all(self, counts: re.Match[str]) -> int:
        """Facts from the summary; how many probes were sent."""
        sent, received = int(counts[1][:18]), int(counts[2][:18])
        self.facts |= {"probes_sent": sent, "answers_received": received}
        return sent


class PingParser(EchoParser):
    """All the pings, with stamps (``-D``) or without."""

    # Of iputils; a 0 that comes, of BSD and BusyBox, is understood anyway.
    first = 1
    _has_begun = False

    def line(self, text: str, arrived_ns: int, /) -> None:
        """An answer, its absence, an error instead of it, or the summary."""
        stamp = _STAMP.match(text)
        text = text[stamp.end() :] if stamp else text
        now_ns = stamped_ns(stamp[1] if stamp else None, arrived_ns)
        sequence = _SEQUENCE.search(text)
        if counts := _COUNTS.search(text):
            sent = self._count_all(counts)
            if sent > 0:
                self._has_begun = True
                # the last ones, where no answer came, are named nowhere else
                self._probe(self._first + sent - 1, now_ns)
        elif sequence is not None:
            self._of_probe(int(sequence[1]), text, now_ns)
        elif error := _BSD_ERROR.match(text):
            self._count_error(error)
        elif text.strip() and not text.startswith(_ABOUT):
            self.not_understood(text)

    def error_line(self, text: str, _arrived_ns: int, /) -> None:
        """Complaints such as an unknown host."""
        for prefix in ("ping: ", "ping6: "):
            if text.startswith(prefix) and "WARNING" not in text.upper():
                self.failure = text.removeprefix(prefix).strip()

    def _of_probe(self, sequence: int, text: str, now_ns: int) -> None:
        if sequence == 0 and not self._has_begun:
            self._begin_at(0)
        self._has_begun = True
        sequence = self._unwrapped(sequence)
        if (time := _TIME.search(text)) and (rtt_ms := number(time[1])) is not None:
            size = _BYTES.match(text)
            payload_bytes = int(size[1]) - _HEADER_BYTES if size else None
            self._answered(sequence, now_ns, rtt_ms, payload_bytes=payload_bytes, twice="(DUP!)" in text)
        elif any(words in text.lower() for words in _UNANSWERED):
            self._missed(sequence, sent_ns=now_ns - self._interval_ns, now_ns=now_ns)
        elif error := _ERROR.match(text):
            self._count_error(error)
            self._missed(sequence, sent_ns=None, now_ns=now_ns, fate="lost-up")
        else:
            # A line cut short, or of a language that we do not know: nothing is said of the probe by it.
            self.not_understood(text)


class FpingParser(EchoParser):
    """fping in count mode (``-D -c``); it gives up waiting when its own time-out is over, and says "timed out".

    Args:
        payload_bytes: that it was asked to send; what it prints includes headers, which ones depends on the version.
    """

    def __init__(self, flow: int, *, interval_ns: int, timeout_ns: int, payload_bytes: int | None = None) -> None:
        super().__init__(flow, interval_ns=interval_ns, timeout_ns=timeout_ns)
        self._payload_bytes = payload_bytes
        self._errors_pending = 0

    def line(self, text: str, arrived_ns: int, /) -> None:
        """An answer, a time-out, or one of the messages that some versions print here instead of on standard error."""
        match = _FPING_ANSWER.match(text)
        if match is None:
            self._other(text, arrived_ns)
            return
        now_ns = stamped_ns(match["stamp"], arrived_ns)
        sequence = self._unwrapped(int(match["sequence"]))
        if match["lost"]:
            # fping does not say which probe an error answers; it came for one that now timed out
            fate = "lost-up" if self._errors_pending else "lost"
            self._errors_pending = max(0, self._errors_pending - 1)
            self._missed(sequence, sent_ns=now_ns - self._timeout_ns, now_ns=now_ns, fate=fate)
        elif (rtt_ms := number(match["rtt"])) is not None:
            self._answered(sequence, now_ns, rtt_ms, payload_bytes=self._payload_bytes)

    def error_line(self, text: str, arrived_ns: int, /) -> None:
        """Duplicates, ICMP errors, the summary and complaints come on standard error."""
        if text.strip() and not self._other(text, arrived_ns):
            message = text.removeprefix("fping: ").strip()
            if self.failure is None and (text.startswith("fping: ") or "not known" in text or "failed" in text):
                self.failure = message

    def _other(self, text: str, arrived_ns: int) -> bool:
        """True if it was one of the lines that are not answers."""
        if match := _FPING_DUPLICATE.search(text):
            sequence = self._unwrapped(int(match[1]))
            self._answered(sequence, arrived_ns, number(match[3]) or 0, twice=True)
        elif match := _FPING_ERROR.match(text):
            self._errors_pending += 1
            self._count_error(match)
        elif match := _FPING_TOTAL.search(text):
            self._count_all(match)
        elif text.lstrip().startswith("["):
            self.not_understood(text)
        else:
            return False
        return True

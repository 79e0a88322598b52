"""Output of the many pings: iputils, BusyBox, BSD and macOS, with stamps (``-D``) or without, in any language."""

from __future__ import annotations

import re

from whydrop.measure.runners.parsing.base import Parser, epoch_ns, number, whole
from whydrop.measure.runners.parsing.probes import ProbeBook

_STAMP = re.compile(r"^\[(\d+\.\d+)\]\s+")
# BusyBox says seq, others icmp_seq; BSD's time-outs have a space, and errors of old iputils a space as well.
_SEQUENCE = re.compile(r"\b(?:icmp_)?seq[= ](\d{1,9})\b")
# Words differ with the language (time=, Zeit=, temps=, tiempo=), "time<1 ms" is an upper bound.
_TIME = re.compile(r"\b\w+[=<]\s?(\d+(?:[.,]\d+)?)\s?ms\b")
_BYTES = re.compile(r"^(\d{1,6}) \w+ ")
_ERROR = re.compile(r"^From (?P<by>\S+)(?: \([^)]*\))?:?\s+icmp_seq[= ]\d+ (?P<what>.+)$")
_BSD_ERROR = re.compile(r"^\d+ bytes from (?P<by>[^:]+): (?P<what>[A-Z][A-Za-z ]+)$")
_UNANSWERED = ("no answer yet", "request timeout", "request timed out")
_COUNTS = re.compile(r"(\d+) packets transmitted, (\d+) (?:packets )?received")
# What is said about the whole, and needs no place among the values.
_ABOUT = ("PING ", "--- ", "rtt ", "round-trip ", "Vr HL TOS", " 4  5  ")


class PingParser(Parser):
    """Rows of table ``probes``.

    An ICMP error in answer to a probe (unreachable, filtered, time to live exceeded) means that the probe was
    lost upwards. The facts count the senders of such errors and their reasons.

    Args:
        flow: number of the flow.
        interval_ns: from one probe to the next.
        timeout_ns: after which an answer is late.
        first: the first sequence number: 1 of iputils, 0 of BSD and BusyBox; a 0 that comes is understood anyway.
        header_bytes: of ICMP, which ping counts in and we do not.
    """

    def __init__(self, flow: int, *, interval_ns: int, timeout_ns: int, first: int = 1, header_bytes: int = 8) -> None:
        super().__init__(flow)
        self._interval_ns = interval_ns
        self._timeout_ns = timeout_ns
        self._header_bytes = header_bytes
        self._first = first
        self._book: ProbeBook | None = None

    def line(self, text: str, arrived_ns: int, /) -> None:
        """An answer, its absence, an error instead of it, or the summary."""
        stamp = _STAMP.match(text)
        text = text[stamp.end() :] if stamp else text
        # the time that ping stamped, unless it is wildly off ours: then lines were garbled
        stamp_ns = epoch_ns(stamp[1]) if stamp else None
        now_ns = stamp_ns if stamp_ns is not None and abs(stamp_ns - arrived_ns) < 60e9 else arrived_ns
        sequence = _SEQUENCE.search(text)
        if counts := _COUNTS.search(text):
            self._counts(int(counts[1][:18]), int(counts[2][:18]), now_ns)
        elif sequence is not None:
            self._probe(int(sequence[1]), text, now_ns)
        elif error := _BSD_ERROR.match(text):
            self._count_error(error["what"], error["by"])
        elif text.strip() and not text.startswith(_ABOUT):
            self.not_understood(text)

    def error_line(self, text: str, _arrived_ns: int, /) -> None:
        """Complaints such as an unknown host."""
        for prefix in ("ping: ", "ping6: "):
            if text.startswith(prefix) and "WARNING" not in text.upper():
                self.failure = text.removeprefix(prefix).strip()

    def settle(self, now_ns: int, /) -> None:
        """Count probes as lost when their time is over."""
        if self._book is not None:
            self._book.settle(now_ns)

    def end(self, now_ns: int, /) -> None:
        """All that were not answered are lost."""
        if self._book is not None:
            self._book.settle(now_ns, everything=True)

    def _counts(self, sent: int, received: int, now_ns: int) -> None:
        self.facts |= {"probes_sent": sent, "answers_received": received}
        if sent > 0:
            if self._book is None:
                self._book = self._new_book(self._first)
            # the last ones, where no answer came, are named nowhere else
            self._book.expect(sent, now_ns)

    def _new_book(self, first: int) -> ProbeBook:
        return ProbeBook(self, interval_ns=self._interval_ns, timeout_ns=self._timeout_ns, first=first)

    def _probe(self, sequence: int, text: str, now_ns: int) -> None:
        if self._book is None:
            self._book = self._new_book(0 if sequence == 0 else self._first)
        sequence = self._book.unwrapped(sequence)
        if (time := _TIME.search(text)) and (rtt_ms := number(time[1])) is not None:
            size = _BYTES.match(text)
            payload_bytes = int(size[1]) - self._header_bytes if size else None
            rtt_ns = whole(rtt_ms * 1e6) or 0
            self._book.answered(
                sequence, received_ns=now_ns, rtt_ns=rtt_ns, payload_bytes=payload_bytes, duplicate="(DUP!)" in text
            )
        elif any(words in text.lower() for words in _UNANSWERED):
            self._book.missed(sequence, sent_ns=now_ns - self._interval_ns, now_ns=now_ns)
        elif error := _ERROR.match(text):
            self._count_error(error["what"], error["by"])
            self._book.missed(sequence, sent_ns=None, now_ns=now_ns, fate="lost-up")
        else:
            # A line cut short, or of a language that we do not know: nothing is said of the probe by it.
            self.not_understood(text)

    def _count_error(self, what: str, by: str) -> None:
        errors = self.facts.setdefault("icmp_errors", {})
        # from hostile or odd answers there may be any number of kinds
        key = f"{what.strip()[:80]} (from {by[:60]})"
        if key in errors or len(errors) < 50:
            errors[key] = errors.get(key, 0) + 1

"""Output of fping in count mode (``-D -c``), of versions 3 to 5, for one target."""

from __future__ import annotations

import re

from whydrop.measure.runners.parsing.base import Parser, epoch_ns, number, whole
from whydrop.measure.runners.parsing.probes import ProbeBook

_ANSWER = re.compile(
    r"""^(?:\[(?P<stamp>\d+\.\d+)\]\s+)?(?P<host>\S+)\s+:\s+\[(?P<sequence>\d{1,9})\],\s+
        (?:\d{1,6}\sbytes,\s+(?P<rtt>\d+(?:[.,]\d+)?(?:e[-+]?\d+)?)\sms|(?P<lost>timed\sout))""",
    re.VERBOSE,
)
_DUPLICATE = re.compile(r"\s:\s+duplicate for \[(\d{1,9})\], (?:(\d+) bytes, )?(\d+(?:[.,]\d+)?) ms")
_ERROR = re.compile(r"^ICMP (?P<what>.+?) from (?P<by>\S+) for ICMP Echo sent to ")
_TOTAL = re.compile(r"xmt/rcv/%loss = (\d+)/(\d+)/")


class FpingParser(Parser):
    """Rows of table ``probes``; ``fping`` gives up waiting when its own time-out is over, and says "timed out".

    Args:
        flow: number of the flow.
        interval_ns: from one probe to the next.
        timeout_ns: that fping was given.
        payload_bytes: that it was asked to send; what it prints includes headers, which ones depends on the version.
    """

    def __init__(self, flow: int, *, interval_ns: int, timeout_ns: int, payload_bytes: int | None = None) -> None:
        super().__init__(flow)
        self._payload_bytes = payload_bytes
        self._interval_ns = interval_ns
        self._timeout_ns = timeout_ns
        self._book = ProbeBook(self, interval_ns=interval_ns, timeout_ns=timeout_ns, first=0)
        self._errors_pending = 0

    def line(self, text: str, arrived_ns: int, /) -> None:
        """An answer, a time-out, or one of the messages that some versions print here instead of on standard error."""
        match = _ANSWER.match(text)
        if match is None:
            self._other(text, arrived_ns)
            return
        stamp_ns = epoch_ns(match["stamp"]) if match["stamp"] else None
        now_ns = stamp_ns if stamp_ns is not None and abs(stamp_ns - arrived_ns) < 60e9 else arrived_ns
        sequence = self._book.unwrapped(int(match["sequence"]))
        rtt_ms = number(match["rtt"]) if match["rtt"] else None
        if match["lost"]:
            fate = "lost"
            if self._errors_pending:
                # fping does not say which probe an error answers; it came for one that now timed out
                self._errors_pending -= 1
                fate = "lost-up"
            self._book.missed(sequence, sent_ns=now_ns - self._timeout_ns, now_ns=now_ns, fate=fate)
        elif rtt_ms is not None:
            self._book.answered(
                sequence, received_ns=now_ns, rtt_ns=whole(rtt_ms * 1e6) or 0, payload_bytes=self._payload_bytes
            )

    def error_line(self, text: str, arrived_ns: int, /) -> None:
        """Duplicates, ICMP errors, the summary and complaints come on standard error."""
        if text.strip() and not self._other(text, arrived_ns):
            message = text.removeprefix("fping: ").strip()
            if self.failure is None and (text.startswith("fping: ") or "not known" in text or "failed" in text):
                self.failure = message

    def settle(self, now_ns: int, /) -> None:
        """Count probes as lost when their time is over."""
        self._book.settle(now_ns)

    def end(self, now_ns: int, /) -> None:
        """All that were not answered are lost."""
        self._book.settle(now_ns, everything=True)

    def _other(self, text: str, arrived_ns: int) -> bool:
        """True if it was one of the lines that are not answers."""
        if match := _DUPLICATE.search(text):
            rtt_ns = whole((number(match[3]) or 0) * 1e6) or 0
            sequence = self._book.unwrapped(int(match[1]))
            self._book.answered(sequence, received_ns=arrived_ns, rtt_ns=rtt_ns, duplicate=True)
        elif match := _ERROR.match(text):
            self._errors_pending += 1
            errors = self.facts.setdefault("icmp_errors", {})
            key = f"{match['what'][:80]} (from {match['by'][:60]})"
            if key in errors or len(errors) < 50:
                errors[key] = errors.get(key, 0) + 1
        elif match := _TOTAL.search(text):
            self.facts |= {"probes_sent": whole(match[1]), "answers_received": whole(match[2])}
        elif text.lstrip().startswith("["):
            self.not_understood(text)
        else:
            return False
        return True

"""Isochronous UDP probes by irtt; its server shows in which direction a probe was lost."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners.clients import given
from whydrop.measure.runners.parsing.base import Parser, ns
from whydrop.measure.runners.parsing.irtt import IrttParser
from whydrop.measure.runners.process import End
from whydrop.measure.runners.program import ProgramRunner
from whydrop.measure.runners.support import bracketed

DEFAULT_TIMEOUT_S = 5.0
# Without a duration it runs until the end of the test stops it.
_FOREVER_S = 100 * 3600
# How long it waits for the server's answer to each attempt to begin.
_CONNECT = "500ms,1s,2s,4s"
# Of each probe, as irtt indents it.
_BYTES_PER_PROBE = 1500
_MOST_BYTES = 1 << 30
_WORDS_OF_TIMER = ("simple", "comp", "busy")


class IrttRunner(ProgramRunner):
    """Probes of irtt; its JSON comes at the end, after the last answers were waited for."""

    name = "irtt"
    # it waits three times the longest round trip for the last answers
    grace_s = 30.0

    def __init__(self, flow: PlannedFlow, number: int) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        super().__init__(flow, number)

    def command(self) -> list[str]:
        """Its client; it prints each answer as it comes, and writes the JSON into a file of ours."""
        flow = self.flow
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="whydrop-irtt-", ignore_cleanup_errors=True)
        return given(
            ("irtt client -i {}ns", ns(flow.interval_s)),
            ("-d {}ns", ns(self._duration_s())),
            ("-o {}", self._result()),
            ("--wait=3x{}ns", ns(self._timeout_s())),
            ("--timeouts={}", _CONNECT),
            ("-l {}", flow.packet_payload_bytes),
            # The whole byte, of which DSCP is the upper six bits.
            ("--dscp=0x{:02x}", flow.dscp << 2 or None),
            ("--hmac={}", flow.options.get("hmac")),
            ("--timer={}", flow.options.get("timer")),
            ("-{}", flow.ip_version),
            ("--local={}", None if flow.local_address is None else bracketed(flow.local_address)),
            ("{}", f"{bracketed(flow.host or '')}:{self.port}"),
        )

    def parser(self) -> Parser:
        """Of its lines, and of its document."""
        self._document = IrttParser(
            self.number,
            host=self.flow.host or "",
            interval_ns=ns(self.flow.interval_s),
            timeout_ns=ns(self._timeout_s()),
        )
        return self._document

    def ended(self, end: End) -> None:
        """Read what it wrote."""
        try:
            path = self._result()
            size = path.stat().st_size if path.exists() else 0
            if size > min(self._most_bytes(), _MOST_BYTES):
                self._document.failure = f"irtt's result has {size} bytes, far more than its probes can take"
            elif size:
                self._document.document(path.read_text("utf-8", errors="replace"))
            elif end.status == 0:
                self._document.failure = "irtt ended without writing its result"
        except OSError as reason:
            self._document.failure = f"irtt's result could not be read: {reason}"
        finally:
            if self._folder is not None:
                self._folder.cleanup()

    def secrets(self) -> Sequence[str]:
        """The key: it stands in the command line, since irtt takes it nowhere else."""
        return [str(self.flow.options["hmac"])] if "hmac" in self.flow.options else []

    def complaint(self) -> str | None:
        """Limits of its own."""
        timer = self.flow.options.get("timer")
        if timer is not None and timer not in _WORDS_OF_TIMER and not str(timer).startswith("hybrid:"):
            return f"irtt has no timer {timer!r}: {', '.join(_WORDS_OF_TIMER)} or hybrid:0.95"
        return None

    def _timeout_s(self) -> float:
        return self.flow.timeout_s or DEFAULT_TIMEOUT_S

    def _result(self) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / "result.json"

    def _duration_s(self) -> float:
        return _FOREVER_S if self.flow.duration_s is None else self.flow.duration_s

    def _most_bytes(self) -> int:
        return 1_000_000 + round(self._duration_s() / self.flow.interval_s * _BYTES_PER_PROBE)

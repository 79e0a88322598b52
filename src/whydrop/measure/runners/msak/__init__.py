"""M-Lab's MSAK (https://github.com/m-lab/msak): throughput1 for TCP, latency1 for probes, as clients of msak-server."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from whydrop.measure.engine import EngineError
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners import Rows, ThreadRunner
from whydrop.measure.runners.msak.latency import LatencyError, Sessions
from whydrop.measure.runners.msak.throughput import MOST_S, Streams
from whydrop.measure.runners.registry import SUPPORT

_MOST_STREAMS = 64
_TLS_PORT = 443
_CONGESTION_CONTROLS = ("reno", "cubic", "bbr")

_log = logging.getLogger(__name__)


class MsakRunner(ThreadRunner):
    """A TCP flow in one direction, or a stream of probes."""

    name = "msak"
    ends_within_s = 5.0

    def __init__(self, flow: PlannedFlow, number: int) -> None:
        tls = bool(flow.options.get("tls"))
        port = flow.port or (_TLS_PORT if tls else SUPPORT[self.name].port)
        super().__init__(dataclasses.replace(flow, port=port), number)
        self._streams: Streams | None = None
        self._sessions: Sessions | None = None

    def check(self) -> str | None:
        """Faults of the flow's settings."""
        if complaint := SUPPORT[self.name].complaint(self.flow):
            return complaint
        flow, where = self.flow, f"flow {self.flow.name!r}"
        streams = flow.options.get("streams", 1)
        if isinstance(streams, bool) or not isinstance(streams, int) or not 1 <= streams <= _MOST_STREAMS:
            return f"{where}: option streams: expected 1 to {_MOST_STREAMS}, not {streams!r}"
        if flow.kind == "tcp" and (flow.duration_s is None or flow.duration_s > MOST_S):
            return f"{where}: MSAK's servers end a throughput test after {MOST_S:g} s: choose a shorter time (-t)"
        if flow.congestion_control not in (None, *_CONGESTION_CONTROLS):
            return f"{where}: MSAK's servers know the congestion controls {', '.join(_CONGESTION_CONTROLS)}"
        return None

    def _rows(self) -> Rows:
        if self._streams is not None:
            return self._streams.take(is_over=self.done())
        return self._sessions.take() if self._sessions is not None else Rows()

    def _told(self) -> dict[str, Any]:
        if self._sessions is not None:
            return {"answered": self._sessions.answered, "probes": self._sessions.probes, "round_trips_by": "server"}
        return {} if self._streams is None else {**self._streams.about, "counted_at": "receiver"}

    def _result(self) -> tuple[str, str | None]:
        if self._sessions is not None:
            return ("complete", None) if self._sessions.answered else ("no-data", "the server got no probe back")
        assert self._streams is not None
        if self._streams.problems:
            return "failed", self._where(self._streams.problems[0])
        return ("complete", None) if self._streams.payload_bytes else ("no-data", "no payload arrived")

    def _where(self, reason: str) -> str:
        hint = ": start msak-server there, or set the port" if "refused" in reason.lower() else ""
        return f"{self.flow.host} port {self.flow.port}: {reason}{hint}"

    def _supervise(self) -> None:
        try:
            if self.flow.kind == "probe":
                self._sessions = Sessions(self.flow, self.number, self._due_ns, self._stopping)
                self._sessions.run()
            else:
                self._streams = Streams(self.flow, self.number, self._due_ns, self._stopping)
                self._streams.run()
        except LatencyError as reason:
            self._broken = f"{self.flow.host}: {reason}"
        except (OSError, EngineError) as reason:
            self._broken = self._where(getattr(reason, "strerror", None) or str(reason))
        except Exception as reason:
            _log.exception("runner msak of flow %s", self.flow.name)
            self._broken = f"measuring failed: {reason!r}"

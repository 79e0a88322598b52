"""A running batch: its events, what became of its runs, and its end."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from whydrop.web.work.live_points import KeptPoints


class Batching:
    """A batch file, run in a process with a main thread for it: signals end a run with nothing lost."""

    def __init__(self, emit: Callable[[Any], None], file: str, options: Mapping[str, Any]) -> None:
        """Start the batch; :func:`whydrop.batch` describes the options."""
        self._emit = emit
        self._lock = threading.Lock()
        self._outcomes: list[dict[str, Any]] = []
        # Of the run at hand. The number counts the events of all runs that bring points.
        self._points, self._left_out, self._number = KeptPoints(), 0, 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "whydrop.web.work.batch_process"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._tell(json.dumps({"file": file, **options}))
        self._thread = threading.Thread(target=self._follow, name="events of the batch")
        self._thread.start()

    def outcomes(self, after: int) -> list[dict[str, Any]]:
        """The outcomes of the runs behind a number of them, in their order."""
        with self._lock:
            return self._outcomes[after:]

    def live(self) -> dict[str, Any]:
        """The points of the run at hand so far, by series, and the number of the last event with some of them."""
        with self._lock:
            return {"number": self._number, "series": self._points.all(), "left_out": self._left_out}

    def stop(self, now: bool) -> None:
        """End the run at hand, or let it end and begin no other."""
        if now:
            self._process.send_signal(signal.SIGINT)
        else:
            self._tell("after")

    def close(self) -> None:
        """End the run at hand, and wait until its recording is whole."""
        self.stop(now=True)
        self._thread.join()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        state = ""
        for line in self._process.stdout:
            event = json.loads(line)
            state = event.get("state", "")
            self._take_points(event)
            if outcome := event.pop("outcome", None):
                with self._lock:
                    self._outcomes.append(outcome)
                    event |= {"outcomes": len(self._outcomes), "recorded": outcome["recording"]}
            self._emit(event)
        status = self._process.wait()
        if not state:
            words = "was killed" if status < 0 else f"ended with exit status {status}"
            self._emit({"state": "failed", "problem": f"the process of this batch {words}: resume it to go on"})

    def _take_points(self, event: dict[str, Any]) -> None:
        """Keep the points of an event, for pages that open later; a run that begins has none."""
        with self._lock:
            if "key" in event:
                self._points = KeptPoints()
            self._left_out = event.get("left_out", self._left_out)
            if series := event.get("series"):
                self._points.add({name: list(map(tuple, points)) for name, points in series.items()})
                self._number += 1
            event["points"] = self._number

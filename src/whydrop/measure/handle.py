"""A run in the background, to be watched, stopped and waited for; any number of them in one process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whydrop.measure.plan import Plan, Settings
from whydrop.measure.run import Finished, run
from whydrop.recording.recording import Recording
from whydrop.runtime.cancelling import Cancellation

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Event:
    """Something that happened in a run.

    Attributes:
        state: ``connecting``, ``describing this host``, ``measuring``, ``finishing``, ``ended``, or a warning.
        elapsed_s: since the start of the measurement; ``None`` before it.
        total_s: how long the measurement takes.
        rows: what was measured since the event before, by table of the recording.
    """

    state: str
    elapsed_s: float | None
    total_s: float
    rows: Mapping[str, pl.DataFrame]


class Run:
    """A run that was started.

    It runs in a thread of its own, so it can be started in any thread, and stopped from any other. Unless stopped, it
    ends with its test. Measured rows are on disk about twice a second, even if the process is killed.
    """

    def __init__(self, plan: Plan, settings: Settings) -> None:
        """Start a run of a plan."""
        self.plan = plan
        self._settings = settings
        self._cancellation = Cancellation()
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._state = "connecting"
        self._elapsed_s: float | None = None
        self._finished: Finished | None = None
        self._problem: BaseException | None = None
        self._folder: Path | None = None
        # Not a daemon: Python waits for it at exit, and the recording is whole.
        self._thread = threading.Thread(target=self._work, name=f"whydrop run {plan.test}")
        self._thread.start()

    def events(self) -> Iterator[Event]:
        """Yield events as they happen, until the run has ended; about twice a second while it measures.

        For one reader: an event that was taken does not come again.
        """
        while (event := self._events.get()) is not None:
            yield event
        # A second reader learns at once that there is no more.
        self._events.put(None)

    def stop(self) -> None:
        """End the run early, from any thread; what was measured is kept, and the status is ``interrupted``."""
        self._cancellation.cancel()

    @property
    def running(self) -> bool:
        """True if it has not ended yet."""
        return self._thread.is_alive()

    @property
    def folder(self) -> Path | None:
        """The folder in which the recording is written; ``None`` before there is one.

        Where its disk took no more, the recording is in another folder in the end: :meth:`wait` says in which.
        """
        return self._folder

    def wait(self, timeout_s: float | None = None) -> Finished:
        """Wait for the end.

        Returns:
            The recording's folder, how the run ended, what failed, and warnings.

        Raises:
            TimeoutError: it has not ended in this time; it goes on.
            EngineError: it could not begin: a host cannot be reached, or a program is missing.
            RecordingError: the recording could not be written at all.
            CancelledError: it was stopped before anything was measured.
        """
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise TimeoutError(f"{self.plan.test}: still running after {timeout_s} s")
        if self._problem is not None:
            raise self._problem
        assert self._finished is not None
        return self._finished

    def recording(self) -> Recording:
        """Wait for the end, and open the recording; raises what :meth:`wait` and :meth:`Recording.open` raise."""
        return Recording.open(self.wait().folder)

    def _work(self) -> None:
        try:
            self._finished = run(
                self.plan,
                self._settings,
                say=self._say,
                tick=self._tick,
                cancellation=self._cancellation,
                began=self._began,
            )
        except BaseException as reason:  # (raised in the thread that waits)
            self._problem = reason
        finally:
            self._say("ended")
            self._events.put(None)

    def _began(self, folder: Path) -> None:
        self._folder = folder

    def _say(self, state: str) -> None:
        self._state = state
        self._events.put(Event(state, self._elapsed_s, self.plan.total_s, {}))

    def _tick(self, elapsed_s: float, total_s: float, rows: Mapping[str, pl.DataFrame]) -> None:
        self._elapsed_s = elapsed_s
        self._events.put(Event(self._state, elapsed_s, total_s, rows))

    def __repr__(self) -> str:
        how = "running" if self.running else self._finished.status if self._finished else f"{self._problem!r}"
        return f"<whydrop.Run {self.plan.test}: {how}>"

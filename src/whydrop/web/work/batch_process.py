"""A batch in a process of its own, which ends as on a terminal: Ctrl-C ends the run at hand and keeps the state.

The first line of its input is what to run, in JSON; a line ``after`` stops behind the run at hand, and the end of the
input, which is also the end of the server, stops at once. Each line of its output is an event in JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import whydrop
from whydrop.measure.batch.executing import NO_ROWS, Outcome, Rows, Watcher
from whydrop.measure.batch.expanding import Run
from whydrop.measure.batch.one_run import plan_of
from whydrop.measure.batch.preparing import Prepared
from whydrop.runtime.cancelling import signals_raised
from whydrop.web.work.live_points import LivePoints


class _StopAfterRunError(Exception):
    """The reader wants no further run."""


class Telling(Watcher):
    """Writes what happens, with the time that is left."""

    def __init__(self, prepared: Prepared, out: TextIO, stop: threading.Event) -> None:
        """Of a batch; ``stop`` is set where no further run is wanted."""
        self._prepared, self._out, self._stop = prepared, out, stop
        self._count = self._number = 0
        self._left_s = 0.0
        self._run: Run | None = None
        self._live: LivePoints | None = None

    def say(self, **values: Any) -> None:
        """Write an event."""
        self._out.write(json.dumps(values) + "\n")
        self._out.flush()

    def planned(self, runs: Sequence[Run], done: set[str]) -> None:
        """The runs, and the time that those take which are not done."""
        self._count = len(runs)
        self._left_s = sum(self._takes_s(run) for run in runs if run.key not in done)
        self.say(count=self._count, before=len(done), notes=self._prepared.notes, left_s=self._left_s)

    def begins(self, number: int, run: Run) -> None:
        """A run begins."""
        self._number, self._run, self._live = number, run, None
        self.say(
            number=number, key=run.key, title=run.title, elapsed_s=0.0, takes_s=self._takes_s(run), pause_s=None,
            left_out=0,
        )  # fmt: skip

    def tick(self, elapsed_s: float, total_s: float, rows: Rows = NO_ROWS, /) -> None:  # noqa: ARG002 (known already)
        """The run goes on: its points for live charts."""
        if self._run is None:
            return
        left_s = self._left_s - min(elapsed_s, self._takes_s(self._run))
        points: dict[str, Any] = {}
        if rows:
            self._live = self._live or LivePoints(plan_of(self._run).flows)
            points = {"series": self._live.add(rows, elapsed_s), "left_out": self._live.left_out}
        self.say(elapsed_s=round(elapsed_s, 3), left_s=left_s, **points)

    def ends(self, run: Run, outcome: Outcome) -> None:
        """A run has ended; its state is kept already."""
        self._left_s = max(0.0, self._left_s - self._takes_s(run))
        self._run = None
        self.say(
            left_s=self._left_s,
            outcome={
                "number": self._number, "key": run.key, "title": run.title, "status": outcome.status,
                "recording": None if outcome.recording is None else str(outcome.recording),
                "message": outcome.message or "", "warnings": list(outcome.warnings),
            },
        )  # fmt: skip
        if self._stop.is_set():
            raise _StopAfterRunError

    def pauses(self, seconds: float) -> None:
        """Nothing happens for so long."""
        self.say(pause_s=seconds, left_s=self._left_s)

    def _takes_s(self, run: Run) -> float:
        return self._prepared.times_s[run.key] + run.pause_s


def run(config: dict[str, Any], out: TextIO, stop: threading.Event) -> None:
    """Run a batch, and write what happens; the last event says how it ended."""

    @contextmanager
    def watching(prepared: Prepared) -> Iterator[Telling]:
        yield Telling(prepared, out, stop)

    def end(**values: Any) -> None:
        out.write(json.dumps(values) + "\n")
        out.flush()

    file = config.pop("file")
    try:
        summary = whydrop.batch(file, watching=watching, **config)
    except _StopAfterRunError:
        end(state="interrupted", left_s=0.0)
    except (whydrop.Error, OSError, ValueError) as reason:
        end(state="failed", problem=str(reason))
    except KeyboardInterrupt:
        end(state="interrupted", left_s=0.0)
    else:
        failed = summary.count("failed")
        end(state="interrupted" if summary.interrupted else "failed" if failed else "complete", failed=failed)


def main() -> None:
    """Run what the first line of the input says."""
    config = json.loads(sys.stdin.readline())
    stop = threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            if line.strip() == "after":
                stop.set()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=listen, daemon=True).start()
    with signals_raised():
        run(config, sys.stdout, stop)


if __name__ == "__main__":
    main()

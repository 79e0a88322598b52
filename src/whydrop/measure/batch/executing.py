"""Running a batch: one run after another, with its commands, its state, and an orderly end on Ctrl-C."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from whydrop.measure.batch.commands import Around, Started
from whydrop.measure.batch.expanding import BatchCommand, Run
from whydrop.measure.batch.state import Entry, State
from whydrop.recording import document
from whydrop.recording.errors import RecordingError
from whydrop.runtime.cancelling import Deferred, deferred

if TYPE_CHECKING:
    import polars as pl

# Rows of a recording's tables, by the names of these.
Rows = Mapping[str, "pl.DataFrame"]
NO_ROWS: Rows = {}

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run.

    Attributes:
        status: ``complete``, ``failed``, ``interrupted``, ``skipped`` (it cannot be made on this host).
        recording: its folder, where there is one.
        message: why it failed.
    """

    status: str
    recording: Path | None = None
    message: str | None = None
    warnings: Sequence[str] = ()


class Tick(Protocol):
    """Takes the seconds done of a run, those in all, and the rows of its tables that were just measured."""

    def __call__(self, elapsed_s: float, total_s: float, rows: Rows = ..., /) -> None:
        """The run goes on."""


# Runs one test into a recording in a folder.
RunTest = Callable[[Run, Path, State, Tick], Outcome]


class Watcher:
    """Hears what happens; does nothing itself."""

    def planned(self, runs: Sequence[Run], done: set[str]) -> None:
        """These will be run, those of ``done`` not again."""

    def begins(self, number: int, run: Run) -> None:
        """A run begins; numbers count from 1 over all of them."""

    def tick(self, elapsed_s: float, total_s: float, rows: Rows = NO_ROWS, /) -> None:
        """The run goes on, and has just measured these rows."""

    def ends(self, run: Run, outcome: Outcome) -> None:
        """A run has ended."""

    def pauses(self, seconds: float) -> None:
        """Nothing happens for so long."""


@dataclass
class Summary:
    """The outcome of a batch.

    Attributes:
        skipped: runs that an earlier call had completed.
        left: runs that were not begun.
    """

    outcomes: list[tuple[Run, Outcome]] = field(default_factory=list)
    skipped: int = 0
    left: int = 0
    interrupted: bool = False

    def count(self, status: str) -> int:
        """How many runs ended so."""
        return sum(outcome.status == status for _, outcome in self.outcomes)


def execute(
    runs: Sequence[Run],
    state: State,
    *,
    state_path: Path,
    output: Path,
    run_test: RunTest,
    watcher: Watcher | None = None,
    stop_on_failure: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> Summary:
    """Run what the state does not call complete, in its order.

    A run that fails does not keep the others from running, unless ``stop_on_failure`` says so. Ctrl-C ends the run at
    hand, and so do SIGTERM and SIGHUP where they are received. However it ends, its monitors are ended, its post
    commands run, and the state is kept; what is no failure of the run (such as a ``SystemExit``) is raised after that.
    """
    watcher = watcher or Watcher()
    by_key = {run.key: run for run in runs}
    unfinished = set(state.unfinished())
    todo = [by_key[key] for key in state.order if key in by_key and key in unfinished]
    summary = Summary(skipped=len(runs) - len(todo))
    watcher.planned([by_key[key] for key in state.order if key in by_key], set(by_key) - unfinished)
    with deferred() as signals:
        batch = _Batch(state, state_path, output, run_test, watcher, signals)
        for number, run in enumerate(todo):
            outcome = batch.run(run, number + summary.skipped + 1)
            summary.outcomes.append((run, outcome))
            summary.left = len(todo) - number - 1
            summary.interrupted = signals.received or outcome.status == "interrupted"
            if summary.interrupted or (stop_on_failure and outcome.status == "failed"):
                break
            if run.pause_s and summary.left:
                watcher.pauses(run.pause_s)
                with signals.ending_block(), signals.allowed():
                    sleep(run.pause_s)
                if signals.received:
                    summary.interrupted = True
                    break
    return summary


@dataclass(frozen=True)
class _Batch:
    """The state that all runs of a batch share."""

    state: State
    state_path: Path
    output: Path
    run_test: RunTest
    watcher: Watcher
    signals: Deferred

    def run(self, run: Run, number: int) -> Outcome:
        """One run with its commands, written down before and after."""
        began = time.monotonic()
        self.watcher.begins(number, run)
        entry = Entry("running", _now())
        self.state.runs[run.key] = entry
        self.state.write(self.state_path)
        outcome, problem = self._with_commands(run)
        entry.status, entry.ended, entry.message = outcome.status, _now(), outcome.message
        entry.recording = None if outcome.recording is None else str(outcome.recording)
        self.state.write(self.state_path)
        if problem is not None:
            raise problem
        self.watcher.tick(time.monotonic() - began, time.monotonic() - began)
        self.watcher.ends(run, outcome)
        return outcome

    def _with_commands(self, run: Run) -> tuple[Outcome, BaseException | None]:
        """The run between its commands; the post commands are run however it ends. And what ends the batch with it."""
        around = Around(run.commands, self._folder(run) / f"{_name(run)}.commands", run.folder, self.signals)
        may_start = well = False
        outcome, problem = Outcome("failed", message="a command before it failed"), None
        try:
            may_start = around.before()
            if may_start:
                outcome = self._test(run)
        except BaseException as reason:
            outcome, problem = _failed(reason), reason
        try:
            well = around.after(at_once=problem is not None or self.signals.received)
        except BaseException as reason:
            # A second Ctrl-C: nothing else is given up here.
            problem = reason
            outcome = replace(_failed(reason), recording=outcome.recording)
            around.abandon()
        status = outcome.status if well or outcome.status != "complete" else "failed"
        if around.is_impossible and not may_start and problem is None:
            status = "skipped"
        if outcome.recording is not None and around.outputs:
            around.troubles += _keep_outputs(outcome.recording, around.outputs)
        # Where the test was not started, the commands' troubles say why.
        messages = [outcome.message] if outcome.message and (may_start or problem or not around.troubles) else []
        messages += around.troubles if status != "complete" else []
        warnings = [*outcome.warnings, *(around.troubles if status == "complete" else [])]
        fatal = None if isinstance(problem, Exception | KeyboardInterrupt) else problem
        return Outcome(status, outcome.recording, "; ".join(messages) or None, warnings), fatal

    def _test(self, run: Run) -> Outcome:
        folder = self._folder(run)
        folder.mkdir(parents=True, exist_ok=True)
        if run.run is not None:
            return self._command(run, folder)
        with self.signals.allowed():
            return self.run_test(run, folder, self.state, self.watcher.tick)

    def _command(self, run: Run, folder: Path) -> Outcome:
        """A command in a test's place; Ctrl-C ends it."""
        assert run.run is not None
        place = folder / f"{_name(run)}.commands"
        place.mkdir(parents=True, exist_ok=True)
        command = BatchCommand("run", "run", run.run)
        with Started(command, place, run.folder) as started, self.signals.allowed():
            done = started.wait(0.0)
        return Outcome("complete" if done.ok else "failed", done.output, None if done.ok else str(done))

    def _folder(self, run: Run) -> Path:
        return self.output / run.output


def _keep_outputs(recording: Path, outputs: Mapping[str, Any]) -> list[str]:
    """Add what commands printed to the metadata of a recording; what went wrong."""
    if not (recording / document.FILE_NAME).is_file():
        return []
    try:
        metadata = document.read(recording)
        document.write(recording, {**metadata, "batch": {**(metadata["batch"] or {}), "outputs": dict(outputs)}})
    except (OSError, RecordingError) as reason:
        return [f"the outputs of commands were not added to the recording: {reason}"]
    return []


def _failed(reason: BaseException) -> Outcome:
    """The outcome of a run that ended with an exception."""
    notes = getattr(reason, "__notes__", [])
    if isinstance(reason, KeyboardInterrupt):
        return Outcome("interrupted", message="; ".join(["interrupted before its end", *notes]))
    what = str(reason) if isinstance(reason, OSError) else repr(reason)
    if not isinstance(reason, OSError):
        # An unforeseen error: log where it was raised.
        _log.error("the run failed", exc_info=reason)
    return Outcome("failed", message="; ".join([what, *notes]))


def _name(run: Run) -> str:
    """A file name for the run's key: unlike keys give unlike names."""
    return "".join(
        char if char.isalnum() or char in "-_.,=" else f"%{ord(char):02x}" if char != "/" else "." for char in run.key
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

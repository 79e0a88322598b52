"""One run of a plan, from connecting to the finished recording."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from whydrop.measure import host_context, local_ends
from whydrop.measure.clocks import Clocks
from whydrop.measure.end_limits import EndLimits, several
from whydrop.measure.engine import Engine, EngineError
from whydrop.measure.plan import Plan, Settings
from whydrop.measure.runners import Runner
from whydrop.measure.tally import Failure, Tally, count
from whydrop.recording import tables, troubles
from whydrop.recording.errors import RecordingError
from whydrop.recording.writer import RecordingWriter, folder_for
from whydrop.runtime.cancelling import Cancellation, Deferred, deferred
from whydrop.text.quantities import long_duration

Result = TypeVar("Result")

# Samples are durable at least this often; a killed run loses no more.
_FLUSH_EVERY_S = 0.5
# Between "ready" and the common start: programs of others need some time to get going.
_LEAD_S = 0.25
# Behind its planned end a flow may take so long, for queues to empty and late probes to be waited for.
_GRACE_S = 15.0
# A transfer of so many bytes has no planned end.
_LONGEST_S = 24 * 3600.0


@dataclass(frozen=True)
class Finished:
    """The outcome of a run.

    Attributes:
        folder: the recording.
        status: ``complete``, ``failed`` (a flow failed or yielded nothing), ``interrupted``.
        failures: the flows that made it fail, and why.
        warnings: what did not make it fail and should be known.
    """

    folder: Path
    status: str
    failures: list[Failure] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def run(
    plan: Plan,
    settings: Settings,
    *,
    say: Callable[[str], None] = lambda _: None,
    tick: Callable[[float, float, Mapping[str, pl.DataFrame]], None] = lambda *_: None,
    cancellation: Cancellation | None = None,
    began: Callable[[Path], None] = lambda _: None,
    around: Callable[[Runner], Runner] = lambda runner: runner,
) -> Finished:
    """Run a plan and write its recording.

    Args:
        say: called with the current step, for people.
        tick: called about twice a second with the seconds since the start, those in all, and the rows just measured.
        cancellation: ends the test as Ctrl-C does, from another thread.
        began: called with the recording's folder once it exists.
        around: puts another runner around each that measures with a program.

    Raises:
        CancelledError: it was cancelled before anything was measured.
        CannotLeaveError: this host lacks the address or the interface that flows shall leave from.
        EngineError: it cannot begin: a host cannot be reached, or a program is missing. There is no recording then.
        RecordingError: the recording cannot be written at all.
        KeyboardInterrupt: Ctrl-C came before anything was measured, or a second time.

    Whatever else is raised, nothing runs any more then: what was measured is in the recording that its notes name.
    """
    return _Run(plan, settings, say, tick, cancellation or Cancellation(), began, around).run()


class _Run:
    def __init__(
        self,
        plan: Plan,
        settings: Settings,
        say: Callable[[str], None],
        tick: Callable[[float, float, Mapping[str, pl.DataFrame]], None],
        cancellation: Cancellation,
        began: Callable[[Path], None],
        around: Callable[[Runner], Runner],
    ) -> None:
        self.plan, self.settings, self.say, self.tick = plan, settings, say, tick
        self.cancellation, self.began = cancellation, began
        numbered = dict(enumerate(plan.flows))
        self.tallies = {number: Tally(number, flow) for number, flow in numbered.items()}
        ours = {number: flow for number, flow in numbered.items() if flow.runner == "engine"}
        self.engine = Engine(ours, settings.hosts)
        self.clocks = Clocks(self.engine.places())
        theirs = {number: flow for number, flow in numbered.items() if flow.runner != "engine"}
        found = host_context.runners(theirs, settings.hosts)
        self.runners: dict[int, Runner] = {number: around(runner) for number, runner in found.items()}
        self.troubles: list[troubles.Trouble] = []
        self.end_limits = EndLimits(self.tallies)
        self.warnings: list[str] = []
        # An unforeseen error: it ends the test, and is raised when everything is written and no program runs any more.
        self.problem: BaseException | None = None
        self.let_go = ExitStack()
        self.started: list[Runner] = []

    def run(self) -> Finished:
        self._check()
        with deferred() as signals, self.let_go:
            self.let_go.callback(self._end, signals, self.engine.close)
            with signals.allowed():
                self.say("connecting")
                self.engine.prepare()
                self.say("describing this host")
                self.context = host_context.HostContext(self.plan, self._addresses(), self.settings)
                local = self.context.before()
            self.cancellation.check()
            self.writer = self._begin_recording(local)
            self.let_go.callback(self.writer.close)
            self.began(self.writer.folder)
            self.let_go.callback(self._end, signals, self._end_runners)
            return self._measure(signals)

    @staticmethod
    def _end(signals: Deferred, end: Callable[[], None]) -> None:
        # It takes some seconds where far ends do not answer: a second Ctrl-C ends it.
        with signals.allowed(repeated=True):
            end()

    def _end_runners(self) -> None:
        """End those that run on: none but where something went wrong."""
        running = [runner for runner in self.started if not runner.done()]
        for runner in running:
            runner.stop()
        for runner in running:
            self._try(runner.finish, 0.5)

    def _check(self) -> None:
        local_ends.check(self.plan.flows, {host.name: host.address or host.name for host in self.settings.hosts})
        missing: dict[str, list[str]] = {}
        for number, runner in list(self.runners.items()):
            problem = runner.check()
            if problem is None:
                continue
            tally = self.tallies[number]
            if tally.flow.optional:
                tally.end("failed", problem)
                self.warnings.append(f"{tally.flow.name}: {problem}")
                del self.runners[number]
            else:
                # Some runners name their flow in what they say; one thing that all flows lack is said once.
                what = problem.removeprefix(f"flow {tally.flow.name!r}: ")
                missing.setdefault(what, []).append(tally.flow.name)
        if missing:
            raise EngineError("; ".join(f"{several(names)}: {problem}" for problem, names in missing.items()))

    def _addresses(self) -> dict[str, str]:
        """The addresses of the far ends, by name."""
        known = {name: str(end["address"]) for name, end in self.engine.far_ends().items()}
        return {**host_context.resolved(self.plan, self.settings.hosts, known), **known}

    def _begin_recording(self, local: dict[str, Any]) -> RecordingWriter:
        started_ns = time.time_ns()
        folder = folder_for(self.settings.output, self.plan.test, started_ns, self.settings.title)
        metadata = {
            "name": self.plan.test,
            "title": self.settings.title,
            "note": self.settings.note,
            "started_ns": started_ns,
            "test": self.plan.as_dict(),
            "hosts": {"local": local},
            "batch": dict(self.settings.batch) if self.settings.batch else None,
            "redacted": self.settings.redact,
        }
        return RecordingWriter(folder, self.context.redacted(metadata), fallback=self.settings.fallback)

    def _measure(self, signals: Deferred) -> Finished:
        with signals.ending_block():
            self._try(self._watch, signals)
        try:
            # After Ctrl-C everything measured is written; only a second Ctrl-C leaves the rest in the journal.
            with signals.allowed(repeated=True):
                finished = self._finish(signals.received or self.cancellation.cancelled, signals)
        except BaseException as reason:
            if not isinstance(reason, RecordingError):
                reason.add_note(f"what was measured until then is in {self.writer.folder}")
            raise
        if self.problem is not None:
            self.problem.add_note(f"what was measured until then is in {finished.folder}")
            raise self.problem
        return finished

    def _start(self) -> int:
        """Let all flows begin; when, by ``time.monotonic_ns``."""
        self._write_flows()
        self.writer.flush()
        start_ns = time.monotonic_ns() + int(_LEAD_S * 1e9)
        # The recording's time 0 is the common start.
        self.writer.update({"started_ns": start_ns + time.time_ns() - time.monotonic_ns()})
        self.say("measuring")
        self.let_go.callback(self.context.stop_counters)
        self.context.start_counters()
        self.engine.start(start_ns)
        for runner in self.runners.values():
            self.started.append(runner)
            runner.start(start_ns)
        return start_ns

    def _watch(self, signals: Deferred) -> None:
        """Begin, and take what is measured until all flows have ended, or should have."""
        start_ns = self._start()
        flows = [tally.flow for tally in self.tallies.values()]
        endless = any(flow.duration_s is None for flow in flows)
        last_s = max([self.plan.total_s, *(flow.start_s for flow in flows)], default=0.0)
        limit_s = _LONGEST_S if endless else last_s + _GRACE_S
        while True:
            with signals.allowed():
                self.cancellation.wait(_FLUSH_EVERY_S)
            elapsed_s = (time.monotonic_ns() - start_ns) / 1e9
            rows = self._take()
            # Written first: what is shown as measured is not lost by a crash right after.
            if not self.writer.flush() and self.writer.message not in self.warnings:
                self.warnings.append(self.writer.message or "the recording cannot be written")
                self.say(self.warnings[-1])
            self.tick(elapsed_s, last_s, rows)
            if self.problem is not None or self.cancellation.cancelled:
                return
            if self.engine.done() and all(runner.done() for runner in self.runners.values()):
                return
            if elapsed_s > limit_s:
                self.warnings.append(
                    f"flows that had not ended {long_duration(_GRACE_S)} after their time were stopped"
                )
                return

    def _try(self, step: Callable[..., Result], *given: Any) -> Result | None:
        """Do something; what fails of it is raised at the end, and keeps nothing else from being done."""
        try:
            return step(*given)
        except KeyboardInterrupt:
            raise
        except BaseException as reason:
            self.problem = self.problem or reason
            return None

    def _take(self) -> dict[str, pl.DataFrame]:
        """Everything measured since the last call, counted and handed to the writer."""
        frames_of, endings, facts = self._try(self.engine.drain) or ({}, [], {})
        found = {name: [frame] for name, frame in frames_of.items()}
        for runner in self.runners.values():
            for name, frame in (self._try(runner.drain) or {}).items():
                found.setdefault(name, []).append(frame)
        for ended in endings:
            if ended.flow in self.tallies:
                self.tallies[ended.flow].end(ended.status, ended.message)
        for flow, known in facts.items():
            if flow in self.tallies:
                self.tallies[flow].facts.update(known)
        whole = {name: self._try(_joined, name, parts) for name, parts in found.items()}
        frames = {name: frame for name, frame in whole.items() if frame is not None}
        self._try(count, self.tallies, frames)
        self._try(self.end_limits.count, frames)
        frames.update(self._try(self.context.counters) or {})
        self._try(
            lambda: self.clocks.note(self.engine.clocks_used(), {name: frame.height for name, frame in frames.items()})
        )
        for name, frame in frames.items():
            self._try(self._write, name, frame)
        return frames

    def _write(self, table: str, frame: pl.DataFrame) -> None:
        self.writer.append(table, self.context.redacted_rows(frame))

    def _finish(self, interrupted: bool, signals: Deferred) -> Finished:
        """End what runs, and write what was measured, as far as nothing else failed too."""
        self._end_flows(early=interrupted or self.problem is not None, signals=signals)
        self._try(self._take)
        interrupted = interrupted or signals.received
        for tally in self.tallies.values():
            tally.settle(interrupted=interrupted or self.problem is not None)
        failures = [found for tally in self.tallies.values() if (found := tally.failure()) is not None]
        self._try(self._write_flows)
        self.warnings += self._try(self.end_limits.warnings) or []
        self._try(self._write_metadata, failures)
        failed = bool(failures) or self.problem is not None
        status = "interrupted" if interrupted else "failed" if failed else "complete"
        folder = self.writer.finish(status, self._by_one_clock())
        if self.writer.message is not None:
            self.warnings.append(self.writer.message)
        return Finished(folder, status, failures, self.warnings)

    def _end_flows(self, *, early: bool, signals: Deferred) -> None:
        self._try(self.say, "finishing")
        if early:
            self.engine.stop()
            for runner in self.runners.values():
                runner.stop()
        for number, runner in self.runners.items():
            if outcome := self._try(runner.finish, 0.5 if early or signals.received else 5.0):
                self.tallies[number].facts.update(outcome.facts)
                self.tallies[number].end(outcome.status, outcome.message)
        self._try(self.engine.finish)
        self._try(self.context.stop_counters)

    def _write_metadata(self, failures: list[Failure]) -> None:
        far = self.engine.far_ends()
        self.warnings += [
            f"{name}: clocks were compared over TCP, since UDP does not get through: {end['without_udp']}"
            for name, end in far.items()
            if "without_udp" in end
        ]
        what = [str(one) for one in failures]
        if self.problem is not None:
            what.append(f"an error ended the test: {self.problem!r}")
        self.troubles = self._try(self.engine.troubles) or []
        facts = [(tally.flow.name, tally.facts) for tally in self.tallies.values()]
        in_words = [*troubles.in_words(self.troubles), *(self._try(troubles.withheld_in_words, facts) or [])]
        # First, since everything else measured in that time depends on it.
        self.warnings[:0] = in_words
        self.writer.update(self.context.redacted({"failures": what, "warnings": list(self.warnings)}))
        ends = {"local": self.context.after(), **far}
        for trouble in self.troubles:
            ends.get(trouble.host or "local", {}).setdefault("troubles", []).append(trouble.as_json())
        self.writer.update(self.context.redacted({"hosts": ends}))

    def _by_one_clock(self) -> Callable[[str, pl.DataFrame], pl.DataFrame]:
        """The correction of times by the clocks as finally known, in place of the one made while the test ran."""
        final = self._try(self.engine.clocks) or {}
        probes = {number: tally for number, tally in self.tallies.items() if tally.flow.kind == "probe"}
        fates = troubles.Fates(
            self.troubles,
            {number: tally.flow.host for number, tally in probes.items()},
            {number: tally.facts for number, tally in probes.items()},
        )

        def corrected(table: str, frame: pl.DataFrame) -> pl.DataFrame:
            by_one_clock = self._try(self.clocks.corrected, table, frame, final)
            frame = frame if by_one_clock is None else by_one_clock
            told = self._try(fates.told, frame) if table == "probes" else None
            return frame if told is None else told

        return corrected

    def _write_flows(self) -> None:
        of_hosts, of_flows = self.context.addresses, self.engine.addresses()
        rows = [
            tally.row(of_flows.get(number) or of_hosts.get(tally.flow.host or ""))
            for number, tally in self.tallies.items()
        ]
        if rows:
            self._write("flows", pl.DataFrame(rows, schema=tables.FLOWS))


def _joined(table: str, parts: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat([tables.conform(table, part) for part in parts])

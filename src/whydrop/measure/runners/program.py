"""Code shared by all runners that start a program: the contract's side of it."""

from __future__ import annotations

import logging
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners import Outcome, Rows, Runner
from whydrop.measure.runners.parsing.base import Parser
from whydrop.measure.runners.process import PATIENCE_S, End, Process
from whydrop.measure.runners.registry import SUPPORT, Support, version_of
from whydrop.runtime.masking import masked, masked_command

# After the time that a flow should take, before its program is stopped: connecting and saying good-bye take time too.
GRACE_S = 15.0

_log = logging.getLogger(__name__)


class ProgramRunner(Runner):
    """One flow that a program measures; each program says in a subclass what to start and how to read it."""

    stop_signal: signal.Signals = signal.SIGINT
    grace_s: ClassVar[float] = GRACE_S
    takes_whole_seconds: ClassVar[bool] = False
    # Exit statuses of a program that did what it should.
    good_statuses: ClassVar[frozenset[int]] = frozenset({0})

    def __init__(self, flow: PlannedFlow, number: int) -> None:
        super().__init__(flow, number)
        self._parser = self.parser()
        self._process: Process | None = None
        self._stop_asked = False
        self._end: End | None = None
        self._broken: str | None = None

    # What subclasses say.

    def command(self) -> list[str]:
        """The program and its arguments."""
        raise NotImplementedError

    def parser(self) -> Parser:
        """A new parser for what it prints."""
        raise NotImplementedError

    def complaint(self) -> str | None:
        """Name what this program cannot do of what is asked for, beyond the table of support."""
        return None

    def secrets(self) -> Sequence[str]:
        """Words that must not be seen in the recording."""
        return ()

    def environment(self) -> Mapping[str, str]:
        """Variables for the program."""
        return {}

    def version(self) -> str:
        """The version as the program prints it; empty where it prints none."""
        return version_of(self.support.program, *self.support.version) if self.support.program else ""

    def ended(self, end: End) -> None:
        """The output has ended: read what the program left behind (a file). May use the parser."""

    def called(self) -> str:
        """The program's name for people."""
        return self.name

    def ends_itself(self) -> bool:
        """True if the program knows when its time is over; if not, it is asked to end then."""
        duration_s = self.flow.duration_s
        return not self.takes_whole_seconds or duration_s is None or float(duration_s).is_integer()

    def advice(self, message: str) -> str:
        """``message`` of the program, with where it went, and what to do about it where we know."""
        port = self.port
        place = f"{self.name} to {self.flow.host}" + (f" port {port}" if port else "")
        for words, what_to_do in self.support.advice.items():
            if words in message.lower():
                return f"{place}: {message}: {what_to_do.format(port=port, next_port=(port or 0) + 1)}"
        return f"{place}: {message}"

    @property
    def support(self) -> Support:
        """The abilities of the program."""
        return SUPPORT[self.name]

    @property
    def port(self) -> int | None:
        """The port of its server; ``None`` for a program without one."""
        return self.flow.port or self.support.port

    # The contract.

    def check(self) -> str | None:
        """The reason why it cannot run (with what to install), or what it cannot do; ``None`` if nothing."""
        support = self.support
        if complaint := support.complaint(self.flow):
            return complaint
        if support.program is not None and shutil.which(support.program) is None:
            return f"flow {self.flow.name!r}: {support.program} is not installed ({support.package})"
        return f"flow {self.flow.name!r}: {found}" if (found := self.complaint()) else None

    def _begin(self) -> None:
        try:
            self._process = Process(
                self.command(),
                parser=self._parser,
                lock=self._lock,
                stop_signal=self.stop_signal,
                environment=self.environment(),
            )
            super()._begin()
        except (OSError, RuntimeError, ValueError) as reason:
            self._broken = f"{self.name} could not be started: {reason}"

    def _rows(self) -> Rows:
        return self._parser.rows

    def stop(self) -> None:
        """End early; returns at once."""
        self._stop_asked = True
        if self._process is not None:
            self._process.stop()

    def finish(self, timeout_s: float) -> Outcome:
        """Wait for the end (killing the program after ``timeout_s``). ``drain`` may be called once more after it.

        A program that was asked to stop has the time to write its result that it was promised: 2 s from then on.
        """
        thread = self._thread
        if thread is not None and thread.ident is not None:
            patience_s = PATIENCE_S + 0.5 if self._stop_asked else 0.0
            thread.join(max(timeout_s, patience_s))
            if thread.is_alive() and self._process is not None:
                if not self._stop_asked:
                    self._broken = self._broken or f"{self.called()} did not end in time and was killed"
                self._process.kill()
                thread.join(5)
        return self._outcome()

    # Its thread.

    def _supervise(self) -> None:
        assert self._process is not None
        deadline_ns = over_ns = None
        if self.flow.duration_s is not None:
            over_ns = self._due_ns + round(self.flow.duration_s * 1e9)
            deadline_ns = over_ns + round(self.grace_s * 1e9)
        try:
            self._end = self._process.run(self._due_ns, deadline_ns, None if self.ends_itself() else over_ns)
        except Exception as reason:
            _log.exception("runner %s of flow %s", self.name, self.flow.name)
            self._broken = f"reading the output of {self.name} failed: {reason!r}"
            self._end = self._process.end
        try:
            with self._lock:
                self.ended(self._end)
                self._parser.end(time.time_ns())
        except Exception as reason:
            _log.exception("runner %s of flow %s", self.name, self.flow.name)
            self._broken = self._broken or f"reading the output of {self.name} failed: {reason!r}"

    def _outcome(self) -> Outcome:
        end = self._end or End()
        with self._lock:
            failure = self._failure(end)
            measured = self._parser.rows.ever > 0
        if end.left:
            # However well it measured: it goes on loading the path, or holds what the next run needs.
            problems = "; ".join([*map(str, end.left), *([failure] if failure else [])])
            return Outcome("failed", masked(f"{self.called()}: {problems}", self.secrets()), self._facts(end))
        if failure is not None and not (self._stop_asked and self._broken is None and measured):
            # A program that is stopped before it measured anything often calls that an error.
            status = "stopped" if self._stop_asked and self._broken is None else "failed"
            return Outcome(status, masked(failure, self.secrets()), self._facts(end))
        if self._stop_asked:
            return Outcome("stopped", None, self._facts(end))
        if not measured:
            return Outcome("no-data", masked(self._silence(end), self.secrets()), self._facts(end))
        return Outcome("complete", None, self._facts(end))

    def _failure(self, end: End) -> str | None:
        if self._broken is not None:
            return self._broken
        if self._parser.failure is not None and not (end.timed_out and self._parser.rows.ever > 0):
            return self.advice(self._parser.failure)
        words = end.last_words[-1] if end.last_words else None
        if end.problem is not None:
            return f"{end.problem} (it said last: {words})" if words else end.problem
        if end.status is None:
            return None if self._stop_asked else f"{self.name} was never started"
        if end.status in self.good_statuses or end.timed_out:
            # one that is asked to end may well call that an error
            return None
        how = f"was ended by signal {-end.status}" if end.status < 0 else f"ended with status {end.status}"
        return self.advice(f"{self.called()} {how}: {words or 'it said nothing'}")

    def _silence(self, end: End) -> str:
        if line := self._parser.facts.get("first_line_not_understood"):
            return f"nothing that {self.called()} printed could be read as a measurement; a line of it: {line}"
        said = f"; it said last: {end.last_words[-1]}" if end.last_words else ""
        return f"{self.called()} ended without a measurement{said}"

    def _facts(self, end: End) -> dict[str, Any]:
        """Facts about how it ran, beside what the program said."""
        facts: dict[str, Any] = {"program": self.name}
        if version := self.version():
            facts["version"] = version
        if self._process is not None:
            facts["command"] = masked_command(self._process.command, self.secrets())
        if end.started_ns is not None:
            facts["started_late_s"] = round((end.started_ns - self._due_ns) / 1e9, 6)
            if end.first_output_ns is not None:
                facts["first_output_after_s"] = round((end.first_output_ns - end.started_ns) / 1e9, 6)
        facts |= {"exit_status": end.status, "cpu_s": end.cpu_s, "lines_cut": end.lines_cut or None}
        with self._lock:
            facts |= self._parser.facts
        return {key: value for key, value in facts.items() if value is not None}

"""Starting a program in time, reading what it prints until it ends, and ending it with all that it started."""

from __future__ import annotations

import logging
import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from whydrop.measure.runners.parsing.base import Parser
from whydrop.runtime import guarding, process_groups
from whydrop.runtime.process_groups import Left

# Rows that wait to be drained; the program waits when there are more.
_MOST_ROWS = 500_000
# A line longer than this is not one that a parser wants; the rest of it is thrown away.
LONGEST_LINE_BYTES = 1 << 20
# What a program says on standard error as it ends; more of it is not kept.
LAST_WORDS = 20
LONGEST_MESSAGE_CHARACTERS = 500
# From the polite signal to SIGKILL.
PATIENCE_S = 2.0
# From a program's end to the closing of its pipes, which a child of it may hold open.
_ORPHANS_PATIENCE_S = 0.5
# From SIGKILL to the end of a program that may be killed.
_DEAD_WITHIN_S = 1.0
# From a call of `stop` or `kill` to its effect.
_TICK_S = 0.1
_READ_BYTES = 1 << 16

_log = logging.getLogger(__name__)


class Splitter:
    """Lines out of pieces of bytes: bounded, and never failing on bytes that are no UTF-8.

    >>> splitter = Splitter()
    >>> list(splitter.feed(b"one\\r\\ntw")), list(splitter.feed(b"o\\n\\xff")), list(splitter.rest())
    (['one'], ['two'], ['\ufffd'])
    """

    def __init__(self, longest: int = LONGEST_LINE_BYTES) -> None:
        self._longest = longest
        self._held = bytearray()
        self._skipping = False
        self.cut = 0
        """Lines that were too long; of each, the beginning was passed on."""

    def feed(self, data: bytes) -> list[str]:
        """The lines that end in ``data``."""
        lines = []
        *ended, rest = data.split(b"\n")
        for part in ended:
            self._hold(part)
            lines.append(self._text())
        self._hold(rest)
        return lines

    def rest(self) -> list[str]:
        """A last line without its end, if there is one."""
        return [self._text()] if self._held else []

    def _hold(self, part: bytes) -> None:
        room = self._longest - len(self._held)
        self._held += part[:room]
        if len(part) > room and not self._skipping:
            self._skipping = True
            self.cut += 1

    def _text(self) -> str:
        # A carriage return alone is how programs redraw a line; one at the end belongs to the line's end.
        text = self._held.decode("utf-8", errors="replace").rstrip("\r")
        self._held.clear()
        self._skipping = False
        return text


@dataclass
class End:
    """How a program ended.

    Attributes:
        status: its exit status, negative for a signal; ``None`` if it never ran.
        problem: why it could not be started, or had to be killed.
        last_words: the last lines of standard error (or of standard output, where there are none).
    """

    status: int | None = None
    problem: str | None = None
    last_words: list[str] = field(default_factory=list)
    started_ns: int | None = None  # time.monotonic_ns()
    first_output_ns: int | None = None
    cpu_s: float | None = None
    lines_cut: int = 0
    timed_out: bool = False
    """Its time was over, and it was asked to end, which was meant to be so."""
    left: list[Left] = field(default_factory=list)
    """Processes of it that run on, because they may not be ended."""


@dataclass
class _Times:
    """Of ``time.monotonic_ns``, as far as they are known."""

    deadline_ns: int | None
    over_ns: int | None
    kill_ns: int | None = None
    killed_ns: int | None = None
    ended_ns: int | None = None

    def patience_is_over(self, now_ns: int) -> bool:
        """True if a program that was asked to end did not, or one that has ended left others that hold its pipes."""
        if self.ended_ns is not None:
            return now_ns - self.ended_ns > _ORPHANS_PATIENCE_S * 1e9
        return self.kill_ns is not None and now_ns > self.kill_ns

    def given_up(self, now_ns: int) -> bool:
        """True if a process of another user keeps the pipes open, as one that ``sudo`` started: it cannot be ended."""
        if self.ended_ns is not None:
            return now_ns - self.ended_ns > 2 * _ORPHANS_PATIENCE_S * 1e9
        return self.killed_ns is not None and now_ns - self.killed_ns > _DEAD_WITHIN_S * 1e9

    def wait_s(self, now_ns: int) -> float:
        """How long to wait for output, at most."""
        if self.over_ns is None or self.kill_ns is not None:
            return _TICK_S
        return min(_TICK_S, max(0.001, (self.over_ns - now_ns) / 1e9))


class Process:
    """One program, in a process group of its own, without a shell.

    :meth:`run` does it all in the calling thread; :meth:`stop` and :meth:`kill` may be called from others. What the
    program prints goes to a parser, which is used under its lock.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        parser: Parser,
        lock: threading.Lock,
        stop_signal: signal.Signals = signal.SIGINT,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.command = list(command)
        self.end = End()
        self._parser, self._lock = parser, lock
        self._stop_signal = stop_signal
        # Numbers and messages as the parsers know them; Python programs would hold their output back in a buffer.
        self._environment = {**os.environ, "LC_ALL": "C", "PYTHONUNBUFFERED": "1", **(environment or {})}
        self._splitters = {"out": Splitter(), "err": Splitter(4 * LONGEST_MESSAGE_CHARACTERS)}
        self._words = {name: deque[str](maxlen=LAST_WORDS) for name in self._splitters}
        self._stopping = threading.Event()
        self._killing = threading.Event()

    def stop(self) -> None:
        """Ask the program to end; it is killed when it takes longer than :data:`PATIENCE_S`."""
        self._stopping.set()

    def kill(self) -> None:
        """End it now."""
        self._killing.set()
        self._stopping.set()

    def run(self, at_ns: int, deadline_ns: int | None = None, over_ns: int | None = None) -> End:
        """Start it at ``at_ns`` (``time.monotonic_ns``) and see it to its end.

        Args:
            at_ns: when to start it.
            deadline_ns: when it must have ended by itself; it is a problem if not.
            over_ns: when to end it, for programs that do not know when to.
        """
        delay_s = (at_ns - time.monotonic_ns()) / 1e9
        if delay_s > 0:
            self._stopping.wait(delay_s)
        if self._stopping.is_set():
            return self.end
        if shutil.which(self.command[0]) is None:
            self.end.problem = f"{self.command[0]} could not be started: there is no such program"
            return self.end
        try:
            process = guarding.start(
                self.command,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except (OSError, ValueError) as reason:
            self.end.problem = f"{self.command[0]} could not be started: {getattr(reason, 'strerror', None) or reason}"
            return self.end
        self.end.started_ns = time.monotonic_ns()
        try:
            self._read_all(process, _Times(deadline_ns, over_ns))
        finally:
            self._reap(process)
        for name, splitter in self._splitters.items():
            self._pass_on(name, splitter.rest())
        self.end.lines_cut = self._splitters["out"].cut
        self.end.last_words = list(self._words["err"] or self._words["out"])
        return self.end

    def _read_all(self, process: subprocess.Popen[bytes], times: _Times) -> None:
        """Wait until both pipes are closed, or the program has ended and the time for its children is over."""
        with selectors.DefaultSelector() as selector:
            assert process.stdout is not None
            assert process.stderr is not None
            selector.register(process.stdout, selectors.EVENT_READ, "out")
            selector.register(process.stderr, selectors.EVENT_READ, "err")
            while selector.get_map():
                now_ns = time.monotonic_ns()
                self._keep_times(process, times, now_ns)
                if times.given_up(now_ns):
                    return
                if times.ended_ns is None and len(self._parser.rows) > _MOST_ROWS and not self._killing.is_set():
                    # The rows are not fetched: let the pipe fill up and the program wait, rather than take all memory.
                    self._killing.wait(0.01)
                    continue
                self._read_some(selector, times.wait_s(now_ns))

    def _keep_times(self, process: subprocess.Popen[bytes], times: _Times, now_ns: int) -> None:
        """Ask the program to end when it is time, and kill it when it does not, or when only its children are left."""
        if times.deadline_ns is not None and now_ns > times.deadline_ns and self.end.problem is None:
            self.end.problem = f"{self.command[0]} did not end in time and was stopped"
            self._stopping.set()
        if times.over_ns is not None and now_ns >= times.over_ns and not self._stopping.is_set():
            self.end.timed_out = True
            self._stopping.set()
        if self._stopping.is_set() and times.kill_ns is None:
            times.kill_ns = now_ns + round(PATIENCE_S * 1e9)
            process_groups.signal_group(process.pid, self._stop_signal)
        if times.ended_ns is None and process_groups.has_ended(process.pid):
            times.ended_ns = now_ns
        if self._killing.is_set() or times.patience_is_over(now_ns):
            times.killed_ns = times.killed_ns or now_ns
            process_groups.signal_group(process.pid, signal.SIGKILL)

    def _read_some(self, selector: selectors.BaseSelector, wait_s: float) -> None:
        for key, _ in selector.select(wait_s):
            data = os.read(key.fd, _READ_BYTES)
            if not data:
                selector.unregister(key.fileobj)
                continue
            if self.end.first_output_ns is None:
                self.end.first_output_ns = time.monotonic_ns()
            self._pass_on(key.data, self._splitters[key.data].feed(data))
        with self._lock:
            self._parser.settle(time.time_ns())

    def _pass_on(self, name: str, lines: list[str]) -> None:
        arrived_ns = time.time_ns()
        for line in lines:
            if line.strip():
                self._words[name].append(line.strip()[:LONGEST_MESSAGE_CHARACTERS])
            with self._lock:
                (self._parser.line if name == "out" else self._parser.error_line)(line, arrived_ns)

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        """Whatever the program left running ends with it; it may close its output some time before it ends."""
        patient_until_ns = time.monotonic_ns() + round(_ORPHANS_PATIENCE_S * 1e9)
        while (
            not process_groups.has_ended(process.pid)
            and time.monotonic_ns() < patient_until_ns
            and not self._killing.is_set()
        ):
            self._killing.wait(0.002)
        self.end.left = process_groups.kill(process.pid)
        # One that may not be killed is not waited for: it may run for ever.
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = self.end.status = os.waitstatus_to_exitcode(status)
            guarding.forget(process.pid)
            self.end.cpu_s = round(usage.ru_utime + usage.ru_stime, 6)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

"""Commands around a run: started in process groups of their own, ended with everything that they started."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from whydrop.measure.batch.expanding import BatchCommand
from whydrop.runtime import guarding, process_groups
from whydrop.runtime.cancelling import Deferred
from whydrop.runtime.process_groups import Left
from whydrop.text.quantities import duration

# From SIGTERM to SIGKILL.
_MERCY_S = 5.0
_TAIL_BYTES = 2000
# Exit status of a command that finds that its run cannot be made on this host; test programs of automake use it too.
_SKIP = 77
# More than any description of a host has.
_MOST_METADATA_BYTES = 1_000_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Done:
    """How a command ended.

    Attributes:
        status: its exit status; negative: ended by that signal; ``None``: it could not be started.
        timed_out: it was killed because it took too long.
        output: the file that holds what it printed.
        said: the last line of that.
        killed: it ran until it was ended, as it should.
        left: what runs on of it and of what it started, because it may not be ended.
    """

    command: BatchCommand
    status: int | None
    timed_out: bool
    output: Path
    said: str
    killed: bool = False
    left: Sequence[Left] = ()

    @property
    def skips(self) -> bool:
        """True if it found that the run cannot be made on this host."""
        return self.status == _SKIP and not self.timed_out

    @property
    def ok(self) -> bool:
        """True if it did what it should; a monitor that is to be killed did, however it died."""
        return not self.left and (self.killed or (self.status == 0 and not self.timed_out))

    def __str__(self) -> str:
        """The problem, for the person who must act."""
        how = "could not be started" if self.status is None else f"ended with status {self.status}"
        if self.timed_out:
            how = f"took longer than its timeout_s of {duration(self.command.timeout_s)}"
        elif self.left:
            how = "could not be ended"
        elif self.status is not None and self.status < 0:
            how = f"was ended by signal {-self.status}"
        said = f": {self.said}" if self.said else ""
        return "; ".join(
            [f"command {self.command.name!r} {how}{said} (its output: {self.output})", *map(str, self.left)]
        )


class Started:
    """A command that runs; at the end of a ``with`` it runs no more.

    Attributes:
        failure: why it could not be started; empty where it could.
    """

    def __init__(self, command: BatchCommand, folder: Path, cwd: Path) -> None:
        """Start it; what it prints goes to a file in ``folder``."""
        self.command = command
        self.output = folder / f"{command.kind}-{re.sub(r'[^A-Za-z0-9_-]+', '_', command.name)}.txt"
        self._process: subprocess.Popen[bytes] | None = None
        self._left: Sequence[Left] = ()
        self.failure = ""
        with _opened(self.output) as file:
            try:
                # A group of its own: Ctrl-C on the terminal is ours to hear, and the whole group can be ended.
                words = ["/bin/sh", "-c", command.run] if isinstance(command.run, str) else command.run
                self._process = guarding.start(words, cwd=cwd, stdout=file, stderr=subprocess.STDOUT)
            except (OSError, ValueError) as reason:
                self.failure = str(reason)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, _kind: object, reason: BaseException | None, _where: object) -> None:
        done = self.end() if self._runs() else None
        if done is not None and done.left and reason is not None:
            reason.add_note(str(done))

    def wait(self, timeout_s: float) -> Done:
        """Wait for its end; where it takes longer (0: it may take any time), kill it."""
        limit_s = timeout_s if timeout_s > 0 else None
        timed_out = self._process is not None and not process_groups.wait_for_end(self._process.pid, limit_s)
        if timed_out:
            self._stop()
        return self._done(timed_out=timed_out)

    def end(self) -> Done:
        """End it now, with all that it started."""
        running = self._runs()
        self._stop()
        return self._done(killed=running)

    def _runs(self) -> bool:
        return (
            self._process is not None
            and self._process.returncode is None
            and not self._left
            and not process_groups.has_ended(self._process.pid)
        )

    def _stop(self) -> None:
        if self._process is not None:
            self._left = process_groups.end(self._process.pid, _MERCY_S)

    def _done(self, *, timed_out: bool = False, killed: bool = False) -> Done:
        # Reaps it, if it has ended: from here on its number may be another's.
        status = None if self._process is None else self._process.poll()
        if self._process is not None and status is not None:
            guarding.forget(self._process.pid)
        said = self.failure or _last_line(self.output)
        return Done(self.command, status, timed_out, self.output, said, killed, self._left)


def _opened(path: Path) -> IO[bytes]:
    """The file for what a command prints. Where it cannot be had the command runs without: it may put things back."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("wb")
    except OSError:
        return Path(os.devnull).open("wb")


def _last_line(path: Path) -> str:
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""
    return ""


@dataclass
class Around:
    """The commands of one run, in order: ``before``, then the test, then ``after``, whatever became of the two.

    Attributes:
        folder: takes what the commands print; made when there is a command.
        signals: allowed only while the program waits; a process that was started is never lost.
        outputs: what commands with ``metadata`` printed, by that name; parsed if it is JSON.
        is_impossible: an essential command found that the run cannot be made on this host.
    """

    commands: tuple[BatchCommand, ...]
    folder: Path
    cwd: Path
    signals: Deferred
    monitors: list[Started] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)
    is_impossible: bool = False

    def before(self) -> bool:
        """Run the pre commands and start the monitors; whether the test may start."""
        if self.commands:
            self.folder.mkdir(parents=True, exist_ok=True)
        return all(self._run(command, self.signals.allowed()) for command in self._of("pre")) and self._start_monitors()

    def after(self, *, at_once: bool) -> bool:
        """End the monitors and run the post commands, whatever fails of them; whether every essential one went well.

        Only a second Ctrl-C gives them up.

        Args:
            at_once: end also those monitors that would be waited for.
        """
        well = []
        while self.monitors:
            monitor = self.monitors[0]
            well.append(self._at_any_rate(monitor.command, partial(self._monitored, monitor, at_once)))
            self.monitors.remove(monitor)
        for command in self._of("post"):
            well.append(self._at_any_rate(command, partial(self._run, command, self.signals.allowed(repeated=True))))
        return all(well)

    def abandon(self) -> None:
        """End every monitor at once."""
        for monitor in self.monitors:
            monitor.end()
        self.monitors = []

    def _of(self, kind: str) -> list[BatchCommand]:
        return [command for command in self.commands if command.kind == kind]

    def _run(self, command: BatchCommand, waiting: AbstractContextManager[None]) -> bool:
        with Started(command, self.folder, self.cwd) as started, waiting:
            done = started.wait(command.timeout_s)
        if command.metadata is not None:
            self._keep_output(command.metadata, done)
        return self._judged(done)

    def _keep_output(self, name: str, done: Done) -> None:
        try:
            if done.output.stat().st_size > _MOST_METADATA_BYTES:
                size = _MOST_METADATA_BYTES // 1_000_000
                self.troubles.append(f"{done.output}: more than {size} MB: not kept as metadata {name!r}")
                return
            text = done.output.read_text(errors="replace")
        except OSError as reason:
            self.troubles.append(f"metadata {name!r}: {reason}")
            return
        try:
            self.outputs[name] = json.loads(text)
        except (ValueError, RecursionError):
            self.outputs[name] = text

    def _start_monitors(self) -> bool:
        for command in self._of("monitor"):
            monitor = Started(command, self.folder, self.cwd)
            if monitor.failure:
                if not self._judged(monitor.end()):
                    return False
                continue
            self.monitors.append(monitor)
        if self.monitors:
            # A capture that starts with the test misses the test's start.
            with self.signals.allowed():
                time.sleep(0.1)
        return True

    def _monitored(self, monitor: Started, at_once: bool) -> bool:
        command = monitor.command
        if command.kill or at_once:
            return self._judged(monitor.end())
        with self.signals.allowed(repeated=True):
            done = monitor.wait(command.timeout_s)
        return self._judged(done)

    def _at_any_rate(self, command: BatchCommand, step: Callable[[], bool]) -> bool:
        """Do one of several things that must all be done."""
        try:
            return step()
        except Exception as reason:
            _log.exception("command %s", command.name)
            self.troubles.append(f"command {command.name!r}: {reason!r}")
            return not command.essential

    def _judged(self, done: Done) -> bool:
        """Note what went wrong; whether the run may go on."""
        if done.ok:
            return True
        self.troubles.append(str(done))
        self.is_impossible = self.is_impossible or (done.command.essential and done.skips)
        return not done.command.essential

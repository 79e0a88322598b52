"""Commands around a run: started in process groups of their own, ended with everything that they started."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from whydrop.sources.batch.expanding import BatchCommand

# From SIGTERM to SIGKILL.
_MERCY_S = 5.0
_LOOK_AGAIN_S = 0.02
_TAIL_BYTES = 2000


@dataclass(frozen=True)
class Done:
    """How a command ended.

    Attributes:
        status: its exit status; negative: ended by that signal; ``None``: it could not be started.
        timed_out: it was killed because it took too long.
        output: the file that holds what it printed.
        said: the last line of that.
    """

    command: BatchCommand
    status: int | None
    timed_out: bool
    output: Path
    said: str
    killed: bool = False

    @property
    def ok(self) -> bool:
        """Whether it did what it should; a monitor that is to be killed did, however it died."""
        return self.killed or (self.status == 0 and not self.timed_out)

    def __str__(self) -> str:
        """What went wrong, for the person who must act."""
        how = "could not be started" if self.status is None else f"ended with status {self.status}"
        if self.timed_out:
            how = f"took longer than its timeout_s of {self.command.timeout_s:g} s"
        elif self.status is not None and self.status < 0:
            how = f"was ended by signal {-self.status}"
        said = f": {self.said}" if self.said else ""
        return f"command {self.command.name!r} {how}{said} (its output: {self.output})"


class Started:
    """A command that runs.

    Attributes:
        failure: why it could not be started; empty where it could.
    """

    def __init__(self, command: BatchCommand, folder: Path, cwd: Path) -> None:
        """Start it; what it prints goes to a file in ``folder``."""
        self.command = command
        self.output = folder / f"{command.kind}-{re.sub(r'[^A-Za-z0-9_-]+', '_', command.name)}.txt"
        self._file = _opened(self.output)
        self._process: subprocess.Popen[bytes] | None = None
        self.failure = ""
        try:
            # A group of its own: Ctrl-C on the terminal is ours to hear, and the whole group can be ended.
            self._process = subprocess.Popen(
                command.run,
                shell=isinstance(command.run, str),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=self._file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as reason:
            self.failure = str(reason)

    def wait(self, timeout_s: float) -> Done:
        """Wait for its end; where it takes longer, kill it."""
        return self._ended(timeout_s, killed=False)

    def end(self) -> Done:
        """End it now."""
        running = self._process is not None and self._process.poll() is None
        self._stop()
        return self._ended(0.0, killed=running)

    def _ended(self, timeout_s: float, *, killed: bool) -> Done:
        timed_out = False
        if self._process is not None:
            try:
                self._process.wait(timeout_s if timeout_s > 0 else None)
            except subprocess.TimeoutExpired:
                timed_out = True
                self._stop()
            except BaseException:
                self._stop()
                raise
        self._file.close()
        status = self._process.returncode if self._process is not None else None
        return Done(self.command, status, timed_out, self.output, self.failure or _last_line(self.output), killed)

    def _stop(self) -> None:
        if self._process is None:
            return
        _signal_group(self._process.pid, signal.SIGTERM)
        until = time.monotonic() + _MERCY_S
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_MERCY_S)
        # A shell dies at once, while what it started (such as tcpdump) still writes down what it has.
        while _group_lives(self._process.pid) and time.monotonic() < until:
            time.sleep(_LOOK_AGAIN_S)
        # Also what it started and what did not heed the first signal.
        _signal_group(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _opened(path: Path) -> IO[bytes]:
    """The file for what a command prints. Where it cannot be had the command runs without: it may put things back."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("wb")
    except OSError:
        return Path(os.devnull).open("wb")


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _group_lives(group: int) -> bool:
    """Whether a process group has a process that is not merely waiting to be reaped."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # Behind the name, which may hold anything: state, parent, group (proc(5)).
            state, _, its_group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                return True
    return False


def _last_line(path: Path) -> str:
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""
    return ""


@dataclass
class Around:
    """The commands of one run, in order: ``before``, then the test, then ``after``.

    Attributes:
        folder: takes what the commands print; made when there is a command.
    """

    commands: tuple[BatchCommand, ...]
    folder: Path
    cwd: Path
    monitors: list[Started] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def before(self) -> bool:
        """Run the pre commands and start the monitors; whether the test may start."""
        if self.commands:
            self.folder.mkdir(parents=True, exist_ok=True)
        return all(self._run(command) for command in self._of("pre")) and self._start_monitors()

    def after(self) -> bool:
        """End the monitors and run the post commands; whether every essential one went well."""
        well = [self._monitored(monitor) for monitor in self.monitors]
        self.monitors = []
        well += [self._run(command) for command in self._of("post")]
        return all(well)

    def abandon(self) -> None:
        """End every monitor at once."""
        for monitor in self.monitors:
            monitor.end()
        self.monitors = []

    def _of(self, kind: str) -> list[BatchCommand]:
        return [command for command in self.commands if command.kind == kind]

    def _run(self, command: BatchCommand) -> bool:
        return self._judged(Started(command, self.folder, self.cwd).wait(command.timeout_s))

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
            time.sleep(0.1)
        return True

    def _monitored(self, monitor: Started) -> bool:
        command = monitor.command
        return self._judged(monitor.end() if command.kill else monitor.wait(command.timeout_s))

    def _judged(self, done: Done) -> bool:
        """Note what went wrong; whether the run may go on."""
        if done.ok:
            return True
        self.troubles.append(str(done))
        return not done.command.essential

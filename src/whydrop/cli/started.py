"""The command that a watch or a deployment starts, and ends with: it begins with the first poll, or at once."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from whydrop.errors import Error
from whydrop.runtime.masking import masked_command

# The shell stops before it becomes the command, so that the first connection is seen.
_GATE = 'kill -STOP $$; exec "$@"'
# Ctrl-C on a terminal reaches the command too: it has time to end by itself, and then after SIGTERM.
_PATIENCE_S = 1.0
_MERCY_S = 10.0
_LOOK_AGAIN_S = 0.02


class CommandError(Error):
    """The command cannot be started; ``exit_status`` is that of shells."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.exit_status = status


def check_program(program: str) -> None:
    """Look a program up.

    Raises:
        CommandError: there is none that can be started.
    """
    if shutil.which(program) is None:
        there = Path(program).exists()
        why = "is no program that may be run" if there else "no such program"
        raise CommandError(f"{program}: {why}", 126 if there else 127)


class Command:
    """A command, or none; a context in which it runs, on the same terminal and in the same process group.

    Attributes:
        pid: of its process; ``None`` where there is no command.
        shown: its words without secrets.
    """

    def __init__(self, words: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.pid: int | None = None
        self.shown = shlex.join(masked_command(list(words)))
        self._words = list(words)
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._gone = False

    def __enter__(self) -> Command:
        """Start it; it waits for :meth:`go`."""
        if not self._words:
            return self
        check_program(self._words[0])
        self._process = subprocess.Popen(["/bin/sh", "-c", _GATE, "sh", *self._words], env=self._environment)
        self.pid = self._process.pid
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it where it has not ended."""
        if self._process is None:
            return
        if not self._gone:
            # It has not begun.
            self._process.kill()
            self._process.wait()
            return
        if not self._ends_within(_PATIENCE_S):
            self._process.terminate()
            if not self._ends_within(_MERCY_S):
                self._process.kill()
                self._process.wait()

    def go(self) -> None:
        """Let it begin; a second time changes nothing."""
        if self._process is not None and not self._gone:
            self._gone = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGCONT)

    def has_ended(self) -> bool:
        """True if there was one, and it has ended."""
        return self._process is not None and self._process.poll() is not None

    @property
    def status(self) -> int:
        """Its exit status as a shell reports it; 0 without a command."""
        code = 0 if self._process is None else self._process.returncode or 0
        return 128 - code if code < 0 else code

    def _ends_within(self, seconds: float) -> bool:
        until_s = time.monotonic() + seconds
        while not self.has_ended():
            if time.monotonic() >= until_s:
                return False
            time.sleep(_LOOK_AGAIN_S)
        return True

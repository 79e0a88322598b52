"""An emulation, in processes of its own that end with this one however it ends."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from whydrop.errors import Error
from whydrop.runtime import cancelling

Json = dict[str, Any]

# The smallest that IPv6 allows, and the largest of Ethernet.
LEAST_MTU_BYTES, MOST_MTU_BYTES = 1280, 9216
_MOST_ROUND_TRIP_NS = 60_000_000_000
# A program that Ctrl-C ended may still write down what it has.
_MERCY_S = 5.0


class EmulationError(Error):
    """The path cannot be emulated here; the message says why, and what is needed."""


@dataclass(frozen=True)
class Emulation:
    """The needs of an emulation.

    Attributes:
        path: elements, in JSON values.
        command: the program of the near host, with its arguments.
        far: lines for a shell of the far host.
        trace_ms: delivery opportunities of a link behind the path.
        is_reverse: the path is in the direction from the far host to the near one.
        round_trip_ns: the delay in the other direction.
        is_quiet: the program writes to stderr instead of stdout.
        seed: of the path's random numbers.
    """

    path: Json
    command: Sequence[str]
    far: Sequence[str] = ()
    trace_ms: Sequence[int] = ()
    is_reverse: bool = False
    round_trip_ns: int = 0
    mtu_bytes: int = 1500
    seed: int = 1
    is_quiet: bool = False

    def run(self) -> Json:
        """Run it until its program ends; the packets and the lateness of both directions.

        Raises:
            EmulationError: it cannot be run here.
        """
        if not 0 <= self.round_trip_ns <= _MOST_ROUND_TRIP_NS:
            raise EmulationError(f"rtt: {self.round_trip_ns / 1e9:g} s: expected a time from 0 to 60 s")
        with _process() as (process, parent, report):
            try:
                _send(parent, json.dumps(asdict(self)).encode() + b"\n")
                _wait(process)
            finally:
                # Ends it.
                os.close(parent)
                process.wait()
            with os.fdopen(report, "rb", closefd=False) as file:
                text = file.read()
        if not text:
            raise EmulationError(f"the emulation ended without a report (status {process.returncode})")
        found: Json = json.loads(text)
        if found["error"] is not None:
            raise EmulationError(found["error"])
        return found


@contextmanager
def _process() -> Iterator[tuple[subprocess.Popen[bytes], int, int]]:
    """The process, the end of a pipe that it lives as long as, and the one that its report comes from."""
    settings, parent = os.pipe()
    report, reporting = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "whydrop.emulating.inside", str(settings), str(reporting)],
            pass_fds=(settings, reporting),
        )
    except BaseException:
        os.close(parent)
        raise
    finally:
        os.close(settings)
        os.close(reporting)
    try:
        yield process, parent, report
    finally:
        os.close(report)


def _send(parent: int, text: bytes) -> None:
    # If it ends before it has read everything, its report says why.
    with contextlib.suppress(BrokenPipeError):
        while text:
            text = text[os.write(parent, text) :]


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Wait for its end; a program in the foreground that Ctrl-C ends may still finish its output."""
    try:
        process.wait()
    except cancelling.Terminated:
        raise
    except KeyboardInterrupt:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_MERCY_S)
        raise

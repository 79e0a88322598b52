"""Running programs in turns on one core, and what each run took."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

# ru_maxrss on Linux.
KILOBYTE = 1024


@dataclass(frozen=True)
class Run:
    """The resources that one process took."""

    wall_s: float
    cpu_s: float
    """Processor time of the process and its children, user and system."""
    peak_bytes: int
    """Largest resident memory (of the program or a child of it, whichever had more)."""


@dataclass
class Series:
    """The runs of one program on one file, in the order of the turns."""

    name: str
    command: Sequence[str]
    runs: list[Run] = field(default_factory=list)

    def wall_s(self) -> float:
        """Median."""
        return statistics.median(run.wall_s for run in self.runs)

    def cpu_s(self) -> float:
        """Median."""
        return statistics.median(run.cpu_s for run in self.runs)

    def peak_bytes(self) -> int:
        """Of all runs."""
        return max(run.peak_bytes for run in self.runs)


class ProgramError(Exception):
    """A measured program did not end well, so that its time means nothing."""


def pin_to_core(core: int) -> None:
    """Keep this process, and the programs that it starts from now on, on one core (as ``taskset -c`` does)."""
    os.sched_setaffinity(0, {core})


def run_once(command: Sequence[str]) -> Run:
    """Run a program with its output thrown away.

    The peak is what the kernel reports of the ended child; it is never less than :func:`own_peak_bytes`.
    """
    with tempfile.TemporaryFile() as messages:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=messages)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            messages.seek(0)
            last_words = messages.read().decode(errors="replace").strip().splitlines()[-3:]
            raise ProgramError(
                f"{' '.join(command)} ended with status {process.returncode}: {' / '.join(last_words) or 'no message'}"
            )
    return Run(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * KILOBYTE)


def own_peak_bytes() -> int:
    """The peak memory of this program itself: the kernel reports no smaller peak for a child."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE


def measure_in_turns(series: Sequence[Series], repetitions: int, *, warm_up: bool = True) -> None:
    """Run every program once, then again, and so on: what disturbs the machine disturbs them alike.

    The warm-up brings the capture and the programs into the page cache.
    """
    if warm_up:
        for one in series:
            _tell(f"warm-up: {one.name}")
            run_once(one.command)
    for repetition in range(repetitions):
        for one in series:
            _tell(f"{repetition + 1} of {repetitions}: {one.name}")
            one.runs.append(run_once(one.command))
    _tell("")


def ratio(slower: Series, faster: Series, *, wall: bool, packets: tuple[int, int] = (1, 1)) -> float:
    """How many times faster: the median over the turns of the ratio within each turn.

    ``packets`` are the packets of the files that the two were run on, where these differ: then times per packet are
    compared, and medians with medians, as there are no common turns.
    """

    def seconds(run: Run) -> float:
        return run.wall_s if wall else run.cpu_s

    if packets[0] == packets[1] and len(slower.runs) == len(faster.runs):
        return statistics.median(
            seconds(slow) / max(seconds(fast), 1e-6) for slow, fast in zip(slower.runs, faster.runs, strict=True)
        )
    slow_s = statistics.median(seconds(run) for run in slower.runs) / packets[0]
    fast_s = statistics.median(seconds(run) for run in faster.runs) / packets[1]
    return slow_s / fast_s


def _tell(step: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{step}", end="", file=sys.stderr, flush=True)

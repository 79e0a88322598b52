"""One run of the collector, as a whole process, and what the store has of it."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
from measuring import KILOBYTE, ProgramError

from switches.agents import COMMUNITY, COUNTERS, Agents

SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class Collected:
    """The results and the cost of a run."""

    agent: str
    switches: int
    ports: int
    interval_s: int
    wall_s: float
    """From the first tick to the last one, and one interval more: start and end of the process are left out."""
    due: int
    """Polls, of all switches."""
    missed: int
    """Of them, those that brought nothing, or that the store does not even know of."""
    samples: int
    short: int
    """Samples that are lacking: each poll that was made brings one of each counter."""
    cpu_s: float
    """Of the process, with start and end, user and system."""
    peak_bytes: int
    late_ns: list[int] = field(repr=False)
    """How far from its tick each poll began."""
    took_ns: list[int] = field(repr=False)
    asleep_ns: list[int] = field(repr=False)
    """How far from each tick a process woke that did nothing but sleep until then, beside the collector: what of the
    lateness is the machine's."""

    def cpu_share(self) -> float:
        """Of one core."""
        return self.cpu_s / self.wall_s

    def late_ms(self, percent: int) -> float:
        """A percentile of how late polls began, milliseconds."""
        return percentile(self.late_ns, percent) / 1e6

    def asleep_ms(self, percent: int) -> float:
        """A percentile of how late the sleeper woke, milliseconds."""
        return percentile(self.asleep_ns, percent) / 1e6

    def took_ms(self, percent: int) -> float:
        """A percentile of how long polls took, milliseconds."""
        return percentile(self.took_ns, percent) / 1e6


def percentile(values: Sequence[float], percent: int) -> float:
    """Interpolated between ranks, both ends included."""
    if len(values) < 2:
        return values[0] if values else float("nan")
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def collect(
    command: Sequence[str], agents: Agents, folder: Path, interval_s: int, seconds: int, core: int | None = None
) -> Collected:
    """Poll agents for some time.

    Args:
        command: the program, without arguments.
        agents: what is polled.
        folder: for the configuration and the store; what was there goes.
        interval_s: between polls.
        seconds: for how long.
        core: the one that the collector runs on; ``None``: on all.

    Raises:
        ProgramError: the collector failed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = folder / "switches.toml"
    config.write_text(agents.config(folder / "store", interval_s))
    pinned = () if core is None else ("taskset", "--cpu-list", str(core))
    words = [*agents.inside, *pinned, *command, "collect", str(config), "--duration", f"{seconds}s"]
    with _sleeper(interval_s, pinned) as woke, tempfile.TemporaryFile() as messages:
        environment = {**os.environ, "WHYDROP_BENCH_COMMUNITY": COMMUNITY}
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=messages, stderr=subprocess.STDOUT, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        messages.seek(0)
        said = messages.read().decode(errors="replace").strip()
        asleep_ns = woke()
    if process.returncode != 0:
        raise ProgramError(f"{' '.join(words)} ended with status {process.returncode}: {said[-500:] or 'no message'}")
    polls, samples = _of_store(folder / "store", said)
    return summary(
        agents, interval_s, polls, samples,
        cpu_s=usage.ru_utime + usage.ru_stime, peak_bytes=usage.ru_maxrss * KILOBYTE, asleep_ns=asleep_ns,
    )  # fmt: skip


_SLEEP = """
import sys, time
interval = int(sys.argv[1])
while True:
    due = (time.time_ns() // interval + 1) * interval
    while (left := due - time.time_ns()) > 0:
        time.sleep(left / 1e9)
    print(time.time_ns() - due, flush=True)
"""


@contextmanager
def _sleeper(interval_s: int, pinned: Sequence[str]) -> Iterator[Callable[[], list[int]]]:
    """A process that sleeps from tick to tick; yields a function that returns its lateness so far, nanoseconds."""
    with tempfile.TemporaryFile() as woke:
        words = [*pinned, sys.executable, "-c", _SLEEP, str(interval_s * SECOND_NS)]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=woke, stderr=subprocess.DEVNULL)

        def told() -> list[int]:
            woke.seek(0)
            return [int(line) for line in woke.read().split(b"\n")[:-1]]

        try:
            yield told
        finally:
            process.kill()
            process.wait()


def _of_store(store: Path, said: str) -> tuple[pl.DataFrame, int]:
    """Polls, and the number of samples."""
    if not list(store.glob("polls/*/*.parquet")):
        raise ProgramError(f"the collector kept no polls: {said[-500:]}")
    polls = pl.read_parquet(store / "polls" / "*" / "*.parquet", hive_partitioning=False)
    counters = list(store.glob("counters/*/*.parquet"))
    return polls, sum(pl.scan_parquet(path).select(pl.len()).collect().item() for path in counters)


def summary(
    agents: Agents,
    interval_s: int,
    polls: pl.DataFrame,
    samples: int,
    *,
    cpu_s: float,
    peak_bytes: int,
    asleep_ns: list[int],
) -> Collected:
    """Sum up a store's polls. A tick between the first and the last that a switch has no row for was missed."""
    interval_ns = interval_s * SECOND_NS
    first, last = int(polls["due_ns"].min()), int(polls["due_ns"].max())  # type: ignore[arg-type]
    ticks = (last - first) // interval_ns + 1
    due = ticks * len(agents.addresses)
    made = polls.filter(pl.col("status") == "ok")
    return Collected(
        agent=agents.name,
        switches=len(agents.addresses),
        ports=agents.ports,
        interval_s=interval_s,
        wall_s=ticks * interval_s,
        due=due,
        missed=due - made.height,
        samples=samples,
        short=made.height * agents.ports * COUNTERS - samples,
        cpu_s=cpu_s,
        peak_bytes=peak_bytes,
        late_ns=(made["start_ns"] - made["due_ns"]).abs().to_list(),
        took_ns=(made["end_ns"] - made["start_ns"]).to_list(),
        asleep_ns=asleep_ns,
    )

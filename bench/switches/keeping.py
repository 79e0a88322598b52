"""CPU and bytes written to keep a poll until it is in the store, without SNMP.

    .venv/bin/python bench/switches/keeping.py --folder DIR

DIR must be on a disk: the kernel counts no bytes written to memory (tmpfs).
"""

from __future__ import annotations

import argparse
import random
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from whydrop.monitoring.switches.growth import Counting
from whydrop.monitoring.switches.keeper import MINUTE_NS, Keeper
from whydrop.monitoring.switches.readings import Counter, Port, Reading

INTERVAL_NS = MINUTE_NS // 6
START_NS = 1_700_000_000 // 3600 * 60 * MINUTE_NS
KINDS = ("octets", "unicast", "multicast", "broadcast", "discards", "errors", "pause")
COUNTERS = [
    Counter(f"{kind}.{direction}", f"1.3.6.1.2.1.31.1.1.1.{kind}.{direction}", 64)
    for kind in KINDS
    for direction in ("rx", "tx")
]


@dataclass(frozen=True)
class Cost:
    """Of one poll."""

    cpu_us: float
    written_bytes: float


class Switches:
    """Switches of which the counters grow at random."""

    def __init__(self, switches: int, ports: int) -> None:
        self.names = [f"s{number}" for number in range(switches)]
        self.series = [(Port(f"port{port}", port, None, 10**10), one) for port in range(ports) for one in COUNTERS]
        self._random = random.Random(1)
        self._totals = {name: [self._random.randrange(2**40) for _ in self.series] for name in self.names}
        self._counting = Counting(INTERVAL_NS)

    def poll(self, name: str, tick: int) -> tuple[Reading, pl.DataFrame]:
        """The poll of a switch at a tick."""
        due = START_NS + tick * INTERVAL_NS
        grown = [total + int(self._random.expovariate(1e-5)) for total in self._totals[name]]
        self._totals[name] = grown
        reading = Reading(
            name, "dfw07", "dfw", due, due + 1_200_000, due + 3_400_000, "ok", uptime_ns=due, steady_ns=due,
            asked_at="192.0.2.7 161", values=dict(zip(self.series, grown, strict=True)),
        )  # fmt: skip
        return reading, self._counting.samples(reading)


def measure(folder: Path, switches: int, ports: int, minutes: int) -> Cost:
    """Keep the polls of some minutes, the first of which begins an hour, and put all of them into the store."""
    shutil.rmtree(folder, ignore_errors=True)
    source, cpu_s, written = Switches(switches, ports), 0.0, _written_bytes()
    keeper = Keeper(folder, "bench", say=print)
    for minute in range(minutes):
        polls = [source.poll(name, minute * 6 + tick) for tick in range(6) for name in source.names]
        began = time.process_time()
        for reading, samples in polls:
            keeper.take(reading, samples)
        keeper.flush(START_NS + (minute + 1) * MINUTE_NS)
        cpu_s += time.process_time() - began
    began = time.process_time()
    keeper.close()
    cpu_s += time.process_time() - began
    count = minutes * 6 * switches
    return Cost(1e6 * cpu_s / count, (_written_bytes() - written) / count)


def _written_bytes() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("write_bytes:")).split()[1])


def main() -> None:
    """Print a line for each size of site."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="for the store; its content is removed")
    folder = parser.parse_args().folder
    for switches, ports, minutes in ((1, 2, 62), (1, 48, 62), (20, 48, 12)):
        cost = measure(folder, switches, ports, minutes)
        print(
            f"{switches} x {ports} ports x {len(COUNTERS)} counters, {minutes} min: "
            f"{cost.cpu_us:.0f} us of CPU and {cost.written_bytes:.0f} B written a poll"
        )
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()

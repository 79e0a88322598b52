#!/usr/bin/env python
"""How late packets of `whydrop emulate` are, beside the gaps of this machine.

    sudo python bench/emulators/lateness.py --rounds 5

Two loads: 10 000 small packets a second over a link, and full packets at 1 Gbit/s through a queue. Before each run a
loop that only reads the clock, with `SCHED_FIFO` on the emulator's processor, shows for how long that processor stands
still. It runs for 0.8 s: after a second without sleep Linux would stop it for 50 ms, if other programs wait. Needs root
and iperf3.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SECONDS = 4
LOOP_S = 0.8
LOADS = {
    "10 000 packets/s": ("line:rate=1G", f"-u -t {SECONDS} -b 10M -l 125 --pacing-timer 100"),
    "1 Gbit/s": ("fifo:rate=1G,limit=1000packets", f"-t {SECONDS}"),
}


@dataclass(frozen=True)
class Gaps:
    """For how much of the time, and at most how long, a processor stood still for more than 10 µs."""

    share: float
    longest_s: float


def main() -> int:
    """Measure and print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each load, in turns (default: 3)")
    rounds = parser.parse_args().rounds
    late = "".join(f"{name:>13}" for name in ("mean", "median", "99 %", "greatest"))
    print(f"{'':18}{late}{'lost':>6}{'Mbit/s':>8}{'gaps':>8}{'longest':>13}")
    for _ in range(rounds):
        for name, (path, options) in LOADS.items():
            gaps = gaps_of_processor()
            print(f"{name:18}{run(path, options)}{gaps.share:8.2%}{microseconds(gaps.longest_s * 1e9)}", flush=True)
    return 0


def run(path: str, options: str) -> str:
    """Emulate one load; the lateness of packets from near to far, those that the emulator lost, and the goodput."""
    client = f"iperf3 -c $WHYDROP_FAR -i 0 {options}"
    words = [sys.executable, "-m", "whydrop", "emulate", path, "--json", "--far", "exec iperf3 -s", "--"]
    done = subprocess.run([*words, "sh", "-c", client], capture_output=True, text=True, check=True)
    one = json.loads(done.stdout)["near_to_far"]
    late = [microseconds(one["lateness"][f"{value}_ns"]) for value in ("mean", "median", "p99", "greatest")]
    # The last one is the receiver's.
    goodput = re.findall(r"([\d.]+) ([GM]?)bits/sec", done.stderr)[-1]
    goodput_mbps = float(goodput[0]) * {"G": 1e3, "M": 1.0, "": 1e-6}[goodput[1]]
    return f"{''.join(late)}{one['lost_by_emulator']:6}{goodput_mbps:8.0f}"


def gaps_of_processor() -> Gaps:
    """The gaps of the processor that the emulator takes (the last one), in a process of its own."""
    reading = f"import lateness; lateness.read_clock({max(os.sched_getaffinity(0))})"
    words = [sys.executable, "-c", reading]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=HERE)
    return Gaps(*map(float, done.stdout.split()))


def read_clock(processor: int) -> None:
    """Read the clock on a processor ahead of all programs; print the share and the longest of the gaps."""
    os.sched_setaffinity(0, {processor})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    last_ns = began_ns = time.perf_counter_ns()
    still_ns = longest_ns = 0
    while last_ns - began_ns < LOOP_S * 1e9:
        now_ns = time.perf_counter_ns()
        gap_ns, last_ns = now_ns - last_ns, now_ns
        if gap_ns > 10_000:
            still_ns += gap_ns
            longest_ns = max(longest_ns, gap_ns)
    print(still_ns / (last_ns - began_ns), longest_ns / 1e9)


def microseconds(time_ns: float) -> str:
    """A column."""
    return f"{time_ns / 1e3:10.1f} µs"


if __name__ == "__main__":
    sys.exit(main())

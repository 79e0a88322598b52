"""The cost of `whydrop watch --events` beside a fast flow over loopback, as root.

    .venv/bin/python bench/events.py [--seconds 10] [--control cubic] [--streams 1]

iperf3 sends as fast as this machine can, without a watch, with one, and with one that records events. The kernel itself
counts the time of the programs (`kernel.bpf_stats_enabled`, which this sets and restores); the processor time of the
watch is that of its process. Both are shares of one processor. Rates depend on what else the machine does: its load is
printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PORT = 5299
_STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")
_NS_PER_S = 1e9


def main() -> int:
    """Print rates and shares of a processor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--control", default="cubic")
    parser.add_argument("--streams", type=int, default=1)
    wanted = parser.parse_args()
    if os.geteuid() != 0:
        print("bench: needs root, to load programs into the kernel", file=sys.stderr)
        return 1
    with counted(), served():
        print(
            f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors, {wanted.streams} streams of {wanted.control}"
        )
        rate, _ = sent(wanted)
        print(f"without a watch: {rate / 1e9:.1f} Gbit/s")
        for options in ([], ["--events"]):
            told, cpu_s, took_s, rate = watched(wanted, options)
            share = 100 * cpu_s / took_s
            print(f"whydrop watch {' '.join(options)}: {rate / 1e9:.1f} Gbit/s, {share:.2f} % of a processor")
            if told["events"]:
                _print_events(told["events"], rate, took_s)
    return 0


def _print_events(events: dict[str, Any], rate: float, took_s: float) -> None:
    runs, spent_s = events["programs_runs"], events["programs_cpu_s"]
    share = 100 * spent_s / took_s
    each_ns = spent_s * _NS_PER_S / max(runs, 1)
    print(f"  programs in the kernel: {runs / took_s:,.0f} runs a second, {each_ns:.0f} ns each,")
    print(f"  {share:.2f} % of a processor ({share / (rate / 1e10):.2f} % for 10 Gbit/s)")
    print(f"  {sum(events['events'].values())} events, {events['lost']} lost")


@contextlib.contextmanager
def counted() -> Iterator[None]:
    """The kernel counts the time of programs."""
    before = _STATISTICS.read_text()
    _STATISTICS.write_text("1")
    try:
        yield
    finally:
        _STATISTICS.write_text(before)


@contextlib.contextmanager
def served() -> Iterator[None]:
    """A server of iperf3."""
    words = ["iperf3", "--server", "--port", str(_PORT)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as server:
        time.sleep(0.5)
        try:
            yield
        finally:
            server.terminate()


def sent(wanted: argparse.Namespace) -> tuple[float, float]:
    """The rate of a transfer in bit/s, and how long it took."""
    words = ["iperf3", "--client", "127.0.0.1", "--port", str(_PORT), "--time", str(wanted.seconds), "--json"]
    words += ["--congestion", wanted.control, "--parallel", str(wanted.streams)]
    begun_s = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"]), time.monotonic() - begun_s


def watched(wanted: argparse.Namespace, options: list[str]) -> tuple[dict[str, Any], float, float, float]:
    """The result of a watch beside a transfer, its processor time, the time, and the rate."""
    with tempfile.TemporaryDirectory() as output:
        words = [sys.executable, "-m", "whydrop", "watch", "--port", str(_PORT), "--json", "--output", output, *options]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as watching:
            while not any(Path(output).glob("*.recording/journal/polls*")):
                time.sleep(0.05)
            at_rest_s = process_s(watching.pid)
            rate, took_s = sent(wanted)
            cpu_s = process_s(watching.pid) - at_rest_s
            watching.send_signal(signal.SIGINT)
            return json.loads(watching.communicate()[0]), cpu_s, took_s, rate


def process_s(pid: int) -> float:
    """Processor time of a process, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())

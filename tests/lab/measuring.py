"""Measurements of other people's programs in the lab, as numbers."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from lab.machine import ROOT
from lab.network import HANGS_S, Host, LabError, Process

IPERF3_PORT = 5201


@dataclass(frozen=True)
class Pings:
    """Round-trip times of ICMP echoes.

    Attributes:
        sent: requests.
        rtt_s: of each answer, in seconds, in the order of the answers.
    """

    sent: int
    rtt_s: list[float]

    @property
    def median_s(self) -> float:
        """Half of the answers took at most as long."""
        return median(self.rtt_s)


def _pings(printed: str) -> Pings:
    summary = re.search(r"(\d+) packets transmitted", printed)
    if not summary:
        raise LabError(f"ping printed no summary:\n{printed}")
    return Pings(int(summary[1]), [float(found) / 1e3 for found in re.findall(r"time=([0-9.]+) ms", printed)])


def _ping_words(address: str, count: int, interval_s: float) -> list[str]:
    return ["ping", "-n", "-c", str(count), "-i", f"{interval_s:g}", "-W", "5", address]


def ping(host: Host, address: str, count: int = 10, interval_s: float = 0.1) -> Pings:
    """Ping from a host; answers may be missing."""
    timeout_s = count * interval_s + HANGS_S
    return _pings(host.run(_ping_words(address, count, interval_s), check=False, timeout_s=timeout_s).stdout)


def start_ping(host: Host, address: str, duration_s: float, interval_s: float = 0.1) -> Process:
    """Ping beside other traffic; read the end with :func:`pings_of`."""
    return host.popen(_ping_words(address, round(duration_s / interval_s), interval_s))


def pings_of(process: Process, timeout_s: float = HANGS_S) -> Pings:
    """The measurement of :func:`start_ping`."""
    return _pings(process.wait(timeout_s))


@contextlib.contextmanager
def iperf3_server(host: Host, ports: int = 1) -> Iterator[list[int]]:
    """Run servers of iperf3, one for each port (one server serves one client at a time); their ports."""
    numbers = [IPERF3_PORT + index for index in range(ports)]
    servers = [host.popen(["iperf3", "-s", "-p", str(port)]) for port in numbers]
    for port in numbers:
        host.wait_listening(port)
    yield numbers
    for server in servers:
        server.stop()


def start_iperf3(client: Host, address: str, duration_s: float, *options: str) -> Process:
    """Run a client of iperf3 beside others; read the end with :func:`iperf3_of`."""
    return client.popen(["iperf3", "-J", "-c", address, "-t", f"{duration_s:g}", *options])


def iperf3_of(process: Process, timeout_s: float = HANGS_S) -> dict[str, Any]:
    """The ``end`` of iperf3's result."""
    result = json.loads(process.wait(timeout_s))
    if "error" in result:
        raise LabError(f"iperf3: {result['error']}")
    end: dict[str, Any] = result["end"]
    return end


def received_bps(end: dict[str, Any]) -> float:
    """The rate that the receivers of an iperf3 run got together, in bit/s."""
    return float(end["sum_received"]["bits_per_second"])


def jain(rates: list[float]) -> float:
    """Jain's fairness index of rates: 1 where all are equal, 1/n where one has all (RFC 5166, section 2.3)."""
    return sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))


@contextlib.contextmanager
def watched(host: Host, folder: Path, port: int, every: str) -> Iterator[None]:
    """``whydrop watch`` of one port on a host, from before the block to behind it; leaves a recording in ``folder``."""
    words = [sys.executable, "-m", "whydrop", "watch", "--port", str(port), "--interval", every, "--quiet"]
    watching = host.popen([*words, "--output", str(folder)], cwd=ROOT)
    deadline = time.monotonic() + HANGS_S
    while not any(folder.glob("*.recording")):
        if watching.returncode is not None or time.monotonic() > deadline:
            raise LabError(f"whydrop watch did not begin:\n{watching.output()}")
        time.sleep(0.05)
    yield
    # A program that was started in the background of a shell may ignore SIGINT.
    watching.signal(signal.SIGTERM)
    watching.wait()

"""One veth pair between two network namespaces: a path with ends that are two hosts for TCP."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NEAR, FAR = "192.168.77.1", "192.168.77.2"
# What one connection learnt must not help the next.
SYSCTLS = ("net.ipv4.tcp_no_metrics_save=1",)


class WireError(Exception):
    """The path could not be made, or a program on it failed; the message says what and why."""


@dataclass(frozen=True)
class Wire:
    """The names of both namespaces."""

    near: str
    far: str

    def at(self, end: str, command: Sequence[str]) -> list[str]:
        """The command line that runs a command at one end; ``ip`` becomes the command and keeps its number."""
        return ["ip", "netns", "exec", end, *command]


@contextmanager
def wire() -> Iterator[Wire]:
    """The path; both namespaces are gone afterwards, with everything in them."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        raise WireError("network namespaces take root and iproute2 (apt-get install iproute2)")
    made = Wire(f"whydrop-bench-{os.getpid()}-near", f"whydrop-bench-{os.getpid()}-far")
    try:
        for end in (made.near, made.far):
            _do("ip", "netns", "add", end)
        _do("ip", "-n", made.near, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", made.far)
        for end, address in ((made.near, NEAR), (made.far, FAR)):
            _do("ip", "-n", end, "address", "add", f"{address}/24", "dev", "veth0")
            _do("ip", "-n", end, "link", "set", "lo", "up")
            _do("ip", "-n", end, "link", "set", "veth0", "up")
            _do(*made.at(end, ["sysctl", "-qw", *SYSCTLS]))
        yield made
    finally:
        for end in (made.near, made.far):
            subprocess.run(["ip", "netns", "delete", end], capture_output=True, check=False)


def _do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WireError(f"{' '.join(command)}: {done.stderr.strip() or f'status {done.returncode}'}")


@dataclass
class Ended:
    """The cost of a process, with its children that it waited for."""

    status: int
    cpu_s: float
    output: str


class Running:
    """A program on the wire; its processor time is known when it has ended."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 (as long as the program)
        self._process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=self._said, stderr=subprocess.STDOUT
        )

    def wait_for(self, words: str, *, within_s: float = 20) -> None:
        """Until it has printed these words."""
        give_up = time.monotonic() + within_s
        while words not in self._text():
            if time.monotonic() > give_up or self._has_ended():
                raise WireError(f"{' '.join(self.command)} did not say {words!r} but: {self._text().strip()[-300:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def ended(self, *, within_s: float = 120) -> Ended:
        """Wait for the end, and kill it when that does not come."""
        give_up = time.monotonic() + within_s
        while not self._has_ended():
            if time.monotonic() > give_up:
                self._process.kill()
            time.sleep(0.02)
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return Ended(self._process.returncode, _cpu_s(usage), self._text())

    def _has_ended(self) -> bool:
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _text(self) -> str:
        # its own position in the file is the program's: reading must not move that
        with Path(f"/proc/self/fd/{self._said.fileno()}").open(errors="replace") as said:
            return said.read()


def _cpu_s(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def tell(step: str) -> None:
    """Show on a terminal what is being done."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{step}", end="", file=sys.stderr, flush=True)

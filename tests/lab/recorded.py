"""Scenes that are recorded and captured at once: one flow up to a responder, through a path with a known fault.

The recording is by ``whydrop run``; where another program is what holds the flow up, by ``whydrop watch`` beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.laboratory import Lab
from lab.machine import ROOT
from lab.measuring import watched
from lab.network import HANGS_S
from lab.path import NetworkPath
from lab.scenes import REAL_TIME, carry

WHYDROP = [sys.executable, "-m", "whydrop"]
IDLE_S = 1.5
LOAD_S = 8

# Reads so many bytes each second, from any client.
SLOW_READER = """
import socket, sys, time
listening = socket.create_server(("", 5001))
print("listening", flush=True)
reading = listening.accept()[0]
each_bytes = int(sys.argv[1]) // 20
while reading.recv(each_bytes, socket.MSG_WAITALL):
    time.sleep(0.05)
"""
GREEDY_SENDER = """
import socket, sys, time
sending = socket.create_connection((sys.argv[1], 5001))
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    sending.send(bytes(65536))
"""


@dataclass(frozen=True)
class Scene:
    """A path, and how a flow goes through it.

    Attributes:
        right: the causes of which one is true of the flow.
        rate: of the bottleneck, as ``tc`` writes it.
        queue: before it, in both directions.
        effect: what the box on the path does beside its delay (``middlebox.py``); in the machine netem has the delay.
        sysctls: of ``client`` and ``server``.
        options: of ``whydrop run``.
        responder: its options.
        reads_bytes_s: a reader that is so slow takes the place of the responder.
        needs: what of the kernel.
    """

    right: frozenset[str]
    rate: str | None = "10mbit"
    queue: str = "pfifo limit 60"
    effect: dict[str, Any] = field(default_factory=dict)
    sysctls: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    test: str = "tcp_1up"
    responder: tuple[str, ...] = ("--open",)
    reads_bytes_s: int | None = None
    needs: tuple[str, ...] = ()

    def record(self, lab: Lab, folder: Path, one_way_s: float = 0.02) -> None:
        """Let it happen; leaves a recording, ``sender.pcap``, and ``after.pcap`` from behind the queue."""
        folder.mkdir(parents=True, exist_ok=True)
        by_netem = bool(self.needs)
        delay = f"{one_way_s * 1e3:g}ms" if by_netem else None
        with ExitStack() as open_ones:
            path = open_ones.enter_context(
                lab.path(rate=self.rate, queue=self.queue, delay=delay, is_carried=not by_netem)
            )
            if not by_netem:
                carry(path.network.hosts["delay-1"], path.far, path.server, {"delay_s": one_way_s, **self.effect})
            self._set_up(path)
            sender = path.client.interfaces["near"]
            open_ones.enter_context(sender.captured(folder / "sender.pcap"))
            open_ones.enter_context(path.up.captured(folder / "after.pcap"))
            if self.reads_bytes_s:
                _read_slowly(path, folder, self.reads_bytes_s)
            else:
                self._run(path, folder)

    def _set_up(self, path: NetworkPath) -> None:
        path.client.sysctl("net.ipv4.tcp_no_metrics_save", "1")
        for name, host in (("client", path.client), ("server", path.server)):
            for key, value in self.sysctls.get(name, {}).items():
                host.sysctl(key, value)

    def _run(self, path: NetworkPath, folder: Path) -> None:
        words = [*REAL_TIME, *WHYDROP, "responder", "--no-metadata", *self.responder]
        responder = path.server.popen(words, cwd=ROOT)
        path.server.wait_listening(17370)
        words = [*REAL_TIME, *WHYDROP, "run", self.test, "--to", path.server.address, "--output", str(folder)]
        words += ["--set", f"delay={IDLE_S}", "--duration", f"{LOAD_S}s", "--no-plot", "--json", *self.options]
        path.client.run(words, cwd=ROOT, timeout_s=HANGS_S + 10 * LOAD_S)
        responder.stop()


def _read_slowly(path: NetworkPath, folder: Path, reads_bytes_s: int) -> None:
    """A flow to a slow reader, watched."""
    reader = path.server.popen([*REAL_TIME, sys.executable, "-c", SLOW_READER, str(reads_bytes_s)])
    reader.wait_for("listening")
    with watched(path.client, folder, 5001, "50ms"):
        path.client.run([*REAL_TIME, sys.executable, "-c", GREEDY_SENDER, path.server.address, str(LOAD_S)])


def _window(maximum_bytes: int) -> str:
    return f"4096 {min(maximum_bytes, 16_384)} {maximum_bytes}"


def _named(*causes: str) -> frozenset[str]:
    return frozenset(causes)


POLICED = {"effect": "police", "rate_bps": 8e6, "burst_bytes": 30_000}
BBR = ("--set", "cc=bbr")

SCENES = {
    "clean": Scene(_named("none", "sender"), options=("--set", "rate_bps=1e6")),
    "random-loss": Scene(
        _named("random-loss"), rate="30mbit", queue="pfifo limit 1000", effect={"effect": "lose_any", "share": 0.005}
    ),
    "fifo-long": Scene(_named("deep-queue"), queue="pfifo limit 150"),
    "fifo-short": Scene(_named("shallow-queue"), queue="pfifo limit 10"),
    "tbf": Scene(_named("deep-queue", "shaper"), rate=None, queue="tbf rate 10mbit burst 5kb limit 200kb"),
    "policer-cubic": Scene(_named("policer"), rate="60mbit", queue="pfifo limit 1000", effect=POLICED),
    "policer-bbr": Scene(_named("policer"), rate="60mbit", queue="pfifo limit 1000", effect=POLICED, options=BBR),
    "codel-cubic": Scene(_named("aqm"), queue="codel", needs=("netem", "codel")),
    "codel-bbr": Scene(_named("aqm"), queue="codel", options=BBR, needs=("netem", "codel")),
    "fq_codel": Scene(
        _named("aqm"), queue="fq_codel", test="tcp_nup", options=("--set", "flows=4"), needs=("netem", "fq_codel")
    ),
    "receive-window": Scene(_named("receiver-window"), sysctls={"server": {"net.ipv4.tcp_rmem": _window(30_000)}}),
    "slow-reader": Scene(_named("receiver-window"), reads_bytes_s=300_000),
    "slow-application": Scene(_named("sender"), options=("--set", "rate_bps=3e6")),
    "send-buffer": Scene(_named("sender"), sysctls={"client": {"net.ipv4.tcp_wmem": _window(40_000)}}),
    "limited-responder": Scene(
        _named("peer-application", "receiver-window"), responder=("--open", "--max-rate", "3mbit")
    ),
}
"""By their names; what this kernel lacks runs in the machine."""

HERE = {name: scene for name, scene in SCENES.items() if not scene.needs}
IN_THE_MACHINE = {name: scene for name, scene in SCENES.items() if scene.needs}

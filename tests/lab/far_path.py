"""A long path on any kernel: a line, a step down to a queue, and a hop of our own that delays, loses or polices.

    client ── line ══ step ══ hop ── server

It runs in real time, at some thousand packets a second (20 Mbit/s).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.laboratory import Lab
from lab.network import Host
from lab.path import bottleneck_commands

WHYDROP = [sys.executable, "-m", "whydrop"]
HOP = Path(__file__).with_name("far_hop.py")


@dataclass(frozen=True)
class FarPath:
    """The ends; the server responds.

    Attributes:
        state: the folder in which whydrop writes down what it changes.
    """

    client: Host
    server: Host
    state: Path

    @property
    def environment(self) -> dict[str, str]:
        """In which whydrop runs at the client."""
        return {**os.environ, "XDG_STATE_HOME": str(self.state)}

    def whydrop(self, *words: str) -> Any:
        """Run it at the client; what it printed and how it ended."""
        return self.client.run([*WHYDROP, *words], env=self.environment, check=False, timeout_s=1200)

    def kinds(self) -> list[str]:
        """The disciplines of the client's interface."""
        return [qdisc["kind"] for qdisc in self.client.interfaces["line"].qdiscs()]


@contextmanager
def far_path(
    lab: Lab,
    *,
    delay_s: float,
    line: str = "100mbit",
    rate: str | None = None,
    queue: str | None = None,
    loss: float = 0.0,
    police: tuple[float, float] | None = None,
) -> Iterator[FarPath]:
    """A path from a client to a server.

    Args:
        lab: of the test.
        delay_s: one-way delay, in each direction.
        line: rate at which packets come to the step.
        rate, queue: of the step, as ``tc`` writes them.
        loss: share of the packets in each direction.
        police: bit/s and bytes, counted as IP packets; from client to server.
    """
    with lab.network() as network:
        client, before, step, hop, server = map(network.host, ("client", "line", "step", "hop", "server"))
        network.link(client, before)
        fast, _ = network.link(before, step)
        slow, _ = network.link(step, hop)
        network.link(hop, server)
        network.start()
        for interface, of_line, of_queue in ((fast, line, "pfifo limit 10000"), (slow, rate, queue)):
            for command in bottleneck_commands(interface.name, of_line, of_queue):
                interface.tc(command)
        carry(hop, step, server, {"delay_s": delay_s, "loss": loss, "police": police})
        server.popen([*WHYDROP, "responder", "--open"]).wait_for("port")
        yield FarPath(client, server, lab.folder / "state")


def carry(hop: Host, near: Host, far: Host, settings: dict[str, Any]) -> None:
    """Let the program carry packets through a host between two others, in place of the kernel."""
    for setting in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
        hop.sysctl(setting, "0")
    links = []
    for end in (near, far):
        ours, theirs = hop.interfaces[end.name], end.interfaces[hop.name]
        addresses = {"to": theirs.hardware_address, "from": ours.hardware_address}
        links.append({"name": ours.name, **{key: value.replace(":", "") for key, value in addresses.items()}})
    words = ["chrt", "--fifo", "10", sys.executable, str(HOP), json.dumps({"links": links, **settings})]
    hop.popen(words).wait_for("carrying")

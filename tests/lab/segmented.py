"""A home: a host, its air, an access point, a line, and a far end; and cases of where delay and loss arise in it.

    client ── air ── access point ══ line ══ street ── hop ── server

Queues stand on both ends of the air and of the line. Programs carry packets through ``air``, where each waits for its
turn and some are lost, and through ``hop``, which is far away. They run in real time, at up to 20 Mbit/s.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from lab.far_path import WHYDROP, carry
from lab.laboratory import Lab
from lab.path import bottleneck_commands

FAST_MBIT = 80.0
# Too short to be noticed.
SHORT_S = 0.002


@dataclass(frozen=True)
class Queue:
    """A rate, and the time that a full queue before it takes to empty."""

    rate_mbit: float = FAST_MBIT
    length_s: float = 0.2

    def commands(self, device: str) -> list[str]:
        """As ``tc`` has it."""
        limit = max(4 * 1514, round(self.rate_mbit * 1e6 / 8 * self.length_s))
        return bottleneck_commands(device, f"{self.rate_mbit:g}mbit", f"bfifo limit {limit}")


@dataclass(frozen=True)
class Case:
    """Where delay and loss arise: ``near``, ``beyond``, ``both``, ``none``; and the test that shows it.

    Attributes:
        air, line: queues by direction, ``up`` and ``down``; those that are not there are fast.
        length_s: of the load. The place of random losses needs many probes: one in ten is lost.
    """

    name: str
    delay: str
    loss: str
    test: tuple[str, ...]
    air: dict[str, Queue] = field(default_factory=dict)
    line: dict[str, Queue] = field(default_factory=dict)
    air_loss: float = 0.0
    line_loss: float = 0.0
    jitter_s: float = 0.003
    one_way_s: float = 0.01
    length_s: int = 8


LOADS = {"up": ("tcp",), "down": ("tcp", "-R"), "both": ("tcp_bidirectional",)}


def drawn(seed: int) -> Case:
    """A case: the place goes round with the seed, everything else is drawn."""
    chance = random.Random(f"segments {seed}")
    place = ("near", "beyond", "both", "none", "lossy-air", "lossy-line")[seed % 6]
    direction = chance.choice(("up", "down"))
    other = "down" if direction == "up" else "up"
    queue = Queue(round(chance.uniform(6, 18), 1), round(chance.uniform(0.06, 0.4), 3))
    rest = {
        "jitter_s": round(chance.uniform(0, 0.004), 4),
        "one_way_s": round(chance.uniform(0.002, 0.03), 4),
    }
    name = f"{seed}-{place}-{direction}"
    # A program carries packets beyond the access point: it must not be the slowest in the other direction.
    ahead = {other: Queue(queue.rate_mbit, SHORT_S)}
    if place == "near":
        return Case(
            name, "near", "any", LOADS[chance.choice((direction, "both"))], air={direction: queue}, line=ahead, **rest
        )
    if place == "beyond":
        return Case(
            name, "beyond", "any", LOADS[chance.choice((direction, "both"))], line={direction: queue, **ahead}, **rest
        )
    if place == "both":
        second = Queue(round(chance.uniform(6, 18), 1), round(chance.uniform(0.1, 0.3), 3))
        # Four flows in each direction: one alone may wait so long for its acknowledgments that it fills no queue.
        return Case(name, "both", "any", ("rrul_be",), air={direction: queue}, line={other: second}, **rest)
    short = {direction: Queue(queue.rate_mbit, SHORT_S), other: Queue(queue.rate_mbit, SHORT_S)}
    if place == "none":
        return Case(name, "none", "any", LOADS[direction], line=short, **rest)
    share = round(chance.uniform(0.04, 0.1), 3)
    losses = {"air_loss": share} if place == "lossy-air" else {"line_loss": share}
    where = "near" if place == "lossy-air" else "beyond"
    return Case(name, "none", where, LOADS[direction], line=short, length_s=30, **losses, **rest)


def measured(lab: Lab, case: Case, *, idle_s: int = 3) -> dict[str, Any]:
    """Run the case's test with ``--access-point``; what ``--json`` says of the segments, and the recording."""
    with lab.network() as network:
        client, air, point, street, hop, server = map(
            network.host, ("client", "air", "point", "street", "hop", "server")
        )
        network.link(client, air)
        network.link(air, point)
        network.link(point, street)
        network.link(street, hop)
        network.link(hop, server)
        network.start()
        for interface, queue in (
            # Not at the client: its TCP sees a queue of its own host, and keeps it short (TCP small queues).
            (air.interfaces["point"], case.air.get("up")),
            (point.interfaces["air"], case.air.get("down")),
            (point.interfaces["street"], case.line.get("up")),
            (street.interfaces["point"], case.line.get("down")),
        ):
            for command in (queue or Queue()).commands(interface.name):
                interface.tc(command)
        carry(air, client, point, {"delay_s": 0.001, "jitter_s": case.jitter_s, "loss": case.air_loss})
        carry(hop, street, server, {"delay_s": case.one_way_s, "loss": case.line_loss})
        server.popen([*WHYDROP, "responder", "--open", "--no-metadata"]).wait_for("port")
        words = [*WHYDROP, "run", *case.test, "--to", server.address, "--access-point", point.address]
        words += ["-t", f"{case.length_s}s", "--set", f"delay={idle_s}s", "--title", case.name]
        words += ["--output", str(lab.folder), "--no-plot", "--no-counters", "--json"]
        done = client.run(words, check=False, timeout_s=300)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document

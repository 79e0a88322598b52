"""Chains of four routers with a short queue at the egress of one of them, and the hop that ``depth --trace`` finds.

    client ══ router 1 ── router 2 ── router 3 ── router 4 ── server

The first line is the client's own. ``python -m lab.traced 24`` draws so many chains and prints the score of them.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.far_path import WHYDROP
from lab.laboratory import Lab
from lab.network import Host
from lab.path import bottleneck_commands

ROUTERS = 4
# Answers of a router: as many as there are; as Linux limits them; one in 5 s for each host; none.
ANSWERS = {"free": "0", "limited": "1000", "scarce": "5000", "silent": "2000000000"}


@dataclass(frozen=True)
class Chain:
    """A chain and the place of its queue.

    Attributes:
        place: the router with the queue at its egress; 0: the client itself.
        queue: as ``tc`` writes it.
        rate_mbit, line_mbit: of the queue, and of the line from which bursts come.
        answers: of each router, a key of ``ANSWERS``.
        deep_at: a router with a long queue at a lower rate than the line, ahead of the short one; 0: none.
        version: of IP.
    """

    name: str
    place: int
    queue: str
    rate_mbit: float
    line_mbit: float
    answers: tuple[str, ...] = ("limited",) * ROUTERS
    deep_at: int = 0
    version: int = 4


def drawn(seed: int) -> Chain:
    """A chain: the place goes round with the seed, everything else is drawn."""
    chance = random.Random(f"trace {seed}")
    place = seed % ROUTERS + 1
    rate_mbit = round(chance.choice([chance.uniform(4, 20), chance.uniform(20, 60)]), 1)
    step = chance.choice([1.1, 1.3, 2, 5, 10])
    limit = chance.choice([5, 10, 20, 45, 100])
    queue = chance.choice([f"pfifo limit {limit}", f"bfifo limit {1514 * limit}"])
    kinds = chance.choice(
        [("free",), ("limited",), ("free", "limited"), ("free", "limited", "silent"), ("limited", "scarce")]
    )
    answers = tuple(chance.choice(kinds) for _ in range(ROUTERS))
    version = chance.choice([4, 4, 6])
    kinds = tuple(one[:2] for one in answers)
    name = f"{seed}-hop{place}-{queue.replace(' limit ', '')}-{rate_mbit:g}x{step:g}-{'-'.join(kinds)}-v{version}"
    return Chain(name, place, queue, rate_mbit, min(rate_mbit * step, 200), answers, 0, version)


def traced(lab: Lab, chain: Chain, *options: str) -> dict[str, Any]:
    """The document of a measurement with ``--trace``."""
    with lab.network() as network:
        client, *routers, server = map(
            network.host, ("client", *(f"router{n}" for n in range(1, ROUTERS + 1)), "server")
        )
        hosts = [client, *routers, server]
        for near, far in itertools.pairwise(hosts):
            network.link(near, far)
        network.start()
        _slow_down(client, routers[0], chain.line_mbit, "pfifo limit 10000" if chain.place else chain.queue)
        if chain.place:
            _slow_down(hosts[chain.place], hosts[chain.place + 1], chain.rate_mbit, chain.queue)
        if chain.deep_at:
            middle = (chain.rate_mbit * chain.line_mbit) ** 0.5
            _slow_down(hosts[chain.deep_at], hosts[chain.deep_at + 1], middle, "pfifo limit 10000")
        for router, kind in zip(routers, chain.answers, strict=True):
            router.sysctl("net.ipv4.icmp_ratelimit", ANSWERS[kind])
            router.sysctl("net.ipv6.icmp.ratelimit", ANSWERS[kind])
        responder = server.popen([*WHYDROP, "responder", "--open", "--no-metadata"])
        server.wait_listening(17370)
        address = server.address if chain.version == 4 else server.address6
        words = [*WHYDROP, "depth", address, "--trace", "--json", "-o", lab.folder, *options]
        done = client.run(words, check=False)
        responder.stop()
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _slow_down(host: Host, towards: Host, rate_mbit: float, queue: str) -> None:
    interface = host.interfaces[towards.name]
    for command in bottleneck_commands(interface.name, f"{rate_mbit * 1e3:.0f}kbit", queue):
        interface.tc(command)


def verdict(chain: Chain, found: dict[str, Any]) -> str:
    """``right``, ``range`` (the place is one of several), ``unknown`` or ``WRONG``."""
    place = found["trace"]
    after, before = place["after_hop"], place["before_hop"]
    if place["hop"] is not None:
        return "right" if place["hop"] == chain.place else "WRONG"
    if after is not None and before is not None:
        return "range" if after <= chain.place < before else "WRONG"
    if after is not None and after > chain.place:
        return "WRONG"
    return "unknown"


def main(seeds: Iterable[int]) -> int:
    """Measure these chains, and print a line for each and the score."""
    scores: dict[str, int] = {}
    for seed in seeds:
        chain = drawn(seed)
        with tempfile.TemporaryDirectory() as folder:
            found = traced(Lab(Path(folder)), chain, "--max-duration", "120s", "--max-bytes", "400MB")
        said = verdict(chain, found)
        scores[said] = scores.get(said, 0) + 1
        place = found["trace"]
        print(f"{said:8} {chain.name}: hop {place['hop']} ({place['after_hop']} to {place['before_hop']}) by "
              f"{place['evidence']}, {place['bursts']} bursts; {place['reason'] or ''}", flush=True)  # fmt: skip
    print(scores)
    return 1 if scores.get("WRONG") else 0


if __name__ == "__main__":
    sys.exit(main(range(int(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 2 else range(int(sys.argv[1]))))

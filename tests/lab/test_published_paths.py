"""The two published cases, scaled to what the machine carries: pacing found by itself reaches what a sweep finds.

The first is a queue of 45 packets at a small step of the rate on a path of 49 ms; the second a sender at 10 Gbit/s and
a receiver at 1 Gbit/s over 120 ms, with a queue of 21 packets. Kept are the round trips, and that the path holds
hundreds of times what the queue does in the first case, and that packets arrive ten times as fast as they leave in the
second.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import Lab
from lab.network import Host
from lab.path import NETEM_LIMIT_PACKETS, bottleneck_commands

pytestmark = [pytest.mark.slow]

WHYDROP = [sys.executable, "-m", "whydrop"]


@dataclass(frozen=True)
class Case:
    """A line at one rate, a step down to another with a short queue, and a delay."""

    name: str
    line: str
    step_mbit: float
    queue: str
    one_way: str
    length_s: float


CASES = [
    Case("ten-to-one-over-120-ms", "100mbit", 10, "pfifo limit 3", "60ms", 8),
    Case("small-step-over-49-ms", "80mbit", 78.4, "pfifo limit 1", "24.5ms", 4),
]
SETTINGS = [
    pytest.param(case, id=case.name, marks=[pytest.mark.exhaustive] if number else [])
    for number, case in enumerate(CASES)
]
NEEDS = pytest.mark.needs_kernel("netem", "htb", "tbf", "pfifo", "fq")


@contextmanager
def between(lab: Lab, case: Case) -> Iterator[tuple[Host, Host]]:
    """The sender and the receiver, which responds."""
    with lab.network() as network:
        client, line, step, hop, server = map(network.host, ("client", "line", "step", "hop", "server"))
        network.link(client, line)
        fast, _ = network.link(line, step)
        slow, _ = network.link(step, hop)
        towards_server, _ = network.link(hop, server)
        network.start()
        for interface, rate, queue in (
            (fast, case.line, "pfifo limit 10000"),
            (slow, f"{case.step_mbit}mbit", case.queue),
        ):
            for command in bottleneck_commands(interface.name, rate, queue):
                interface.tc(command)
        impairment = f"qdisc replace dev {{}} root netem limit {NETEM_LIMIT_PACKETS} delay {case.one_way}"
        for interface in (towards_server, hop.interfaces["step"]):
            interface.tc(impairment)
        server.popen([*WHYDROP, "responder", "--open"]).wait_for("port")
        yield client, server


def environment(lab: Lab) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(lab.folder / "state")}


@NEEDS
@pytest.mark.parametrize("case", SETTINGS)
def test_paced(lab: Lab, case: Case) -> None:
    with between(lab, case) as (client, server):
        words = ["pace", server.address, "--json", "--length", f"{case.length_s:g}s", "--highest", "150mbit"]
        done = client.run([*WHYDROP, *words, "--output", str(lab.folder / "runs")], env=environment(lab), check=False)
        assert done.returncode == 0, done.stderr + done.stdout
        found = json.loads(done.stdout)
        client.run([*WHYDROP, "pace", "--revert"], env=environment(lab))
    (lab.folder / "pace.json").write_text(json.dumps(found, indent=1))
    assert len(found["measurements"]) <= 15
    effects = {one["metric"]: one for one in found["proof"]["effects"]}
    assert effects["goodput-up"]["with"] > 3 * effects["goodput-up"]["without"]
    assert effects["retransmits"]["with"] < 0.01
    # Payload is 1448 of 1514 bytes of a frame.
    assert found["rate_bps"] > 0.95 * case.step_mbit * 1e6


@NEEDS
@pytest.mark.exhaustive
@pytest.mark.parametrize("case", SETTINGS)
def test_swept(lab: Lab, case: Case) -> None:
    with between(lab, case) as (client, server):
        script = str(Path(__file__).with_name("sweeping.py"))
        words = [server.address, str(case.step_mbit * 1e6), str(case.length_s), str(lab.folder / "runs")]
        said = client.run([sys.executable, script, *words], env=environment(lab)).stdout
    (lab.folder / "sweep.json").write_text(said)
    assert len(json.loads(said)) > 40


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_what_was_found_is_nineteen_twentieths_of_the_best(left_by: Callable[[str], Path], case: Case) -> None:
    from whydrop.act.measuring import read
    from whydrop.recording.recording import Recording

    file = "tests/lab/test_published_paths.py"
    paced = left_by(f"{file}::test_paced[{case.name}]")
    sweep = json.loads((left_by(f"{file}::test_swept[{case.name}]") / "sweep.json").read_text())
    found: dict[str, Any] = json.loads((paced / "pace.json").read_text())
    proof = found["proof"]
    with_it = [
        read(Recording.open(paced / "runs" / Path(folder).name)).goodput_bps
        for folder, kind in zip(proof["recordings"], proof["order"], strict=True)
        if kind == "with"
    ]
    best = max(row[2] for row in sweep[1:])
    assert sum(with_it) / len(with_it) >= 0.95 * best
    if best >= 3 * sweep[0][2]:
        assert sum(with_it) / len(with_it) >= 3 * sweep[0][2]

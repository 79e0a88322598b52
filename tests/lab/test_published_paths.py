"""The two published cases, scaled to what the machine carries: pacing found by itself reaches what a sweep finds.

The first is a queue of 45 packets at a small step of the rate on a path of 49 ms; the second a sender at 10 Gbit/s and
a receiver at 1 Gbit/s over 120 ms, with a queue of 21 packets. Kept are the round trips, and that the path holds
more than a hundred times what the queue does in the first case, and that packets arrive ten times as fast as they leave
in the second.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import Lab
from lab.far_path import far_path

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]


@dataclass(frozen=True)
class Case:
    """A line at one rate, a step down to another with a short queue, and a delay."""

    name: str
    line: str
    step_mbit: float
    queue: str
    one_way_s: float
    length_s: float

    @property
    def settings(self) -> dict[str, Any]:
        """Of its path."""
        return {"line": self.line, "rate": f"{self.step_mbit}mbit", "queue": self.queue, "delay_s": self.one_way_s}


CASES = [
    Case("ten-to-one-over-120-ms", "100mbit", 10, "pfifo limit 3", 0.06, 8),
    Case("small-step-over-49-ms", "30mbit", 29.4, "pfifo limit 1", 0.0245, 4),
]
SETTINGS = [pytest.param(case, id=case.name) for case in CASES]
NEEDS = pytest.mark.needs_kernel("htb", "tbf", "pfifo")


@NEEDS
@pytest.mark.parametrize("case", SETTINGS)
def test_paced(lab: Lab, case: Case) -> None:
    with far_path(lab, **case.settings) as path:
        words = ["pace", path.server.address, "--json", "--duration", f"{case.length_s:g}s", "--max-rate", "150mbit"]
        done = path.whydrop(*words, "--output", str(lab.folder / "runs"))
        assert done.returncode == 0, done.stderr + done.stdout
        found = json.loads(done.stdout)
        path.whydrop("pace", "revert")
    (lab.folder / "pace.json").write_text(json.dumps(found, indent=1))
    assert len(found["measurements"]) <= 15
    effects = {one["metric"]: one for one in found["proof"]["effects"]}
    assert effects["goodput-up"]["better"]
    assert effects["goodput-up"]["with"] > 2 * effects["goodput-up"]["without"]
    assert effects["retransmits"]["with"] <= effects["retransmits"]["without"]


@NEEDS
@pytest.mark.parametrize("case", SETTINGS)
def test_swept(lab: Lab, case: Case) -> None:
    with far_path(lab, **case.settings) as path:
        script = str(Path(__file__).with_name("sweeping.py"))
        words = [path.server.address, str(case.step_mbit * 1e6), str(case.length_s), str(lab.folder / "runs")]
        said = path.client.run([sys.executable, script, *words], env=path.environment, timeout_s=1200).stdout
    (lab.folder / "sweep.json").write_text(said)
    assert len(json.loads(said)) > 40


@pytest.mark.parametrize("case", SETTINGS)
def test_what_was_found_is_nineteen_twentieths_of_the_best(left_by: Callable[[str], Path], case: Case) -> None:
    from whydrop.act.meter import read
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

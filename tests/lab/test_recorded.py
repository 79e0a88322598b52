"""Recordings, recordings beside a capture, and captures alone: the same path must come out the same, or ``unknown``.

The scenes are in ``recorded.py``. What needs queues that this kernel may lack is recorded in the machine, and stays in
``build/lab``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lab import Lab
from lab.recorded import HERE, IN_THE_MACHINE, SCENES, Scene

pytestmark = [pytest.mark.slow, pytest.mark.needs_program("tcpdump")]

LeftBy = Callable[[str], Path]
# A scene that does not come out is played again, alone: other work on the machine may have delayed its box or hosts.
PLAYED_AT_MOST = 3
AT_ONCE = 4


def headline(document: dict[str, Any]) -> str:
    """The cause that leads, ``unknown`` where no verdict stands."""
    return str(document["verdicts"][0]["cause"]) if document["verdicts"] else "unknown"


def headlines(folder: Path) -> dict[str, str]:
    """The leading cause by each source."""
    import whydrop

    (recording,), capture = folder.glob("*.recording"), folder / "sender.pcap"
    return {
        "recording": headline(whydrop.explain(recording).document),
        "both": headline(whydrop.explain(recording, capture).document),
        "capture": headline(whydrop.explain(capture).document),
    }


def complaints(scene: Scene, found: dict[str, str]) -> list[str]:
    """The statements that are false, and those that a recording made worse."""
    right = {*scene.right, "unknown"}
    wrong = [f"{source}: {cause}" for source, cause in found.items() if cause not in right]
    if found["capture"] in scene.right and found["both"] not in scene.right:
        wrong.append("worse with the recording than without")
    return wrong


def right_ones(found: dict[str, dict[str, str]]) -> int:
    """How many of all headlines name a true cause."""
    return sum(cause in SCENES[name].right for name, one in found.items() for cause in one.values())


def played(lab: Lab, names: list[str], turn: int, at_once: int) -> dict[str, dict[str, str]]:
    folders = {name: lab.folder / f"{name}-{turn}" for name in names}
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda name: SCENES[name].record(lab, folders[name]), names))
    return {name: headlines(folder) for name, folder in folders.items()}


@pytest.mark.needs_kernel("pfifo", "tbf", "bbr")
def test_each_way_names_the_cause_or_says_that_it_does_not_know(lab: Lab) -> None:
    found = played(lab, list(HERE), 0, AT_ONCE)
    for turn in range(1, PLAYED_AT_MOST):
        wrong = [name for name, one in found.items() if complaints(SCENES[name], one)]
        found |= played(lab, wrong, turn, 1)
    (lab.folder / "headlines.json").write_text(json.dumps(found, indent=1))
    assert {name: found[name] for name in found if complaints(SCENES[name], found[name])} == {}
    assert right_ones(found) >= 0.76 * 3 * len(found), found


# Each takes minutes there: `make test` has the one with several flows, `make test-all` both congestion controls.
EXHAUSTIVE = {name: [pytest.mark.exhaustive] for name in ("codel-cubic", "codel-bbr")}
MANAGED = [(name, scene, EXHAUSTIVE.get(name, [])) for name, scene in IN_THE_MACHINE.items()]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.needs_kernel(*scene.needs), *more]) for name, scene, more in MANAGED],
)
def test_recorded_in_the_machine(lab: Lab, name: str) -> None:
    SCENES[name].record(lab, lab.folder)


@pytest.mark.parametrize("name", [pytest.param(name, marks=more) for name, _, more in MANAGED])
def test_each_way_knows_managed_queues_or_says_that_it_does_not(left_by: LeftBy, name: str) -> None:
    found = headlines(left_by(f"tests/lab/test_recorded.py::test_recorded_in_the_machine[{name}]"))
    assert complaints(SCENES[name], found) == [], found

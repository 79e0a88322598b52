"""Wi-Fi distinguished from the line: the place of the delay and the loss of a home is named, and named correctly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab import Lab
from lab.far_path import WHYDROP
from lab.segmented import Case, drawn, measured

pytestmark = [pytest.mark.slow, pytest.mark.needs_kernel("htb", "bfifo")]

CASES = 20


def where(lab: Lab, case: Case) -> tuple[str, str]:
    (found,) = measured(lab, case)["summary"]["segments"]
    parts: dict[str, Any] = {name: found[name] for name in ("near", "beyond", "whole")}
    assert all(parts.values()), found
    assert parts["near"]["added_ms"]["value"] + parts["beyond"]["added_ms"]["value"] == pytest.approx(
        parts["whole"]["added_ms"]["value"]
    )
    return found["delay"], found["loss"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(CASES))
def test_every_drawn_case_is_named_correctly(lab: Lab, seed: int) -> None:
    case = drawn(seed)
    delay, loss = where(lab, case)
    assert delay == case.delay
    # The losses of full queues are few: there too nothing false may be said, and nothing need be.
    assert loss in ({case.loss} if case.loss != "any" else {case.delay, "none", "unknown"})


@pytest.mark.parametrize("seed", [0, 1])
def test_a_slow_air_is_distinguished_from_a_slow_line(lab: Lab, seed: int) -> None:
    case = drawn(seed)
    delay, _ = where(lab, case)
    assert delay == case.delay


def test_the_next_hop_is_found_by_the_route(lab: Lab) -> None:
    with lab.path() as path:
        words = [*WHYDROP, "run", "tcp", "--to", path.server.address, "--access-point", "auto", "--dry-run", "--json"]
        plan = json.loads(path.client.run(words).stdout)
        near = plan["segments"]["near"]["host"]
        assert near in path.near.run(["ip", "-brief", "address"]).stdout
    assert plan["segments"]["is_next_hop"]

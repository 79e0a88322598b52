"""A rolling capture on the sender of a path that drops: from the trigger to the verdict within ten seconds."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Any

import pytest

from lab import Lab
from lab.measuring import iperf3_server, start_iperf3
from lab.network import Process
from lab.path import NetworkPath
from patience import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.needs_program("iperf3")]

ROLL = [sys.executable, "-m", "whydrop", "roll", "--json", "--duration", "14s", "--after", "3s"]
# What the issue asks of a machine that does nothing else; the number itself is measured by bench/web/rolling.py.
LONGEST_S = 10.0


def rolled(lab: Lab, path: NetworkPath, port: int, *options: str) -> dict[str, Any]:
    """The state at the end of a rolling capture beside an upload."""
    interface = "any"
    folder = lab.folder / "rolled"
    words = [*ROLL, interface, "--filter", f"tcp and port {port}", "--output", str(folder), *options]
    rolling: Process = path.client.popen(words)
    wait_until(lambda: any(folder.glob(".rolling-*")), "the start of the rolling capture")
    upload = start_iperf3(path.client, path.server.address, 6)
    printed = rolling.wait()
    upload.wait()
    found: dict[str, Any] = json.loads(printed[printed.index("{") :])
    return found


@pytest.mark.needs_kernel("tbf", "pfifo")
@pytest.mark.parametrize(
    ("shape", "options", "kind", "causes"),
    [
        ({"rate": "20mbit", "queue": "pfifo limit 20"}, ("--loss", "3"), "loss", {"shallow-queue"}),
        ({"rate": "20mbit", "queue": "pfifo limit 20"}, ("--verdict", "network"), "verdict", {"shallow-queue"}),
        ({"rate": "10mbit", "queue": "pfifo limit 300"}, ("--delay", "150ms"), "delay", {"shaper", "deep-queue"}),
    ],
)  # fmt: skip
def test_a_trigger_on_a_path_that_drops_leads_to_its_cause(
    lab: Lab, shape: dict[str, str], options: tuple[str, ...], kind: str, causes: set[str]
) -> None:
    # The queue is real and so is its time: on a busy machine the answer may be unknown. Never is it another cause.
    for _ in range(3):
        with lab.path(**shape) as path, iperf3_server(path.server) as (port,):
            state = rolled(lab, path, port, *options)
        assert state["kept"], state
        if state["kept"][0].get("cause") != "unknown":
            break
        shutil.rmtree(lab.folder / "rolled")
    kept = state["kept"][0]
    assert (kept["kind"], kept["state"]) == (kind, "explained"), state
    assert kept["cause"] in causes, kept
    assert kept["took_s"] < LONGEST_S, kept
    assert state["dropped"] == 0

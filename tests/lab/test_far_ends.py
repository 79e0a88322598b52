"""Pacing with what stands at the far end: by this host's own TCP_INFO it finds what the responder's proof does."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from lab import Lab
from lab.far_path import FarPath, far_path
from lab.measuring import iperf3_server
from lab.test_published_paths import NEEDS, SETTINGS, Case

pytestmark = [pytest.mark.slow, pytest.mark.needs_program("iperf3")]

# Of paces found from the sending end alone and with a responder, on one path.
SAME = 0.05
# On a busy machine the hop of our own is late: then it is played again.
TRIES = 3


def paced(path: FarPath, runs: Path, *words: str) -> dict[str, Any]:
    done = path.whydrop("pace", path.server.address, "--json", "--output", str(runs), *words)
    assert done.stdout, done.stderr
    path.whydrop("pace", "revert")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def steady_bps(found: dict[str, Any]) -> float:
    """The goodput of the flows that were paced, without their start."""
    from whydrop.act.meter import read
    from whydrop.recording.recording import Recording

    proof = found["proof"]
    with_it = [
        read(Recording.open(folder)).goodput_bps
        for folder, kind in zip(proof["recordings"], proof["order"], strict=True)
        if kind == "with"
    ]
    return fmean(with_it)


@pytest.mark.exhaustive
@NEEDS
@pytest.mark.parametrize("case", SETTINGS)
def test_an_iperf3_server_is_as_good_a_far_end_as_a_responder(lab: Lab, case: Case) -> None:
    words = ("--duration", f"{case.length_s:g}s", "--max-rate", "150mbit")
    with far_path(lab, **case.settings) as path, iperf3_server(path.server):
        for attempt in range(TRIES):
            ours = paced(path, lab.folder / f"responder-{attempt}", *words)
            theirs = paced(path, lab.folder / f"iperf3-{attempt}", *words, "--far-end", "iperf3")
            (lab.folder / "found.json").write_text(json.dumps([ours, theirs], indent=1))
            goodputs = [steady_bps(one) if "proof" in one else 0.0 for one in (ours, theirs)]
            if min(goodputs) >= (1 - SAME) * max(goodputs):
                break
    assert theirs["outcome"] == "better"
    assert min(goodputs) >= (1 - SAME) * max(goodputs), goodputs
    assert len(theirs["measurements"]) <= 15


@pytest.mark.needs_kernel("htb", "tbf", "bfifo")
def test_a_path_without_loss_is_left_alone(lab: Lab) -> None:
    with far_path(lab, rate="10mbit", queue="bfifo limit 400000", delay_s=0.01) as path, iperf3_server(path.server):
        words = ("--far-end", "iperf3", "--duration", "3s", "--max-rate", "20mbit")
        found = paced(path, lab.folder / "runs", *words)
        assert found["outcome"] == "does not help"
        assert path.kinds() == ["noqueue"]


@pytest.mark.exhaustive
@NEEDS
@pytest.mark.parametrize("case", SETTINGS[:1])
def test_existing_connections_are_as_good_a_judge_as_a_responder(lab: Lab, case: Case) -> None:
    """One transfer goes on through all of it; another sends now and then, and is limited by its program."""
    words = ("--max-rate", "40mbit")
    with far_path(lab, **case.settings) as path, iperf3_server(path.server, 2) as (one, other):
        ours = paced(path, lab.folder / "responder", *words, "--duration", f"{case.length_s:g}s")
        for port, *rate in ((one,), (other, "-b", "50K")):
            path.client.popen(["iperf3", "-c", path.server.address, "-p", str(port), "-t", "3600", *rate])
        for attempt in range(TRIES):
            theirs = paced(path, lab.folder / f"connections-{attempt}", *words, "--connections")
            (lab.folder / "found.json").write_text(json.dumps([ours, theirs], indent=1))
            goodputs = [steady_bps(found) if "proof" in found else 0.0 for found in (ours, theirs)]
            if min(goodputs) >= (1 - SAME) * max(goodputs):
                break
    assert theirs["outcome"] == "better"
    assert min(goodputs) >= (1 - SAME) * max(goodputs), goodputs
    assert theirs["far_end"] == "connections"
    assert 1 <= theirs["intervals_wider"] < 1.5
    assert "in which the path limited them" in theirs["judged_by"]

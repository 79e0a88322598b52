"""Pacing with what stands at the far end: by this host's own TCP_INFO it finds what the responder's proof does."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from lab import Lab
from lab.far_path import WHYDROP, FarPath, far_path
from lab.measuring import iperf3_server
from lab.test_fixing import effect, fixed
from lab.test_pacing import wait_until
from lab.test_published_paths import NEEDS, SETTINGS, Case

pytestmark = [pytest.mark.slow, pytest.mark.needs_program("iperf3")]

# Of paces found from the sending end alone and with a responder, on one path.
SAME = 0.05
# On a busy machine the hop of our own is late: then it is played again.
TRIES = 2


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


def compared(lab: Lab, ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    """The goodput that theirs brought, as a share of what ours did."""
    (lab.folder / "found.json").write_text(json.dumps([ours, theirs], indent=1))
    assert theirs["outcome"] == "better", theirs["outcome"]
    return steady_bps(theirs) / steady_bps(ours)


@pytest.mark.exhaustive
@NEEDS
@pytest.mark.parametrize("case", SETTINGS)
def test_an_iperf3_server_is_as_good_a_far_end_as_a_responder(lab: Lab, case: Case) -> None:
    words = ("--duration", f"{case.length_s:g}s", "--max-rate", "150mbit")
    with far_path(lab, **case.settings) as path, iperf3_server(path.server):
        for attempt in range(TRIES):
            ours = paced(path, lab.folder / f"responder-{attempt}", *words)
            theirs = paced(path, lab.folder / f"iperf3-{attempt}", *words, "--far-end", "iperf3")
            share = compared(lab, ours, theirs)
            if share == pytest.approx(1, abs=SAME):
                break
    assert share == pytest.approx(1, abs=SAME)
    assert len(theirs["measurements"]) <= 15
    assert theirs["judged_by"].startswith("Measured from this end alone")


@pytest.mark.exhaustive
@NEEDS
@pytest.mark.parametrize("case", SETTINGS[:1])
def test_existing_connections_are_as_good_a_judge_as_a_responder(lab: Lab, case: Case) -> None:
    """One transfer goes on through all of it; another sends now and then, and is limited by its program."""
    rate = ("--rate", f"{case.step_mbit * 0.97:g}mbit")
    with far_path(lab, **case.settings) as path, iperf3_server(path.server, 2) as (one, other):
        ours = paced(path, lab.folder / "responder", *rate, "--duration", f"{case.length_s:g}s")
        for port, *options in ((one,), (other, "-b", "50K")):
            path.client.popen(["iperf3", "-c", path.server.address, "-p", str(port), "-t", "3600", *options])
        theirs = paced(path, lab.folder / "connections", *rate, "--connections")
    assert compared(lab, ours, theirs) == pytest.approx(1, abs=SAME)
    assert theirs["far_end"] == "connections"
    assert 1 <= theirs["intervals_wider"] < 1.5
    assert "in which the path limited them" in theirs["judged_by"]


@pytest.mark.needs_kernel("htb", "tbf", "bfifo")
def test_a_path_without_loss_is_left_alone(lab: Lab) -> None:
    with far_path(lab, rate="10mbit", queue="bfifo limit 400000", delay_s=0.01) as path, iperf3_server(path.server):
        words = ("--far-end", "iperf3", "--duration", "3s", "--max-rate", "20mbit")
        found = paced(path, lab.folder / "runs", *words)
        assert found["outcome"] == "does not help"
        assert path.kinds() == ["noqueue"]


def jumbo(path: FarPath) -> None:
    """Let every hop take packets of 9000 bytes."""
    for host in path.client.network.hosts.values():
        for interface in host.interfaces.values():
            host.run(["ip", "link", "set", interface.name, "mtu", "9000"])


def routes(path: FarPath) -> list[str]:
    """The client's routes to the server alone."""
    return [line for line in path.client.run(["ip", "route"]).stdout.splitlines() if path.server.address in line]


@pytest.mark.needs_kernel("htb", "tbf", "bfifo")
def test_a_route_that_keeps_packets_small_is_taken_back_like_a_queue(lab: Lab) -> None:
    with far_path(lab, delay_s=0.001) as path:
        jumbo(path)
        state = path.state / "whydrop" / "changes.json"
        done = path.whydrop("pace", path.server.address, "--mtu", "1500", "--no-proof", "--json")
        (command,) = json.loads(done.stdout)["commands"]
        (route,) = routes(path)
        assert "mtu lock 1500" in route
        assert state.exists()
        path.whydrop("pace", "revert")
        assert (routes(path), state.exists()) == ([], False)
        # The printed command makes the same route; one that somebody made is left alone.
        path.client.run(command.split())
        assert routes(path) == [route]
        refused = path.whydrop("pace", path.server.address, "--mtu", "1400", "--no-proof")
        assert (refused.returncode, routes(path)) == (1, [route])
        assert "leaves it alone" in refused.stderr
        too_large = path.whydrop("pace", path.server.address, "--mtu", "9000", "--no-proof")
        assert "less than the 9000 bytes" in too_large.stderr


@pytest.mark.needs_kernel("htb", "tbf")
def test_a_run_that_is_killed_leaves_no_route(lab: Lab) -> None:
    with far_path(lab, delay_s=0.001) as path, iperf3_server(path.server):
        jumbo(path)
        state = path.state / "whydrop" / "changes.json"
        words = [*WHYDROP, "pace", path.server.address, "--mtu", "1500", "--far-end", "iperf3"]
        run = path.client.popen(words, env=path.environment)
        wait_until(lambda: bool(routes(path)), "the route is there")
        run.signal(signal.SIGKILL)
        wait_until(lambda: not state.exists(), "the guard has taken it back")
        assert routes(path) == []


@pytest.mark.exhaustive
@pytest.mark.needs_kernel("htb", "tbf", "bfifo")
def test_large_packets_into_a_queue_of_45_average_packets_are_named_with_both_figures(lab: Lab) -> None:
    """The queue is dimensioned in bytes, for 45 packets of 340 bytes: one of 9000 bytes, or ten of 1500."""
    with far_path(lab, rate="10mbit", queue="bfifo limit 15300", delay_s=0.01) as path, iperf3_server(path.server):
        jumbo(path)
        words = ("--far-end", "iperf3", "--duration", "3s", "--max-rate", "15mbit")
        for attempt in range(TRIES):
            found = paced(path, lab.folder / f"runs-{attempt}", *words)
            assert routes(path) == []
            if found["outcome"] == "better":
                break
    (lab.folder / "pace.json").write_text(json.dumps(found, indent=1))
    large, usual = found["packet_sizes"]["sizes"]
    assert (large["mtu_bytes"], usual["mtu_bytes"]) == (9000, 1500)
    assert usual["goodput_bps"] > 1.2 * large["goodput_bps"]
    assert found["packet_sizes"]["words"].startswith("large packets harm this path")
    assert found["outcome"] == "better"
    assert found["mtu_bytes"] == 1500
    assert "mtu lock 1500" in found["commands"][0]


@pytest.mark.exhaustive
@pytest.mark.needs_program("tcpdump")
@pytest.mark.needs_kernel("htb", "tbf", "pfifo")
@pytest.mark.parametrize("options", [("--far-end", "iperf3"), ("--connections", "--duration", "30s")])
def test_a_shallow_queue_is_mended_from_the_sending_end_alone(lab: Lab, options: tuple[str, ...]) -> None:
    with far_path(lab, rate="10mbit", queue="pfifo limit 6", delay_s=0.025) as path, iperf3_server(path.server):
        if "--connections" in options:
            path.client.popen(["iperf3", "-c", path.server.address, "-t", "3600"])
        found = fixed(lab, path, *options)
        assert found["verdict"]["cause"] == "shallow-queue"
        assert found["kept"], found["outcome"]
        assert effect(found, "goodput-up")["with"] > 7.5
        assert "htb" in path.kinds()

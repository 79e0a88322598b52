"""``--bind`` and ``--interface``: where packets leave this host."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import Lab
from running.responders import WHYDROP, Responder, responder
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners.program import ProgramRunner
from whydrop.measure.runners.registry import runner_for
from whydrop.recording.recording import Recording

pytestmark = pytest.mark.slow

Run = Callable[..., subprocess.CompletedProcess[str]]

PORT = 17370

ALL_KINDS = """
title = "Flows of every kind of the engine"

[[flows]]
name = "TCP ${dir}load"
each = { dir = ["up", "down"] }
kind = "tcp"
direction = "${dir}"
rate_bps = "1 Mbit/s"
start_s = 0
duration_s = 1

[[flows]]
name = "UDP ${dir}"
each = { dir = ["up", "down"] }
kind = "udp"
direction = "${dir}"
rate_bps = "1 Mbit/s"
start_s = 0
duration_s = 1

[[flows]]
name = "Probe"
kind = "probe"
start_s = 0
duration_s = 1

[[flows]]
name = "Echo"
kind = "icmp"
start_s = 0
duration_s = 1
"""


@pytest.fixture
def far() -> Iterator[Responder]:
    with responder("--open") as running:
        yield running


def only_recording(folder: Path) -> Recording:
    (found,) = folder.glob("*.recording")
    return Recording.open(found)


def test_a_run_leaves_from_the_address_that_is_named_and_keeps_it(run: Run, far: Responder, tmp_path: Path) -> None:
    (tmp_path / "all.toml").write_text(ALL_KINDS)
    done = run(
        "run", tmp_path / "all.toml", "--to", far.place, "--bind", "127.0.0.9", "--interface", "lo",
        "--output", tmp_path, "--no-plot",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    recording = only_recording(tmp_path)
    flows = recording.table("flows")
    facts = {name: json.loads(facts) for name, facts in flows.select("name", "facts").iter_rows()}
    assert facts["TCP upload"]["sender"].startswith("127.0.0.9:")
    assert facts["TCP download"]["receiver"].startswith("127.0.0.9:")
    for settings in map(json.loads, flows["settings"]):
        assert (settings["local_address"], settings["interface"]) == ("127.0.0.9", "lo")
    assert recording.metadata["test"]["parameters"]["local_address"] == "127.0.0.9"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--bind", "192.0.2.77"), "this host has no address 192.0.2.77"),
        (("--bind", "eth0"), "'eth0': expected an address"),
        (("--bind", "::1"), "::1 is of IPv6, and 127.0.0.1 is of IPv4"),
        (("--bind", "127.0.0.1", "-6"), "127.0.0.1 is of IPv4, and IPv6 was asked for"),
        (("--interface", "nowhere0"), "this host has no interface 'nowhere0'"),
        (("--with", "nuttcp", "--bind", "127.0.0.1"), "nuttcp cannot set local_address"),
    ],
)
def test_where_packets_cannot_leave_from_is_one_line_and_nothing_is_run(
    run: Run, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    done = run("run", "tcp_1up", "--to", "127.0.0.1:9", "--output", tmp_path, *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert said in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_flow_may_leave_from_an_address_of_its_own(run: Run, far: Responder, tmp_path: Path) -> None:
    (tmp_path / "uplinks.toml").write_text(
        'title = "Two uplinks"\n[[flows]]\nname = "By ${address}"\neach = { address = ["127.0.0.8", "127.0.0.9"] }\n'
        'kind = "tcp"\ndirection = "up"\nlocal_address = "${address}"\n'
        'rate_bps = "1 Mbit/s"\nstart_s = 0\nduration_s = 1\n'
    )
    done = run("run", tmp_path / "uplinks.toml", "--to", far.place, "--output", tmp_path, "--no-plot")
    assert (done.returncode, done.stderr) == (0, "")
    rows = only_recording(tmp_path).table("flows").select("name", "facts").iter_rows()
    senders = {name: json.loads(facts)["sender"].partition(":")[0] for name, facts in rows}
    assert senders == {"By 127.0.0.8": "127.0.0.8", "By 127.0.0.9": "127.0.0.9"}


@pytest.mark.parametrize(
    ("runner", "kind", "expected"),
    [
        ("iperf3", "tcp", [["-B", "192.0.2.7"], ["--bind-dev", "eth7"]]),
        ("ping", "icmp", [["-I", "192.0.2.7"], ["-I", "eth7"]]),
        ("fping", "icmp", [["-S", "192.0.2.7"], ["-I", "eth7"]]),
        ("irtt", "probe", [["--local=192.0.2.7"]]),
        ("netperf", "tcp", [["-L", "192.0.2.7"]]),
    ],
)
def test_programs_of_others_get_the_address_to_leave_from(runner: str, kind: str, expected: list[list[str]]) -> None:
    interface = "eth7" if len(expected) > 1 else None
    flow = PlannedFlow(
        "A", kind, "up" if kind == "tcp" else "both", runner, "192.0.2.1", duration_s=1.0, local_address="192.0.2.7",
        interface=interface,
    )  # fmt: skip
    made = runner_for(flow, 0)
    assert isinstance(made, ProgramRunner)
    command = made.command()
    for words in expected:
        assert words in [command[at : at + len(words)] for at in range(len(command))]


@pytest.mark.needs_namespaces
@pytest.mark.parametrize("version", [4, 6])
def test_nothing_of_a_run_leaves_from_another_address(lab: Lab, tmp_path: Path, version: int) -> None:
    (tmp_path / "all.toml").write_text(ALL_KINDS)
    with lab.network() as network:
        client, server = network.host("client"), network.host("server")
        network.link(client, server)
        network.start()
        usual, there = (client.address, server.address) if version == 4 else (client.address6, server.address6)
        other = "198.51.100.7/32" if version == 4 else "2001:db8:77::7/128"
        ip = ["ip", f"-{version}"]
        client.run([*ip, "address", "add", other, "dev", "lo"])
        server.run([*ip, "route", "add", other, "via", usual])
        # What comes from the usual address is not answered: whatever leaves from there fails.
        server.run([*ip, "route", "add", "blackhole", f"{usual}/{32 if version == 4 else 128}"])
        far = server.popen([*WHYDROP, "responder", "--open", "--port", str(PORT)])
        far.wait_for("port")
        words = [*WHYDROP, "run", str(tmp_path / "all.toml"), "--to", there, "--output", str(tmp_path), "--no-plot"]
        bound = client.run([*words, "--bind", other.partition("/")[0]], check=False)
        far.kill()
    # A busy machine may stop the far end for a while, which a run reports.
    problems = [line for line in bound.stderr.splitlines() if "stood still" not in line]
    assert (bound.returncode, problems) == (0, []), bound.stderr
    assert set(only_recording(tmp_path).table("flows")["status"]) == {"complete"}

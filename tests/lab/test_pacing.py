"""Changes to queues in network namespaces: exact, for one host alone, and gone whatever becomes of who made them."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab import Lab
from lab.measuring import iperf3_of, iperf3_server, ping, received_bps, start_iperf3
from lab.network import HANGS_S, Host, Interface, LabError, Process
from lab.path import NetworkPath

pytestmark = [pytest.mark.slow]

WHYDROP = [sys.executable, "-m", "whydrop"]

# What somebody may have configured: commands of tc without the interface.
CONFIGURED: dict[str, list[str]] = {
    "an HTB of somebody's": [
        "qdisc add dev {} root handle 1: htb default 10",
        "class add dev {} parent 1: classid 1:1 htb rate 100mbit",
        "class add dev {} parent 1:1 classid 1:10 htb rate 50mbit ceil 100mbit",
        "qdisc add dev {} parent 1:10 handle 10: pfifo limit 77",
        "filter add dev {} parent 1: protocol ip pref 5 u32 match ip dport 80 0xffff flowid 1:10",
    ],
    "nothing": [],
    "a FIFO": ["qdisc add dev {} root handle 5: bfifo limit 300000"],
    "a TBF": ["qdisc add dev {} root handle 5: tbf rate 80mbit burst 20k limit 300k"],
}


def one_in_short(first: str, *others: str) -> list[Any]:
    """Settings of a test, of which `make test` has the first."""
    return [first, *(pytest.param(one, marks=pytest.mark.exhaustive) for one in others)]


def shown(interface: Interface) -> str:
    """The queues of an interface as tc shows them, without the packets that passed."""
    said = "".join(interface.tc(f"{what} show dev {{}}") for what in ("qdisc", "class", "filter"))
    return re.sub(r"direct_packets_stat \d+", "direct_packets_stat -", said)


@contextmanager
def two(lab: Lab, configured: str = "nothing") -> Iterator[tuple[Host, Host, Interface]]:
    """Two hosts, the first one's interface configured."""
    with lab.network() as network:
        one, other = network.host("one"), network.host("other")
        interface, _ = network.link(one, other)
        network.start()
        for command in CONFIGURED[configured]:
            interface.tc(command)
        yield one, other, interface


def environment(lab: Lab) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(lab.folder / "state")}


def pace(lab: Lab, host: Host, *options: str, check: bool = True) -> Any:
    return host.run([*WHYDROP, "pace", *options], env=environment(lab), check=check)


def state_of(lab: Lab) -> Path:
    return lab.folder / "state" / "whydrop" / "changes.json"


def wait_until(holds: Any, why: str) -> None:
    deadline = time.monotonic() + HANGS_S
    while not holds():
        if time.monotonic() > deadline:
            raise LabError(f"{why}: not within {HANGS_S:g} s")
        time.sleep(0.05)


@pytest.mark.needs_kernel("htb", "tbf", "pfifo", "bfifo")
@pytest.mark.parametrize("configured", one_in_short(*CONFIGURED))
def test_what_is_taken_back_is_as_it_was_to_the_letter(lab: Lab, configured: str) -> None:
    with two(lab, configured) as (one, other, interface):
        before = shown(interface)
        options = ["--replace-root"] if configured in ("a FIFO", "a TBF") else []
        pace(lab, one, other.address, "--rate", "10mbit", "--no-proof", *options)
        assert "10Mbit" in shown(interface)
        status = json.loads(pace(lab, one, "status", "--json").stdout)["changes"]
        assert [(entry["interface"], entry["phase"]) for entry in status] == [(interface.name, "until")]
        pace(lab, one, "revert")
        assert shown(interface) == before
        assert not state_of(lab).exists()


@pytest.mark.needs_kernel("htb", "tbf", "bfifo")
def test_a_root_that_somebody_configured_is_left_alone_unless_asked(lab: Lab) -> None:
    with two(lab, "a FIFO") as (one, other, interface):
        before = shown(interface)
        done = pace(lab, one, other.address, "--rate", "10mbit", "--no-proof", check=False)
        assert (done.returncode, shown(interface)) == (1, before)
        assert "bfifo 5:" in done.stderr
        assert "--replace-root" in done.stderr


WITH_AN_ACTION = (
    "filter add dev {} parent 1: protocol ip pref 7 u32 match ip dport 99 0xffff action police rate 1mbit burst 9k drop"
)


@pytest.mark.needs_kernel("htb", "tbf", "pfifo", "police")
def test_filters_with_actions_and_fixed_counters_stay_in_place_and_are_never_recreated(lab: Lab) -> None:
    with two(lab, "an HTB of somebody's") as (one, other, interface):
        interface.tc(WITH_AN_ACTION)
        before = without_ages(interface)
        refused = pace(lab, one, other.address, "--rate", "10mbit", "--no-proof", "--replace-root", check=False)
        assert (refused.returncode, without_ages(interface)) == (1, before)
        assert "cannot be restored exactly" in refused.stderr
        pace(lab, one, other.address, "--rate", "10mbit", "--no-proof")
        one.run(["ping", "-c", "2", "-i", "0.2", other.address])
        pace(lab, one, "revert")
        assert without_ages(interface) == before


def without_ages(interface: Interface) -> str:
    return re.sub(r"(installed|used) \d+ sec", "", shown(interface))


@pytest.mark.needs_kernel("htb", "tbf")
@pytest.mark.parametrize("configured", one_in_short("an HTB of somebody's", "nothing"))
def test_the_printed_commands_do_what_whydrop_does(lab: Lab, configured: str) -> None:
    with two(lab, configured) as (one, other, interface):
        said = json.loads(pace(lab, one, other.address, "--rate", "12mbit", "--dry-run", "--json").stdout)
        assert "7764" not in shown(interface)
        for command in said["commands"]:
            one.run(command.split())
        by_hand = shown(interface)
        interface.tc("qdisc delete dev {} root")
        for command in CONFIGURED[configured]:
            interface.tc(command)
        pace(lab, one, other.address, "--rate", "12mbit", "--no-proof")
        ours = shown(interface)
        # tc rounds the time that a burst takes down to whole microseconds.
        bursts = re.compile(r"burst (\d+)b")
        assert bursts.sub("", ours) == bursts.sub("", by_hand)
        assert [*map(int, bursts.findall(ours))] == pytest.approx([*map(int, bursts.findall(by_hand))], rel=0.01)
        pace(lab, one, "revert")


@pytest.mark.exhaustive
@pytest.mark.needs_program("iperf3")
@pytest.mark.needs_kernel("htb", "tbf", "fq")
def test_the_printed_commands_for_fq_pace_a_flow(lab: Lab) -> None:
    with two(lab) as (one, other, interface), iperf3_server(other):
        said = json.loads(pace(lab, one, other.address, "--rate", "12mbit", "--dry-run", "--json").stdout)
        # Where no packet must be cut, fq is the queue below HTB at once.
        *below, alone = (found["commands"] for found in said["alternatives"] if found["commands"])
        reached = []
        for commands in ([*said["commands"], *itertools.chain.from_iterable(below)], alone):
            for command in commands:
                one.run(command.split())
            assert "fq" in shown(interface)
            reached.append(received_bps(iperf3_of(start_iperf3(one, other.address, 5))))
            interface.tc("qdisc delete dev {} root")
        # The rate is that of packets on the line; what iperf3 counts is their payload.
        assert reached == pytest.approx([12e6 * 1448 / 1514] * 2, rel=0.1)


def test_without_the_capability_it_says_so_and_changes_nothing(lab: Lab) -> None:
    with two(lab) as (one, other, interface):
        before = shown(interface)
        words = ["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin", *WHYDROP, "pace"]
        done = one.run([*words, other.address, "--rate", "1mbit"], env=environment(lab), check=False)
        assert (done.returncode, shown(interface)) == (1, before)
        assert "CAP_NET_ADMIN" in done.stderr
        assert "--dry-run" in done.stderr


@contextmanager
def responding(host: Host) -> Iterator[Process]:
    process = host.popen([*WHYDROP, "responder", "--open"])
    process.wait_for("port")
    yield process
    process.stop()


def killed(lab: Lab, one: Host, other: Host, moment: int, kind: str, after_s: float) -> None:
    """A run that proves a change is killed as it goes."""
    log = lab.folder / f"{kind}-{moment}"
    words = [*WHYDROP, "pace", other.address, "--rate", "8mbit", "--duration", "0.5s", "--output", str(log)]
    run = one.popen(words, env=environment(lab))
    wait_until(lambda: state_of(lab).exists() or run.returncode is not None, "the change is written down")
    assert run.returncode is None, run.output()
    time.sleep(after_s)
    run.signal(signal.SIGKILL)


@pytest.mark.needs_kernel("htb", "tbf")
@pytest.mark.parametrize(
    ("configured", "moments"),
    [
        ("an HTB of somebody's", 3),
        pytest.param("an HTB of somebody's", 10, marks=pytest.mark.exhaustive),
        pytest.param("nothing", 10, marks=pytest.mark.exhaustive),
    ],
)
def test_killed_at_random_moments_it_leaves_nothing(lab: Lab, configured: str, moments: int) -> None:
    order = random.Random(15)
    with two(lab, configured) as (one, other, interface), responding(other):
        before = shown(interface)
        for moment in range(moments):
            killed(lab, one, other, moment, configured, order.uniform(0, 5))
            wait_until(lambda: not state_of(lab).exists(), "the guard has taken it back")
            assert shown(interface) == before


@pytest.mark.needs_kernel("htb", "tbf")
def test_where_the_guard_was_killed_too_the_next_start_takes_it_back(lab: Lab) -> None:
    with two(lab) as (one, other, interface):
        before = shown(interface)
        pace(lab, one, other.address, "--rate", "8mbit", "--no-proof")
        guards = [int(pid) for pid in one.run(["ip", "netns", "pids", one.namespace]).stdout.split()]
        for pid in guards:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if b"whydrop.act.guard" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
        state = json.loads(state_of(lab).read_text())
        state["changes"][0]["until_s"] = 0
        state_of(lab).write_text(json.dumps(state))
        assert shown(interface) != before
        assert "no changes" in pace(lab, one, "status").stdout
        assert shown(interface) == before


@pytest.mark.needs_kernel("htb", "tbf")
def test_when_its_time_is_over_it_is_taken_back_and_what_is_kept_stays(lab: Lab) -> None:
    with two(lab) as (one, other, interface):
        before = shown(interface)
        pace(lab, one, other.address, "--rate", "8mbit", "--no-proof", "--keep")
        assert json.loads(pace(lab, one, "status", "--json").stdout)["changes"][0]["phase"] == "kept"
        pace(lab, one, "revert")
        pace(lab, one, other.address, "--rate", "8mbit", "--no-proof", "--for", "1s")
        wait_until(lambda: not state_of(lab).exists(), "the time is over")
        assert shown(interface) == before


@pytest.mark.needs_kernel("htb", "tbf")
def test_what_somebody_else_did_meanwhile_is_not_undone(lab: Lab) -> None:
    with two(lab) as (one, other, interface):
        pace(lab, one, other.address, "--rate", "8mbit", "--no-proof")
        interface.tc("qdisc replace dev {} root handle 9: pfifo limit 9")
        theirs = shown(interface)
        done = pace(lab, one, "revert", check=False)
        assert (done.returncode, shown(interface)) == (1, theirs)
        assert "pace forget" in done.stderr
        pace(lab, one, "forget")
        assert "no changes" in pace(lab, one, "status").stdout


@pytest.mark.needs_program("iperf3")
@pytest.mark.needs_kernel("htb", "tbf", "pfifo")
def test_other_traffic_through_the_interface_goes_on_as_before(lab: Lab) -> None:
    """Two servers behind one client's interface: one is paced at 2 Mbit/s, the other has 20 Mbit/s to itself."""
    with lab.path(rate="20mbit", queue="pfifo limit 50", servers=2) as path:
        paced, others = path.servers
        alone = _to(path, others), ping(path.client, others.address, 20).median_s
        pace(lab, path.client, paced.address, "--rate", "2mbit", "--no-proof")
        beside = _to(path, others), ping(path.client, others.address, 20).median_s
        with iperf3_server(paced):
            held = received_bps(iperf3_of(start_iperf3(path.client, paced.address, 3)))
        pace(lab, path.client, "revert")
        assert held < 2.1e6
        assert beside[0] > 0.95 * alone[0]
        assert beside[1] < alone[1] + 0.002


def _to(path: NetworkPath, server: Host) -> float:
    with iperf3_server(server):
        return received_bps(iperf3_of(start_iperf3(path.client, server.address, 3)))

"""A path that was emulated is the one that explain finds, and nothing of an emulation is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import whydrop
from patience import wait_until

WHYDROP = (sys.executable, "-m", "whydrop")
NETWORKS = Path("/proc/net/dev")

pytestmark = [pytest.mark.needs_namespaces, pytest.mark.slow]


# An emulator that waits for a processor is another path. A packet of 20 Mbit/s takes 600 us.
MOST_LATE_NS = 300_000
TRIES = 4


def emulate(*words: str, command: str, far: tuple[str, ...] = (), cwd: Path) -> subprocess.CompletedProcess[str]:
    given = [*WHYDROP, "emulate", *words, *(word for line in far for word in ("--far", line))]
    return subprocess.run([*given, "--", "sh", "-c", command], cwd=cwd, capture_output=True, text=True, check=False)


def captured(path: str, folder: Path, *words: str, seconds: int = 4, connections: int = 1) -> whydrop.Explanation:
    """The explanation of transfers over a path, captured in both hosts."""
    tcpdump = "exec tcpdump -i eth0 -s 100 -B 16000 -w"
    far = (f"{tcpdump} far.pcap", "exec iperf3 -s")
    command = (
        f"{tcpdump.removeprefix('exec ')} near.pcap & sleep 0.5; iperf3 -c $WHYDROP_FAR -t {seconds} -P {connections}"
    )
    for _ in range(TRIES):
        done = emulate(path, *words, "--json", command=command, far=far, cwd=folder)
        assert done.returncode == 0, done.stderr
        late_ns = json.loads(done.stdout)["near_to_far"]["lateness"]["p99_ns"]
        if late_ns < MOST_LATE_NS:
            return whydrop.explain(folder / "near.pcap", folder / "far.pcap")
    pytest.skip(f"too busy a machine to emulate in real time: 1 % of the packets were late by {late_ns / 1e6:.1f} ms")


@pytest.mark.needs_program("iperf3", "tcpdump")
def test_explain_finds_the_policer_that_was_emulated(tmp_path: Path) -> None:
    verdict = captured("policer:rate=20M,burst=80kB", tmp_path, "--rtt", "20ms").verdicts[0]
    assert verdict.cause == "policer"
    assert verdict.parameters["rate_bps"].value == pytest.approx(20e6, rel=0.01)
    assert verdict.parameters["burst_bytes"].value == pytest.approx(80e3, rel=0.05)


@pytest.mark.needs_program("iperf3", "tcpdump")
def test_explain_finds_the_queue_that_was_emulated(tmp_path: Path) -> None:
    # Less than the path holds: a sender that a busy machine slows down fills it all the same.
    verdict = captured("fifo:rate=20M,limit=20packets", tmp_path, "--rtt", "20ms").verdicts[0]
    assert verdict.cause in ("shallow-queue", "deep-queue")
    assert verdict.parameters["drain_rate_bps"].value == pytest.approx(20e6, rel=0.01)
    assert verdict.parameters["limit_packets"].value == pytest.approx(20, abs=1)


@pytest.mark.needs_program("iperf3", "tcpdump")
def test_explain_finds_the_codel_that_was_emulated(tmp_path: Path) -> None:
    # Of one connection CoDel may drop four packets only, and its law does not show. No target is known better than
    # the time of one packet, 0.6 ms, and the jitter of this machine allow: 5 % of a short one is less.
    path = "codel:rate=20M,limit=1000packets,target=35ms,interval=180ms"
    verdict = captured(path, tmp_path, "--rtt", "20ms", seconds=8, connections=4).verdicts[0]
    assert (verdict.cause, verdict.family) == ("aqm", "codel")
    for name, truth_s in (("target_s", 35e-3), ("interval_s", 0.18)):
        found = verdict.parameters[name]
        assert found.value == pytest.approx(truth_s, rel=0.05)
        assert found.low is not None
        assert found.high is not None
        assert found.low <= truth_s <= found.high


@pytest.mark.needs_program("iperf3", "tcpdump")
def test_explain_finds_the_random_early_detection_that_was_emulated(tmp_path: Path) -> None:
    path = "red:rate=20M,min=20packets,max=60packets,max-probability=10%"
    verdict = captured(path, tmp_path, "--rtt", "20ms", seconds=5, connections=2).verdicts[0]
    assert (verdict.cause, verdict.family) == ("aqm", "red")
    assert verdict.parameters["drain_rate_bps"].value == pytest.approx(20e6, rel=0.01)
    # The least queue that drops is 20 packets: 12 ms.
    assert verdict.parameters["threshold_s"].value == pytest.approx(12e-3, rel=0.15)


def test_both_hosts_are_addressable_and_the_programs_status_is_that_of_the_command(tmp_path: Path) -> None:
    pings = "ping -c 1 -W 5 $WHYDROP_FAR && ping -c 1 -W 5 $WHYDROP_FAR6 && exit 7"
    done = emulate("delay:time=5ms", "--rtt", "30ms", "--json", command=pings, cwd=tmp_path)
    assert done.returncode == 7, done.stderr
    found = json.loads(done.stdout)
    for direction in ("near_to_far", "far_to_near"):
        one = found[direction]
        assert (one["arrived"], one["delivered"], one["dropped"]) == (2, 2, 0)
        assert one["lateness"]["packets"] == 2
    assert "time=3" in done.stderr


@pytest.mark.needs_root
def test_the_hosts_receive_packets_on_the_processors_of_their_programs(tmp_path: Path) -> None:
    queue = "/sys/class/net/eth0/queues/rx-0/rps_cpus"
    show = f"cat {queue}; grep Cpus_allowed: /proc/self/status"
    done = emulate("delay:time=0ms", command=show, far=(f"({show}) > far", "sleep 60"), cwd=tmp_path)
    if "No such file" in done.stderr:
        pytest.skip("the hosts have no /sys of their own, or a kernel without receive packet steering")
    assert done.returncode == 0, done.stderr
    for shown in (done.stdout, (tmp_path / "far").read_text()):
        receive, programs = (int(line.split()[-1].replace(",", ""), 16) for line in shown.splitlines())
        assert receive == programs


NOBODY = 65534


def test_a_user_without_rights_has_an_emulation_in_a_user_namespace() -> None:
    words = [*WHYDROP, "emulate", "delay:time=0ms", "--", "sh", "-c", "id -u; ping -c 1 -W 60 $WHYDROP_FAR"]
    try:
        able = subprocess.run(["unshare", "-U", "true"], user=NOBODY, cwd="/", check=False)
        loads = subprocess.run([sys.executable, "-c", "import whydrop._core"], user=NOBODY, cwd="/", check=False)
    except PermissionError:
        pytest.skip("another user cannot run this Python")
    if able.returncode or loads.returncode:
        pytest.skip("no user namespaces, or another user cannot load whydrop")
    done = subprocess.run(words, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "0"), done.stderr


def test_the_hosts_see_no_interface_of_this_machine_and_leave_none_behind(tmp_path: Path) -> None:
    before = interfaces(NETWORKS.read_text())
    done = emulate("delay:time=0ms", command="cat /proc/net/dev; hostname", far=("sleep 60",), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert interfaces(done.stdout) == {"lo", "eth0"}
    assert done.stdout.splitlines()[-1] == "near"
    assert interfaces(NETWORKS.read_text()) == before


def interfaces(table: str) -> set[str]:
    return {line.partition(":")[0].strip() for line in table.splitlines() if ":" in line}


def test_nothing_is_left_of_an_emulation_that_was_killed(tmp_path: Path) -> None:
    # The program and what it starts in the background write down their numbers, as this machine knows them.
    script = "for one in near far; do sleep 1000 & done; readlink /proc/self/ns/net > namespace; wait"
    process = subprocess.Popen(
        [*WHYDROP, "emulate", "delay:time=0ms", "--far", "sleep 1001", "--", "sh", "-c", script],
        cwd=tmp_path, start_new_session=True,
    )  # fmt: skip
    namespace = tmp_path / "namespace"
    wait_until(lambda: namespace.exists() and namespace.read_text().endswith("\n"), "the program's start")
    assert in_namespace(namespace.read_text().strip())
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not in_namespace(namespace.read_text().strip()), "the end of all processes")


def in_namespace(name: str) -> list[str]:
    """The processes of this machine that are in a network namespace."""
    found = []
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            if str(link.readlink()) == name:
                found.append(link.parts[2])
        except OSError:
            continue
    return found


def test_ctrl_c_and_sigterm_end_the_program(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*WHYDROP, "emulate", "delay:time=0ms", "--", "sh", "-c", "echo > started; exec sleep 1000"], cwd=tmp_path
    )
    wait_until((tmp_path / "started").exists, "the program's start")
    process.terminate()
    assert process.wait(60) == 143


def test_a_command_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run([*WHYDROP, "emulate", "delay:time=0ms", "--", "./missing"], cwd=tmp_path, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "./missing: No such file" in done.stderr


def test_packets_wait_for_the_opportunities_of_a_trace(tmp_path: Path) -> None:
    # one packet in 40 ms
    (tmp_path / "slow.trace").write_text("40\n")
    done = emulate("--trace", "slow.trace", command="ping -c 4 -i 0.01 -s 1472 -w 60 $WHYDROP_FAR", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    times_ms = [float(line.partition("time=")[2].split()[0]) for line in done.stdout.splitlines() if "time=" in line]
    assert len(times_ms) >= 4
    assert times_ms[0] >= 40

"""Faults in the middle of a test, in the lab: the right exit status, one clear line, nothing lost."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab import Host, Lab, NetworkPath, Process
from running.responders import WHYDROP, wait_for_rows, wait_until
from whydrop.recording.recording import Recording

PORT = 17370

pytestmark = [pytest.mark.needs_namespaces, pytest.mark.slow]

# Opens connections at a fixed rate and speaks nothing, or something else, on them.
GARBAGE = """
import os, socket, sys, time
address, port, seconds, rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
began, made, kept = time.monotonic(), 0, []
while (now := time.monotonic()) - began < seconds:
    while made < (now - began) * rate:
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex((address, port))
        kept.append(one)
        made += 1
        if made % 2 and len(kept) > 50:
            try:
                kept[-50].send(os.urandom(200) if made % 4 == 1 else b"GET / HTTP/1.1\\r\\n\\r\\n")
            except OSError:
                pass
    while len(kept) > 400:
        kept.pop(0).close()
    time.sleep(0.005)
print(made)
"""


@contextmanager
def serving(host: Host, *options: str) -> Iterator[Process]:
    process = host.popen([*WHYDROP, "responder", *(options or ("--open",)), "--port", str(PORT)])
    process.wait_for("port")
    yield process
    process.kill()


def started(path: NetworkPath, output: Path, *words: str) -> Process:
    return path.client.popen(
        [*WHYDROP, "run", *words, "--to", path.server.address, "--output", str(output), "--no-plot", "--no-counters"]
    )


def end_of(process: Process) -> tuple[int, str]:
    wait_until(lambda: process.returncode is not None)
    assert process.returncode is not None
    return process.returncode, process.output()


def only_recording(folder: Path) -> Recording:
    (found,) = folder.glob("*.recording")
    return Recording.open(found)


def fill(ballast: Path) -> None:
    with contextlib.suppress(OSError), ballast.open("wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()


def test_a_link_that_goes_down_in_mid_run_ends_it_with_one_line_and_keeps_what_was_measured(
    lab: Lab, tmp_path: Path
) -> None:
    with lab.path(rate="20mbit", queue="pfifo limit 100") as path, serving(path.server):
        process = started(path, tmp_path, "tcp_1up", "--duration", "120s", "--set", "delay=0")
        wait_for_rows(tmp_path, "intervals")
        path.up.down()
        status, said = end_of(process)
    assert status == 1
    assert "no answer from the responder for 20 s" in said
    recording = only_recording(tmp_path)
    assert recording.metadata["status"] == "failed"
    assert recording.table("intervals")["payload_bytes"].sum() > 0
    assert recording.table("tcp_info").height > 10


def test_a_short_outage_is_measured_and_does_not_end_the_run(lab: Lab, tmp_path: Path) -> None:
    with lab.path(rate="20mbit", queue="pfifo limit 100") as path, serving(path.server):
        process = started(path, tmp_path, "tcp_1up", "--duration", "12s", "--set", "delay=0")
        wait_for_rows(tmp_path, "intervals")
        time.sleep(2)
        path.up.down()
        time.sleep(2)
        path.up.up()
        status, said = end_of(process)
    assert status == 0, said
    recording = only_recording(tmp_path)
    assert recording.metadata["status"] == "complete"
    goodput = recording.table("intervals").sort("start_ns")
    silent = goodput.filter(goodput["payload_bytes"] == 0)
    # By time: a receiver on a busy machine writes fewer and longer intervals.
    assert (silent["end_ns"] - silent["start_ns"]).sum() >= 1_000_000_000


def test_a_full_disk_costs_nothing_of_what_was_measured(lab: Lab, tmp_path: Path) -> None:
    full, other = tmp_path / "full", tmp_path / "other"
    for folder in (full, other):
        folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", full], check=True)
    try:
        with lab.path(rate="20mbit", queue="pfifo limit 100") as path, serving(path.server):
            process = path.client.popen(
                [*WHYDROP, "run", "rrul_be", "--to", path.server.address, "--duration", "6s", "--set", "delay=0",
                 "--output", str(full), "--fallback", str(other), "--no-plot"]
            )  # fmt: skip
            wait_for_rows(full, "probes")
            fill(full / "ballast")
            status, said = end_of(process)
    finally:
        subprocess.run(["umount", full], check=True)
    assert status == 0, said
    assert "free some space" in said
    assert str(other) in said
    recording = only_recording(other)
    probes = recording.table("probes")
    # Every probe of six seconds, without a gap where the disk was full.
    for _, of_flow in probes.group_by("flow"):
        assert of_flow["sequence"].sort().to_list() == list(range(of_flow.height))
    assert recording.table("intervals")["payload_bytes"].sum() > 0


def goodput_bps(path: NetworkPath, output: Path, seconds: int) -> float:
    """Of an upload that must go well."""
    status, said = end_of(started(path, output, "tcp_1up", "--duration", f"{seconds}s", "--set", "delay=0"))
    assert status == 0, said
    intervals = only_recording(output).table("intervals")
    span_ns: int = intervals["end_ns"].max() - intervals["start_ns"].min()
    return float(intervals["payload_bytes"].sum() * 8e9 / span_ns)


@pytest.mark.parametrize(
    ("quiet_s", "flooded_s"), [(4, 6), pytest.param(10, 30, marks=pytest.mark.exhaustive)], ids=["short", "long"]
)
def test_a_thousand_connections_of_garbage_a_second_leave_a_test_its_throughput(
    lab: Lab, tmp_path: Path, quiet_s: int, flooded_s: int
) -> None:
    # From before the test to after its end.
    garbage_s = flooded_s + 4
    with lab.path(rate="50mbit", queue="pfifo limit 100") as path, serving(path.server):
        # Whatever else this machine does costs one of the two its throughput, or the flood its thousand a second. A
        # responder that is disturbed by garbage is disturbed each time.
        for attempt in range(5):
            quiet_bps = goodput_bps(path, tmp_path / f"quiet-{attempt}", quiet_s)
            # From behind the bottleneck: what the flood takes of the link's rate is not the responder's doing.
            words = [path.server.address, str(PORT), str(garbage_s), "1000"]
            flood = path.far.popen([sys.executable, "-c", GARBAGE, *words])
            time.sleep(2)
            flooded_bps = goodput_bps(path, tmp_path / f"flooded-{attempt}", flooded_s)
            made = int(flood.wait())
            if made > flooded_s * 1000 and flooded_bps > 0.95 * quiet_bps:
                break
    assert made > flooded_s * 1000
    assert flooded_bps > 0.95 * quiet_bps


def test_garbage_on_the_udp_port_is_not_answered(lab: Lab) -> None:
    with lab.path() as path, serving(path.server):
        script = (
            "import os, socket, sys\n"
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "s.settimeout(1)\n"
            "for n in range(200): s.sendto(os.urandom(n), (sys.argv[1], int(sys.argv[2])))\n"
            "try:\n    s.recv(2000)\n    print('answered')\n"
            "except TimeoutError:\n    print('silent')\n"
        )
        said = path.client.run([sys.executable, "-c", script, path.server.address, str(PORT)]).stdout
    assert said.strip() == "silent"

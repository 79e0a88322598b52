"""Flow control as ethtool reports it, of a device that the kernel simulates."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Lab, kernel
from patience import wait_until
from whydrop.act import flow_control
from whydrop.act.changes import CannotChangeError
from whydrop.measure.host import ethtool

BUS = Path("/sys/bus/netdevsim")
NUMBER = "77"


@pytest.fixture
def simulated() -> Iterator[str]:
    subprocess.run(["modprobe", "-q", "netdevsim"], check=False)
    if not BUS.exists():
        pytest.skip("this kernel has no netdevsim")
    (BUS / "new_device").write_text(f"{NUMBER} 1")
    try:
        yield next((BUS / f"devices/netdevsim{NUMBER}/net").iterdir()).name
    finally:
        (BUS / "del_device").write_text(NUMBER)


@pytest.mark.slow
@pytest.mark.needs_kernel("fq")
def test_settings_and_pause_frames_are_those_of_ethtool(simulated: str) -> None:
    subprocess.run(["ethtool", "-A", simulated, "rx", "on", "tx", "off"], check=True)
    for direction in ("rx", "tx"):
        with contextlib.suppress(OSError):
            file = next(Path(f"/sys/kernel/debug/netdevsim/netdevsim{NUMBER}").glob("ports/*/ethtool/pause"))
            (file / f"report_stats_{direction}").write_text("1")
    told = json.loads(
        subprocess.run(["ethtool", "--json", "-I", "-a", simulated], check=True, capture_output=True).stdout
    )
    found = ethtool.flow_control(simulated)
    assert (found["receive"], found["transmit"]) == reported(simulated) == (True, False)
    counted = told[0]["statistics"]
    assert (found[ethtool.RECEIVED], found[ethtool.SENT]) == (
        counted["rx_pause_frames"],
        counted["tx_pause_frames"],
    )


def test_an_interface_without_flow_control_says_so() -> None:
    with pytest.raises(OSError, match="not supported"):
        ethtool.flow_control("lo")


# --- the change of `whydrop fix --flow-control`, on an interface that the machine has ---

# Applies the change and hangs; with a time, it leaves the change in place for so long.
CHANGING = """
import sys, time
from whydrop.act.applying import leased
from whydrop.act.flow_control import changed
name, index, receive, transmit, for_s = sys.argv[1], *map(int, sys.argv[2:])
with leased(changed(name, index, receive=bool(receive), transmit=bool(transmit)), "server.example") as lease:
    lease.on()
    print("applied:", lease.reported, flush=True)
    if for_s:
        lease.leave("until", for_s)
    else:
        time.sleep(1000)
"""


@pytest.fixture
def card(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_STATE_HOME", str(lab.folder))
    (name,) = kernel.interfaces_of("e1000")
    subprocess.run(["ip", "link", "set", name, "down"], check=True)
    return name


def reported(name: str) -> tuple[bool, bool]:
    """Receive and transmit, as ethtool(8) says; its JSON says that all is on (6.1)."""
    lines = subprocess.run(["ethtool", "-a", name], check=True, capture_output=True, text=True).stdout.splitlines()
    found = dict(map(str.strip, line.split(":", 1)) for line in lines if ":" in line)
    return found["RX"] == "on", found["TX"] == "on"


def changing(name: str, receive: bool, transmit: bool, for_s: int = 0) -> subprocess.Popen[str]:
    words = [name, socket.if_nametoindex(name), int(receive), int(transmit), for_s]
    process = subprocess.Popen([sys.executable, "-c", CHANGING, *map(str, words)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("applied:")
    return process


def changes(lab: Lab) -> bool:
    return (lab.folder / "whydrop/changes.json").exists()


@pytest.mark.needs_kernel("e1000")
def test_flow_control_is_restored_after_the_run_was_killed(lab: Lab, card: str) -> None:
    before = reported(card)
    asked = (not before[0], before[1])
    process = changing(card, *asked)
    assert reported(card) == asked
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not changes(lab))
    assert reported(card) == before


@pytest.mark.needs_kernel("e1000")
def test_the_printed_command_does_the_same_and_what_another_program_sets_since_stays(lab: Lab, card: str) -> None:
    subprocess.run(["ethtool", "-A", card, "autoneg", "off", "rx", "off", "tx", "off"], check=True)
    change = flow_control.changed(card, socket.if_nametoindex(card), receive=True)
    assert change.commands() == [f"ethtool -A {card} rx on tx off"]
    subprocess.run(change.commands()[0].split(), check=True)
    assert reported(card) == (True, False)
    with pytest.raises(CannotChangeError, match="so already"):
        flow_control.changed(card, socket.if_nametoindex(card), receive=True)
    changing(card, False, True, 600).wait()
    assert reported(card) == (False, True)
    subprocess.run(["ethtool", "-A", card, "rx", "on", "tx", "on"], check=True)
    done = subprocess.run(
        [sys.executable, "-m", "whydrop", "pace", "revert"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "another program has changed its flow control" in " ".join(done.stderr.split())
    assert reported(card) == (True, True)


@pytest.mark.needs_kernel("e1000")
def test_where_the_other_end_does_not_agree_the_change_is_rolled_back_and_says_so(lab: Lab, card: str) -> None:
    """The machine agrees with its own other end on pauses in one direction only."""
    subprocess.run(["ethtool", "-A", card, "autoneg", "on", "rx", "off", "tx", "off"], check=True)
    subprocess.run(["ip", "link", "set", card, "up"], check=True)
    index = socket.if_nametoindex(card)
    wait_until(lambda: Path(f"/sys/class/net/{card}/carrier").read_text().strip() == "1")
    before = ethtool.flow_control(index)
    shown = subprocess.run(["ethtool", "-a", card], check=True, capture_output=True, text=True).stdout
    found = ethtool.negotiated(index)
    (lab.folder / "negotiated.txt").write_text(f"{shown}\n{before}\n{found}\n")
    if found is not None:
        assert ("RX negotiated: on" in shown.replace("\t", " ")) == found.receive
    words = [sys.executable, "-c", CHANGING, card, str(index), "1", "1", "600"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    (lab.folder / "said.txt").write_text(f"{done.stdout}\n{done.stderr}\n{ethtool.flow_control(index)}\n")
    assert done.returncode != 0
    assert "CannotChangeError" in done.stderr
    assert ethtool.flow_control(index) == before
    assert not changes(lab)


@pytest.mark.needs_kernel("e1000")
def test_an_interface_that_has_gone_is_named_and_its_change_forgotten(lab: Lab, card: str) -> None:
    before = reported(card)
    changing(card, not before[0], before[1], 600).wait()
    device = Path(f"/sys/class/net/{card}/device").resolve()
    driver = (device / "driver").resolve()
    (driver / "unbind").write_text(device.name)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "whydrop", "pace", "revert"], capture_output=True, text=True, check=True
        )
        assert f"{card} has gone" in " ".join((done.stdout + done.stderr).split())
        assert not changes(lab)
    finally:
        (driver / "bind").write_text(device.name)
        wait_until(lambda: kernel.interfaces_of("e1000"))

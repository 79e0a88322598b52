"""The batch of `examples/kernel`, cut to seconds and to queues that every kernel has."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from lab import Host, Lab
from lab.machine import ROOT
from lab.measuring import iperf3_server
from lab.watched import between

pytestmark = [pytest.mark.slow, pytest.mark.needs_kernel("pfifo"), pytest.mark.needs_program("iperf3")]

# Each figure is drawn by a process of its own; tests/plots/test_tcp_plots.py draws every one.
FIGURES = ("tcp_goodput", "tcp_send_stalls", "tcp_congestion_signals")
# Two of the queues; a driver of veth has no byte queue limits, and not every kernel has fq.
ALL, SOME = 'for.queue = "queue_*"', 'for.queue = ["queue_txqueuelen-10", "queue_txqueuelen-1000"]'


def length(host: Host, device: str) -> str:
    """The length of an interface's queue."""
    return host.run(["cat", f"/sys/class/net/{device}/tx_queue_len"]).stdout


def test_each_run_leaves_a_recording_with_events_its_figures_and_the_interface_as_it_was(lab: Lab) -> None:
    folder = lab.folder / "kernel"
    shutil.copytree(ROOT / "examples/kernel", folder)
    file, results = folder / "kernel.toml", lab.folder / "results"
    text = file.read_text()
    assert ALL in text
    file.write_text(text.replace(ALL, SOME))
    path = f"PATH={Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    changed = {"seconds": 2, "interval": "50ms", "pause_s": 0, "whydrop_output": results}
    with lab.network() as network:
        sender, _, receiver = between(network)
        device = sender.interfaces["router"]
        before = device.tc("qdisc show dev {}"), length(sender, device.name)
        changed |= {"host": receiver.address, "device": device.name}
        options = [word for key, value in changed.items() for word in ("--set", f"{key}={value}")]
        with iperf3_server(receiver):
            settings = [path, f"TMPDIR={lab.folder}", "FORMAT=json", f"FIGURES={' '.join(FIGURES)}"]
            words = ["env", *settings, "whydrop", "batch", "run", str(file)]
            sender.run([*words, "--repetitions", "1", "-o", str(lab.folder), *options], timeout_s=300)
        assert (device.tc("qdisc show dev {}"), length(sender, device.name)) == before
    runs = sorted(one.name for one in results.iterdir())
    assert runs == ["eight-hours", "txqueuelen-10-01", "txqueuelen-1000-01"]
    for run in results.iterdir():
        assert len(list(run.glob("*.recording"))) == 1
        assert {one.stem for one in run.glob("*.json")} == set(FIGURES)
        assert "10.0.0" in (run / "explained.txt").read_text()

"""Counts beside those of tshark, an independent implementation, on the example captures."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

import whydrop
from example_files import EXAMPLES

FIELDS = ("ip.src", "tcp.srcport", "ip.dst", "tcp.dstport", "tcp.len")
# What tshark says of a segment with a sequence number below data that was sent before. It calls a repair that
# comes within one round trip of newer data out of order, although at the sender's side nothing overtakes.
REPEATED = (
    "tcp.analysis.retransmission || tcp.analysis.fast_retransmission || tcp.analysis.spurious_retransmission "
    "|| tcp.analysis.out_of_order"
)


def payload_by_flow(capture: Path, display_filter: str) -> Counter[str]:
    """Payload bytes of each flow's packets that pass a display filter."""
    fields = [part for field in FIELDS for part in ("-e", field)]
    done = subprocess.run(
        ["tshark", "-r", str(capture), "-Y", f"tcp.len > 0 && ({display_filter})", "-T", "fields", *fields],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    total: Counter[str] = Counter()
    for line in done.stdout.splitlines():
        source, source_port, destination, destination_port, length = line.split("\t")
        total[f"{source}:{source_port} > {destination}:{destination_port}"] += int(length)
    return total


# Behind the impairment, whydrop counts what was lost before it as well; tshark knows only what was captured.
NEAR = sorted(path for path in EXAMPLES.glob("*.pcap.zst") if "-far." not in path.name)


@pytest.fixture(params=NEAR, ids=lambda path: path.name)
def example(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.mark.slow
@pytest.mark.needs_tshark
def test_bytes_sent_agree_with_tshark(example: Path):
    found = whydrop.explain(example)
    segments = found.table("segments")
    ours = {
        flow.flow: segments.filter(pl.col("flow") == number)["payload_bytes"].sum()
        for number, flow in enumerate(found.flows)
        if flow.payload_bytes
    }
    theirs = payload_by_flow(example, "tcp")
    # Control connections are set apart, and counted together.
    apart = sum(theirs.pop(flow) for flow in theirs.keys() - ours.keys())
    assert ours == dict(theirs)
    assert apart == sum(one["payload_bytes"] for entry in found.captures for one in entry.control_connections)


@pytest.mark.slow
@pytest.mark.needs_tshark
def test_bytes_retransmitted_agree_with_tshark(example: Path):
    found = whydrop.explain(example)
    repeated = found.table("segments").filter(pl.col("kind") != "new")
    ours = {
        flow.flow: repeated.filter(pl.col("flow") == number)["payload_bytes"].sum()
        for number, flow in enumerate(found.flows)
        if flow.retransmitted
    }
    assert ours == dict(payload_by_flow(example, REPEATED))


@pytest.mark.slow
@pytest.mark.needs_tshark
def test_the_count_of_packets_agrees_with_tshark(example: Path):
    done = subprocess.run(
        ["tshark", "-r", str(example), "-T", "fields", "-e", "frame.number"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert whydrop.explain(example).captures[0].packets == len(done.stdout.splitlines())

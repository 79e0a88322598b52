"""A program's flow by what the kernel recorded of its sockets: two seconds of iperf3 at 20 Mbit/s over loopback."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from whydrop.act.observed import rows_of_flow
from whydrop.monitoring.sockets.sampler import Taken

SNAPSHOTS = json.loads(Path(__file__).with_name("iperf3_sockets.json").read_text())
CONTROL, DATA = 0, 2


def taken(**left_out: int) -> Taken:
    frames = {name: pl.DataFrame(rows).with_columns(pl.col("flow").cast(pl.Int32)) for name, rows in SNAPSHOTS.items()}
    return Taken(
        {name: frame.filter(pl.col("flow") != left_out.get(name, -1)) for name, frame in frames.items()}, [], [], 0
    )


BEGINS_NS, ENDS_NS = min(SNAPSHOTS["intervals"]["start_ns"]), max(SNAPSHOTS["intervals"]["end_ns"])


def test_the_connection_that_carries_data_is_the_flow_and_the_control_connection_is_not() -> None:
    found = rows_of_flow(taken(), 7, BEGINS_NS)
    assert found["intervals"]["flow"].unique().to_list() == [7]
    data = pl.DataFrame(SNAPSHOTS["intervals"]).filter(pl.col("flow") == DATA)["payload_bytes"].sum()
    assert found["intervals"]["payload_bytes"].sum() == data
    assert data == pytest.approx(5e6, rel=0.05)
    assert found["tcp_info"]["acked_bytes"].max() >= data


def test_what_is_sent_after_the_planned_time_is_no_part_of_it() -> None:
    until_ns = BEGINS_NS + 1_000_000_000
    found = rows_of_flow(taken(), 7, BEGINS_NS, until_ns)
    assert found["intervals"]["end_ns"].max() <= until_ns + 50_000_000
    assert found["intervals"]["payload_bytes"].sum() < 3e6


def test_without_a_connection_that_carries_data_there_are_no_rows() -> None:
    assert rows_of_flow(Taken({}, [], [], 0), 7, BEGINS_NS) == {}
    assert rows_of_flow(taken(), 7, ENDS_NS + 1_000_000_000) == {}

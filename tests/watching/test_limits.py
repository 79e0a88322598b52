"""Limits of a connection, by two readings of what its kernel counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from whydrop.monitoring.sockets.limits import limits
from whydrop.monitoring.sockets.selection import WantedError, cgroup_numbers, networks
from whydrop.recording import tables

SECOND_NS = 1_000_000_000
FIRST = {
    "flow": 0,
    "time_ns": 0,
    "acked_bytes": 0,
    "received_bytes": 0,
    "retransmitted_packets": 3,
    "busy_ns": 0,
    "receive_window_limited_ns": 0,
    "send_buffer_limited_ns": 0,
    "congestion_state": "open",
    "congestion_window_packets": 10,
    "slow_start_threshold_packets": 8,
    "unacked_packets": 10,
    "pacing_rate_bps": 1e7,
}
BUSY = {"time_ns": SECOND_NS, "acked_bytes": 125_000, "busy_ns": SECOND_NS}


def readings(**values: Any) -> pl.DataFrame:
    """One reading."""
    return tables.conform("tcp_info", pl.DataFrame([{**FIRST, **values}]))


def limited(control: str | None = "cubic", **values: Any) -> dict[str, Any]:
    """The limits of a connection that has these values a second after the first reading."""
    controls = pl.DataFrame({"flow": [0], "congestion_control": [control]}, schema_overrides={"flow": pl.Int32})
    return limits(readings(), readings(**{**BUSY, **values}), controls).row(0, named=True)


@pytest.mark.parametrize(
    ("values", "limit"),
    [
        ({"receive_window_limited_ns": 0.6 * SECOND_NS}, "receive window"),
        ({"send_buffer_limited_ns": 0.6 * SECOND_NS}, "send buffer"),
        ({"busy_ns": 0.4 * SECOND_NS}, "application"),
        ({"busy_ns": 0, "acked_bytes": 0}, "idle"),
        ({"busy_ns": 0, "acked_bytes": 100, "received_bytes": 10_000}, "receiving"),
        ({"congestion_state": "recovery"}, "loss recovery"),
        ({"slow_start_threshold_packets": None}, "slow start"),
        ({}, "congestion window"),
        ({"unacked_packets": 5}, "pacing"),
        ({"busy_ns": None}, "unknown"),
    ],
)
def test_what_limited_it_for_most_of_the_time_is_named(values: dict[str, Any], limit: str) -> None:
    whole = {name: int(value) if isinstance(value, float) else value for name, value in values.items()}
    assert limited(**whole)["limit"] == limit


def test_bbr_has_no_slow_start_threshold_and_is_paced() -> None:
    assert limited("bbr", slow_start_threshold_packets=None, unacked_packets=5)["limit"] == "pacing"
    assert limited("bbr", slow_start_threshold_packets=None)["limit"] == "congestion window"


def test_rates_are_of_the_time_between_the_readings() -> None:
    found = limited(time_ns=SECOND_NS // 2, retransmitted_packets=5)
    assert (found["sent_bps"], found["received_bps"], found["retransmitted"]) == (2e6, 0.0, 2)


def test_where_nothing_moved_it_is_idle_and_of_a_new_one_nothing_is_known() -> None:
    controls = pl.DataFrame({"flow": [0], "congestion_control": ["cubic"]}, schema_overrides={"flow": pl.Int32})
    same = limits(readings(), readings(), controls).row(0, named=True)
    assert (same["limit"], same["sent_bps"]) == ("idle", 0.0)
    new = limits(tables.empty("tcp_info"), readings(), controls).row(0, named=True)
    assert (new["limit"], new["sent_bps"]) == ("unknown", None)


def test_a_control_group_is_its_number_and_those_in_it(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    for group in ("a.slice", "a.slice/b.service", "c.slice"):
        (tmp_path / group).mkdir()
        (tmp_path / group / "cgroup.procs").touch()
    expected = {(tmp_path / group).stat().st_ino for group in ("a.slice", "a.slice/b.service")}
    assert set(cgroup_numbers("a.slice", [tmp_path])) == expected
    assert set(cgroup_numbers(str(tmp_path / "a.slice"), [tmp_path])) == expected
    with pytest.raises(WantedError, match="there is no control group"):
        cgroup_numbers("d.slice", [tmp_path])
    with pytest.raises(WantedError, match="select by --pid instead"):
        cgroup_numbers("a.slice", [tmp_path / "a.slice"])


def test_a_prefix_has_the_address_that_it_begins_with() -> None:
    assert networks("192.0.2.77/24") == [("192.0.2.0", 24)]
    assert networks("::ffff:0:0/96") == [("::ffff:0:0", 96)]

"""Existing connections as a meter: only the time in which the path limits them counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import whydrop
from whydrop.act.existing import ConnectionsMeter, Seen, seen
from whydrop.act.meter import NoMeasurementError, metrics, read
from whydrop.measure.far_hosts import FarHost
from whydrop.recording import tables
from whydrop.recording.recording import Recording

SECOND = 1_000_000_000
LENGTH_S = 30


def connection(
    flow: int, bps: float, *, begins_s: float = 0.0, ends_s: float = LENGTH_S, **changed: Any
) -> pl.DataFrame:
    """A bulk transfer at an even rate, polled ten times a second; ``changed`` are columns by expressions of seconds."""
    seconds = np.arange(begins_s, ends_s + 0.05, 0.1)
    since = seconds - begins_s
    columns: dict[str, Any] = {
        "flow": flow, "time_ns": np.rint(seconds * SECOND).astype(int), "acked_bytes": bps / 8 * since,
        "not_sent_bytes": 100_000, "busy_ns": since * SECOND, "receive_window_limited_ns": 0,
        "send_buffer_limited_ns": 0, "retransmitted_packets": np.floor(since),
        "sent_data_packets": bps / 8 / 1448 * since,
        "srtt_ns": 50_000_000, "min_rtt_ns": 40_000_000, "mss_bytes": 1448, "path_mtu_bytes": 1500,
    }  # fmt: skip
    columns |= {name: given(since) if callable(given) else given for name, given in changed.items()}
    return tables.conform("tcp_info", pl.DataFrame(columns))


def watched(*connections: pl.DataFrame) -> Seen:
    return seen(pl.concat(connections), 0, LENGTH_S * SECOND)


def test_a_bulk_transfer_counts_but_for_its_first_round_trips() -> None:
    found = watched(connection(0, 8e6))
    assert found.goodput_bps == pytest.approx(8e6, rel=0.001)
    # Twenty round trips of 50 ms.
    assert found.counted_s == pytest.approx(LENGTH_S - 1.2, abs=0.3)
    assert found.retransmitted == pytest.approx(1448 * 8 / 8e6, rel=0.1)
    assert (found.mss_bytes, found.path_mtu_bytes, found.min_rtt_ns) == (1448, 1500, 40e6)


@pytest.mark.parametrize(
    "changed",
    [
        {"not_sent_bytes": 0},
        {"busy_ns": lambda since: 0.3 * since * SECOND},
        {"receive_window_limited_ns": lambda since: 0.9 * since * SECOND},
        {"send_buffer_limited_ns": lambda since: 0.9 * since * SECOND},
    ],
)
def test_time_in_which_an_end_limits_the_connection_does_not_count(changed: dict[str, Any]) -> None:
    assert watched(connection(0, 8e6, **changed)).counted_s == 0


def test_an_application_that_pauses_counts_only_while_it_sends() -> None:
    paused = connection(0, 8e6, not_sent_bytes=lambda since: np.where((since > 10) & (since < 20), 0, 100_000))
    found = watched(paused)
    # Less the start of each of the two transfers.
    assert found.counted_s == pytest.approx(20 - 2 * 1.2, abs=0.6)


def test_connections_share_the_path_and_may_come_and_go() -> None:
    found = watched(
        connection(0, 6e6, ends_s=15), connection(2, 2e6, not_sent_bytes=0), connection(4, 6e6, begins_s=15)
    )
    assert found.connections == 3
    assert found.goodput_bps == pytest.approx(8e6, rel=0.03)
    assert found.counted_s == pytest.approx(LENGTH_S - 2 * 1.2, abs=0.6)


def test_received_data_is_no_connection_of_its_own() -> None:
    assert watched(connection(0, 8e6), connection(1, 80e6)).goodput_bps == pytest.approx(8e6, rel=0.001)


def meter(folder: Path) -> ConnectionsMeter:
    return ConnectionsMeter(FarHost("server.example", "192.0.2.1"), folder, 4.0)


def test_each_watch_takes_half_a_minute_at_least(tmp_path: Path) -> None:
    assert meter(tmp_path).length_s == LENGTH_S


def test_too_little_to_judge_by_is_refused_with_what_limited_it(tmp_path: Path) -> None:
    nothing = watched(connection(0, 8e6, begins_s=0, ends_s=1).clear())
    with pytest.raises(NoMeasurementError, match="no TCP connection to server"):
        meter(tmp_path).check("unpaced", nothing)
    window = watched(connection(0, 8e6, receive_window_limited_ns=lambda since: 0.9 * since * SECOND))
    with pytest.raises(NoMeasurementError, match=r"1.connection to .* the receive window for 27.0.s"):
        meter(tmp_path).check("unpaced", window)


def test_its_recording_has_the_metrics_of_the_time_that_counts(tmp_path: Path) -> None:
    found = watched(connection(0, 8e6, not_sent_bytes=lambda since: np.where(since > 20, 0, 100_000)))
    recording = Recording.open(meter(tmp_path).written("unpaced", found))
    told = metrics(recording)
    assert told["goodput-up"] == pytest.approx(8.0, rel=0.01)
    assert told["rtt-median"] == pytest.approx(50.0)
    assert told["retransmits"] == pytest.approx(100 * 1448 * 8 / 8e6, rel=0.2)
    assert read(recording).mss_bytes == 1448


def test_what_would_send_is_refused_beside_connections() -> None:
    with pytest.raises(whydrop.Error, match="leave out --far-end iperf3"):
        whydrop.pace("127.0.0.1", connections=True, far_end="iperf3", dry_run=True)
    with pytest.raises(whydrop.Error, match="several flows need"):
        whydrop.fix("127.0.0.1", connections=True, flows=2)


def test_nothing_is_searched_for_without_a_change_of_this_host() -> None:
    with pytest.raises(NoMeasurementError, match="keep their own pace"):
        whydrop.pace("127.0.0.1", connections=True, dry_run=True)

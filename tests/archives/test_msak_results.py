"""Results of MSAK: throughput1 beside NDT's, latency1 as a recording. Documents as its Go structures are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from archives.outcomes import tables
from whydrop.formats.importing import open_recording
from whydrop.formats.kinds import is_of_connections, is_recording
from whydrop.recording.errors import RecordingError

THROUGHPUT1: dict[str, Any] = {
    "GitShortCommit": "0a1b2c3", "Version": "v1.2.3", "Direction": "upload", "MeasurementID": "m-1",
    "UUID": "msak_1700000000_000000000000AB12", "Server": "[2001:db8::1]:443", "Client": "[2001:db8::7]:40000",
    "CCAlgorithm": "bbr", "StartTime": "2026-02-03T04:05:06.5Z", "EndTime": "2026-02-03T04:05:11.5Z",
    "ServerMeasurements": [
        {"Application": {"BytesReceived": 1_000_000}, "Network": {"BytesReceived": 1_010_000}, "ElapsedTime": 250_000,
         "BBRInfo": {"BW": 0, "MinRTT": 0, "PacingGain": 0, "CwndGain": 0},
         "TCPInfo": {"State": 1, "RTT": 20_000, "RTTVar": 900, "MinRTT": 18_000, "SndCwnd": 10, "SndMSS": 1428,
                     "BytesReceived": 1_020_000, "TotalRetrans": 0, "ElapsedTime": 290_000}},
        {"Application": {"BytesReceived": 5_000_000}, "Network": {}, "ElapsedTime": 5_000_000,
         "TCPInfo": {"State": 1, "RTT": 21_000, "RTTVar": 900, "MinRTT": 18_000, "SndCwnd": 10, "SndMSS": 1428,
                     "BytesReceived": 5_100_000, "TotalRetrans": 2, "ElapsedTime": 5_040_000}},
    ],
    "ClientMeasurements": [],
    "ClientOptions": [{"Name": "streams", "Value": "3"}],
    "ClientMetadata": [{"Name": "access_token", "Value": "SECRET-TOKEN"}],
}  # fmt: skip

LATENCY1: dict[str, Any] = {
    "GitShortCommit": "0a1b2c3", "Version": "v1.2.3", "ID": "m-2", "Client": "192.0.2.7:50000",
    "Server": "192.0.2.1:1053", "StartTime": "2026-02-03T04:05:06Z", "EndTime": "2026-02-03T04:06:06Z",
    "RoundTrips": [{"RTT": 20_000}, {"RTT": 0, "Lost": True}, {"RTT": 22_500}], "PacketsSent": 3, "PacketsReceived": 2,
}  # fmt: skip


def written(folder: Path, document: Any) -> Path:
    path = folder / "result.json"
    path.write_text(json.dumps(document))
    return path


def test_a_stream_of_throughput1_is_a_test_with_its_measurements(tmp_path: Path) -> None:
    tcp, ndt = tables(written(tmp_path, THROUGHPUT1))
    (test,) = ndt.to_dicts()
    assert (test["protocol"], test["direction"]) == ("throughput1", "upload")
    assert test["test_id"] == "msak_1700000000_000000000000AB12"
    assert (test["local_address"], test["local_port"]) == ("2001:db8::1", 443)
    assert (test["remote_address"], test["remote_port"]) == ("2001:db8::7", 40000)
    assert (test["received_bytes"], test["retransmitted_segments"]) == (5_100_000, 2)
    assert test["mean_throughput_bps"] == pytest.approx(8 * 5_100_000 / 5)
    assert tcp["elapsed_ns"].to_list() == [250_000_000, 5_000_000_000]
    assert (tcp["time_ns"] - test["start_ns"]).to_list() == [250_000_000, 5_000_000_000]
    assert tcp["source"].unique().to_list() == ["throughput1"]
    assert tcp["congestion_control"].unique().to_list() == ["bbr"]
    assert tcp["bbr_bandwidth_bps"].null_count() == 2
    assert "SECRET" not in str(tcp.to_dicts()) + str(ndt.to_dicts())


def test_a_stream_of_throughput1_is_a_recording(tmp_path: Path) -> None:
    path = written(tmp_path, THROUGHPUT1)
    assert is_of_connections(path)
    assert open_recording(path).table("tcp_info").height == 2


def test_a_result_of_latency1_is_a_recording_of_probes(tmp_path: Path) -> None:
    path = written(tmp_path, LATENCY1)
    assert is_recording(path)
    found = open_recording(path)
    assert found.samples("Round-trip time")["value"].to_list() == [20.0, None, 22.5]
    assert found.table("probes")["fate"].to_list() == ["ok", "lost", "ok"]
    assert found.table("flows")["host"].to_list() == ["192.0.2.7"]
    assert any("the server measured" in note for note in found.notes)
    # As a client gets it.
    summary = {key: LATENCY1[key] for key in ("ID", "StartTime", "RoundTrips", "PacketsSent", "PacketsReceived")}
    assert open_recording(written(tmp_path, summary)).table("probes").height == 3


@pytest.mark.parametrize("trips", [[], [1], None])
def test_a_result_of_latency1_without_a_probe_is_refused(tmp_path: Path, trips: Any) -> None:
    with pytest.raises(RecordingError):
        open_recording(written(tmp_path, {**LATENCY1, "RoundTrips": trips}))

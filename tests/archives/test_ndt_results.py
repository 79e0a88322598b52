"""Results of NDT5 and NDT7 in JSON."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archives.outcomes import check, tables
from archives.published import folders, published
from archives.written import flipped, tar
from whydrop.formats.archives import json_text
from whydrop.formats.archives.pieces import pieces
from whydrop.recording.errors import RecordingError
from whydrop.store.tables import TABLES

NDT7: dict[str, Any] = {
    "GitShortCommit": "3ff6fc6", "ServerIP": "192.0.2.1", "ServerPort": 443, "ClientIP": "2001:db8::7",
    "ClientPort": 32805, "StartTime": "2020-03-18T00:06:57.5Z", "EndTime": "2020-03-18T00:07:08Z",
    "Upload": {
        "UUID": "ndt-knwp4_1583603744_000000000000590E", "StartTime": "2020-03-18T00:06:57.6Z",
        "EndTime": "2020-03-18T00:07:07.6Z",
        "ServerMeasurements": [
            {"TCPInfo": {"ElapsedTime": 250_000, "BytesReceived": 1_000, "SndMSS": 1448, "SndCwnd": 10, "State": 1},
             "BBRInfo": {"ElapsedTime": 250_000, "MaxBandwidth": 1_000_000, "MinRTT": 20_000}},
            {"TCPInfo": {"ElapsedTime": 500_000, "BytesReceived": 2_000, "MaxPacingRate": -1, "PacingRate": -1},
             "BBRInfo": {"BW": 2_000_000, "MinRTT": 4294967295, "PacingGain": 739, "CwndGain": 512}},
            {"BBRInfo": {"ElapsedTime": 750_000, "BW": 3_000_000, "MinRTT": 10_000}},
        ],
        "ClientMeasurements": None,
        "ClientMetadata": [{"Name": "access_token", "Value": "SECRET-TOKEN"}, {"Name": "client_os", "Value": "x"}],
    },
}  # fmt: skip

NDT5: dict[str, Any] = {
    "ServerIP": "192.0.2.1", "ServerPort": 3001, "ClientIP": "198.51.100.7", "ClientPort": 60576,
    "StartTime": "2019-12-01T00:00:13.5Z", "EndTime": "2019-12-01T00:00:34.7Z",
    "Control": {"UUID": "ndt-752tw_1572944496_00000000000D0F4C", "ClientMetadata": {"access_token": "SECRET-TOKEN"}},
    "C2S": {"ServerIP": "192.0.2.1", "ServerPort": 37161, "ClientIP": "198.51.100.7", "ClientPort": 36769,
            "UUID": "ndt-752tw_1572944496_00000000000D0F4E", "StartTime": "2019-12-01T00:00:14Z",
            "EndTime": "2019-12-01T00:00:24Z", "MeanThroughputMbps": 9.25},
    "S2C": {"UUID": "ERROR_DISCOVERING_UUID", "ServerIP": "192.0.2.1", "ServerPort": 46807,
            "ClientIP": "198.51.100.7", "ClientPort": 58183, "StartTime": "2019-12-01T00:00:24Z",
            "EndTime": "2019-12-01T00:00:34.5Z", "MeanThroughputMbps": 101.5, "MinRTT": 35000000,
            "TCPInfo": {"BytesAcked": 1000, "ElapsedTime": 10_000_000, "SegsOut": 5, "TotalRetrans": 1,
                        "MinRTT": 34000},
            "Error": "write tcp: broken pipe"},
}  # fmt: skip


def of(tmp_path: Path, document: Any, name: str = "ndt-x_1_2.json") -> tuple[pl.DataFrame, pl.DataFrame]:
    path = tmp_path / name
    path.write_text(json.dumps(document))
    return tables(path)


def test_the_published_download_of_ndt7_has_its_published_values() -> None:
    for path in (published("ndt7", "*590E.json.gz"), published("ndt7", "*mlab1-foo01*")):
        tcp, ndt = tables(path)
        assert tcp.height == 33
        assert (tcp["acked_bytes"][-1], tcp["elapsed_ns"][-1]) == (48396999, 10000921000)
        (test,) = ndt.to_dicts()
        assert round(test["mean_throughput_bps"] / 1e6, 3) == 38.714
        assert (test["direction"], test["protocol"]) == ("download", "ndt7")
        assert test["test_id"] == "ndt-knwp4_1583603744_000000000000590E"
        assert test["time_ns"] == 1584490017568560214
        assert test["min_rtt_ns"] == 285804000
        assert (test["sent_segments"], test["retransmitted_segments"]) == (39874, 4792)
        # Bandwidths are bytes a second in the file. The goodput is what they are checked against.
        assert 1 < tcp["bbr_bandwidth_bps"][-1] / test["mean_throughput_bps"] < 3
        assert tcp["pacing_rate_bps"][-1] == 11580125 * 8


@pytest.mark.slow
def test_every_published_result_of_ndt7_has_all_its_measurements() -> None:
    paths = folders("ndt7")
    if not paths:
        pytest.skip("Measurement Lab's files are not in ../shared/data/mlab: only synthetic files are read")
    results = [path for path in paths if path.suffix == ".gz"]
    assert len(results) == 70
    directions = []
    for path in results:
        tcp, ndt = tables(path)
        document = json.loads(gzip.decompress(path.read_bytes()))
        part = document.get("Download") or document["Upload"]
        assert tcp.height == len(part["ServerMeasurements"])
        assert tcp["elapsed_ns"].is_sorted()
        directions += ndt["direction"].to_list()
    assert sorted(directions) == ["download"] * 34 + ["upload"] * 36


def test_the_published_archive_of_ndt5_has_all_its_tests() -> None:
    (piece,) = pieces(published("ndt5", "20191201T020010*"))
    assert piece.table == "ndt"
    assert dict(piece.frame["direction"].value_counts().rows()) == {"upload": 1614, "download": 1873}
    assert piece.notes == [
        "Empty files: 75", "Results of NDT5 without a test: 181", "Tests of NDT5 that ended with an error: 581",
    ]  # fmt: skip
    test = piece.frame.row(by_predicate=pl.col("test_id") == "ndt-752tw_1572944496_00000000000D0F5D", named=True)
    assert round(test["mean_throughput_bps"]) == 101260696
    assert test["min_rtt_ns"] == 35_000_000
    assert test["server"] == "mlab1.yyz02.measurement-lab.org"
    assert test["duration_ns"] == 34081074410 - 24031267551
    # A test that failed says 0 Mb/s, which is no speed: 216 downloads and 166 uploads.
    assert piece.frame["mean_throughput_bps"].null_count() == 216 + 166


def test_both_directions_of_ndt5_are_tests_of_their_own(tmp_path: Path) -> None:
    _, ndt = of(tmp_path, NDT5)
    upload, download = ndt.to_dicts()
    assert (upload["direction"], download["direction"]) == ("upload", "download")
    assert (upload["mean_throughput_bps"], download["mean_throughput_bps"]) == (9.25e6, 101.5e6)
    assert (upload["remote_port"], download["remote_port"]) == (36769, 58183)
    assert (upload["duration_ns"], download["duration_ns"]) == (10 * 10**9, 10 * 10**9)
    assert upload["time_ns"] == download["time_ns"] == 1575158413500000000
    assert (upload["acked_bytes"], download["acked_bytes"]) == (None, 1000)
    assert download["min_rtt_ns"] == 35_000_000
    assert download["test_id"] == "ndt-x_1_2.json"  # its UUID could not be found out


@pytest.mark.parametrize("missing", ["S2C", "C2S", "Control"])
def test_a_part_of_ndt5_may_be_missing(tmp_path: Path, missing: str) -> None:
    document = {key: value for key, value in NDT5.items() if key != missing}
    _, ndt = of(tmp_path, document)
    assert ndt.height == (2 if missing == "Control" else 1)


def test_rates_of_bbr_are_bits_a_second_in_both_generations(tmp_path: Path) -> None:
    tcp, ndt = of(tmp_path, NDT7)
    assert tcp["bbr_bandwidth_bps"].to_list() == [8e6, 16e6, 24e6]
    assert tcp["bbr_min_rtt_ns"].to_list() == [20_000_000, None, 10_000_000]
    assert tcp["elapsed_ns"].to_list() == [250_000_000, 500_000_000, 750_000_000]
    assert tcp["time_ns"][0] == 1584490017850000000
    assert tcp["congestion_window_bytes"].to_list() == [14480, None, None]
    assert tcp["pacing_rate_bps"].null_count() == 3
    (test,) = ndt.to_dicts()
    assert (test["direction"], test["received_bytes"], test["duration_ns"]) == ("upload", 2000, 500_000_000)
    assert test["mean_throughput_bps"] == 32_000.0


def test_nothing_of_the_client_s_metadata_is_kept(tmp_path: Path) -> None:
    later = copy.deepcopy(NDT5)
    later["Control"]["ClientMetadata"] = [{"Name": "access_token", "Value": "SECRET-TOKEN"}]
    damaged = json.dumps(NDT7)[:-60]
    documents = [
        json.dumps(NDT7),
        json.dumps(NDT5),
        json.dumps(later),
        damaged,
        json.dumps(NDT7).replace("Port", "P\x01"),
    ]
    path = tmp_path / "20191201T020010.092692Z-ndt5-mlab1-yyz02-ndt.tgz"
    path.write_bytes(tar({f"ndt-{n}.json": text.encode() for n, text in enumerate(documents)}, packed=True))
    found = list(pieces(path))
    assert sum(piece.frame.height for piece in found) > 8
    for piece in found:
        for text in (piece.frame.write_json(), *piece.notes, str(piece.damage)):
            assert "SECRET" not in text
            assert "access_token" not in text


def test_a_result_that_was_cut_off_gives_the_measurements_before(tmp_path: Path) -> None:
    text = json.dumps(NDT7)
    path = tmp_path / "ndt7-upload-x.json"
    path.write_text(text[: text.index('"BW": 3000000')])
    tcp, ndt = pieces(path)
    assert tcp.frame["bbr_bandwidth_bps"].to_list() == [8e6, 16e6]
    assert tcp.damage is not None
    assert tcp.damage.startswith("no JSON from offset")
    assert ndt.frame["received_bytes"].to_list() == [2000]


def test_a_result_that_was_cut_off_before_its_measurements_is_damaged_all_the_same(tmp_path: Path) -> None:
    text = json.dumps(NDT7)
    path = tmp_path / "ndt7-upload-x.json"
    path.write_text(text[: text.index('"ServerMeasurements"')])
    (ndt,) = pieces(path)
    assert (ndt.table, ndt.frame.height) == ("ndt", 1)
    assert ndt.damage is not None


def test_a_damaged_result_of_ndt5_without_a_test_conforms_to_its_table(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(tar({"ndt5-x.json": b'{"Control": {"UUID": "x"}, "S2', "ndt7-x.json": json.dumps(NDT7).encode()}))
    found = list(pieces(path))
    assert any(piece.damage for piece in found)
    for piece in found:
        assert piece.frame.schema == TABLES[piece.table]


@pytest.mark.parametrize("length", range(40, len(json.dumps(NDT7)), 61))
def test_json_cut_off_anywhere_is_read_as_far_as_its_values_are_whole(length: int) -> None:
    whole, cut = json.dumps(NDT7), json.dumps(NDT7)[:length]
    document, damage = json_text.load(cut.encode())
    assert damage is not None
    assert document["GitShortCommit"] == "3ff6fc6"
    assert within(document, json.loads(whole))


def within(part: Any, whole: Any) -> bool:
    """True if all of a document is in another, in its place, and what is in lists is there whole."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and within(part[key], whole[key]) for key in part)
    if isinstance(part, list):
        return part == whole[: len(part)]
    return part == whole


def test_json_of_another_kind_is_one_clear_line(tmp_path: Path) -> None:
    for text in ('{"akl01": {"make": "juniper"}}', '{"Control": 7}', "[" * 100_000, '{"Upload": ' + "9" * 5000 + "}"):
        path = tmp_path / "x.json"
        path.write_text(text)
        with pytest.raises(RecordingError, match=r"x\.json: ") as error:
            list(pieces(path))
        assert len(str(error.value)) < 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.data())
def test_values_of_any_type_in_any_place_are_no_error(tmp_path_factory, data: st.DataObject) -> None:
    document = copy.deepcopy(data.draw(st.sampled_from([NDT5, NDT7])))
    for _ in range(data.draw(st.integers(1, 4))):
        place: Any = document
        while isinstance(place, dict | list) and place:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = data.draw(st.sampled_from(keys))
            if not isinstance(place[key], dict | list) or data.draw(st.integers(0, 3)) == 0:
                place[key] = data.draw(JSON)
                break
            place = place[key]
    path = tmp_path_factory.getbasetemp() / "ndt-any.json"
    path.write_text(json.dumps(document))
    check(path, most_rows=10)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_however_a_result_is_damaged_its_rows_or_one_line_come_of_it(tmp_path_factory, data: st.DataObject) -> None:
    content = json.dumps(data.draw(st.sampled_from([NDT5, NDT7]))).encode()
    bits = data.draw(st.lists(st.integers(0, 8 * len(content) - 1), max_size=6))
    path = tmp_path_factory.getbasetemp() / "ndt-damaged.json"
    path.write_bytes(flipped(content, bits)[: data.draw(st.none() | st.integers(0, len(content)))])
    check(path, most_rows=3)

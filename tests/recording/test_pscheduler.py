"""Results of pScheduler as recordings.

The documents have the keys, units and forms of those that perfSONAR publishes: the result schemas of its tests, the
examples of its archivers' reference, and the expected data of its esmond archiver's own tests; the numbers are ours.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whydrop.formats.importing import open_recording, open_recordings
from whydrop.formats.kinds import is_recording
from whydrop.recording.errors import RecordingError
from whydrop.recording.recording import Recording

START = "2026-03-04T05:06:07Z"
START_NS = 1_772_600_767 * 10**9


def stream(start: float, mbit: float, **more: Any) -> dict[str, Any]:
    return {
        "start": start, "end": start + 1.0, "stream-id": 5, "throughput-bits": mbit * 1e6,
        "throughput-bytes": mbit * 125_000, "omitted": False, **more,
    }  # fmt: skip


def tcp_result() -> dict[str, Any]:
    """Two seconds that the tool was asked to omit, then three of a TCP stream, then the rest of the last second."""
    omitted = [stream(float(n), 1.0, omitted=True, retransmits=9, rtt=63_000) for n in range(2)]
    kept = [
        stream(float(n), mbit, retransmits=again, rtt=1_000 + n, **{"tcp-window-size": 289_600})
        for n, (mbit, again) in enumerate([(800.0, 3), (900.0, 0), (1000.0, 2)])
    ]
    rest = {**stream(3.0, 5000.0, retransmits=0, rtt=1_003), "end": 3.02}
    intervals = [{"streams": [one], "summary": {**one, "stream-id": None}} for one in [*omitted, *kept, rest]]
    whole = {"start": 0, "end": 3.02, "throughput-bits": 894e6, "throughput-bytes": 337_485_000, "retransmits": 5}
    return {
        "succeeded": True,
        "diags": 'iperf3 -c host -J\n{\n\t"start":\t{\n\t\t"version": "iperf 3.9"\n\t}\n}',
        "mss": 1448,
        "intervals": intervals,
        "summary": {
            "summary": {**whole, "receiver-throughput-bits": 890e6},
            "streams": [{**whole, "stream-id": 5, "rtt": 1_001}],
        },
    }


def udp_result() -> dict[str, Any]:
    rows = [stream(float(n), 50.0, sent=4000, lost=None, jitter=None) for n in range(3)]
    whole = {"start": 0, "end": 3.0, "throughput-bits": 50e6, "sent": 12_000, "lost": 600, "jitter": 0.25}
    intervals = [{"streams": [one], "summary": one} for one in rows]
    return {"succeeded": True, "diags": "", "intervals": intervals,
            "summary": {"summary": whole, "streams": [{**whole, "stream-id": 5}]}}  # fmt: skip


def run_of(kind: str, result: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A run with its task, as archivers get it, and as the REST interface has it with its details."""
    hosts = {"source": "ps1.example.net", "dest": "ps2.example.net", "schema": 1, **spec}
    return {
        "test": {"type": kind, "spec": hosts},
        "tool": {"name": "iperf3", "version": "1.0"},
        "schedule": {"start": START, "duration": "PT14S"},
        "participants": ["ps1.example.net", "ps2.example.net"],
        "result": result,
    }


def opened(folder: Path, content: Any) -> Recording:
    path = folder / "result.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    assert is_recording(path)
    return open_recording(path)


def test_a_throughput_run_has_the_intervals_that_were_not_omitted_and_the_senders_tcp(tmp_path: Path) -> None:
    found = opened(tmp_path, run_of("throughput", tcp_result()))
    (flow,) = found.table("flows").to_dicts()
    assert (flow["name"], flow["kind"], flow["direction"]) == ("TCP upload", "tcp", "up")
    assert (flow["runner"], flow["host"]) == ("iperf3", "ps2.example.net")
    intervals = found.table("intervals")
    assert intervals["goodput_bps"].to_list() == [800e6, 900e6, 1000e6]
    assert intervals["start_ns"].to_list() == [START_NS + n * 10**9 for n in range(3)]
    tcp = found.table("tcp_info")
    assert tcp["retransmitted_packets"].to_list() == [3, 3, 5]
    assert tcp["srtt_ns"].to_list() == [1_000_000, 1_001_000, 1_002_000]
    assert tcp["congestion_window_packets"].to_list() == [200] * 3
    # The mean of the whole test is the receiver's.
    assert json.loads(flow["facts"])["mean_value"] == 890.0
    assert any("2 intervals that the tool was asked to omit" in note for note in found.notes)
    assert found.metadata["imported"]["written_by"] == "pScheduler with iperf3"


def test_the_output_of_the_command_line_has_no_hosts_and_no_time_of_day(tmp_path: Path) -> None:
    found = opened(tmp_path, tcp_result())
    assert found.table("intervals")["start_ns"].to_list() == [0, 10**9, 2 * 10**9]
    assert found.started_ns is None or found.metadata["started_ns"] is None
    assert any("no time of day" in note for note in found.notes)


def test_a_run_of_the_rest_interface_is_the_same_as_what_an_archiver_gets(tmp_path: Path) -> None:
    given = run_of("throughput", tcp_result())
    rest = {
        "task": {"test": given["test"], "tool": "iperf3"},
        "run": {"start-time": START, "state": "finished", "participants": given["participants"],
                "result-full": [tcp_result(), {}], "result-merged": tcp_result()},
    }  # fmt: skip
    one, other = opened(tmp_path, given), opened(tmp_path, rest)
    assert one.table("intervals").equals(other.table("intervals"))
    assert other.table("flows")["host"].to_list() == ["ps2.example.net"]


def test_a_reverse_test_is_a_download(tmp_path: Path) -> None:
    found = opened(tmp_path, run_of("throughput", tcp_result(), reverse=True))
    assert found.table("flows").select("name", "direction", "host").row(0) == (
        "TCP download", "down", "ps1.example.net",
    )  # fmt: skip


def test_the_goodput_of_udp_is_what_arrived_and_the_sent_rate_is_a_series_of_its_own(tmp_path: Path) -> None:
    found = opened(tmp_path, run_of("throughput", udp_result(), udp=True))
    (row,) = found.table("intervals").to_dicts()
    assert row["goodput_bps"] == pytest.approx(50e6 * 0.95)
    assert (row["packets"], row["lost"], row["jitter_ns"]) == (11_400, 600, 250_000)
    assert found.samples("UDP upload::sent_mbit")["value"].to_list() == [50.0] * 3


def test_parallel_streams_are_flows(tmp_path: Path) -> None:
    rows = [[stream(float(n), 100.0), {**stream(float(n), 300.0), "stream-id": 7}] for n in range(3)]
    intervals = [{"streams": of, "summary": stream(float(n), 400.0)} for n, of in enumerate(rows)]
    result = {"succeeded": True, "diags": "", "summary": {}, "intervals": intervals}
    found = opened(tmp_path, run_of("throughput", result))
    assert found.table("flows")["name"].to_list() == ["TCP upload 1", "TCP upload 2"]
    assert found.samples("TCP upload 2")["value"].to_list() == [300.0] * 3


def latency(**more: Any) -> dict[str, Any]:
    return {
        "succeeded": True, "schema": 1, "packets-sent": 100, "packets-received": 98, "packets-lost": 2,
        "packets-duplicated": 0, "packets-reordered": 0, "max-clock-error": 0.27, **more,
    }  # fmt: skip


def test_a_histogram_of_delays_becomes_its_numbers(tmp_path: Path) -> None:
    result = latency(**{"histogram-latency": {"2.50": 49, "2.60": 48, "90.00": 1}, "histogram-ttl": {"252": 98}})
    found = opened(tmp_path, run_of("latency", result))
    values = {one.name: found.samples(one.name)["value"].to_list() for one in found.series()}
    assert values["One-way delay, minimum"] == [2.5]
    assert values["One-way delay, median"] == [2.5]
    assert values["One-way delay, 95th percentile"] == [2.6]
    assert values["One-way delay, maximum"] == [90.0]
    assert values["Loss"] == [2.0]
    assert any("may differ by 0.27 ms" in note for note in found.notes)
    # In the published documents keys are in the width of a bucket: half a millisecond here.
    found = opened(tmp_path, run_of("latency", result, **{"bucket-width": 0.0005}))
    assert found.samples("One-way delay, maximum")["value"].to_list() == [45.0]


def ntp(seconds: float) -> int:
    return int((START_NS // 10**9 + 2_208_988_800 + seconds) * 2**32)


def test_delays_of_single_packets_are_those_of_a_stream_in_one_direction(tmp_path: Path) -> None:
    packets = [
        {"seq-num": n, "src-ts": ntp(n / 10), "dst-ts": ntp(n / 10 + 0.025) if n != 2 else 0, "src-clock-sync": True,
         "dst-clock-sync": True, "ip-ttl": 250}
        for n in range(5)
    ]  # fmt: skip
    found = opened(tmp_path, run_of("latency", latency(**{"raw-packets": packets})))
    packets_found = found.table("bursts")
    assert packets_found["received_ns"].is_null().to_list() == [False, False, True, False, False]
    assert found.samples("One-way delay")["value"].drop_nulls().to_list() == pytest.approx([25.0] * 4, abs=0.002)
    assert packets_found["sent_ns"][1] == pytest.approx(START_NS + 10**8, abs=2000)
    assert json.loads(found.table("flows")["facts"][0])["lost"] == 2


def test_round_trips_have_the_lost_ones_where_their_numbers_are_missing(tmp_path: Path) -> None:
    answers = [{"seq": n, "length": 64, "ip": "198.51.100.7", "ttl": 60, "rtt": f"PT0.0{n}S"} for n in (1, 2, 4)]
    answers.append({"seq": 5, "error": "net-unreachable"})
    result = {"succeeded": True, "schema": 1, "roundtrips": answers, "sent": 6, "received": 3, "loss": 0.5,
              "min": "PT0.01S", "max": "PT0.04S", "mean": "PT0.023S", "stddev": "PT0.01S"}  # fmt: skip
    found = opened(tmp_path, run_of("rtt", result, interval="PT2S"))
    probes = found.table("probes")
    assert probes["fate"].to_list() == ["ok", "ok", "lost", "ok", "lost", "lost"]
    assert probes["rtt_ns"].drop_nulls().to_list() == [10_000_000, 20_000_000, 40_000_000]
    assert probes["sent_ns"].to_list() == [START_NS + 2 * n * 10**9 for n in range(6)]


def test_each_hop_of_a_trace_is_a_flow(tmp_path: Path) -> None:
    path = [
        {"ip": "192.0.2.1", "rtt": "PT0.0002S"},
        {},
        {"ip": "203.0.113.9", "hostname": "r.example.net.", "rtt": "PT0.0214S", "as": {"number": 64500, "owner": "X"}},
    ]
    found = opened(tmp_path, run_of("trace", {"succeeded": True, "schema": 1, "paths": [path, path]}))
    assert found.table("flows")["name"].to_list() == ["Hop 1 (192.0.2.1)", "Hop 2 (silent)", "Hop 3 (203.0.113.9)"]
    assert found.samples("Hop 3 (203.0.113.9)")["value"].to_list() == [21.4, 21.4]
    assert found.table("probes").filter(pl.col("flow") == 1)["fate"].to_list() == ["lost", "lost"]


def test_data_for_esmond_are_read_as_the_results_that_they_are_made_of(tmp_path: Path) -> None:
    def part(rates: list[float]) -> list[dict[str, float]]:
        return [{"start": float(n), "duration": 1.0, "val": one} for n, one in enumerate(rates)]

    point = {
        "ts": START_NS // 10**9,
        "val": [
            {"event-type": "throughput", "val": 850e6},
            {"event-type": "packet-retransmits", "val": 3},
            # Two omitted seconds come first, and their times begin at 0, too.
            {"event-type": "throughput-subintervals", "val": part([1e6, 2e6]) + part([800e6, 900e6])},
            {"event-type": "packet-retransmits-subintervals", "val": part([7, 7]) + part([3, 0])},
            {"event-type": "streams-throughput-subintervals", "val": []},
        ],
    }  # fmt: skip
    found = opened(tmp_path, [point])
    assert found.table("intervals")["goodput_bps"].to_list() == [800e6, 900e6]
    assert found.table("intervals")["start_ns"][0] == START_NS
    assert found.table("tcp_info")["retransmitted_packets"].to_list() == [3, 3]
    metadata = {"source": "10.0.0.1", "destination": "10.0.0.2", "tool-name": "powstream", "time-duration": 60}
    delays = {"ts": START_NS // 10**9, "val": [
        {"event-type": "histogram-owdelay", "val": {"39.40": 300, "39.60": 300}},
        {"event-type": "packet-count-sent", "val": 600}, {"event-type": "packet-count-lost", "val": 0},
    ]}  # fmt: skip
    found = opened(tmp_path, {**metadata, "data": [delays]})
    assert found.samples("One-way delay, mean")["value"].to_list() == [39.5]
    assert found.table("flows")["host"][0] == "10.0.0.2"


def test_esmond_gets_round_trips_as_a_histogram_and_other_results_whole(tmp_path: Path) -> None:
    def point(*values: tuple[str, Any]) -> list[dict[str, Any]]:
        return [{"ts": START_NS // 10**9, "val": [{"event-type": name, "val": value} for name, value in values]}]

    counted = [("packet-count-sent", 8), ("packet-count-lost-bidir", 2)]
    found = opened(tmp_path, point(("histogram-rtt", {"53.80": 3, "53.90": 3}), *counted))
    assert found.samples("Round-trip time, mean")["value"].to_list() == [pytest.approx(53.85)]
    assert found.samples("Loss")["value"].to_list() == [25.0]
    hops = [{"ttl": 1, "query": 1, "success": 1, "ip": "192.0.2.1", "rtt": 7.5}, {"ttl": 2, "query": 1, "success": 1},
            {"ttl": 3, "query": 1, "success": 1, "ip": "192.0.2.9", "rtt": 21.5}]  # fmt: skip
    found = opened(tmp_path, point(("packet-trace", hops)))
    assert found.table("flows")["name"].to_list() == ["Hop 1 (192.0.2.1)", "Hop 2 (silent)", "Hop 3 (192.0.2.9)"]
    assert found.samples("Hop 3 (192.0.2.9)")["value"].to_list() == [21.5]
    found = opened(tmp_path, point(("packet-trace", hops[:1]), ("pscheduler-raw", TRACE)))
    assert found.table("flows")["name"].to_list() == ["Hop 1 (192.0.2.1)", "Hop 2 (silent)"]
    with pytest.raises(RecordingError, match="the host is down"):
        opened(tmp_path, point(("failures", {"error": "the host is down"})))


def test_lines_and_lists_of_runs_are_a_recording_each_and_failed_ones_are_counted(tmp_path: Path) -> None:
    good = run_of("throughput", tcp_result())
    failed = run_of("throughput", {"succeeded": False, "error": "the server is busy", "diags": "", "intervals": [],
                                   "summary": {}})  # fmt: skip
    for content in (json.dumps([good, failed, good]), "\n".join(map(json.dumps, (good, failed, good))) + "\n{cut"):
        path = tmp_path / "archive.json"
        path.write_text(content)
        found = open_recordings(path)
        assert [one.metadata["title"] for one in found] == ["archive, run 1 of 2", "archive, run 2 of 2"]
        assert any("1 of 3 runs in this file were left out: the server is busy" in note for note in found[0].notes)
    with pytest.raises(RecordingError, match="the server is busy"):
        opened(tmp_path, failed)


def mutated(value: Any) -> st.SearchStrategy[Any]:
    """A document with any of its parts replaced."""
    empty = [st.just(one) for one in ([], {}, [{}], {"val": [{}]})]
    other = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), *empty)
    if isinstance(value, dict):
        deeper: st.SearchStrategy[Any] = st.fixed_dictionaries({key: mutated(one) for key, one in value.items()})
    elif isinstance(value, list):
        deeper = st.tuples(*map(mutated, value)).map(list)
    else:
        deeper = st.just(value)
    return st.integers(0, 12).flatmap(lambda roll: other if roll == 0 else deeper)


RTT = {"succeeded": True, "loss": 0.0, "sent": 2, "roundtrips": [{"seq": 1, "rtt": "PT0.01S"}, {"seq": 2, "rtt": "x"}]}
TRACE = {"succeeded": True, "paths": [[{"ip": "192.0.2.1", "rtt": "PT0.01S"}, {}]]}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.one_of(
        mutated(run_of("rtt", RTT)), mutated(run_of("trace", TRACE)),
        mutated(run_of("latency", latency(**{"histogram-latency": {"2.5": 3}}))),
        mutated(run_of("throughput", udp_result())),
    )
)  # fmt: skip
def test_any_damage_is_an_error_for_the_user_or_a_recording(tmp_path: Path, document: Any) -> None:
    path = tmp_path / "any.json"
    path.write_text(json.dumps(document))
    try:
        found = open_recordings(path)
    except RecordingError:
        return
    for one in found:
        for series in one.series():
            one.samples(series.name)


@pytest.mark.slow
def test_the_commands_for_recordings_work_on_it(tmp_path: Path, run: Any) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(run_of("throughput", tcp_result())))
    done = run("import", path, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    for verb in ("show", "stats"):
        done = run(verb, path)
        assert done.returncode == 0, done.stderr
        assert "TCP upload" in done.stdout

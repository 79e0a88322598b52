"""Recordings that lie: numbers that are none, clocks that jump, documents of another shape."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import recordings
import whydrop
from example_files import Run
from whydrop.cli import stats
from whydrop.formats import exporting, importing
from whydrop.recording import document
from whydrop.recording.errors import RecordingError
from whydrop.recording.metrics.definitions import measure
from whydrop.recording.metrics.reducing import Reduction, reduce
from whydrop.recording.metrics.summary import Summary
from whydrop.recording.recording import Recording

pytestmark = pytest.mark.filterwarnings("error")


def changed(tmp_path: Path, table: str, *columns: pl.Expr, **metadata: Any) -> Recording:
    """The synthetic recording with columns of one table changed."""
    tables = recordings.tables()
    tables[table] = tables[table].with_columns(*columns)
    return Recording(tmp_path / "a.recording", recordings.metadata(**metadata), tables)


@pytest.mark.parametrize(
    "facts",
    [
        '{"mean_value": 1e999, "flent": [1]}',
        '{"mean_value": true, "flent": "x"}',
        "[1]",
        '{"a": NaN}',
        '{"a":' * 3000 + "1" + "}" * 3000,
    ],
)
def test_what_a_program_said_is_believed_only_where_it_makes_sense(tmp_path: Path, facts: str) -> None:
    honest = Summary(Recording(tmp_path, recordings.metadata(), recordings.tables()))
    lying = Summary(changed(tmp_path, "flows", pl.lit(facts).alias("facts")))
    for series in honest.recording.series(*recordings.UPLOADS):
        assert lying.told_mean(series) == honest.told_mean(series)
    assert lying.retransmissions() == honest.retransmissions()
    one = Reduction(np.array([1.0]), recording=lying.recording, flow=0)
    assert reduce("meta:flent", one) in (None, 1.0)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e308, -1e308, 5e-324])
def test_numbers_without_sense_reach_no_document(tmp_path: Path, value: float) -> None:
    some = pl.when(pl.int_range(pl.len()) % 7 == 3).then(pl.lit(value)).otherwise(pl.col("goodput_bps"))
    recording = changed(tmp_path, "intervals", some.alias("goodput_bps"))
    json.loads(document.text(Summary(recording).document()))
    found = whydrop.stats(recording)
    assert not found.metrics.is_empty()
    assert not found.series.is_empty()
    stats.document(found, whole=False)
    exported = json.loads(gzip.decompress(exporting.content(recording, "flent")), parse_constant=pytest.fail)
    assert set(exported["results"]) >= set(recordings.UPLOADS)


def test_a_clock_that_jumped_before_the_load_makes_no_idle_time_of_years(tmp_path: Path) -> None:
    first = pl.when(pl.col("sequence") == 0).then(1).otherwise(pl.col("sent_ns"))
    found = measure(changed(tmp_path, "probes", first.alias("sent_ns")))
    whole = measure(Recording(tmp_path, recordings.metadata(), recordings.tables()))
    assert found["induced-latency"].value == pytest.approx(whole["induced-latency"].value, rel=0.05)


def test_a_load_of_years_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="a clock must have jumped"):
        measure(changed(tmp_path, "flows", pl.lit(2**62).alias("end_ns")))


@pytest.mark.parametrize("step_s", [1e24, 1e308, -1, 0, "x", True, None])
def test_a_step_that_is_none_is_that_of_flent(tmp_path: Path, step_s: Any) -> None:
    test = {**recordings.metadata()["test"], "step_s": step_s}
    recording = Recording(tmp_path, recordings.metadata(test=test), recordings.tables())
    assert recording.step_s == 0.2
    assert measure(recording)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["flows", "computed", "plots", "hosts", "parameters"])
def test_a_plan_of_another_shape_is_refused_by_its_key(run: Run, tmp_path: Path, key: str) -> None:
    recordings.rrul(tmp_path / "a")
    place = tmp_path / "a" / "recording.json"
    told = json.loads(place.read_text())
    told["test"][key] = 7
    place.write_text(json.dumps(told))
    done = run("show", tmp_path / "a")
    assert done.returncode == 1
    assert f"test.{key} is 7; expected" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_round_trips_a_minute_are_by_those_under_load(run: Run, tmp_path: Path) -> None:
    """By their trimmed mean: in a row of ``show`` of each stream, in ``stats`` of all."""
    recording = recordings.rrul(tmp_path / "a")
    means_ms = []
    for one in Summary(recording).induced_latency():
        samples = recording.samples(one.name).drop_nulls("value")
        span = Summary(recording).load_span_ns()
        assert span is not None
        values = sorted(samples.filter((pl.col("time_ns") >= span[0]) & (pl.col("time_ns") < span[1]))["value"])
        # The 95th percentile lies between two samples; those up to it are the lowest 95 of 100.
        kept = values[: int(0.95 * (len(values) - 1)) + 1]
        means_ms.append(sum(kept) / len(kept))
        assert one.round_trips_per_minute == pytest.approx(60_000 / means_ms[-1])
    rows = json.loads(run("stats", tmp_path / "a", "--json").stdout)["metrics"]
    [row] = [row for row in rows if row["metric"] == "probe-round-trips"]
    assert row["value"] == pytest.approx(60_000 / (sum(means_ms) / len(means_ms)))
    shown = run("show", tmp_path / "a").stdout
    assert "Round trips/min" in shown
    # RPM is the name of what the draft defines, and this recording has none of its probes.
    assert "RPM, " not in shown


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e308, -1e308, 10**30, -(10**18), [], "many", None])
@pytest.mark.parametrize("key", ["rttvar", "rtt", "snd_cwnd", "bytes", "end", "retransmits"])
def test_a_number_of_iperf3_that_cannot_be_costs_no_more_than_itself(tmp_path: Path, key: str, value: Any) -> None:
    content = json.loads((Path(__file__).parent / "iperf3" / "tcp-two-streams.json").read_text())
    whole = importing.open_recording(_written(tmp_path, content))
    content["intervals"][1]["streams"][0][key] = value
    found = importing.open_recording(_written(tmp_path, content))
    assert found.table("flows").height == whole.table("flows").height
    for table in ("intervals", "tcp_info"):
        assert whole.table(table).height - found.table(table).height in (0, 1)


def _written(tmp_path: Path, content: Any) -> Path:
    file = tmp_path / "a.json"
    file.write_text(json.dumps(content))
    return file


@pytest.mark.parametrize("of_start", [[], 7, {"timestamp": {"timemillis": 1e300}}, {"test_start": {"tos": 1e99}}])
def test_what_iperf3_never_writes_is_refused_or_passed_over(tmp_path: Path, of_start: Any) -> None:
    content = json.loads((Path(__file__).parent / "iperf3" / "tcp-two-streams.json").read_text())
    content["start"] = of_start
    assert importing.open_recording(_written(tmp_path, content)).table("flows").height == 2


def test_a_list_of_lists_of_a_gigabyte_is_refused_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "bomb.flent.gz"
    with gzip.open(file, "wb", compresslevel=1) as stream:
        stream.write(b'{"version":4,"metadata":{},"x_values":[],"results":{"a":[[]')
        for _ in range(6):
            stream.write(b",[]" * 1_000_000)
        stream.write(b"]}}")
    with pytest.raises(RecordingError, match="more values than"):
        importing.open_recording(file)


def test_damage_inside_json_is_said_in_one_line(tmp_path: Path) -> None:
    content = {"version": 4, "metadata": {"SERIES_META": [1]}, "x_values": [0.0], "results": {"a": [1.0]}}
    with pytest.raises(RecordingError) as refusal:
        importing.open_recording(_written(tmp_path, content))
    assert "\n" not in str(refusal.value)


def test_a_folder_may_have_the_name_of_a_pattern(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "run [1]*?.recording"
    recordings.rrul(tmp_path / "a").path.rename(folder)
    assert run("show", str(folder)).stdout.startswith("rrul")


def test_an_unknown_format_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'xml'.*flent"):
        whydrop.export(recordings.rrul(tmp_path / "a"), "xml")  # type: ignore[arg-type]

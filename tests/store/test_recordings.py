"""Recorded tests in a store: what they measured, computed here again from the probes themselves."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import recordings
import whydrop
from recordings import DELAY_S, IDLE_RTT_MS, LENGTH_S, MS, START_NS, STEP_S, S
from whydrop.cli.commands import whydrop as whydrop_command
from whydrop.recording import document
from whydrop.recording.metrics.induced import EDGES_NS
from whydrop.recording.writer import RecordingWriter
from whydrop.store.engines import BackendError, open_backend
from whydrop.store.store import Store

QUEUE = [
    {"kind": "htb", "packets": 900, "drops": 9},
    {"kind": "fq_codel", "parent": "1:1", "packets": 900, "drops": 9, "ecn_mark": 4},
]
CAKE = [{"kind": "cake", "packets": 70, "drops": 7, "tins": [{"ecn_mark": 2}, {"ecn_mark": 3}]}]
BATCH = {
    "name": "rrul",
    "run": "rrul/line_10-10,queue_pie/02",
    "repetition": 2,
    "seed": 7,
    "arguments": ["line_10-10", "queue_pie"],
    "variables": {"queue": "pie", "line": "10/10"},
    "outputs": {"queue-up": QUEUE, "queue-down": CAKE, "text": "no queue", "list": [1, 2]},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("recordings")
    recordings.rrul(folder / "a.recording", batch=BATCH)
    recordings.write(folder / "b.recording", {}, "failed", failures=["no responder"])
    report = whydrop.import_into(folder / "store", folder)
    assert report.complete
    return Store.open(str(folder / "store"))


def rows(store: Store, table: str, name: str = "a.recording") -> pl.DataFrame:
    which = store.scan("recordings").filter(pl.col("name") == name).select("recording")
    return store.scan(table).join(which, on="recording", how="semi").collect()


def values(store: Store) -> dict[str, float | None]:
    return dict(rows(store, "metrics").select("metric", "value").iter_rows())


def probes() -> pl.DataFrame:
    """When each answered probe was sent, in s, and what load added to its round-trip time, in ms."""
    sequence = np.arange(70)
    at_s, rtt_ms = sequence * STEP_S, IDLE_RTT_MS + np.sin(sequence)
    load = (at_s >= DELAY_S) & (at_s < DELAY_S + LENGTH_S)
    base = np.median(rtt_ms[at_s < DELAY_S])
    icmp = pl.DataFrame({"sequence": sequence, "at_s": at_s, "induced_ms": rtt_ms + 60 * load - base, "load": load})
    # The other stream has the same times, but every 25th of its probes is lost.
    known = pl.col("sequence") % 25 != 24
    return pl.concat([icmp, icmp.filter(known)])


def test_a_recording_is_one_row_with_its_place_in_the_batch(store: Store) -> None:
    [row] = rows(store, "recordings").to_dicts()
    wanted = {"run": BATCH["run"], "repetition": 2, "seed": 7, "batch": "rrul", "status": "complete", "test": "rrul"}
    assert {key: row[key] for key in wanted} == wanted
    assert json.loads(row["variables"]) == BATCH["variables"]
    assert json.loads(row["outputs"]) == BATCH["outputs"]
    start_ns = START_NS + int(DELAY_S * S)
    assert (row["load_start_ns"], row["load_end_ns"]) == (start_ns, start_ns + int(LENGTH_S * S))
    assert row["last_start_ns"] == start_ns
    assert len(row["recording"]) == 64


def test_its_metrics_are_those_of_stats_and_the_tail_of_the_induced_latency(store: Store) -> None:
    found = values(store)
    assert found["goodput-down"] == pytest.approx(3 + 4)
    assert found["fairness-down"] == pytest.approx(49 / (2 * 25))
    induced = probes().filter("load")["induced_ms"].to_numpy()
    assert found["induced-latency-p95"] == pytest.approx(np.quantile(induced, 0.95))
    assert found["induced-latency-p99"] == pytest.approx(np.quantile(induced, 0.99))
    idle = IDLE_RTT_MS + np.sin(np.arange(10))
    assert found["idle-rtt"] == pytest.approx(np.median(idle))


def test_counters_of_queues_are_those_of_the_innermost_one(store: Store) -> None:
    found = values(store)
    of_queues = {key: value for key, value in found.items() if key.startswith(("queue-", "text", "list"))}
    assert of_queues == {
        "queue-up.sent_packets": 900, "queue-up.drops": 9, "queue-up.marks": 4,
        "queue-down.sent_packets": 70, "queue-down.drops": 7, "queue-down.marks": 5,
    }  # fmt: skip


def test_delays_have_a_row_for_each_step_in_which_a_probe_was_sent(store: Store) -> None:
    found = rows(store, "delays")
    assert found["after_load_ns"].to_list() == [(200 * number - 2000) * MS for number in range(60)]
    under_load = found.filter(pl.col("after_load_ns") == 400 * MS).row(0, named=True)
    expected = probes().filter(pl.col("sequence") == 12)["induced_ms"].to_numpy()
    assert (under_load["samples"], under_load["lost"]) == (2, 0)
    assert under_load["median_ns"] == pytest.approx(np.median(expected) * MS, abs=1)
    lost = found.filter(pl.col("lost") > 0)
    assert (lost["after_load_ns"] // (200 * MS) + 10).to_list() == [24, 49]
    assert lost["samples"].to_list() == [1, 1]


def test_the_histogram_counts_each_probe_once_in_the_bin_that_holds_it(store: Store) -> None:
    found = rows(store, "delay_counts")
    sent = probes().filter(pl.col("at_s") < DELAY_S + LENGTH_S)
    for load in (False, True):
        own = found.filter(pl.col("load") == load)
        delays = sent.filter(pl.col("load") == load)["induced_ms"].to_numpy()
        for lower, upper, samples in own.select("lower_ns", "upper_ns", "samples").iter_rows():
            low = -math.inf if lower == 0 else lower / MS
            assert samples == ((delays >= low) & (delays < upper / MS)).sum()
        assert own["samples"].sum() == len(delays)


def test_bins_are_a_tenth_of_a_millisecond_and_then_a_hundredth_of_the_delay_wide() -> None:
    widths = EDGES_NS.diff().drop_nulls()
    assert (widths[:100] == 100_000).all()
    ratios = (EDGES_NS[101:] / EDGES_NS[100:-1]).to_numpy()
    assert ratios == pytest.approx(np.full(len(ratios), 1.01), rel=1e-6)
    assert EDGES_NS[-1] > 200 * S


def test_a_failed_test_has_its_row_and_no_numbers(store: Store) -> None:
    [row] = rows(store, "recordings", "b.recording").to_dicts()
    assert (row["status"], json.loads(row["failures"]), row["batch"]) == ("failed", ["no responder"], None)
    assert rows(store, "metrics", "b.recording").is_empty()
    assert rows(store, "delays", "b.recording").is_empty()


def test_a_recording_is_read_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    folder = tmp_path / "a.recording"
    recordings.rrul(folder)

    def imported() -> dict[str, int]:
        return {table: of.rows for table, of in whydrop.import_into(tmp_path / "store", folder).tables().items()}

    assert imported()["recordings"] == 1
    assert imported() == {}
    document.write(folder, {**document.read(folder), "title": "another"})
    assert imported()["recordings"] == 1


@pytest.mark.parametrize(
    "batch",
    [
        {"outputs": 3},
        {"outputs": {"q": [{"kind": "pie", "drops": "7"}]}},
        {"outputs": {"q": [{"kind": "pie", "drops": 10**400, "packets": True}]}},
        {"outputs": {"q": [{"kind": {"a": 1}, "drops": 5}]}},
        {"repetition": "x"},
    ],
)
def test_odd_metadata_costs_no_more_than_itself(tmp_path: Path, batch: dict[str, Any]) -> None:
    recordings.rrul(tmp_path / "a.recording", batch=batch)
    report = whydrop.import_into(tmp_path / "store", tmp_path / "a.recording")
    assert report.complete
    found = values_of(tmp_path / "store")
    assert found["goodput-down"] == pytest.approx(7)
    assert not any(key.startswith("q.") for key in found)


def values_of(path: Path) -> dict[str, float]:
    return dict(Store.open(str(path)).scan("metrics").select("metric", "value").collect().iter_rows())


def recordings_of(path: Path) -> list[dict[str, Any]]:
    return Store.open(str(path)).scan("recordings").collect().to_dicts()


def test_a_qdisc_of_arriving_packets_is_no_queue(tmp_path: Path) -> None:
    both = [*QUEUE, {"kind": "ingress", "packets": 5, "drops": 0}]
    recordings.rrul(tmp_path / "a.recording", batch={**BATCH, "outputs": {"q": both}})
    whydrop.import_into(tmp_path / "store", tmp_path / "a.recording")
    assert values_of(tmp_path / "store")["q.sent_packets"] == 900


def test_connections_that_were_watched_are_one_row_without_load_and_metrics(tmp_path: Path) -> None:
    tables = recordings.tables()
    info = tables["tcp_info"].with_columns(delivered_packets=100, delivered_ce_packets=3)
    recordings.write(tmp_path / "a.recording", {"flows": tables["flows"], "tcp_info": info}, name="watch", test={})
    report = whydrop.import_into(tmp_path / "store", tmp_path / "a.recording")
    assert {table: of.rows for table, of in report.tables().items()} == {"tcp": 100, "recordings": 1}
    [row] = recordings_of(tmp_path / "store")
    assert (row["load_start_ns"], row["load_end_ns"], row["last_start_ns"]) == (None, None, None)


def test_marks_are_the_share_of_delivered_segments_of_all_flows_at_their_end(tmp_path: Path) -> None:
    tables = recordings.tables()
    rising = pl.col("time_ns").rank("ordinal").over("flow").cast(pl.Int64)
    delivered, marked = rising * 10 * (pl.col("flow") + 1), rising * pl.col("flow")
    tables["tcp_info"] = tables["tcp_info"].with_columns(delivered_packets=delivered, delivered_ce_packets=marked)
    recordings.write(tmp_path / "a.recording", tables)
    whydrop.import_into(tmp_path / "store", tmp_path / "a.recording")
    assert values_of(tmp_path / "store")["marks"] == pytest.approx(100 * (0 + 50) / (500 + 1000))


def test_a_clock_that_jumped_costs_the_metrics_and_not_the_row(tmp_path: Path) -> None:
    tables = recordings.tables()
    jumped = pl.when(pl.col("flow") == 0).then(2**62).otherwise("end_ns")
    tables["flows"] = tables["flows"].with_columns(end_ns=jumped)
    recordings.write(tmp_path / "a.recording", tables)
    report = whydrop.import_into(tmp_path / "store", tmp_path / "a.recording")
    [damage] = [line for file in report.files for line in file.damage]
    assert "its metrics are not known: 14558430083 steps under load" in damage
    assert len(recordings_of(tmp_path / "store")) == 1
    assert values_of(tmp_path / "store") == {}


def test_without_idle_time_the_round_trip_time_before_the_load_is_not_known(tmp_path: Path) -> None:
    tables = recordings.tables()
    tables["probes"] = tables["probes"].filter(pl.col("scheduled_ns") >= START_NS + int(DELAY_S * S))
    recordings.write(tmp_path / "a.recording", tables)
    whydrop.import_into(tmp_path / "store", tmp_path / "a.recording")
    found = values_of(tmp_path / "store")
    assert found["idle-rtt"] is None
    assert found["induced-latency-p95"] is not None


def test_an_unknown_start_is_null_and_not_1970(tmp_path: Path) -> None:
    recordings.write(tmp_path / "a.recording", {}, "failed", started_ns=None)
    whydrop.import_into(tmp_path / "store", tmp_path / "a.recording")
    [row] = recordings_of(tmp_path / "store")
    assert (row["time_ns"], row["load_start_ns"], row["status"]) == (None, None, "failed")


def test_a_recording_that_is_still_being_measured_gets_its_row_when_it_has_ended(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "a.recording", recordings.metadata())
    for name, frame in recordings.tables().items():
        writer.append(name, frame)
    writer.flush()
    before = whydrop.import_into(tmp_path / "store", tmp_path / "a.recording")
    assert set(before.tables()) == {"tcp"}
    assert any("when it has ended" in note.text for file in before.files for note in file.notes)
    writer.finish("complete")
    whydrop.import_into(tmp_path / "store", tmp_path / "a.recording")
    assert [row["status"] for row in recordings_of(tmp_path / "store")] == ["complete"]


def test_losses_on_the_way_to_the_access_point_are_none_of_the_path(tmp_path: Path) -> None:
    test = recordings.metadata()["test"]
    lossy, other = recordings.PINGS
    near, far = {"host": "ap", "probe": lossy}, [{"host": "server", "probe": other}]
    recordings.rrul(tmp_path / "a.recording", test={**test, "segments": {"near": near, "far": far}})
    whydrop.import_into(tmp_path / "store", tmp_path / "a.recording")
    delays = Store.open(str(tmp_path / "store")).scan("delays").collect()
    assert (delays["samples"].sum(), delays["lost"].sum()) == (60, 0)
    assert values_of(tmp_path / "store")["loss"] == 0


NEW = ("recordings", "metrics", "delays", "delay_counts")


def test_duckdb_opens_the_tables(store: Store) -> None:
    with open_backend(store.files.shown) as engine:
        for table in NEW:
            counted = engine.run(engine.table(table).count().as_table()).item()
            assert counted == store.scan(table).collect().height > 0


@pytest.mark.slow
@pytest.mark.needs_spark
def test_spark_opens_the_tables(store: Store, spark_master: str) -> None:
    with open_backend(store.files.shown, spark_master) as engine:
        for table in NEW:
            counted = engine.run(engine.table(table).count().as_table()).item()
            assert counted == store.scan(table).collect().height


def test_bigquery_says_that_it_has_none() -> None:
    with open_backend("", "bigquery:payer") as engine:
        for table in NEW:
            with pytest.raises(BackendError, match=table):
                engine.sql(engine.table(table))


def test_the_store_lists_them(store: Store) -> None:
    out = CliRunner().invoke(whydrop_command, ["store", store.files.shown]).output
    for table in NEW:
        assert f"{table} " in out

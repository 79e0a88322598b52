"""Recorded tests in a store: what they measured, computed here again from the probes themselves."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import recordings
import whydrop
from recordings import DELAY_S, IDLE_RTT_MS, LENGTH_S, MS, START_NS, STEP_S, S
from whydrop.recording import document
from whydrop.recording.metrics.induced import EDGES_NS
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
    "batch", [{"outputs": 3}, {"outputs": {"q": [{"kind": "pie", "drops": "7"}]}}, {"repetition": "x"}]
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

"""The study's queries on a real Spark cluster: the same numbers as DuckDB's."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from small_stores import BIN, DAY, SECOND, Row, download, sample, series, write
from studies.test_flow_control import port, uplink
from studies.test_tcp_study import of_each
from whydrop.store.engines import BackendError, open_backend
from whydrop.studies.discards import flow_control, pauses, queries
from whydrop.studies.discards.parameters import Change, Days, Parameters
from whydrop.studies.tcp import queries as tcp_queries

pytestmark = [pytest.mark.needs_spark, pytest.mark.slow]


def odd_samples() -> list[Row]:
    """Whatever queries must bear: gaps, resets, two switches, machines that lack samples, series that differ."""
    rows = series("octets.tx", [1e6, 2.5e6, None, 4e6]) + series("octets.tx", [1e6], machine="mlab2")
    rows += series("octets.tx", [3e6, 7e5], machine=None, switch="s2.dfw01")
    rows += [sample("octets.tx", 9 * BIN, 3.3e6, span_ns=5 * BIN), sample("octets.tx", 10 * BIN, 1.0, span_ns=None)]
    rows += series("discards.tx", [0.0, 3.0, None, 1.0, 0.0]) + series("unicast.tx", [1e3, 2e3, 3e3, 7e3], start=BIN)
    rows += series("broadcast.tx", [1.0, 2.0]) + series("discards.tx", [1.0, 0.0], machine="mlab2")
    rows += series("unicast.tx", [1e3, 0.0], machine="mlab2")
    rows += series("discards.tx", [0.0] * 20, start=DAY - 10 * BIN, site="dfw02", switch="s1.dfw02")
    rows += series("unicast.tx", [0.0] * 20, start=DAY - 10 * BIN, site="dfw02", switch="s1.dfw02")
    rows += [sample("discards.tx", 2 * DAY, 1.0, span_ns=3600 * SECOND, site="dfw02", switch="s1.dfw02")]
    return rows


def odd_tests() -> list[Row]:
    """Tests of some clients on three days: some twice as often, some with unknown values."""
    tests = [
        download(day * DAY + number * 7 * SECOND, 9.5 + number, client=f"192.0.2.{number % 3}", acked_bytes=acked)
        for day in range(3)
        for number, acked in enumerate((1_000_000, 30_000_001, 7_654_321, 999_999, 12_345_678, 2_000_003))
    ]
    tests += [download(DAY - 12 * SECOND, site="dfw02", machine="mlab3"), download(2 * DAY - 99 * SECOND, site="dfw02")]
    tests += [download(SECOND, client=None), download(2 * SECOND, start_ns=None), download(3 * SECOND, server=None)]
    tests += [download(4 * SECOND, retransmitted_segments=None), download(5 * SECOND, sent_segments=0)]
    tests += [download(6 * SECOND, congestion_limited_ns=None, client="2001:db8::1")]
    return tests


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("spark-study") / "a store", odd_samples(), odd_tests())


def parameters(definitions: str) -> Parameters:
    first, last = date(2018, 2, 11), date(2018, 2, 13)
    change = Change(before=Days(first=first, last=first), after=Days(first=last, last=last), more_tests_than=1)
    days = Days(first=first, last=last)
    return Parameters.model_validate({"definitions": definitions, "days": days, "change": change})


@pytest.mark.parametrize("definitions", [pytest.param("corrected", marks=pytest.mark.exhaustive), "published"])
def test_spark_gives_the_same_tables_as_duckdb(on_spark, store, definitions):
    with open_backend(store) as duckdb:
        wanted = queries.compute(duckdb, parameters(definitions))
    found = queries.compute(on_spark, parameters(definitions))
    assert list(found) == list(wanted)
    for name, frame in wanted.items():
        assert frame.height, f"{name}: a table without rows shows nothing"
        assert_frame_equal(found[name], frame, rel_tol=1e-12, abs_tol=0)


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples of TCP, and two ports with pause frames, one of them slow."""
    counters = uplink(pause_rx=[3.0, 5.0]) + port("local", "mlab1", 0.5, 0.01)
    return write(tmp_path_factory.mktemp("spark-others") / "a store", counters, odd_tests(), tcp=of_each())


def test_spark_finds_the_connections_of_tcp_that_duckdb_finds(spark, spark_master, others):
    with open_backend(others) as duckdb, open_backend(others, spark_master) as cluster:
        wanted, found = (backend.run(tcp_queries.connections(backend)) for backend in (duckdb, cluster))
    assert wanted.height > 8
    key = list(tcp_queries.KEY)
    assert_frame_equal(found.sort(key), wanted.sort(key), rel_tol=1e-12, abs_tol=0)


def test_spark_finds_the_pause_frames_and_the_slow_ports_that_duckdb_finds(spark, spark_master, others):
    asked = parameters("corrected")
    asked = asked.model_copy(
        update={"watch": asked.watch.model_copy(update={"port_speed_bps": {"uplink": 1e9, "local": 10e9}})}
    )
    with open_backend(others) as duckdb, open_backend(others, spark_master) as cluster:
        wanted, found = (
            (pauses.pauses(backend, asked).days, flow_control.find(backend, asked)) for backend in (duckdb, cluster)
        )
    assert wanted[0]["rx_per_s"].to_list() == [0.4]
    assert_frame_equal(found[0], wanted[0], rel_tol=1e-12, abs_tol=0)
    assert wanted[1].ports["conclusion"].to_list() == ["candidate"]
    assert_frame_equal(found[1].ports, wanted[1].ports, rel_tol=1e-12, abs_tol=0)
    assert_frame_equal(found[1].feeders, wanted[1].feeders, rel_tol=1e-12, abs_tol=0)


def test_a_cluster_counts_tests_by_class_as_this_machine_does(on_spark):
    together = queries.compute(on_spark, parameters("corrected"), only=["contacts", "contact_days"])
    alone = queries.compute(on_spark, parameters("corrected"), only=["contact_days"])
    assert_frame_equal(alone["contact_days"], together["contact_days"])


def test_a_table_that_the_store_lacks_is_there_without_rows_on_spark_too(on_spark):
    rows = on_spark.run(on_spark.table("tcp"))
    assert (rows.height, "day" in rows.columns) == (0, True)


def test_days_are_chosen_on_spark_too(on_spark):
    days = on_spark.table("ndt", "2018-02-12", "2018-02-12").select("day").distinct()
    assert on_spark.run(days)["day"].to_list() == ["2018-02-12"]


def test_a_part_that_is_damaged_inside_is_reported_by_spark_in_one_line(spark, spark_master, tmp_path):
    folder = write(tmp_path / "damaged", series("octets.tx", [1.0]))
    part = folder / "counters/day=2018-02-11/made.parquet"
    content = part.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little")
    part.write_bytes(content[:4] + b"\xff" * (len(content) - footer - 12) + content[-footer - 8 :])
    told = r"day=2018-02-11/made\.parquet: damaged inside"
    with open_backend(folder, spark_master) as backend, pytest.raises(BackendError, match=told) as failure:
        backend.run(backend.table("counters"))
    assert "\n" not in str(failure.value)


def test_one_process_has_one_spark(spark, spark_master, store):
    with pytest.raises(BackendError, match=f"this process already uses Spark at {spark_master}; "):
        open_backend(store, "spark:local[1]")


def test_a_folder_whose_name_spark_takes_for_a_pattern_is_refused(spark, tmp_path):
    folder = write(tmp_path / "fleet [old]", series("octets.tx", [1.0]))
    with pytest.raises(
        BackendError, match=r"Spark takes \[ \] in a path for patterns; rename the folder, or use DuckDB"
    ):
        open_backend(folder, "spark")

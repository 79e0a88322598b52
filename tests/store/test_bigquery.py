"""Queries for BigQuery: they are its SQL, and M-Lab's tables are mapped correctly.

`studies/test_google_sql.py` evaluates them as Google does; the service's client is in `test_bigquery_service.py`.

The mapping is run by DuckDB over a few synthetic rows of the shape of M-Lab's tables, translated by sqlglot.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
import sqlglot
from sqlglot import expressions as exp

from whydrop.errors import MissingExtraError
from whydrop.store import mappings
from whydrop.store.engines import BackendError, open_backend
from whydrop.store.errors import StoreError
from whydrop.store.tables import TABLES
from whydrop.studies.discards import results
from whydrop.studies.discards.parameters import Parameters
from whydrop.studies.discards.queries import QUERIES, Tables


@pytest.mark.slow
@pytest.mark.parametrize("definitions", ["corrected", "published"])
@pytest.mark.parametrize("name", list(QUERIES))
def test_every_query_of_the_study_is_bigquerys_sql(name, definitions):
    parameters = Parameters.model_validate({"definitions": definitions})
    with open_backend("", "bigquery:payer") as backend:
        sql = backend.sql(QUERIES[name](Tables.of(backend, parameters.days), parameters))
    query = sqlglot.parse_one(sql, dialect="bigquery", error_level=sqlglot.ErrorLevel.RAISE)
    assert sorted(query.named_selects) == sorted(results.TABLES[name])
    there = {table.sql(dialect="bigquery") for table in query.find_all(exp.Table) if table.db}
    assert there
    assert all(table.startswith("`measurement-lab.") for table in there)
    # What BigQuery does not have, or has under other names.
    for function in ("QUANTILE_CONT", "PERCENTILE", "MEDIAN", "EPOCH", "RANGE", "UNNEST_ALL"):
        assert f" {function}(" not in sql.upper()


def test_only_the_partitions_of_the_days_are_asked_for():
    with open_backend("", "bigquery:payer") as backend:
        sql = backend.sql(backend.table("ndt", "2018-02-11", "2018-02-25").select("test_id"))
    assert sql.count("t.date BETWEEN CAST('2018-02-11' AS DATE) AND CAST('2018-02-25' AS DATE)") == 3


# M-Lab's tables, as far as the mapping reads them

MADE_UP = """
CREATE SCHEMA measurement.utilization;
CREATE TABLE measurement.utilization.switch (
  date DATE, parser STRUCT(Filename VARCHAR), a STRUCT(Machine VARCHAR, Site VARCHAR),
  raw STRUCT(Metrics STRUCT(Metric VARCHAR, Sample STRUCT("timestamp" BIGINT, value DOUBLE, counter BIGINT)[])[]));
CREATE SCHEMA measurement.ndt;
CREATE TABLE measurement.ndt.web100 (
  date DATE, a STRUCT(TestTime TIMESTAMP, MeanThroughputMbps DOUBLE), parser STRUCT(Filename VARCHAR),
  server STRUCT(Site VARCHAR, Machine VARCHAR),
  raw STRUCT(connection STRUCT(data_direction BIGINT, server_hostname VARCHAR),
    web100 STRUCT(version VARCHAR, connection_spec STRUCT(local_ip VARCHAR, local_port BIGINT, remote_ip VARCHAR,
      remote_port BIGINT), snap STRUCT(StartTimeStamp BIGINT, Duration BIGINT, HCThruOctetsAcked BIGINT,
      HCThruOctetsReceived BIGINT, SegsOut BIGINT, SegsRetrans BIGINT, OctetsRetrans BIGINT, SndLimTimeRwin BIGINT,
      SndLimTimeCwnd BIGINT, SndLimTimeSnd BIGINT, CongSignals BIGINT, Timeouts BIGINT, MinRTT BIGINT, SumRTT BIGINT,
      CountRTT BIGINT))));
CREATE TABLE measurement.ndt.ndt5 (
  date DATE, server STRUCT(Site VARCHAR, Machine VARCHAR),
  raw STRUCT(StartTime TIMESTAMP, S2C STRUCT(UUID VARCHAR, StartTime TIMESTAMP, EndTime TIMESTAMP, ServerIP VARCHAR,
    ServerPort BIGINT, ClientIP VARCHAR, ClientPort BIGINT, MeanThroughputMbps DOUBLE, MinRTT BIGINT,
    TCPInfo STRUCT(BytesAcked BIGINT, BytesReceived BIGINT, SegsOut BIGINT, TotalRetrans BIGINT, BytesRetrans BIGINT,
      RWndLimited BIGINT))));
CREATE TABLE measurement.ndt.ndt7 (
  date DATE, server STRUCT(Site VARCHAR, Machine VARCHAR), a STRUCT(MeanThroughputMbps DOUBLE),
  raw STRUCT(StartTime TIMESTAMP, ServerIP VARCHAR, ServerPort BIGINT, ClientIP VARCHAR, ClientPort BIGINT,
    Download STRUCT(UUID VARCHAR, StartTime TIMESTAMP, EndTime TIMESTAMP, ServerMeasurements STRUCT(TCPInfo STRUCT(
      ElapsedTime BIGINT, BytesAcked BIGINT, BytesReceived BIGINT, SegsOut BIGINT, TotalRetrans BIGINT,
      BytesRetrans BIGINT, RWndLimited BIGINT, MinRTT BIGINT))[])));
"""

V1 = "20180211T00:00:00-to-20180211T01:00:00-switch.json.gz"
V2 = "2021-12-14T02:35:00-to-2021-12-14T02:40:00-switch.jsonl"


class MLab:
    """M-Lab's tables, synthetic."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("ATTACH ':memory:' AS measurement")
        self.connection.execute(MADE_UP)

    def switch(self, file: str, metric: str, timestamp: int, value: float, counter: int = 0, **of: str) -> None:
        """A row of the switch table with one metric."""
        self.connection.execute(
            "INSERT INTO measurement.utilization.switch "
            "SELECT CAST(to_timestamp(?) AT TIME ZONE 'UTC' AS DATE), {Filename: ?}, "
            '{Machine: ?, Site: ?}, {Metrics: [{Metric: ?, Sample: [{"timestamp": ?, value: ?, counter: ?}]}]}',
            [timestamp, file, of.get("machine", "mlab1"), of.get("site", "dfw02"), metric, timestamp, value, counter],
        )

    def table(self, name: str, first: str, last: str) -> list[dict[str, Any]]:
        """A table of the store, by the packaged mapping."""
        query = mappings.read(mappings.packaged).query(name, first, last)
        [translated] = sqlglot.transpile(query.replace("`measurement-lab.", "`measurement."), "bigquery", "duckdb")
        frame = pl.from_arrow(self.connection.sql(translated).to_arrow_table())
        assert isinstance(frame, pl.DataFrame)
        assert frame.columns == [*TABLES[name], "day"]
        return frame.sort(TABLES[name].keys()).to_dicts()


@pytest.fixture
def mlab() -> Iterator[MLab]:
    tables = MLab()
    yield tables
    tables.connection.close()


def test_a_sample_of_disco_v1_ends_when_m_lab_says_and_is_ten_seconds_long(mlab):
    mlab.switch(V1, "switch.discards.uplink.tx", 1518307210, 4.5)
    [row] = mlab.table("counters", "2018-02-11", "2018-02-11")
    told = {key: value for key, value in row.items() if value is not None}
    assert told == {
        "end_ns": 1518307210 * 10**9, "span_ns": 10**10, "metro": "dfw", "site": "dfw02", "switch": "s1.dfw02",
        "machine": "mlab1", "port": "uplink", "counter": "discards.tx", "value": 4.5, "quality": "interpolated",
        "day": "2018-02-11",
    }  # fmt: skip


def test_a_gap_of_disco_v2_is_spanned_by_the_next_sample(mlab):
    for timestamp, counter in ((1639449420, 100), (1639449430, 130), (1639449460, 190)):
        mlab.switch(V2, "switch.octets.uplink.tx", timestamp, 30.0, counter)
    rows = mlab.table("counters", "2021-12-14", "2021-12-14")
    assert [(row["span_ns"], row["total"]) for row in rows] == [(None, 100), (10**10, 130), (3 * 10**10, 190)]


def test_growth_below_zero_is_a_reset(mlab):
    mlab.switch(V2, "switch.octets.uplink.tx", 1639449420, 1.8446744073709552e19, 3)
    [row] = mlab.table("counters", "2021-12-14", "2021-12-14")
    assert (row["value"], row["quality"]) == (None, "reset")


def test_rows_that_are_there_twice_are_taken_once(mlab):
    for _ in range(2):
        for timestamp in (1639449420, 1639449430):
            mlab.switch(V2, "switch.octets.uplink.tx", timestamp, 30.0, 100)
    rows = mlab.table("counters", "2021-12-14", "2021-12-14")
    assert [row["span_ns"] for row in rows] == [None, 10**10]


def test_octets_of_machines_ports_are_left_out_where_their_names_are_confused(mlab):
    mlab.switch(V2, "switch.octets.local.tx", 1639449420, 30.0)
    mlab.switch(V2, "switch.unicast.local.tx", 1639449420, 30.0)
    mlab.switch(V1, "switch.octets.local.tx", 1518307210, 30.0)
    assert [row["counter"] for row in mlab.table("counters", "2021-12-14", "2021-12-14")] == ["unicast.tx"]
    assert [row["counter"] for row in mlab.table("counters", "2018-02-11", "2018-02-11")] == ["octets.tx"]


def test_days_are_those_of_the_samples_not_of_the_archives(mlab):
    mlab.switch(V1, "switch.octets.uplink.tx", 1518307190, 1.0)  # 2018-02-10T23:59:50
    mlab.switch(V1, "switch.octets.uplink.tx", 1518307200, 2.0)
    assert [row["value"] for row in mlab.table("counters", "2018-02-11", "2018-02-11")] == [2.0]


def test_a_test_of_web100_is_mapped_with_its_units(mlab):
    mlab.connection.execute(
        "INSERT INTO measurement.ndt.web100 SELECT DATE '2018-02-11', {TestTime: TIMESTAMP '2018-02-11 10:00:00', "
        "MeanThroughputMbps: 12.61}, {Filename: 'x.s2c_snaplog.gz'}, {Site: 'dfw02', Machine: 'mlab1'}, {connection: "
        "{data_direction: 1, server_hostname: 'mlab1.dfw02.measurement-lab.org'}, web100: {version: '2.5.27', "
        "connection_spec: {local_ip: '192.0.2.1', local_port: 3001, remote_ip: '192.0.2.2', remote_port: 40000}, snap: "
        "{StartTimeStamp: 1518343200000001, Duration: 10309133, HCThruOctetsAcked: 16249281, HCThruOctetsReceived: 0, "
        "SegsOut: 11000, SegsRetrans: 5, OctetsRetrans: 7000, SndLimTimeRwin: 9942115, SndLimTimeCwnd: 62261, "
        "SndLimTimeSnd: 304556, CongSignals: 1, Timeouts: 0, MinRTT: 4294967295, SumRTT: 4000, CountRTT: 100}}}"
    )
    [row] = mlab.table("ndt", "2018-02-11", "2018-02-11")
    told = {key: value for key, value in row.items() if value is not None}
    assert told == {
        "time_ns": 1518343200 * 10**9, "start_ns": 1518343200000001000, "end_ns": 1518343210309134000,
        "test_id": "x.s2c_snaplog.gz", "protocol": "web100", "direction": "download", "metro": "dfw", "site": "dfw02",
        "machine": "mlab1", "server": "mlab1.dfw02.measurement-lab.org", "local_address": "192.0.2.1",
        "local_port": 3001, "remote_address": "192.0.2.2", "remote_port": 40000, "duration_ns": 10309133000,
        "acked_bytes": 16249281, "received_bytes": 0, "sent_segments": 11000, "retransmitted_segments": 5,
        "retransmitted_bytes": 7000, "receiver_limited_ns": 9942115000, "congestion_limited_ns": 62261000,
        "sender_limited_ns": 304556000, "congestion_signals": 1, "timeouts": 0, "mean_rtt_ns": 40_000_000,
        "mean_throughput_bps": 12.61e6, "kernel": "2.5.27", "day": "2018-02-11",
    }  # fmt: skip


def test_downloads_of_ndt5_and_ndt7_are_mapped_too(mlab):
    mlab.connection.execute(
        "INSERT INTO measurement.ndt.ndt5 SELECT DATE '2020-03-18', {Site: 'lga03', Machine: 'mlab2'}, {StartTime: "
        "TIMESTAMP '2020-03-18 00:00:00', S2C: {UUID: 'five', StartTime: TIMESTAMP '2020-03-18 00:00:01', EndTime: "
        "TIMESTAMP '2020-03-18 00:00:11', ServerIP: '192.0.2.1', ServerPort: 3001, ClientIP: '192.0.2.2', ClientPort: "
        "40000, MeanThroughputMbps: 8.0, MinRTT: 40000000, TCPInfo: {BytesAcked: 10000000, BytesReceived: 10, SegsOut: "
        "7000, TotalRetrans: 7, BytesRetrans: 9000, RWndLimited: 3}}}"
    )
    mlab.connection.execute(
        "INSERT INTO measurement.ndt.ndt7 SELECT DATE '2020-03-18', {Site: 'lga03', Machine: 'mlab2'}, "
        "{MeanThroughputMbps: 38.7}, {StartTime: TIMESTAMP '2020-03-18 01:00:00', ServerIP: '192.0.2.1', ServerPort: "
        "443, ClientIP: '192.0.2.2', ClientPort: 40001, Download: {UUID: 'seven', StartTime: TIMESTAMP '2020-03-18 "
        "01:00:00', EndTime: TIMESTAMP '2020-03-18 01:00:10', ServerMeasurements: [{TCPInfo: {ElapsedTime: 1, "
        "BytesAcked: 1, BytesReceived: 1, SegsOut: 1, TotalRetrans: 1, BytesRetrans: 1, RWndLimited: 1, MinRTT: 1}}, "
        "{TCPInfo: {ElapsedTime: 10000921, BytesAcked: 48396999, BytesReceived: 5, SegsOut: 34000, TotalRetrans: 9, "
        "BytesRetrans: 13000, RWndLimited: 2, MinRTT: 11000}}]}}"
    )
    five, seven = mlab.table("ndt", "2020-03-18", "2020-03-18")
    assert (five["test_id"], five["protocol"], five["acked_bytes"], five["duration_ns"]) == (
        "five", "ndt5", 10_000_000, 10 * 10**9,
    )  # fmt: skip
    assert (seven["test_id"], seven["acked_bytes"], seven["duration_ns"], seven["min_rtt_ns"]) == (
        "seven", 48396999, 10000921000, 11_000_000,
    )  # fmt: skip
    assert {five["site"], five["machine"], seven["site"], seven["machine"]} == {"lga03", "mlab2"}


# Mappings of others


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[samples]]\nfrom = 't'", "samples: no such key; expected one of counters, "),
        ("[counters]\nfrom = 't'", r":1: counters: .*: expected a list"),
        ("[[counters]]\nform = 't'", r":2: counters\[0\]\.form: no such key"),
        ("[[counters]]\nfrom = 7", r":2: counters\[0\]\.from: 7: expected a text in quotes"),
        ("[[counters]]\nfrom = 't'", r":1: counters\[0\]\.columns: is missing"),
        ("[[counters]]\nfrom = 't'\ncolumns = {end = 'x'}", r"columns\.end: table counters has no such column"),
        ("[[counters]]\nfrom = 't'\ncolumns = {end_ns = 7}", r"columns\.end_ns: 7: expected a text in quotes"),
        ("[[counters]]\nfrom = 't'\ncolumns = {site = 'x'}", r"columns: end_ns is missing"),
        ("from", ":1: not TOML"),
    ],
)
def test_a_mistake_in_a_mapping_is_reported_with_its_key(tmp_path, text, complaint):
    path = tmp_path / "mapping.toml"
    path.write_text(text)
    with pytest.raises(StoreError, match=complaint) as refused:
        mappings.read(path)
    assert str(refused.value).startswith(f"{path}:")


def test_a_table_that_a_mapping_lacks_is_named(tmp_path):
    path = tmp_path / "mapping.toml"
    path.write_text("[[counters]]\nfrom = 't'\ncolumns = {end_ns = 'x'}")
    told = r"mapping\.toml: expected \[\[ndt\]\], .*it has counters"
    with open_backend("", "bigquery:payer", mapping=path) as backend, pytest.raises(BackendError, match=told):
        backend.table("ndt")


def test_a_mapping_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BackendError, match=r"gone\.toml: No such file or directory"):
        open_backend("", "bigquery:payer", mapping=Path(tmp_path / "gone.toml"))


def test_without_googles_client_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.cloud", None)
    told = r"not installed: pip install 'whydrop\[bigquery\]'"
    with open_backend("", "bigquery:payer") as backend, pytest.raises(MissingExtraError, match=told):
        backend.run(backend.table("ndt"))


def test_somebody_must_pay_for_queries():
    told = "needs a project that pays for queries: --backend bigquery:PROJECT"
    with open_backend("", "bigquery") as backend, pytest.raises(BackendError, match=told):
        backend.run(backend.table("ndt"))

"""Queries of the studies by Google's reference implementation of its SQL, over M-Lab's schemas: DuckDB's numbers."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from datetime import date
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from google_sql import GoogleSQL
from mlab_tables import SCHEMAS, MadeUp, made_up
from small_stores import download, write
from studies.test_tcp_study import of_each
from whydrop.store import mappings
from whydrop.store.engines import Backend, open_backend
from whydrop.store.tables import TABLES
from whydrop.studies.discards import flow_control, pauses, queries, study, watch
from whydrop.studies.discards.parameters import Change, Days, Exposure, Parameters
from whydrop.studies.tcp import queries as tcp_queries

# The implementation is a module of WebAssembly that is compiled in the first run, which takes half a minute.
pytestmark = pytest.mark.slow

FIRST, LAST = date(2018, 2, 11), date(2018, 2, 13)
METROS = ("dfw", "lga")
# One of each definition in every run of the tests.
SOME = {("corrected", "contacts"), ("published", "utilisation")}
EACH = [
    pytest.param(definitions, name, marks=() if (definitions, name) in SOME else pytest.mark.exhaustive)
    for definitions in ("published", "corrected")
    for name in queries.QUERIES
]


@pytest.fixture(scope="module")
def rows() -> MadeUp:
    made = made_up(download)
    made.twice()
    return made


@pytest.fixture(scope="module")
def reference(rows: MadeUp) -> GoogleSQL:
    return GoogleSQL(SCHEMAS, rows.tables)


@pytest.fixture(scope="module")
def duckdb(rows: MadeUp, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    store = write(tmp_path_factory.mktemp("google-sql") / "store", rows.counters, rows.ndt)
    with open_backend(store) as backend:
        yield backend


def parameters(definitions: str) -> Parameters:
    change = Change(before=Days(first=FIRST, last=FIRST), after=Days(first=LAST, last=LAST), more_tests_than=1)
    days, exposure = Days(first=FIRST, last=LAST), Exposure(metros=METROS)
    return Parameters.model_validate(
        {"definitions": definitions, "days": days, "change": change, "metros": METROS, "contact": exposure}
    )


@pytest.mark.parametrize("table", ["counters", "ndt"])
def test_m_labs_tables_are_mapped_to_the_rows_of_a_store(reference, duckdb, table):
    wanted = duckdb.run(duckdb.table(table, FIRST, LAST))
    found = reference.run(reference.table(table, FIRST, LAST)).select(wanted.columns)
    assert wanted.height > 80
    assert_frame_equal(found.sort(found.columns), wanted.sort(wanted.columns), check_exact=True)


@pytest.mark.parametrize(("definitions", "name"), EACH)
def test_a_query_of_the_study_of_discards_means_in_googles_sql_what_it_means_in_duckdbs(
    reference, duckdb, definitions, name
):
    [wanted] = queries.compute(duckdb, parameters(definitions), only=[name]).values()
    [found] = queries.compute(reference, parameters(definitions), only=[name]).values()
    assert wanted.height, "a table without rows shows nothing"
    assert_frame_equal(found, wanted, rel_tol=1e-12, abs_tol=0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("definitions", ["published", "corrected"])
def test_the_whole_study_of_discards_comes_to_the_same_conclusions(reference, duckdb, definitions):
    wanted, found = (study.run(backend, parameters(definitions)) for backend in (duckdb, reference))
    assert found.facts["failed"] == {}
    assert found.notes == wanted.notes
    for name, table in wanted.tables.items():
        assert_frame_equal(found.tables[name], table, rel_tol=1e-9, abs_tol=1e-12)


def test_pause_frames_are_added_up_alike(reference, duckdb):
    """M-Lab's tables have no pause frames; the query is asked for discards, of which both directions are there."""
    asked = parameters("corrected")
    wanted, found = (
        backend.run(pauses.by_day(queries.Tables.of(backend, asked.days).counters, asked, "discards"))
        for backend in (duckdb, reference)
    )
    assert wanted.height > 2
    assert_frame_equal(found.sort(found.columns), wanted.sort(found.columns).select(found.columns), rel_tol=1e-12)


@pytest.mark.exhaustive
def test_ports_that_flow_control_might_serve_are_the_same(reference, duckdb):
    wanted, found = (flow_control.find(backend, parameters("corrected")) for backend in (duckdb, reference))
    assert wanted.ports.height
    assert_frame_equal(found.ports, wanted.ports, rel_tol=1e-12, abs_tol=0)
    assert_frame_equal(found.feeders, wanted.feeders, rel_tol=1e-12, abs_tol=0)


def test_a_study_of_days_without_rows_says_what_it_lacks(reference):
    nothing = parameters("corrected").model_copy(update={"days": Days(first=date(2019, 5, 1), last=date(2019, 5, 2))})
    found = study.run(reference, nothing, only=("utilisation",))
    assert found.facts["failed"] == {}
    assert "counters of switches" in " ".join(found.notes)


@pytest.mark.exhaustive
def test_ports_that_discard_too_much_are_the_same(reference, duckdb):
    now = int(pl.Series([LAST]).dt.epoch("ns")[0]) + 30_000_000_000
    usual = parameters("corrected")
    low = usual.watch.model_copy(update={"least_discards": 1, "ratio": 1e-9})
    loose = usual.model_copy(update={"watch": low})
    wanted, found = (watch.look(backend, loose, now, {}) for backend in (duckdb, reference))
    assert wanted.alerts.height
    assert_frame_equal(found.alerts, wanted.alerts)
    assert (found.ports, found.silent, found.unjudged) == (wanted.ports, wanted.silent, wanted.unjudged)


def test_the_query_of_the_study_of_tcp_means_the_same(tmp_path):
    of_tcp = TABLES["tcp"]
    sql_types = {"Int64": "INT64", "Float64": "FLOAT64", "String": "STRING", "Boolean": "BOOL"}
    columns = ", ".join(f"{name} {sql_types[str(kind)]}" for name, kind in of_tcp.items())
    mapping = tmp_path / "mapping.toml"
    named = "\n".join(f'{name} = "t.{name}"' for name in of_tcp)
    mapping.write_text(f'[[tcp]]\nfrom = "`lab.statistics.tcp` AS t"\n[tcp.columns]\n{named}\n')
    # A mapping drops rows without a time, as they are on no day.
    samples: list[dict[str, Any]] = [row for row in of_each() if row.get("time_ns") is not None]
    reference = GoogleSQL(f"CREATE TABLE lab.statistics.tcp ({columns})", {"lab.statistics.tcp": samples}, mapping)
    found = reference.run(tcp_queries.connections(reference))
    with open_backend(write(tmp_path / "store", tcp=samples)) as duckdb:
        wanted = duckdb.run(tcp_queries.connections(duckdb))
    assert wanted.height > 8
    key = list(tcp_queries.KEY)
    assert_frame_equal(found.sort(key), wanted.sort(key), rel_tol=1e-12, abs_tol=0)


def test_every_table_that_the_mapping_reads_has_a_schema_here():
    sources = " ".join(source["from"] for table in tomllib.loads(mappings.packaged.read_text()).values()
                       for source in table)  # fmt: skip
    for path in ("utilization.switch", "ndt.web100", "ndt.ndt5", "ndt.ndt7"):
        assert f"`measurement-lab.{path}`" in sources
    assert sources.count("`measurement-lab.") == SCHEMAS.count("CREATE TABLE") == 4


def test_what_google_sql_refuses_is_refused(reference):
    with pytest.raises(Exception, match="Unrecognized name: nothing"):
        reference.evaluated("SELECT nothing FROM `measurement-lab.ndt.web100`")

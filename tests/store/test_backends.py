"""Engines over a store: what they give, and what they say when they cannot."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path

import ibis
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ibis import _

from small_stores import BIN, DAY, download, series, write
from store.s3_server import ObjectStore, object_store
from whydrop.errors import MissingExtraError
from whydrop.store.engines import Backend, BackendError, open_backend
from whydrop.store.engines.duckdb import DuckDB
from whydrop.store.files import Files
from whydrop.store.store import Store
from whydrop.store.tables import TABLES


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of two days of samples and one test."""
    counters = series("octets.tx", [1.0, 2.0, 3.0]) + series("octets.tx", [4.0], start=DAY)
    return write(tmp_path / "fleet.store", counters, [download()])


@pytest.fixture
def duckdb(store: Path) -> Iterator[Backend]:
    with open_backend(str(store)) as backend:
        yield backend


def values(backend: Backend, *days: str) -> list[float]:
    """All values of a store's samples, in order."""
    table = backend.table("counters", *days)
    return backend.run(table.order_by("end_ns").select("value"))["value"].to_list()


def test_a_table_has_the_columns_of_the_store_and_the_day(duckdb):
    rows = duckdb.run(duckdb.table("counters"))
    assert rows.schema == {**TABLES["counters"], "day": pl.String}
    assert set(rows["day"]) == {"2018-02-11", "2018-02-12"}


@pytest.mark.parametrize("above", ["site=abc01", "day=2018-01-01", "x=y=z"])
def test_duckdb_takes_no_folder_above_the_store_for_a_column(tmp_path: Path, above: str) -> None:
    (tmp_path / above).mkdir()
    with open_backend(str(write(tmp_path / above / "fleet.store", series("octets.tx", [1.0])))) as backend:
        assert backend.run(backend.table("counters").select("site", "day")).rows() == [("dfw01", "2018-02-11")]


def test_a_table_that_the_store_lacks_is_there_without_rows(duckdb):
    rows = duckdb.run(duckdb.table("tcp"))
    assert (rows.height, rows.schema) == (0, {**TABLES["tcp"], "day": pl.String})


def test_a_table_that_no_store_has_is_refused(duckdb):
    with pytest.raises(BackendError, match="a store has no table 'samples': expected one of counters, polls, ndt, tcp"):
        duckdb.table("samples")


def test_days_are_chosen_with_both_ends(duckdb):
    assert values(duckdb, "2018-02-12", "2018-02-12") == [4.0]
    assert values(duckdb, "2018-02-11", "2018-02-12") == [1.0, 2.0, 3.0, 4.0]
    assert duckdb.run(duckdb.table("counters", date(2018, 2, 13), None)).is_empty()


def test_of_other_days_no_file_is_read(store):
    part = store / "counters/day=2018-02-11/made.parquet"
    part.write_bytes(damaged_inside(part.read_bytes()))
    with open_backend(store) as backend:
        assert values(backend, "2018-02-12", "2018-02-12") == [4.0]


def test_a_part_that_was_cut_short_is_left_out_and_noted(store):
    part = store / "counters/day=2018-02-11/made.parquet"
    part.write_bytes(part.read_bytes()[:-20])
    with open_backend(store) as backend:
        assert values(backend) == [4.0]
        assert [note.partition(". ")[0] for note in backend.notes] == [
            f"{part}: offset {part.stat().st_size - 4}: expected Parquet's magic PAR1: the file was cut short"
        ]


def test_a_part_that_is_damaged_inside_is_named(store):
    part = store / "counters/day=2018-02-11/made.parquet"
    part.write_bytes(damaged_inside(part.read_bytes()))
    with (
        open_backend(store) as backend,
        pytest.raises(BackendError, match=r"day=2018-02-11/made\.parquet: damaged inside"),
    ):
        backend.run(backend.table("counters"))


def damaged_inside(content: bytes) -> bytes:
    """A Parquet file with pages of noise between intact ends."""
    footer = int.from_bytes(content[-8:-4], "little")
    return content[:4] + b"\xff" * (len(content) - footer - 12) + content[-footer - 8 :]


def test_a_store_that_is_compacted_meanwhile_is_read_from_its_new_parts(store):
    write_another_part(store)
    with open_backend(store) as backend:
        table = backend.table("counters")
        assert Store.open(store).compact("counters")
        assert sorted(backend.run(table.select("value"))["value"]) == [1.0, 2.0, 3.0, 4.0, 5.0]


def write_another_part(store: Path) -> None:
    """A second part of the first day."""
    frame = pl.DataFrame(series("octets.tx", [5.0], start=5 * BIN), schema=TABLES["counters"])
    Store.open(store).write_part("counters", "2018-02-11", "later", frame)


def test_a_compaction_that_was_cut_short_hides_no_rows(store, monkeypatch):
    write_another_part(store)

    def killed(self: Files, name: str, to: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Files, "move", killed)
        with pytest.raises(KeyboardInterrupt):
            Store.open(store).compact("counters")
    assert not list(store.glob("counters/day=2018-02-11/*.parquet"))
    with open_backend(store) as backend:
        assert values(backend) == [1.0, 2.0, 3.0, 5.0, 4.0]


def test_parts_of_other_versions_may_lack_columns(store):
    part = store / "counters/day=2018-02-11/made.parquet"
    pl.read_parquet(part, hive_partitioning=False).drop("quality").write_parquet(part)
    with open_backend(store) as backend:
        rows = backend.run(backend.table("counters").group_by("quality").agg(rows=_.count()).order_by("rows"))
    assert rows.rows() == [("ok", 1), (None, 3)]


def test_a_column_that_no_part_has_is_null(store):
    shutil.rmtree(store / "counters/day=2018-02-12")
    part = store / "counters/day=2018-02-11/made.parquet"
    pl.read_parquet(part, hive_partitioning=False).drop("quality").write_parquet(part)
    with open_backend(store) as backend:
        assert backend.run(backend.table("counters").select("quality"))["quality"].null_count() == 3


@pytest.mark.parametrize("name", ["it's a store", "a*b", "[set]", "q?", "day=1999-01-01", "ünï"])
def test_letters_of_a_folders_name_mean_themselves(tmp_path, name):
    write(tmp_path / "another", series("octets.tx", [9.0]))
    with open_backend(write(tmp_path / name, series("octets.tx", [1.0]))) as backend:
        assert values(backend) == [1.0]


def test_rows_are_counted_by_day(duckdb):
    assert duckdb.rows_of_days("counters") == {"2018-02-11": 3, "2018-02-12": 1}


def test_sums_are_of_the_types_that_the_query_says(duckdb):
    rows = duckdb.run(duckdb.table("counters").agg(span=_.span_ns.sum(), mean=_.end_ns.mean(), n=_.count()))
    assert rows.schema == {"span": pl.Int64, "mean": pl.Float64, "n": pl.Int64}
    assert rows["span"].item() == 4 * BIN


def test_what_is_spilled_is_removed(store):
    backend = DuckDB(str(store), memory_limit=200_000_000)
    [[folder]] = backend.connection.execute("SELECT current_setting('temp_directory')").fetchall()
    assert Path(folder).is_dir()
    backend.close()
    assert not Path(folder).exists()


def test_samples_that_are_looked_at_twice_are_not_kept_and_sums_are(duckdb):
    samples = duckdb.table("counters").filter(_.value > 1.0)
    days = samples.group_by("day").agg(most=_.value.max())
    busy = days.filter(_.most > 3.0)
    quiet = samples.semi_join(days.filter(_.most <= 3.0), "day").agg(most=_.value.sum())
    both = quiet.union(busy.select("most"))
    sql = duckdb.sql(both)
    assert sql.count("AS NOT MATERIALIZED (") == sql.count("AS MATERIALIZED (") == 1
    assert sorted(duckdb.run(both)["most"]) == [4.0, 5.0]


def test_a_failing_query_is_reported_in_one_line(duckdb):
    table = duckdb.table("counters")
    with pytest.raises(BackendError) as failure:
        duckdb.run(table.mutate(n=table.site.cast("int64")))
    assert str(failure.value).startswith(f"{duckdb.location}: DuckDB: Conversion Error: ")
    assert "\n" not in str(failure.value)


# Where there is no store, or no engine


@pytest.mark.slow
@pytest.mark.parametrize("after_seconds", [0.05, 0.5, 2.0])
def test_ctrl_c_ends_a_query_at_any_moment(duckdb, after_seconds):
    # One side is gathered first, in short tasks; then each row of the other meets all of it, in a task of hours.
    endless = "SELECT sum(a.range * b.range % 7) FROM range(100000000) AS a, range(30000000) AS b"
    pressed = threading.Timer(after_seconds, os.kill, (os.getpid(), signal.SIGINT))
    pressed.start()
    with pytest.raises(KeyboardInterrupt):
        duckdb._fetch(endless)
    pressed.join()
    assert values(duckdb) == [1.0, 2.0, 3.0, 4.0]


def test_a_query_that_hangs_is_given_up_after_ctrl_c_and_closing_does_not_wait_for_it(store, monkeypatch):
    monkeypatch.setattr("whydrop.runtime.long_calls.PATIENCE_S", 0.3)
    storage = threading.Event()
    backend = DuckDB(str(store))
    spill = backend._spill.path

    def hangs(_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        storage.wait()

    with pytest.raises(KeyboardInterrupt) as raised:
        backend._within_reach(hangs)
    [note] = raised.value.__notes__
    assert note == f"{store}: a query of DuckDB did not end within 0.3 s and was abandoned"
    assert values(backend) == [1.0, 2.0, 3.0, 4.0], "other queries do not wait for it"
    backend.close()
    assert not spill.exists()
    storage.set()


def test_ctrl_c_interrupts_no_other_query(duckdb):
    runs, let_go = threading.Event(), threading.Event()
    found: list[object] = []

    def waits(number: int) -> int:
        runs.set()
        let_go.wait()
        return number

    def others(cursor):
        cursor.create_function("waits", waits, ["BIGINT"], "BIGINT")
        return cursor.sql("SELECT sum(waits(range)) FROM range(3)").fetchall()

    def ask() -> None:
        try:
            found.append(duckdb._within_reach(others))
        except BaseException as reason:
            found.append(reason)

    thread = threading.Thread(target=ask)
    thread.start()
    runs.wait()
    pressed = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    pressed.start()
    with pytest.raises(KeyboardInterrupt):
        duckdb._fetch("SELECT sum(a.range * b.range % 7) FROM range(100000000) AS a, range(30000000) AS b")
    let_go.set()
    thread.join()
    assert found == [[(3,)]]


def test_a_folder_that_is_not_there_is_no_store(tmp_path):
    with pytest.raises(BackendError, match=r"nowhere: no store is there .*; `whydrop store import` makes one"):
        open_backend(tmp_path / "nowhere")


def test_a_folder_of_other_things_is_no_store(tmp_path):
    (tmp_path / "photo.png").touch()
    with pytest.raises(BackendError, match="no store is there"):
        open_backend(tmp_path)


def test_a_store_of_a_newer_version_is_refused(store):
    (store / "whydrop-store.json").write_text('{"whydrop_store": 99}')
    with pytest.raises(BackendError, match=r"whydrop-store\.json: a store of version 99"):
        open_backend(store)


def test_an_engine_that_is_not_known_is_refused(store):
    with pytest.raises(BackendError, match="no engine is called 'duck': expected duckdb, spark, "):
        open_backend(store, "duck")


def test_a_mapping_is_for_bigquery(store, tmp_path):
    with pytest.raises(BackendError, match="a mapping of tables is for BigQuery, not for duckdb"):
        open_backend(store, mapping=tmp_path / "mapping.toml")


def test_without_pyspark_it_is_said_what_to_install(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtraError, match=r"pyspark, which is not installed: pip install 'whydrop\[spark\]'"):
        open_backend(store, "spark")


def test_without_java_it_is_said_what_to_install(store, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(
        BackendError, match="Spark needs Java 17 or 21, and there is no program java; on Debian: apt-get"
    ):
        open_backend(store, "spark:local[1]")


def test_a_java_home_without_java_is_named(store, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    with pytest.raises(BackendError, match="JAVA_HOME is /nonexistent, but there is no bin/java in it"):
        open_backend(store, "spark:local[1]")


@pytest.mark.needs_spark
def test_a_spark_master_that_does_not_answer_is_named(store):
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(BackendError, match=f"no Spark master at {master} .*: .*Connection refused.*is it running"):
        open_backend(store, master)


# Object stores


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """An object store that s3:// leads to."""
    with object_store() as server:
        for name, value in {
            "AWS_ENDPOINT_URL": server.address, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        yield server


@pytest.mark.slow
def test_a_store_in_an_object_store_gives_the_same(objects, tmp_path):
    counters = series("octets.tx", [1.0, 2.0]) + series("octets.tx", [3.0], start=DAY)
    write(tmp_path / "fleet" / "years", counters)
    objects.take(tmp_path)
    with open_backend("s3://fleet/years") as backend:
        assert values(backend) == [1.0, 2.0, 3.0]
        assert values(backend, "2018-02-12", "2018-02-12") == [3.0]
        assert backend.run(backend.table("counters").select("day").distinct().order_by("day"))["day"].to_list() == [
            "2018-02-11",
            "2018-02-12",
        ]
        assert backend.run(backend.table("ndt")).is_empty()
        assert set(backend.rows_of_days("counters")) == {"2018-02-11", "2018-02-12"}


def test_a_prefix_without_a_store_is_none(objects):
    with pytest.raises(BackendError, match="s3://fleet/nothing: no store is there"):
        open_backend("s3://fleet/nothing")


# Quantiles where the engine has none


Groups = st.dictionaries(
    st.sampled_from("abcd"),
    st.lists(st.none() | st.floats(-1e9, 1e9) | st.sampled_from([0.0, 1.0]), min_size=1, max_size=12),
    min_size=1,
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDB]:
    folder = tmp_path_factory.mktemp("quantiles") / "store"
    with DuckDB(str(write(folder, series("octets.tx", [1.0])))) as backend:
        yield backend


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(groups=Groups, q=st.sampled_from([0.0, 49 / 101, 0.5, 0.9, 1.0]) | st.floats(0, 1), discrete=st.booleans())
def test_a_quantile_by_ranks_is_the_engines(engine, groups, q, discrete):
    rows = [(name, value) for name, of in groups.items() for value in of]
    engine.connection.execute("CREATE OR REPLACE TABLE made (name VARCHAR, x DOUBLE)")
    engine.connection.executemany("INSERT INTO made VALUES (?, ?)", rows)
    made = ibis.table({"name": "string", "x": "float64"}, name="made")
    others = {"rows": _.count(), "most": _.x.max()}
    found = engine.run(
        Backend.quantile_by(engine, made, ["name"], "x", q, discrete=discrete, **others).order_by("name")
    )
    wanted = engine.run(engine.quantile_by(made, ["name"], "x", q, discrete=discrete, **others).order_by("name"))
    for ours, theirs in zip(found.to_dicts(), wanted.to_dicts(), strict=True):
        known = [abs(value) for value in groups[ours["name"]] if value is not None]
        # Between numbers of opposite signs, what is left of them may be any small number.
        close = pytest.approx(theirs["quantile"], rel=1e-12, abs=1e-12 * max(known)) if known else None
        assert ours == theirs | {"quantile": close}

"""Rows are in a store once, whatever is added how often and whatever fails meanwhile."""

from __future__ import annotations

import errno
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from store.test_writing_parts import DAY_NS, rows
from whydrop.store import tables
from whydrop.store.errors import StoreError
from whydrop.store.files import Files
from whydrop.store.store import DESCRIPTION, Store

DAY = 86_400_000_000_000


def plain(root: Path, table: str = "counters") -> pl.DataFrame:
    """As an engine reads it that knows of Parquet files only."""
    return pl.read_parquet(root / table / "*/*.parquet", hive_partitioning=False)


def test_what_was_added_is_there_by_day(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    added = store.add("counters", rows(3, first=8638))
    assert (added.rows, added.duplicates, added.conflicts) == (3, 0, 0)
    assert sorted(path.name for path in (tmp_path / "counters").glob("day=*")) == ["day=2018-02-11", "day=2018-02-12"]
    assert store.scan("counters").select("day", "end_ns").collect().rows() == [
        ("2018-02-11", DAY_NS + 86_380_000_000_000),
        ("2018-02-11", DAY_NS + 86_390_000_000_000),
        ("2018-02-12", DAY_NS + DAY),
    ]
    assert store.scan("counters", days=["2018-02-12", "2030-01-01"]).collect().height == 1
    assert store.scan("ndt").collect().is_empty()


def test_rows_that_are_there_already_are_left_out(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    store.add("counters", rows(3))
    added = store.add("counters", rows(5))
    assert (added.rows, added.duplicates, added.conflicts) == (2, 3, 0)
    assert plain(tmp_path).height == 5


@pytest.mark.parametrize("above", ["year=2020", "day=2018-01-01", "site=abc01", "a b", "new\nline", "*[a]?"])
def test_folders_that_the_store_is_in_change_nothing_whatever_they_are_called(tmp_path: Path, above: str) -> None:
    (tmp_path / above).mkdir()
    store = Store.create(tmp_path / above / "store")
    store.add("counters", rows(3))
    assert store.add("counters", rows(5)).duplicates == 3
    assert store.scan("counters").select("day", "site").unique().collect().rows() == [("2018-02-11", "dfw01")]
    assert store.notes == []


def test_a_place_that_engines_cannot_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"bad\\udcff: no place for a store: its path is no UTF-8"):
        Store.create(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff"))


def test_of_rows_that_differ_the_first_stays_and_both_are_shown(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    store.add("counters", rows(2, 1.0))
    added = store.add("counters", rows(3, 7.0))
    assert (added.rows, added.duplicates, added.conflicts) == (1, 0, 2)
    assert sorted(plain(tmp_path)["value"]) == [1.0, 1.0, 7.0]
    assert "value is 1.0, and 7.0 was left out" in str(added.shown[0])
    assert "2018-02-11T00:00:10Z" in str(added.shown[0])


def test_the_same_holds_within_one_frame(tmp_path: Path) -> None:
    added = Store.create(tmp_path).add("counters", pl.concat([rows(2, 1.0), rows(1, 7.0), rows(2, 1.0)]))
    assert (added.rows, added.duplicates, added.conflicts) == (2, 2, 1)
    assert plain(tmp_path)["value"].to_list() == [1.0, 1.0]


def test_a_value_that_only_one_of_two_rows_has_is_no_conflict(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    store.add("counters", rows(1).with_columns(span_ns=pl.lit(10**10)))
    added = store.add("counters", rows(1))
    assert (added.duplicates, added.conflicts) == (1, 0)


def test_counts_are_reported_by_source(tmp_path: Path) -> None:
    one, two, three = Store.create(tmp_path).add_all("counters", [rows(2), rows(3), rows(3, 9.0)])
    assert (one.rows, one.duplicates, one.conflicts) == (2, 0, 0)
    assert (two.rows, two.duplicates, two.conflicts) == (1, 2, 0)
    assert (three.rows, three.duplicates, three.conflicts) == (0, 0, 3)
    assert not two.shown
    assert len(three.shown) == 3


def test_nulls_in_keys_are_values_like_any_other(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    without_site = rows(2).with_columns(site=pl.lit(None, dtype=pl.String()))
    store.add("counters", without_site)
    assert store.add("counters", without_site).duplicates == 2
    assert store.add("counters", rows(2)).rows == 2


def test_rows_without_a_time_have_a_folder_that_engines_read_as_none(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    frame = pl.DataFrame({"test_id": ["a", "a"], "elapsed_ns": [1, 2]})
    store.add("tcp", frame)
    assert store.add("tcp", frame).duplicates == 2
    assert store.scan("tcp").select("day", "elapsed_ns").collect().rows() == [(None, 1), (None, 2)]


def test_a_column_that_the_table_has_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="no column colour"):
        Store.create(tmp_path).add("counters", rows(1).with_columns(colour=pl.lit("red")))


def test_parts_are_written_as_engines_like_them(tmp_path: Path) -> None:
    from pyarrow import parquet

    Store.create(tmp_path).add("counters", rows(2000))
    (part,) = (tmp_path / "counters/day=2018-02-11").glob("*.parquet")
    footer = parquet.read_metadata(part)
    columns = {of.path_in_schema: of for of in map(footer.row_group(0).column, range(footer.num_columns))}
    assert {of.compression for of in columns.values()} == {"ZSTD"}
    assert "DELTA_BINARY_PACKED" in columns["end_ns"].encodings
    assert "RLE_DICTIONARY" in columns["quality"].encodings
    assert str(parquet.read_schema(part).field("site").type) == "string"
    read = pl.read_parquet(part, hive_partitioning=False)
    assert read.schema == tables.COUNTERS
    assert read.equals(read.sort(tables.ORDER["counters"]))


class _Failing:
    """Makes the n-th call of os.replace or os.fsync fail, and all behind it."""

    def __init__(self, patch: pytest.MonkeyPatch, number: int) -> None:
        self.left = number
        for name in ("replace", "fsync"):
            patch.setattr(f"os.{name}", self._counted(getattr(os, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left <= 0:
                raise _CrashError
            return call(*arguments, **options)

        return counted


class _CrashError(BaseException):
    """As little expected as a loss of power: nothing may catch it and go on."""


@pytest.mark.slow
def test_a_crash_at_any_step_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    before, frame = rows(3, first=8600), rows(100, first=8590)
    for step in range(1, 40):
        root = tmp_path / str(step)
        store = Store.create(root)
        store.add("counters", before)
        with pytest.MonkeyPatch.context() as patch:
            _Failing(patch, step)
            try:
                store.add("counters", frame)
                crashed = False
            except _CrashError:
                crashed = True
        seen = plain(root)
        assert seen.select(tables.KEYS["counters"]).is_duplicated().sum() == 0
        assert seen.join(tables.conform("counters", before), on="end_ns", how="semi").height == 3
        Store.open(root).add("counters", frame)
        assert plain(root).height == 100
        if not crashed:
            break
    assert step > 6, "two days of a file, its folder and a rename each were expected to fail"
    assert not crashed


def test_what_a_killed_writer_left_half_written_is_nowhere_read_and_soon_gone(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    store.add("counters", rows(1))
    left = tmp_path / "counters/day=2018-02-11/.added-1.parquet.abc.part"
    left.write_bytes(b"PAR1 and no more")
    assert plain(tmp_path).height == 1
    assert store.scan("counters").collect().height == 1
    store.add("counters", rows(2))
    assert not left.exists()


def test_a_damaged_part_is_named_and_hides_none_of_the_others(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    store.add("counters", rows(5))
    store.add("counters", rows(5, first=6))
    damaged, sound = sorted((tmp_path / "counters/day=2018-02-11").glob("*.parquet"))
    content = damaged.read_bytes()
    for kept in (0, 3, 11, 200, len(content) - 1):
        damaged.write_bytes(content[:kept])
        store = Store.open(tmp_path)
        assert store.scan("counters").collect().height == pl.read_parquet(sound).height
        assert damaged.name in store.notes[0]
        (contents,) = store.contents()
        assert contents.rows == 5
    damaged.write_bytes(content[:20] + b"\0" * (len(content) - 220) + content[-200:])
    added = Store.open(tmp_path).add("counters", rows(10))
    assert added.rows + added.duplicates == 10
    assert added.duplicates >= 5


def test_parts_that_are_damaged_inside_or_of_other_tables_are_left_out_of_what_is_read(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    for first in (1, 6, 11):
        store.add("counters", rows(5, first=first))
    inside, foreign, _ = sorted((tmp_path / "counters/day=2018-02-11").glob("*.parquet"))
    content = inside.read_bytes()
    inside.write_bytes(content[:4] + b"\xff" * 400 + content[404:])
    pl.DataFrame({"a": [1]}).write_parquet(foreign)
    store = Store.open(tmp_path)
    assert store.read("counters", lambda counters: counters.select("end_ns")).height == 5
    assert sorted(note.partition(": ")[0] for note in store.notes) == [str(inside), str(foreign)]
    store = Store.open(tmp_path)
    (contents,) = store.contents()
    assert contents.rows == 10, "what is inside of a part is not looked at"
    assert [note.partition(". ")[0] for note in store.notes] == [
        f"{foreign}: no part of the table counters: it has no end_ns"
    ]


def test_two_processes_may_make_one_store_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Files.exists

    def the_other_was_quicker(self: Files, name: str) -> bool:
        monkeypatch.setattr(Files, "exists", original)
        Store.create(tmp_path)
        return False

    monkeypatch.setattr(Files, "exists", the_other_was_quicker)
    Store.create(tmp_path).add("counters", rows(1))
    assert plain(tmp_path).height == 1


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    Store.create(tmp_path)
    (tmp_path / DESCRIPTION).write_text('{"whydrop_store": 2}')
    with pytest.raises(StoreError, match="use a newer one"):
        Store.open(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"whydrop_store": "x"}', "[" * 100_000])
def test_a_damaged_description_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / DESCRIPTION).write_text(content)
    with pytest.raises(StoreError, match=DESCRIPTION):
        Store.open(tmp_path)


def test_no_store_is_made_among_other_things(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").touch()
    with pytest.raises(StoreError, match=r"letters\.txt"):
        Store.create(tmp_path)
    with pytest.raises(StoreError, match="whydrop store import"):
        Store.open(tmp_path / "nowhere")


def _add_many(root: Path, offset: int) -> None:
    store = Store.create(root)
    for first in range(offset, 200, 20):
        store.add("counters", rows(40, first=first))


@pytest.mark.slow
def test_processes_that_add_at_the_same_time_double_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    crew = [context.Process(target=_add_many, args=(tmp_path, offset)) for offset in (1, 11)]
    for process in crew:
        process.start()
    for process in crew:
        process.join(60)
    assert [process.exitcode for process in crew] == [0, 0]
    ends = plain(tmp_path)["end_ns"]
    assert ends.n_unique() == ends.len() == 230


FRAMES = st.lists(
    st.tuples(st.integers(0, 20_000), st.integers(1, 30), st.sampled_from(["octets.tx", "errors.rx"])),
    min_size=1,
    max_size=5,
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(FRAMES, st.randoms(use_true_random=False))
def test_any_order_and_any_number_of_times_gives_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, spans: list[tuple[int, int, str]], random: Any
) -> None:
    # Values follow from keys, as in correct files.
    frames = [
        rows(count, first=first).with_columns(
            counter=pl.lit(counter), value=(pl.col("end_ns") // 10**10 % 97).cast(float)
        )
        for first, count, counter in spans
    ]
    expected = pl.concat(frames).unique().select("counter", "end_ns", "value").sort(pl.all())
    shuffled = frames + [frame for frame in frames if random.random() < 0.5]
    random.shuffle(shuffled)
    store = Store.create(tmp_path_factory.mktemp("store"))
    conflicts = 0
    while shuffled:
        together = random.randint(1, len(shuffled))
        conflicts += sum(of.conflicts for of in store.add_all("counters", shuffled[:together]))
        del shuffled[:together]
        if random.random() < 0.3:
            store.compact()
    assert store.scan("counters").select("counter", "end_ns", "value").collect().sort(pl.all()).equals(expected)
    assert conflicts == 0


def test_a_part_of_another_version_lacks_columns_or_has_more(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    store.add("counters", rows(3))
    [part] = (tmp_path / "counters").glob("day=*/*.parquet")
    pl.read_parquet(part, hive_partitioning=False).drop("quality").with_columns(colour=pl.lit("blue")).write_parquet(
        part
    )
    read = store.scan("counters").collect()
    assert read.columns == [*tables.TABLES["counters"], "day"]
    assert read["quality"].null_count() == 3
    assert store.contents()[0].rows == 3
    assert store.add("counters", rows(5)).rows == 2
    # the day after is over, so that the parts of this one are put together
    store.compact()
    assert store.scan("counters").select("end_ns", "quality").collect()["quality"].null_count() == 3
    assert len(list((tmp_path / "counters").glob("day=*/*.parquet"))) == 1
    assert store.notes == []


class _Refusing:
    """A file system of this machine that refuses to read parts, as one of a network that is down."""

    def __init__(self) -> None:
        self.inner = fs.LocalFileSystem()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def open_input_file(self, path: str) -> Any:
        if path.endswith(".parquet"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return self.inner.open_input_file(path)


def test_nothing_is_added_beside_a_part_that_is_there_and_cannot_be_opened(tmp_path: Path) -> None:
    Store.create(tmp_path).add("counters", rows(3))
    there = plain(tmp_path)
    refusing = Store.open(Files(_Refusing(), str(tmp_path), tmp_path, "here"))  # type: ignore[arg-type]
    with pytest.raises(StoreError, match=r"here/counters/day=.*: Permission denied: new rows of this day cannot be"):
        refusing.add("counters", rows(3))
    assert plain(tmp_path).equals(there)
    assert refusing.scan("counters").collect().is_empty()
    assert "Permission denied" in refusing.notes[0]

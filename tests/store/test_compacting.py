"""One part of many: never are rows there twice, wherever it is cut short."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from store.test_adding import _CrashError, plain
from store.test_writing_parts import rows
from whydrop.store import tables
from whydrop.store.files import Files
from whydrop.store.store import Store


def parts(root: Path) -> list[str]:
    return sorted(path.name for path in root.glob("counters/*/*.parquet"))


def filled(root: Path) -> Store:
    store = Store.create(root)
    for first in (1, 11, 21):
        store.add("counters", rows(10, first=first))
    store.write_part("counters", "2018-02-11", "collected-00", rows(5, first=31))
    return store


def test_a_day_becomes_one_part_with_the_same_rows(tmp_path: Path) -> None:
    store = filled(tmp_path)
    before = plain(tmp_path).sort("end_ns")
    (done,) = store.compact()
    assert (done.day, done.parts, done.rows, done.left_out) == ("2018-02-11", 4, 35, 0)
    assert len(parts(tmp_path)) == 1
    assert plain(tmp_path).equals(plain(tmp_path).sort(tables.ORDER["counters"]))
    assert plain(tmp_path).sort("end_ns").equals(before)
    assert store.compact() == []


def test_days_that_are_not_over_are_left_alone(tmp_path: Path) -> None:
    store = filled(tmp_path)
    assert store.compact(before="2018-02-11") == []
    assert len(parts(tmp_path)) == 4


def test_rows_that_are_in_several_parts_are_kept_once(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.write_part("counters", "2018-02-11", "collected-01", rows(5, first=33))
    (done,) = store.compact()
    assert (done.rows, done.left_out) == (37, 3)
    assert plain(tmp_path).height == 37


def test_a_collector_that_writes_its_part_once_more_doubles_nothing(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.compact()
    store.write_part("counters", "2018-02-11", "collected-00", rows(7, first=31))
    assert plain(tmp_path)["end_ns"].n_unique() == plain(tmp_path).height == 37


@pytest.mark.slow
def test_cut_short_anywhere_it_is_finished_by_whoever_comes_next(tmp_path: Path) -> None:
    for step in range(1, 20):
        root = tmp_path / str(step)
        store = filled(root)
        before = plain(root).sort("end_ns")
        left = step

        def counted(name: str) -> None:
            original = getattr(Files, name)

            def call(self: Files, *arguments: object) -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    raise _CrashError
                original(self, *arguments)

            patch.setattr(Files, name, call)

        with pytest.MonkeyPatch.context() as patch:
            for name in ("put", "remove", "move"):
                counted(name)
            try:
                store.compact()
                crashed = False
            except _CrashError:
                crashed = True
        seen = list(root.glob("counters/*/*.parquet"))
        if seen:
            assert pl.read_parquet(seen).select("end_ns").is_duplicated().sum() == 0
        assert [of.rows for of in Store.open(root).contents()] == [before.height]
        assert Store.open(root).scan("counters").drop("day").collect().sort("end_ns").equals(before)
        Store.open(root).compact()
        assert len(parts(root)) == 1
        assert plain(root).sort("end_ns").equals(before)
        assert not list((root / "compacting").rglob("*.parquet"))
        if not crashed:
            break
    assert step == 7, "a put, four removals and a move were expected to fail"


def test_a_part_in_the_making_that_cannot_be_read_now_is_kept_and_put_in_its_place_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path)
    before = plain(tmp_path).sort("end_ns")
    with monkeypatch.context() as patch:
        patch.setattr(Files, "move", crash)
        with pytest.raises(_CrashError):
            store.compact()
    (staged,) = (tmp_path / "compacting").rglob("*.parquet")
    assert not parts(tmp_path), "all that it replaces is gone: it is the only one that has these rows"
    content = staged.read_bytes()
    staged.write_bytes(content[:-1])
    damaged = Store.open(tmp_path)
    assert damaged.scan("counters").collect().is_empty()
    assert staged.name in damaged.notes[0]
    staged.write_bytes(content)
    assert Store.open(tmp_path).scan("counters").drop("day").collect().sort("end_ns").equals(before)


def crash(*_: object) -> None:
    raise _CrashError


def test_a_damaged_part_is_not_compacted_away(tmp_path: Path) -> None:
    store = filled(tmp_path)
    damaged = tmp_path / "counters/day=2018-02-11" / parts(tmp_path)[0]
    content = damaged.read_bytes()
    damaged.write_bytes(content[:100])
    store.compact()
    assert damaged.exists()
    assert len(parts(tmp_path)) == 2
    assert damaged.name in store.notes[0]


def test_a_day_with_a_part_that_is_damaged_within_stays_as_it_is_and_the_others_are_compacted(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.add("counters", rows(5, first=8641))
    store.add("counters", rows(5, first=8646))
    damaged = min((tmp_path / "counters/day=2018-02-11").glob("*.parquet"))
    content = damaged.read_bytes()
    damaged.write_bytes(content[:4] + b"\xff" * 400 + content[404:])
    assert [done.day for done in store.compact()] == ["2018-02-12"]
    assert len(list((tmp_path / "counters/day=2018-02-11").glob("*.parquet"))) == 4
    assert damaged.name in store.notes[0]


def test_tables_of_many_tests_are_put_in_order_at_once(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    for half in (0, 1):
        frame = pl.DataFrame({"test_id": [f"test-{n:04}" for n in range(half, 1000, 2)]})
        store.add("tcp", frame.with_columns(time_ns=pl.lit(1_518_307_200_000_000_000)))
    (done,) = store.compact("tcp")
    assert done.rows == 1000
    assert plain(tmp_path, "tcp")["test_id"].is_sorted()

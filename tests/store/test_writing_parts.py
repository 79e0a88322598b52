"""Parts that writers of their own put into a store, such as collectors."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from whydrop.store.errors import StoreError
from whydrop.store.store import Store

DAY_NS = 1_518_307_200_000_000_000  # 2018-02-11T00:00Z


def rows(count: int = 3, value: float = 1.0, first: int = 1) -> pl.DataFrame:
    ends = [DAY_NS + n * 10_000_000_000 for n in range(first, first + count)]
    return pl.DataFrame({"end_ns": ends, "value": [value] * count}).with_columns(
        site=pl.lit("dfw01"), port=pl.lit("uplink"), counter=pl.lit("octets.tx"), quality=pl.lit("ok")
    )


def test_a_part_of_the_same_name_is_replaced(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    store.write_part("counters", "2018-02-11", "collected-00", rows(3))
    store.write_part("counters", "2018-02-11", "collected-00", rows(5))
    assert [path.name for path in (tmp_path / "counters/day=2018-02-11").iterdir()] == ["collected-00.parquet"]
    assert pl.read_parquet(tmp_path / "counters/*/*.parquet").height == 5


def test_a_part_that_could_not_be_put_in_place_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.create(tmp_path)
    store.write_part("counters", "2018-02-11", "collected-00", rows(3))

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        with pytest.raises(StoreError, match=r"collected-00.parquet: No space left on device"):
            store.write_part("counters", "2018-02-11", "collected-00", rows(5))
    assert pl.read_parquet(tmp_path / "counters/*/*.parquet").height == 3
    assert len(list((tmp_path / "counters/day=2018-02-11").iterdir())) == 1


@pytest.mark.parametrize(("day", "name"), [("2018-2-11", "a"), ("2018-02-11", "../a"), ("2018-02-11", "compacted-1")])
def test_names_that_would_leave_the_days_folder_are_refused(tmp_path: Path, day: str, name: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        Store.create(tmp_path).write_part("counters", day, name, rows())

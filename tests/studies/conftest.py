"""Small fleets with known truth, for tests of the study."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

ROOT = Path(__file__).parent.parent.parent
# `bench` is no part of what is installed.
sys.path.insert(0, str(ROOT))

from bench.fleet import Fleet, Plan, write  # noqa: E402
from bench.fleet.plan import TYPES  # noqa: E402
from bench.fleet.writing import truth_folder  # noqa: E402

from whydrop.store.engines import Backend, open_backend  # noqa: E402
from whydrop.studies.discards.parameters import Change, Days, Exposure, Parameters  # noqa: E402


@dataclass(frozen=True)
class SmallFleet:
    """A fleet that was written, and its truth."""

    plan: Plan
    store: Path

    def true_tests(self) -> pl.DataFrame:
        """One row for each test (`bench.fleet.truth.of_tests`)."""
        return pl.read_parquet(truth_folder(self.store) / "tests.parquet")

    def true_days(self) -> pl.DataFrame:
        """The packets that each site's uplink truly passed and dropped each day."""
        return pl.read_parquet(truth_folder(self.store) / "days.parquet")

    def tables(self) -> dict[str, pl.DataFrame]:
        """The store's rows, with the column ``day``."""
        return {name: read(self.store, name) for name in ("counters", "ndt")}

    def parameters(self, definitions: str = "corrected") -> Parameters:
        """Fit for this fleet: all of its sites, the days before its change and from it on."""
        first, last = self.plan.day(0), self.plan.day(self.plan.days - 1)
        change = None
        if self.plan.change_day is not None:
            before, after = (
                Days(first=first, last=self.plan.day(self._change() - 1)),
                Days(first=self.plan.change_day, last=last),
            )
            change = Change(before=before, after=after, metros=self.plan.metros(), more_tests_than=3)
        return Parameters.model_validate(
            {
                "definitions": definitions, "metros": self.plan.metros(), "days": Days(first=first, last=last),
                "change": change, "contact": Exposure(metros=self.plan.metros()),
            }
        )  # fmt: skip

    def _change(self) -> int:
        assert self.plan.change_day is not None
        return (self.plan.change_day - self.plan.first_day).days


def read(store: Path, table: str) -> pl.DataFrame:
    """All rows of a table, with the column ``day``."""
    return pl.read_parquet(
        store / table, hive_partitioning=True, hive_schema={"day": pl.String()}, try_parse_hive_dates=False
    )


# Outages far above the usual, so that a few days have every kind of gap; flow control from the fourth day on.
SMALL = Plan(
    sites=("dfw01", "dfw02", "lga01"), machines=2, first_day=date(2018, 2, 1), days=6, seed=7,
    counters=tuple(f"{kind}.tx" for kind in TYPES), change_day=date(2018, 2, 4), discards_kept=0.05, outages=10.0,
    tests_per_day=120, clients=40,
)  # fmt: skip


@pytest.fixture(scope="module")
def on_spark(spark: Any, spark_master: str, store: Path) -> Iterator[Backend]:
    """Spark over the store of the tests' own module."""
    with open_backend(store, spark_master) as backend:
        yield backend


@pytest.fixture(scope="session")
def small_fleet(tmp_path_factory: pytest.TempPathFactory) -> SmallFleet:
    """Three sites, two machines each, six days, 2200 tests; discards fall on the fourth day, speeds do not change."""
    store = tmp_path_factory.mktemp("fleet") / "store"
    write(Fleet(SMALL), store)
    return SmallFleet(SMALL, store)

"""The whole chain: telemetry in M-Lab's own files, ingested into a store, studied, and the truth beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from bench.fleet import Fleet, Plan, disco
from bench.fleet.plan import BIN_NS, TYPES

from studies.conftest import read
from whydrop.formats.archives.ingesting import ingest
from whydrop.store.engines import open_backend
from whydrop.store.store import Store
from whydrop.studies.discards import queries
from whydrop.studies.discards.parameters import Days, Exposure, Parameters

pytestmark = pytest.mark.slow

PLAN = Plan(
    sites=("dfw01", "dfw02"), machines=2, days=1, seed=9, counters=tuple(f"{kind}.tx" for kind in TYPES), outages=20.0,
    tests_per_day=150, clients=40,
)  # fmt: skip


def ingested(plan: Plan, folder: Path) -> tuple[Fleet, Path]:
    """A store of the fleet's files, and of its tests."""
    fleet = Fleet(plan)
    disco.write(fleet, folder / "files")
    store = Store.create(folder / "store")
    report = ingest(store, [folder / "files"])
    assert set(report.statuses()) == {"new"}
    for _, frame, _ in fleet.tests():
        store.add("ndt", frame)
    return fleet, folder / "store"


def direct(plan: Plan) -> pl.DataFrame:
    return pl.concat([frame for _, frame in Fleet(plan).telemetry()])


def parameters(plan: Plan) -> Parameters:
    return Parameters(
        metros=plan.metros(), days=Days(first=plan.day(0), last=plan.day(0)), change=None,
        contact=Exposure(metros=plan.metros()),
    )  # fmt: skip


KEY = ["site", "switch", "machine", "port", "counter", "end_ns"]


@pytest.fixture(scope="module")
def first_generation(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fleet, Path]:
    return ingested(replace(PLAN, telemetry="v1"), tmp_path_factory.mktemp("v1"))


def test_what_is_ingested_of_disco_v1_is_what_was_counted(first_generation: tuple[Fleet, Path]) -> None:
    fleet, store = first_generation
    wanted = direct(fleet.plan).sort(KEY)
    found = read(store, "counters").sort(KEY)
    assert found.select(KEY).equals(wanted.select(KEY))
    assert found["value"].equals(wanted["value"])
    assert set(found["span_ns"].drop_nulls()) == {BIN_NS}


def test_tests_beside_ingested_telemetry_are_classed_as_they_truly_are(first_generation: tuple[Fleet, Path]) -> None:
    fleet, store = first_generation
    with open_backend(str(store)) as backend:
        contacts = queries.compute(backend, parameters(fleet.plan), only=["contacts"])["contacts"]
    true = pl.concat([true for *_, true in fleet.tests()]).filter("counts")
    both = contacts.join(true, on="test_id", suffix="_true")
    assert len(both) == len(contacts) > 150
    assert (both["class"] == both["class_true"]).all()
    assert {"zero", "non-zero", "unknown"} == set(both["class"])


def test_what_is_ingested_of_disco_v2_is_what_was_counted(tmp_path: Path) -> None:
    plan = replace(PLAN, telemetry="v2", sites=("dfw01",), tests_per_day=0, outages=30.0, seed=13)
    _, store = ingested(plan, tmp_path)
    wanted = direct(plan).sort(KEY)
    found = read(store, "counters").sort(KEY)
    assert found.select(KEY).equals(wanted.select(KEY))
    # What a file's first sample grew by is known from the collector; a reset shows by the value that it left.
    assert found["value"].equals(wanted["value"])
    assert wanted["quality"].str.contains("gap").any()
    assert wanted["quality"].str.contains("reset").any()
    assert wanted["quality"].str.contains("wrap").any()
    spans = found.filter(pl.col("span_ns").is_not_null()).join(wanted, on=KEY, suffix="_true")
    assert (spans["span_ns"] == spans["span_ns_true"]).all()

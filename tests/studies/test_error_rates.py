"""Tests that error rates are counted on what the study computes, and that the counting is right."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from bench.fleet import Fleet, errors, write
from polars.testing import assert_frame_equal

from studies.conftest import ROOT
from whydrop.store.engines import open_backend
from whydrop.studies.discards import queries

sys.path.append(str(ROOT / "bench"))
import study_section


@pytest.mark.slow
@pytest.mark.parametrize("definitions", ["corrected", "published"])
def test_clients_speeds_in_memory_are_those_that_queries_give(tmp_path: Path, definitions: str) -> None:
    plan = replace(errors.PLAN, seed=3, speed_ratio=1.1, counters=("octets.tx",))
    fleet = Fleet(plan)
    # No discards: telemetry would take longest.
    fleet.telemetry = lambda: iter(())  # type: ignore[method-assign]
    fleet.daily = [pl.DataFrame({"site": ["dfw01"]})]
    for contacts in fleet.contacts.values():
        contacts.dropped[:] = 0
    write(fleet, tmp_path / "store")
    chosen = errors.parameters(definitions)
    with open_backend(str(tmp_path / "store")) as backend:
        wanted = queries.compute(backend, chosen, only=["client_speeds"])["client_speeds"]
    found = errors.client_speeds(errors.tests_of(Fleet(plan)), chosen)
    order = ["site", "machine", "client", "period"]
    assert len(wanted) > 100
    assert_frame_equal(found.sort(order), wanted.sort(order), rel_tol=1e-9)


def test_daily_discards_in_memory_are_those_that_queries_give(tmp_path: Path) -> None:
    plan = replace(
        errors.PLAN, seed=3, days=2, sites=("dfw01", "dfw02"), tests_per_day=0,
        counters=("octets.tx", "unicast.tx", "discards.tx"),
    )  # fmt: skip
    write(Fleet(plan), tmp_path / "store")
    with open_backend(str(tmp_path / "store")) as backend:
        wanted = queries.compute(backend, errors.parameters("corrected"), only=["discard_ratio"])["discard_ratio"]
    found = errors.discard_ratio(Fleet(plan)).sort("site", "day")
    assert found["discards"].to_list() == wanted.sort("site", "day")["discards"].to_list()
    # Packets of a window scatter by 3 % around the site's mean size, and a full port carries no more.
    assert found["packets"].to_list() == pytest.approx(wanted.sort("site", "day")["packets"].to_list(), rel=0.01)


@pytest.mark.slow
def test_a_change_that_is_large_is_found_and_one_that_is_not_there_is_not() -> None:
    nothing, faster = (errors.conclusions(errors.Situation("speeds", ratio), 5)["corrected"] for ratio in (1.0, 1.5))
    assert not study_section.WRONG_IF_NOTHING_CHANGED & set(nothing)
    assert set(faster) == {"faster?"}  # without placebos
    dropped = errors.conclusions(errors.Situation("discards", 0.02), 5)["corrected"]
    assert dropped.count("fewer") >= 5


def case(kind: str, effect: float, *fleets: dict[str, int]) -> study_section.Case:
    return {
        "kind": kind, "effect": effect, "shared_shock": 0.0, "placebos": 0, "definitions": "corrected",
        "fleets": list(fleets),
    }  # fmt: skip


def test_a_false_alarm_is_a_fleet_with_any_wrong_conclusion() -> None:
    grid = study_section.false_alarms(
        [case("speeds", 1.0, {"same": 3, "faster": 1}, {"undecided": 4}, {"slower": 4}, {"same": 4})]
    )
    assert grid.lines[0][1:4] == ["4", "2", "50.0%"]
    assert grid.lines[0][-1] == "31.25%"


def test_a_miss_is_a_conclusion_that_does_not_name_the_change() -> None:
    grid = study_section.misses(
        [case("discards", 0.2, {"fewer": 3, "undecided": 1}, {"fewer": 4}, {"more": 1, "fewer": 3}, {"none-seen": 4})]
    )
    assert grid.lines[0][1:3] == ["16", "37.5%"]
    assert grid.lines[0][-1] == "6.25%"


def test_the_interval_of_no_hit_among_200_reaches_to_two_percent() -> None:
    low, high = study_section.binomial_interval(0, 200)
    assert low == 0
    assert high == pytest.approx(1 - 0.025 ** (1 / 200))


def test_false_alarms_that_are_surely_too_many_fail_the_bar() -> None:
    many = [{"faster": 1}] * 20 + [{"same": 1}] * 180
    few = [{"faster": 1}] * 3 + [{"same": 1}] * 197
    assert not study_section.bars([case("speeds", 1.0, *many)])[0].met
    assert study_section.bars([case("speeds", 1.0, *few)])[0].met

"""The synthetic fleet is what it says it is: what others prove with it depends on that."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import polars as pl
import pytest
from bench.fleet import Fleet, Plan, disco, write
from bench.fleet.plan import BIN_NS, BINS_PER_DAY

from studies.conftest import SMALL, SmallFleet
from whydrop.store import tables

pytestmark = pytest.mark.slow

TINY = Plan(sites=("dfw01", "lga01"), machines=2, days=2, seed=3, outages=20.0, tests_per_day=40, clients=20)


def telemetry(plan: Plan) -> pl.DataFrame:
    return pl.concat([frame for _, frame in Fleet(plan).telemetry()])


@pytest.fixture(scope="module")
def counters(small_fleet: SmallFleet) -> pl.DataFrame:
    return small_fleet.tables()["counters"]


def test_the_same_plan_gives_the_same_fleet() -> None:
    first, second = Fleet(TINY), Fleet(TINY)
    assert [frame for _, frame in first.telemetry()][1].equals([frame for _, frame in second.telemetry()][1])
    assert next(true for *_, true in first.tests()).equals(next(true for *_, true in second.tests()))


def test_another_seed_gives_another_fleet() -> None:
    assert not telemetry(TINY)["value"].equals(telemetry(replace(TINY, seed=4))["value"])


def test_a_site_is_the_same_whichever_others_there_are() -> None:
    alone = telemetry(replace(TINY, sites=("lga01",), tests_per_day=0))
    among = telemetry(replace(TINY, tests_per_day=0)).filter(pl.col("site") == "lga01")
    columns = [column for column in alone.columns if not column.startswith("poll_")]
    assert alone.select(columns).equals(among.select(columns))


def test_rows_conform_to_the_store_and_no_key_is_there_twice(counters: pl.DataFrame, small_fleet: SmallFleet) -> None:
    for name, frame in {"counters": counters, "ndt": small_fleet.tables()["ndt"]}.items():
        assert dict(frame.drop("day").schema) == tables.TABLES[name]
        assert frame.select(tables.KEYS[name]).is_duplicated().sum() == 0
        day = pl.from_epoch(tables.TIME[name], time_unit="ns").dt.strftime("%Y-%m-%d")
        assert frame.filter(day != pl.col("day")).is_empty()


def test_machines_of_a_site_see_the_same_growth_at_the_same_time(counters: pl.DataFrame) -> None:
    uplink = counters.filter((pl.col("quality") == "ok") & pl.col("span_ns").is_not_null())
    seen = uplink.group_by("site", "counter", "end_ns").agg(pl.col("value").n_unique(), machines=pl.len())
    assert (seen["value"] == 1).all()
    assert (seen["machines"] == 1).any()
    assert (seen["machines"] == 2).any()


def test_growth_over_gaps_is_all_there(counters: pl.DataFrame, small_fleet: SmallFleet) -> None:
    """A day of one machine without resets or restarts adds up to what truly passed, but for its ends."""
    spans = pl.col("span_ns").fill_null(0)
    days = (
        counters.filter(pl.col("counter") == "octets.tx")
        .group_by("site", "machine", "day")
        .agg(pl.col("value").sum(), pl.col("value").null_count().alias("resets"), covered=spans.sum() / BIN_NS)
        .join(small_fleet.true_days(), on=("site", "day"))
        .with_columns(error=(pl.col("value") / pl.col("octets_tx") - 1).abs())
    )
    whole = days.filter((pl.col("resets") == 0) & (pl.col("covered") == BINS_PER_DAY))
    assert len(whole) > 3
    # A gap over midnight moves up to its length from one day to the next.
    assert whole["error"].median() < 1e-3


def test_there_is_every_kind_of_mishap(counters: pl.DataFrame) -> None:
    assert {"ok", "gap", "gap+reset"} <= set(counters["quality"].unique())
    assert counters.filter(pl.col("quality").str.contains("reset"))["value"].null_count() > 0
    assert counters.filter(~pl.col("quality").str.contains("reset"))["value"].null_count() == 0
    gap = counters.filter(pl.col("quality") == "gap")
    assert (gap["span_ns"] > BIN_NS).all()
    assert (
        counters.filter(pl.col("span_ns").is_null()).height == counters.select("site", "machine", "counter").n_unique()
    )


def test_a_narrow_counter_wraps_and_its_growth_is_kept() -> None:
    plan = replace(SMALL, sites=tuple(f"dfw{number:02}" for number in range(1, 7)), tests_per_day=0, outages=1.0)
    wrapped = telemetry(plan).filter(pl.col("quality").str.contains("wrap"))
    assert len(wrapped) > 0
    assert wrapped["counter"].is_in(["discards.tx", "errors.tx"]).all()
    assert (wrapped["value"] > wrapped["total"]).any()
    assert (wrapped["total"] < 2**32).all()


def test_a_port_never_carries_more_than_its_speed(counters: pl.DataFrame, small_fleet: SmallFleet) -> None:
    speeds = {site.name: site.speed_bps for site in Fleet(replace(small_fleet.plan, tests_per_day=0)).sites}
    rates = counters.filter((pl.col("counter") == "octets.tx") & (pl.col("span_ns") > 0)).with_columns(
        rate_bps=8e9 * pl.col("value") / pl.col("span_ns"), speed_bps=pl.col("site").replace_strict(speeds)
    )
    assert (rates["rate_bps"] <= rates["speed_bps"]).all()


def test_discards_come_of_bursts_in_windows_that_are_not_busy(counters: pl.DataFrame) -> None:
    wide = counters.filter(pl.col("quality") == "ok").pivot(
        on="counter", index=["site", "machine", "end_ns"], values="value"
    )
    dropping = wide.filter(pl.col("discards.tx") > 0)
    speeds = {site.name: site.speed_bps for site in Fleet(replace(SMALL, tests_per_day=0)).sites}
    used = dropping["octets.tx"] * 8 / 10 / dropping["site"].replace_strict(speeds)
    assert used.median() < 0.5
    assert (dropping["unicast.tx"] > dropping["discards.tx"]).all()


def test_load_is_highest_in_the_evening_and_lower_at_weekends() -> None:
    fleet = Fleet(replace(SMALL, sites=("dfw01",), days=28, tests_per_day=0, outages=0.0))
    frame = pl.concat([frame for _, frame in fleet.telemetry()]).filter(pl.col("counter") == "octets.tx")
    when = pl.from_epoch("end_ns", time_unit="ns")
    hours = dict(frame.group_by(when.dt.hour().alias("hour")).agg(pl.col("value").mean()).iter_rows())
    assert hours[2] > 2 * hours[10]  # 20:00 and 4:00 in Texas
    weekend = dict(frame.group_by((when.dt.weekday() >= 6).alias("weekend")).agg(pl.col("value").mean()).iter_rows())
    assert weekend[True] < weekend[False]


def test_flow_control_leaves_the_share_of_discards_that_it_was_set_to() -> None:
    plan = Plan(
        sites=("dfw01", "dfw02"), machines=1, days=40, seed=5, change_day=date(2018, 2, 21), discards_kept=0.1,
        change_sites=("dfw01",), tests_per_day=0, counters=("octets.tx",),
    )  # fmt: skip
    fleet = Fleet(plan)
    for _ in fleet.telemetry():
        pass
    split = fleet.true_days().with_columns(after=pl.col("day") >= "2018-02-21")
    sums = {key: value for *key, value in split.group_by("site", "after").agg(pl.col("discards_tx").sum()).iter_rows()
            for key in [tuple(key)]}  # fmt: skip
    assert 0.04 < sums["dfw01", True] / sums["dfw01", False] < 0.25
    assert 0.4 < sums["dfw02", True] / sums["dfw02", False] < 2.5


@pytest.mark.parametrize("ratio", [1.0, 1.3])
def test_downloads_speed_up_by_the_ratio_that_was_planned(ratio: float) -> None:
    plan = replace(TINY, days=20, change_day=date(2018, 2, 11), speed_ratio=ratio, tests_per_day=400, outages=0.0,
                   counters=("octets.tx",))  # fmt: skip
    fleet, plain = Fleet(plan), Fleet(replace(plan, speed_ratio=1.0))
    for one in (fleet, plain):
        one.contacts = {}
    rows, same = (pl.concat(_plain_tests(one)).sort("test_id") for one in (fleet, plain))
    both = rows.join(same, on="test_id", suffix="_same").filter(pl.col("acked_bytes_same") > 2_000_000)
    factor = both["acked_bytes"] / both["acked_bytes_same"]
    after = both["start_ns"] >= plan.start_ns + 10 * 86_400 * 10**9
    assert factor.filter(~after).to_numpy() == pytest.approx(1.0)
    assert factor.filter(after).median() == pytest.approx(ratio, rel=1e-3)


def _plain_tests(fleet: Fleet) -> list[pl.DataFrame]:
    from bench.fleet import clients

    rows = [clients.tests(fleet.plan, fleet.sites, {}, number) for number in range(fleet.plan.days)]
    return [frame.filter((pl.col("kind") == "plain") & (pl.col("acked_bytes") < 1e9)) for frame in rows]


def test_what_telemetry_says_of_a_test_never_contradicts_what_happened(small_fleet: SmallFleet) -> None:
    true = small_fleet.true_tests()
    assert true.filter((pl.col("class") == "zero") & pl.col("touched")).is_empty()
    assert {"zero", "non-zero", "unknown"} == set(true["class"])
    assert true.filter((pl.col("class") == "non-zero") & pl.col("touched")).height > 50


def test_tests_lie_at_the_edges_of_windows_too(small_fleet: SmallFleet) -> None:
    ndt = small_fleet.tables()["ndt"]
    assert ndt.filter(pl.col("start_ns") % BIN_NS == 0).height > 50
    assert ndt.filter(pl.col("end_ns") % BIN_NS == 0).height > 50
    assert ndt.filter(pl.col("end_ns") % BIN_NS == 1000).height > 3


def test_there_is_every_kind_of_test(small_fleet: SmallFleet) -> None:
    true = small_fleet.true_tests()
    counts = dict(true.group_by("kind").agg(pl.col("counts").mean()).iter_rows())
    assert set(counts) == {"plain", "short", "small", "long", "endless", "excluded", "unlimited", "upload"}
    assert {kind for kind, share in counts.items() if share == 0} == {
        "short", "small", "long", "endless", "excluded", "upload",
    }  # fmt: skip
    published = dict(true.group_by("kind").agg(pl.col("counts_published").mean()).iter_rows())
    assert published["long"] > 0.5
    assert published["endless"] == published["unlimited"] == 0
    addresses = small_fleet.tables()["ndt"]["remote_address"]
    assert addresses.str.contains(":").any()
    assert addresses.value_counts()["count"].max() > 50


def test_a_written_fleet_says_what_is_true_of_it(tmp_path: Path) -> None:
    write(Fleet(replace(TINY, change_day=date(2018, 2, 2), change_sites=("dfw01",))), tmp_path / "store")
    import json

    truth = json.loads((tmp_path / "store-truth" / "truth.json").read_text())
    assert truth["change"]["sites"] == ["dfw01"]
    assert truth["plan"]["seed"] == 3


def test_discos_first_files_have_the_hour_and_the_first_window_of_the_next(tmp_path: Path) -> None:
    import gzip
    import json

    plan = replace(TINY, sites=("dfw01",), machines=1, days=1, telemetry="v1", outages=0.0, tests_per_day=0)
    assert disco.write(Fleet(plan), tmp_path) == 25  # that of the hour before has the first window alone
    path = tmp_path / "mlab1.dfw01.measurement-lab.org/2018/02/01/20180201T03:00:00-to-20180201T04:00:00-switch.json.gz"
    series = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert len(series) == len(plan.counters)
    for one in series:
        assert len(one["sample"]) == 361
        assert one["sample"][0]["timestamp"] == 1517454000
        assert one["sample"][-1]["timestamp"] == 1517457600

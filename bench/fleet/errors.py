"""How often the study's conclusions are wrong, over many fleets: a change found where there is none, or not found.

    python -m bench.fleet.errors --seeds 200

Each fleet has six sites and 15 days on either side of the change. Clients' speeds and daily discards are summed up in
memory as the study's queries do (a test holds the two together), and given to the study's own inference.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import numpy as np
import polars as pl

from whydrop.studies.discards import changes, inference, results, study
from whydrop.studies.discards.parameters import Change, Days, Parameters

from . import clients
from .fleet import Fleet
from .plan import BINS_PER_DAY, Plan
from .traffic import Site, bursts, utilisation
from .truth import COUNTED_CLIENT, counts

FIRST_DAY = date(2018, 2, 5)
PERIOD_DAYS = 15
CHANGE_DAY = FIRST_DAY + timedelta(days=PERIOD_DAYS)
SITES = tuple(f"dfw{number:02}" for number in range(1, 7))
PLAN = Plan(
    sites=SITES, machines=1, first_day=FIRST_DAY, days=2 * PERIOD_DAYS, change_day=CHANGE_DAY, discards_kept=1.0,
    tests_per_day=150, clients=240, outages=0.0,
)  # fmt: skip

SHARED_SHOCK = 0.01
"""Standard deviation of log10 (2.3 %) of a site's days, which remember half of the day before."""


@dataclass(frozen=True)
class Situation:
    """A kind of fleet."""

    kind: str
    """speeds or discards"""
    effect: float
    """Factor of downloads; share of bursts that still overflow."""
    shared_shock: float = 0.0
    placebos: int = 0
    """Periods of history before the two that are compared, from which the study learns what changes by itself."""

    def plan(self, seed: int) -> Plan:
        """Of one fleet."""
        if self.kind == "discards":
            return replace(PLAN, seed=seed, discards_kept=self.effect)
        history = self.placebos * PERIOD_DAYS
        return replace(
            PLAN, seed=seed, speed_ratio=self.effect, shared_shock=self.shared_shock, days=PLAN.days + history,
            first_day=FIRST_DAY - timedelta(days=history),
        )  # fmt: skip


SITUATIONS = (
    Situation("speeds", 1.0), Situation("speeds", 1.05), Situation("speeds", 1.1), Situation("speeds", 1.2),
    Situation("speeds", 1.0, SHARED_SHOCK), Situation("speeds", 1.0, SHARED_SHOCK, 3),
    Situation("speeds", 1.2, SHARED_SHOCK, 3),
    *(Situation("discards", kept) for kept in (1.0, 0.5, 0.2, 0.05)),
)  # fmt: skip


def parameters(definitions: str) -> Parameters:
    """The study's, for these fleets."""
    before = Days(first=FIRST_DAY, last=CHANGE_DAY - timedelta(days=1))
    after = Days(first=CHANGE_DAY, last=CHANGE_DAY + timedelta(days=PERIOD_DAYS - 1))
    return Parameters.model_validate(
        {
            "definitions": definitions, "metros": ("dfw",), "days": Days(first=before.first, last=after.last),
            "change": Change(before=before, after=after, metros=("dfw",)),
        }
    )  # fmt: skip


def tests_of(fleet: Fleet) -> pl.DataFrame:
    """All tests of a fleet that is nowhere but here, without telemetry."""
    return pl.concat([clients.tests(fleet.plan, fleet.sites, {}, number) for number in range(fleet.plan.days)])


def client_speeds(rows: pl.DataFrame, chosen: Parameters) -> pl.DataFrame:
    """CLIENT_SPEEDS of tests."""
    published = chosen.definitions == "published"
    change = chosen.change
    assert change is not None
    limited = pl.col("receiver_limited_ns") + pl.col("congestion_limited_ns") + pl.col("sender_limited_ns")
    duration = limited if published else pl.coalesce(limited, "duration_ns")
    day = pl.from_epoch("time_ns", time_unit="ns").dt.date()
    period = (
        pl.when(day.is_between(change.before.first, change.before.last)).then(pl.lit("before"))
        .when(day.is_between(change.after.first, change.after.last)).then(pl.lit("after"))
    )  # fmt: skip
    tests = rows.filter(counts(600 if published else 60, published=published) & COUNTED_CLIENT).select(
        "metro", "site", machine="machine" if published else pl.lit(None, pl.String), client="remote_address",
        period=period, speed=8e9 * pl.col("acked_bytes") / duration,
    ).drop_nulls("period")  # fmt: skip
    within = "metro" if published else "site"
    for name in ("before", "after"):
        here = (pl.col("period") == name).sum().over(within, "client")
        tests = tests.with_columns(here.alias(name))
    often = tests.filter((pl.col("before") > change.more_tests_than) & (pl.col("after") > change.more_tests_than))
    speeds = often.group_by("metro", "site", "machine", "client", "period").agg(
        tests=pl.len().cast(pl.Int64), mean_bps=pl.col("speed").mean(), max_bps=pl.col("speed").max(),
        sd_bps=pl.col("speed").std(), min_bps=pl.col("speed").min(),
    )  # fmt: skip
    speeds = speeds.with_columns(cv=pl.when(pl.col("mean_bps") != 0).then(pl.col("sd_bps") / pl.col("mean_bps")))
    if published:
        speeds = speeds.filter(pl.col("tests") > 1)
    return speeds.select(results.CLIENT_SPEEDS.keys()).sort("metro", "site", "machine", "client", "period")


def discard_ratio(fleet: Fleet) -> pl.DataFrame:
    """DISCARD_RATIO of a fleet with no failed poll."""
    rows = [row for site in fleet.sites for row in _days(site)]
    return pl.DataFrame(rows, schema=results.DISCARD_RATIO, orient="row")


def _days(site: Site) -> Iterator[tuple[Any, ...]]:
    for number in range(site.plan.days):
        load = utilisation(site, number)
        burst = bursts(site, number, load)
        octets = load * site.speed_bps * 10 / 8 + burst.octets
        discards = float(burst.discards.sum())
        packets = float(np.rint(octets / site.packet_bytes).sum()) + discards
        day = site.plan.day(number).isoformat()
        yield site.metro, site.name, day, discards / packets, discards, packets, BINS_PER_DAY


def conclusions(situation: Situation, seed: int) -> dict[str, list[str]]:
    """The study's conclusions on one fleet, by definition: a conclusion for each site (and statistic)."""
    fleet = Fleet(replace(situation.plan(seed), tests_per_day=PLAN.tests_per_day))
    if situation.kind == "discards":
        table = changes.discard_changes(discard_ratio(fleet), parameters("corrected"))
        return {"corrected": table["conclusion"].to_list()}
    rows = tests_of(fleet)
    found = {}
    for definitions in ("corrected", "published"):
        chosen = parameters(definitions)
        earlier = [(client_speeds(rows, shifted), shifted) for shifted in study.placebos(chosen)]
        # Where the history ends there are no more.
        compared = [inference.comparisons(speeds, shifted) for speeds, shifted in earlier if len(speeds)]
        placebos = pl.concat(compared) if compared else None
        table = inference.comparisons(client_speeds(rows, chosen), chosen, placebos)
        found[definitions] = table["conclusion"].to_list()
    return found


def _one(task: tuple[int, int]) -> tuple[int, dict[str, list[str]]]:
    which, seed = task
    return which, conclusions(SITUATIONS[which], seed)


def run(seeds: int, first_seed: int = 1) -> list[dict[str, Any]]:
    """All situations over so many fleets: for each and definition, the conclusions of each fleet, counted."""
    tasks = [(which, seed) for seed in range(first_seed, first_seed + seeds) for which in range(len(SITUATIONS))]
    found: dict[tuple[int, str], list[dict[str, int]]] = {}
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for done, (which, by_definitions) in enumerate(pool.map(_one, tasks, chunksize=4), 1):
            for definitions, words in by_definitions.items():
                found.setdefault((which, definitions), []).append(dict(Counter(words)))
            if sys.stderr.isatty():
                print(f"\r\x1b[K{done} of {len(tasks)} fleets", end="", file=sys.stderr, flush=True)
    return [
        {
            "kind": SITUATIONS[which].kind, "effect": SITUATIONS[which].effect,
            "shared_shock": SITUATIONS[which].shared_shock, "placebos": SITUATIONS[which].placebos,
            "definitions": definitions, "fleets": fleets,
        }
        for (which, definitions), fleets in sorted(found.items())
    ]  # fmt: skip


def main() -> None:
    """Print all conclusions as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet.errors", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="fleets of each kind (%(default)s)")
    options = parser.parse_args()
    json.dump(run(options.seeds), sys.stdout)


if __name__ == "__main__":
    main()

"""How often the discard study's conclusions are wrong: on synthetic days and clients with known truth.

    .venv/bin/python bench/error_rates.py                 # 200 seeds; some minutes on two cores
    .venv/bin/python bench/error_rates.py --seeds 20

One fleet for each seed: six sites, the study's own periods (15 days before a change and 15 after), and each conclusion
as `whydrop study discards` draws it. *Found*: the share of sites that are correctly called changed. *False alarm*:
the share of seeds in which any site is incorrectly called changed; it must stay below the study's significance, 1 %.
Intervals are Clopper and Pearson's, 95 %.

The synthetic data is no easier than real data: clients' speeds are log-normal over a factor of a hundred, their tests
scatter with Student's t of three degrees of freedom; daily discards scatter over a factor of four with Student's t of
four, weekends are quiet, and each day keeps half of the deviation of the day before.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.studies.discards import changes, inference, results
from whydrop.studies.discards.parameters import Parameters

SITES = tuple(f"dfw{number:02d}" for number in range(1, 7))
PARAMETERS = Parameters()
assert PARAMETERS.change is not None
CHANGE = PARAMETERS.change
# With a question mark: found without placebos, which is what the cases without them ask about.
CHANGED = ("faster", "slower", "faster?", "slower?", "fewer", "more")


@dataclass(frozen=True)
class Speeds:
    """A fleet's clients.

    Attributes:
        ratio: of every client's speed after the change to before.
        clients: of each site.
        shared: the standard deviation of what all clients of a site have in common on a day, as a share of speed; half
            of it is left on the next day.
        placebos: pairs of periods before the change.
    """

    ratio: float
    clients: int
    shared: float = 0.0
    placebos: int = 3

    def __str__(self) -> str:
        shared = f", days that move all clients by {self.shared:.0%}" if self.shared else ""
        placebos = "" if self.placebos == 3 else f", {self.placebos} placebos"
        return f"speeds x {self.ratio:g}, {self.clients} clients a site{shared}{placebos}"

    def conclusions(self, seed: int) -> pl.DataFrame:
        """The study's conclusions on the fleet of a seed, with as many placebos as the study makes."""
        random = np.random.default_rng([seed, 1])
        sites = [self._site(site, random) for site in SITES]
        parameters = PARAMETERS.model_copy(update={"seed": seed})
        pairs = [
            pl.concat(
                [_named(site[number], "before") for site in sites]
                + [_named(site[number + 1], "after") for site in sites]
            )
            for number in range(self.placebos + 1)
        ]
        placebos = [inference.comparisons(pair, parameters) for pair in pairs[:-1]]
        return inference.comparisons(pairs[-1], parameters, pl.concat(placebos) if placebos else None)

    def _site(self, site: str, random: np.random.Generator) -> list[pl.DataFrame]:
        """Clients' speeds in each period, those before the study's first."""
        apart = (CHANGE.after.first - CHANGE.before.first).days
        days = apart * (self.placebos + 1) + CHANGE.after.length
        shared = autoregressive(days, 0.5, random) * np.log10(1 + self.shared)
        own = 7.3 + 0.45 * random.standard_normal(self.clients)
        periods = []
        for number in range(self.placebos + 2):
            shift = np.log10(self.ratio) if number == self.placebos + 1 else 0.0
            counts = CHANGE.more_tests_than + 1 + random.geometric(1 / 12, self.clients)
            rows = []
            for client, count in enumerate(counts):
                day = number * apart + random.integers(0, CHANGE.after.length, count)
                speed = 10 ** (own[client] + shift + shared[day] + 0.12 * random.standard_t(3, count))
                rows.append(
                    {
                        "metro": site[:3], "site": site, "client": f"192.0.2.{client}", "tests": int(count),
                        "mean_bps": float(speed.mean()), "max_bps": float(speed.max()),
                    }
                )  # fmt: skip
            periods.append(pl.DataFrame(rows, schema=results.CLIENT_SPEEDS))
        return periods


def _named(frame: pl.DataFrame, period: str) -> pl.DataFrame:
    return frame.with_columns(pl.lit(period).alias("period"))


@dataclass(frozen=True)
class Discards:
    """A fleet's switches.

    Attributes:
        ratio: of discards after the change to before.
        kept: of a day's deviation, on the next day.
        history: days that the store has before the first period and behind the second.
    """

    ratio: float
    kept: float = 0.5
    history: int = 60

    def __str__(self) -> str:
        known = f"{self.history} more days on each side" if self.history else "no other days"
        return f"discards x {self.ratio:g}, a day keeps {self.kept:g}, {known}"

    def conclusions(self, seed: int) -> pl.DataFrame:
        """The study's conclusions on the fleet of a seed."""
        random = np.random.default_rng([seed, 2])
        frames = [self._site(site, random) for site in SITES]
        return changes.discard_changes(pl.concat(frames), PARAMETERS)

    def _site(self, site: str, random: np.random.Generator) -> pl.DataFrame:
        first = CHANGE.before.first - timedelta(days=self.history)
        count = (CHANGE.after.last - first).days + 1 + self.history
        days = [first + timedelta(days=number) for number in range(count)]
        quiet = np.array([0.3 if day.weekday() >= 5 else 0.0 for day in days])
        since = np.array([day >= between() for day in days])
        level = -4.5 + 0.3 * autoregressive(count, self.kept, random, heavy=True) - quiet
        level += since * np.log10(self.ratio)
        packets = 1e8 * 10**-quiet
        return pl.DataFrame(
            {
                "metro": site[:3], "site": site, "day": list(map(str, days)), "packets": packets,
                "discards": random.poisson(packets * 10 ** np.minimum(level, -1)).astype(float),
            },
            schema_overrides={"day": pl.String},
        ).with_columns(ratio=pl.col("discards") / pl.col("packets"))  # fmt: skip


def between() -> date:
    """A day between the periods."""
    return CHANGE.before.last + (CHANGE.after.first - CHANGE.before.last) // 2


def autoregressive(count: int, kept: float, random: np.random.Generator, *, heavy: bool = False) -> NDArray[np.float64]:
    """Deviations with standard deviation 1, each of which keeps a share of the one before; heavy: Student's t of 4."""
    new = random.standard_t(4, count) / np.sqrt(2) if heavy else random.standard_normal(count)
    found = np.empty(count)
    found[0] = new[0]
    for number in range(1, count):
        found[number] = kept * found[number - 1] + np.sqrt(1 - kept**2) * new[number]
    return found


Fleet = Speeds | Discards

NOTHING = (
    Speeds(1.0, 50), Speeds(1.0, 150, 0.03), Speeds(1.0, 150, 0.1), Speeds(1.0, 150, 0.1, placebos=0),
    Discards(1.0), Discards(1.0, kept=0.0), Discards(1.0, kept=0.7), Discards(1.0, history=0),
)  # fmt: skip
SOMETHING = (
    Speeds(1.05, 150), Speeds(1.2, 50), Speeds(0.8, 50), Speeds(1.2, 150, 0.03), Speeds(1.5, 150, 0.1),
    Discards(0.33), Discards(0.1), Discards(0.02), Discards(0.02, kept=0.2), Discards(0.02, history=0),
)  # fmt: skip


@dataclass(frozen=True)
class Count:
    """So many of so many."""

    some: int
    of: int

    def __str__(self) -> str:
        low, high = self.bounds()
        return f"{self.some / self.of:7.1%}  ({low:.1%} to {high:.1%}, {self.some} of {self.of})"

    def bounds(self) -> tuple[float, float]:
        """C. J. Clopper and E. S. Pearson, Biometrika 26 (1934)."""
        from scipy import stats

        low = float(stats.beta.ppf(0.025, self.some, self.of - self.some + 1)) if self.some else 0.0
        high = float(stats.beta.ppf(0.975, self.some + 1, self.of - self.some)) if self.some < self.of else 1.0
        return low, high


def of_seed(fleet: Fleet, seed: int) -> list[tuple[str, str]]:
    """Every conclusion of a seed's fleet, and what it is of: mean or max of clients' speeds, or discards."""
    found = fleet.conclusions(seed)
    kinds = found["statistic"].to_list() if isinstance(fleet, Speeds) else ["discards"] * found.height
    return list(zip(kinds, found["conclusion"].to_list(), strict=True))


Found = list[list[tuple[str, str]]]


def seeds_with(found: Found, conclusions: tuple[str, ...]) -> Count:
    """Seeds with any such conclusion."""
    return Count(sum(any(one in conclusions for _, one in seed) for seed in found), len(found))


def share_of(found: Found, kind: str, conclusions: tuple[str, ...]) -> Count:
    """Such conclusions of one kind, in all seeds and sites."""
    own = [one for seed in found for of, one in seed if of == kind]
    return Count(sum(one in conclusions for one in own), len(own))


def lines(fleet: Fleet, found: Found) -> Iterator[str]:
    """The lines of the report on a fleet."""
    yield str(fleet)
    kinds = {"mean": "by means", "max": "by largest speeds"} if isinstance(fleet, Speeds) else {"discards": ""}
    right = (
        () if fleet.ratio == 1 else ("faster", "faster?", "more") if fleet.ratio > 1 else ("slower", "slower?", "fewer")
    )
    wrong = tuple(word for word in CHANGED if word not in right)
    what = "false alarm, any site" if not right else "wrong direction, any site"
    yield f"    {what:32}{seeds_with(found, wrong)}"
    for kind, words in kinds.items():
        if right:
            yield f"    {f'found {words}':32}{share_of(found, kind, right)}"
        if isinstance(fleet, Speeds):
            yield f"    {f'called the same {words}':32}{share_of(found, kind, ('same', 'same?'))}"


def main() -> int:
    """Report both error rates; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200, help="fleets of each kind (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (%(default)s)")
    parser.add_argument("--only", choices=("speeds", "discards"), help="fleets of this kind alone")
    parser.add_argument("--processes", type=int, default=2, help="(%(default)s)")
    options = parser.parse_args()
    if options.seeds < 1:
        parser.error("--seeds: expected 1 or more")
    with ProcessPoolExecutor(options.processes) as pool:
        for title, fleets in (("Nothing changed", NOTHING), ("Something changed", SOMETHING)):
            print(f"{title}, {options.seeds} seeds, {len(SITES)} sites:\n")
            for fleet in fleets:
                if options.only not in (None, type(fleet).__name__.lower()):
                    continue
                ask: Callable[[int], list[tuple[str, str]]] = partial(of_seed, fleet)
                found = list(pool.map(ask, range(options.first, options.first + options.seeds), chunksize=5))
                print("\n".join(lines(fleet, found)), flush=True)
            print()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""A fleet, day after day: the rows of the store's tables, and what is true of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.store import tables

from . import clients, truth
from .plan import BIN_NS, BINS_PER_DAY, DAY_NS, Plan
from .polling import QUALITIES, Polls, Series
from .traffic import Counts, Site, growth


@dataclass
class Contacts:
    """The discards at each window of the fleet's time at one site: arrays of ``plan.bins``."""

    dropped: NDArray[np.uint32]
    """Packets that the uplink truly dropped."""
    known: NDArray[np.bool_]
    """A sample of some machine covers the window."""
    seen: NDArray[np.bool_]
    """A sample with discards covers the window."""
    first_machine: NDArray[np.bool_]
    """mlab1 has a sample with discards that ends here."""


@dataclass
class Fleet:
    """All of a plan. Go through `telemetry` before `tests`: the truth of tests depends on it."""

    plan: Plan
    sites: list[Site] = field(init=False)
    contacts: dict[str, Contacts] = field(init=False, default_factory=dict)
    daily: list[pl.DataFrame] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.sites = [Site(self.plan, name) for name in sorted(self.plan.sites)]
        if self.plan.tests_per_day:
            for site in self.sites:
                self.contacts[site.name] = Contacts(
                    np.zeros(self.plan.bins, np.uint32), *(np.zeros(self.plan.bins, bool) for _ in range(3))
                )

    def days(self) -> Iterator[tuple[int, dict[str, list[Series]]]]:
        """Samples of every site, day by day; iterating fills `contacts` and `daily`."""
        polls = {site.name: Polls(site) for site in self.sites}
        for number in range(self.plan.days):
            found = {}
            for site in self.sites:
                grown = growth(site, number, polls[site.name].down(number))
                found[site.name] = polls[site.name].samples(number, grown)
                self._note_day(site, number, grown["uplink"])
                self._note_contacts(site, number, found[site.name], grown["uplink"]["discards.tx"])
            yield number, found

    def telemetry(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """Rows of ``counters``, day by day."""
        for number, found in self.days():
            yield self.plan.day(number).isoformat(), self.counters(number, found)

    def counters(self, number: int, found: dict[str, list[Series]]) -> pl.DataFrame:
        """A day's samples as the store has them, in its order."""
        sites = {site.name: site for site in self.sites}
        series = sorted(
            ((site, one) for site, many in found.items() for one in many),
            key=lambda pair: (pair[1].counter, pair[1].port, pair[1].machine, pair[0]),
        )
        sizes = [len(one.window) for _, one in series]
        midnight_ns = self.plan.start_ns + number * DAY_NS

        def text(values: list[str]) -> pl.Series:
            distinct = sorted(set(values))
            codes = np.repeat([distinct.index(value) for value in values], sizes)
            return pl.Series(distinct, dtype=pl.String).gather(pl.Series(codes, dtype=pl.UInt32))

        def joined(arrays: list[NDArray[np.generic]], kind: type[np.generic]) -> pl.Series:
            return pl.Series(np.concatenate(arrays).astype(kind) if arrays else np.empty(0, kind))

        end_ns = midnight_ns + BIN_NS * joined([one.window for _, one in series], np.int64)
        span_ns = BIN_NS * joined([one.span for _, one in series], np.int64)
        quality = joined([one.quality for _, one in series], np.uint32)
        columns = {
            "end_ns": end_ns,
            "span_ns": span_ns.set(span_ns == 0, None),
            "metro": text([site[:3] for site, _ in series]),
            "site": text([site for site, _ in series]),
            "switch": text([sites[site].switch for site, _ in series]),
            "machine": text([one.machine for _, one in series]),
            "port": text([one.port for _, one in series]),
            "counter": text([one.counter for _, one in series]),
            "value": joined([one.value for _, one in series], np.float64).fill_nan(None),
            "quality": pl.Series(QUALITIES, dtype=pl.String).gather(quality),
        }
        if self.plan.telemetry == "v2":
            columns["total"] = joined([one.total for _, one in series if one.total is not None], np.int64)
            columns |= self._poll_times(number, end_ns)
        return tables.conform("counters", pl.DataFrame(columns))

    def tests(self) -> Iterator[tuple[str, pl.DataFrame, pl.DataFrame]]:
        """For each day of the store its rows of ``ndt``, and one row of truth for each."""
        rows = [clients.tests(self.plan, self.sites, self.contacts, number) for number in range(self.plan.days)]
        drawn = pl.concat(rows) if rows else clients.nothing()
        day = pl.from_epoch("time_ns", time_unit="ns").dt.strftime("%Y-%m-%d").alias("day")
        for (name,), part in sorted(drawn.with_columns(day).partition_by("day", as_dict=True).items()):
            ordered = part.drop("day").sort(tables.ORDER["ndt"])
            frame = tables.conform("ndt", ordered.select(column for column in tables.NDT if column in ordered.columns))
            yield str(name), frame, truth.of_tests(self.plan, ordered, self.contacts)

    def true_days(self) -> pl.DataFrame:
        """The packets that each uplink truly passed and dropped, by the UTC day of the windows' ends."""
        return pl.concat(self.daily)

    def _poll_times(self, number: int, end_ns: pl.Series) -> dict[str, pl.Series]:
        chance = self.plan.chance("poll times", number)
        start = end_ns + pl.Series(chance.integers(900_000, 1_600_000, len(end_ns)))
        return {
            "poll_start_ns": start,
            "poll_end_ns": start + pl.Series(chance.integers(20_000_000, 90_000_000, len(end_ns))),
        }

    def _note_day(self, site: Site, number: int, uplink: dict[str, Counts]) -> None:
        sums = {
            name.replace(".", "_"): [int(uplink[name].sum())] for name in ("octets.tx", "unicast.tx", "discards.tx")
        }
        busy = int(np.count_nonzero(uplink["discards.tx"]))
        row = {"site": [site.name], "day": [self.plan.day(number).isoformat()], **sums, "windows_with_discards": [busy]}
        self.daily.append(pl.DataFrame(row | {"changed": [self.plan.is_changed(site.name, number)]}))

    def _note_contacts(self, site: Site, number: int, found: list[Series], dropped: Counts) -> None:
        if not self.contacts:
            return
        contacts = self.contacts[site.name]
        start = number * BINS_PER_DAY
        contacts.dropped[start : start + BINS_PER_DAY] = dropped
        for one in found:
            if (one.port, one.counter) != ("uplink", "discards.tx"):
                continue
            ends = start + one.window + 1
            telling = ~np.isnan(one.value) & (one.span > 0)
            _cover(contacts.known, ends[telling], one.span[telling])
            _cover(contacts.seen, ends[telling & (one.value > 0)], one.span[telling & (one.value > 0)])
            if one.machine == "mlab1":
                contacts.first_machine[start + one.window[one.value > 0]] = True


def _cover(marks: NDArray[np.bool_], ends: Counts, spans: Counts) -> None:
    """Mark the windows that samples cover, the last of which is before ``ends``."""
    steps = np.zeros(len(marks) + 1, dtype=np.int32)
    np.add.at(steps, np.maximum(0, ends - spans), 1)
    np.add.at(steps, ends, -1)
    marks |= np.cumsum(steps[:-1]) > 0

"""A switch's counters as polls see them: samples, gaps where polls fail, resets where the switch restarts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .plan import BINS_PER_DAY, Plan
from .traffic import Counts, Site

# Bits of a sample's quality, in the order of `QUALITIES`.
GAP, WRAP, RESET = 1, 2, 4
QUALITIES = ("ok", "gap", "wrap", "gap+wrap", "reset", "gap+reset", "wrap+reset", "gap+wrap+reset")
NARROW = ("discards", "errors", "pause")
"""Counters of 32 bits."""
_LONGEST_GAP = 359
"""Windows, just below an hour, over which a sample may span: a poller that was away for longer has restarted."""
_MISSED_POLLS = 0.0005
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Schedule:
    """When a site cannot be polled: windows counted from the fleet's first midnight, for its whole time."""

    reboots: list[tuple[int, int]]
    """The switch is down in [start, end); its counters restart from zero."""
    missing: list[list[tuple[int, int]]]
    """For each machine: its polls fail."""
    restarts: list[list[int]]
    """For each machine: where its poller restarted after hours of absence; its first poll has no predecessor."""


def schedule(plan: Plan, site: str) -> Schedule:
    """Draw a site's mishaps."""
    chance = plan.chance("mishaps", site)
    machines = range(plan.machines)

    def ranges(per_day: float, shortest: int, longest: int) -> list[tuple[int, int]]:
        number = chance.poisson(per_day * plan.outages * plan.days)
        starts = chance.integers(0, plan.bins, number)
        lengths = np.exp(chance.uniform(np.log(shortest), np.log(longest), number)).astype(int)
        return [(int(start), int(start + length)) for start, length in zip(starts, lengths, strict=True)]

    reboots = sorted(ranges(0.02, 18, 90))
    everywhere = ranges(0.05, 2, 200)
    missing = [[*ranges(0.3, 2, 120), *everywhere] for _ in machines]
    absences = [ranges(0.01, 400, 15_000) for _ in machines]
    for which, away in enumerate(absences):
        missing[which].extend(away)
    return Schedule(reboots, missing, [[end for _, end in away] for away in absences])


@dataclass
class Series:
    """Samples of one counter of one port by one machine on one day; one entry for each sample."""

    port: str
    machine: str
    counter: str
    window: Counts
    """The counter was read at its end; counted from the day's midnight."""
    span: Counts
    """In windows; 0: not known."""
    value: NDArray[np.float64]
    """NaN after a reset."""
    total: Counts | None
    quality: NDArray[np.int8]


@dataclass
class _Poller:
    """A machine's memory between polls, in windows before the day's first."""

    since: int = 0
    """Windows since its last poll, not counting the one that it was made in."""
    fresh: bool = True
    """It has no last poll, or one that says nothing: of before a restart."""
    lost: bool = False
    """The switch has restarted since."""
    pending: dict[tuple[str, str], int] = field(default_factory=dict)
    """Growth since the last poll, by port and counter."""
    last_total: dict[tuple[str, str], int] = field(default_factory=dict)
    first: bool = True


class Polls:
    """The polls of a site's machines, day after day."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.plan = site.plan
        self.schedule = schedule(self.plan, site.name)
        self._pollers = [_Poller() for _ in range(self.plan.machines)]
        self._totals: dict[tuple[str, str], int] = {}

    def down(self, number: int) -> Mask:
        """Windows of day ``number`` in which the switch is."""
        return _of_day(self.schedule.reboots, number)

    def made(self, number: int) -> Mask:
        """Which polls succeed: (machines, 8640)."""
        chance = self.plan.chance("polls", self.site.name, number)
        mask = chance.random((self.plan.machines, BINS_PER_DAY)) >= _MISSED_POLLS * self.plan.outages
        down = self.down(number)
        for which, gaps in enumerate(self.schedule.missing):
            mask[which] &= ~(_of_day(gaps, number) | down)
        return mask

    def samples(self, number: int, growth: dict[str, dict[str, Counts]]) -> list[Series]:
        """All samples of a day. Days are to be asked for in order."""
        totals = {
            (port, name): self._running_total(number, port, name, values)
            for port, counters in growth.items()
            for name, values in counters.items()
            if name in self.plan.counters or name == "pause.tx"
        }
        made = self.made(number)
        found = []
        for which, machine in enumerate(self.plan.machine_names()):
            found += self._of_machine(number, which, machine, made[which], growth, totals)
        return found

    def _running_total(self, number: int, port: str, name: str, values: Counts) -> Counts:
        """The switch's counter at the end of each window, not yet wrapped."""
        key = (port, name)
        if key not in self._totals:
            chance = self.plan.chance("totals", self.site.name, port, name)
            # Some are about to be full.
            width = 32 if is_narrow(name) else 53
            near = chance.random() < 0.3 and width == 32
            self._totals[key] = int(2**32 - chance.integers(1, 3000) if near else chance.integers(0, 2 ** (width - 2)))
        total = np.cumsum(values) + self._totals[key]
        for start, _ in self.schedule.reboots:
            first = start - number * BINS_PER_DAY
            if 0 <= first < BINS_PER_DAY:
                total[first:] -= total[first]
        self._totals[key] = int(total[-1])
        return total

    def _of_machine(
        self,
        number: int,
        which: int,
        machine: str,
        made: Mask,
        growth: dict[str, dict[str, Counts]],
        totals: dict[tuple[str, str], Counts],
    ) -> list[Series]:
        poller = self._pollers[which]
        polled = np.flatnonzero(made)
        spans = np.diff(polled, prepend=-1 - poller.since)
        marks = self._marks(number, [start for start, _ in self.schedule.reboots], polled)
        restarted = self._marks(number, self.schedule.restarts[which], polled)
        if len(polled):
            marks[0] |= poller.lost
            restarted[0] |= poller.fresh and not poller.first
        # The span of the very first is not known; a restarted poller has nothing to compare its first poll with.
        known = spans.copy()
        keep = ~restarted & (known <= _LONGEST_GAP)
        if self.plan.telemetry == "v1":
            keep &= (known == 1) & ~marks
        if poller.first and len(polled):
            known[0], keep[0] = (1, True) if self.plan.telemetry == "v1" else (0, True)
        found = []
        for port in ("uplink", machine) if "local" in self.plan.ports else ("uplink",):
            for name, values in growth[port].items():
                if (port, name) in totals:
                    shown = "uplink" if port == "uplink" else "local"
                    series = self._series(poller, (port, name), values, polled, totals[port, name], marks, known > 1)
                    found.append(_kept(Series(shown, machine, name, polled, known, *series), keep))
        self._remember(poller, number, which, polled)
        return found

    def _series(
        self,
        poller: _Poller,
        key: tuple[str, str],
        values: Counts,
        polled: Counts,
        total: Counts,
        reset: Mask,
        gap: Mask,
    ) -> tuple[NDArray[np.float64], Counts | None, NDArray[np.int8]]:
        """Growth since the poll before, the counter as read, quality."""
        so_far = np.cumsum(values)
        at_polls = so_far[polled]
        pending = poller.pending.get(key, 0)
        if poller.first and len(polled):
            # The fleet's first sample of a machine has its own window's growth, as if the one before had been polled.
            pending = int(values[polled[0]] - at_polls[0])
        grown = np.diff(at_polls, prepend=-pending).astype(np.float64)
        poller.pending[key] = int(so_far[-1] - at_polls[-1]) if len(polled) else int(pending + so_far[-1])
        quality = GAP * gap.astype(np.int8) + RESET * reset.astype(np.int8)
        if not is_narrow(key[1]):
            grown[reset] = np.nan
            return grown, total[polled] if self.plan.telemetry == "v2" else None, quality
        read = total[polled]
        before = np.concatenate([[poller.last_total.get(key, read[0] if len(read) else 0)], read[:-1]])
        # DISCO v1 kept rates, which do not show a wrap.
        wrapped = (read // 2**32 > before // 2**32) & ~reset & (self.plan.telemetry == "v2")
        if len(read):
            poller.last_total[key] = int(read[-1])
        quality = quality + WRAP * wrapped.astype(np.int8)
        grown[reset] = np.nan
        return grown, read % 2**32 if self.plan.telemetry == "v2" else None, quality

    def _marks(self, number: int, at: list[int], polled: Counts) -> Mask:
        """Which polls are the first after one of the windows ``at``."""
        marks = np.zeros(BINS_PER_DAY, dtype=np.int64)
        for window in at:
            if 0 <= window - number * BINS_PER_DAY < BINS_PER_DAY:
                marks[window - number * BINS_PER_DAY] += 1
        return np.diff(np.cumsum(marks)[polled], prepend=0) > 0

    def _remember(self, poller: _Poller, number: int, which: int, polled: Counts) -> None:
        last = int(polled[-1]) if len(polled) else -1

        def after(at: list[int]) -> bool:
            return any(last < window - number * BINS_PER_DAY < BINS_PER_DAY for window in at)

        reset = after([start for start, _ in self.schedule.reboots])
        restarted = after(self.schedule.restarts[which])
        if len(polled):
            poller.since, poller.first = BINS_PER_DAY - 1 - last, False
            poller.lost, poller.fresh = reset, restarted
        else:
            poller.since += BINS_PER_DAY
            poller.lost, poller.fresh = poller.lost or reset, poller.fresh or restarted


def is_narrow(counter: str) -> bool:
    """True if a counter has 32 bits."""
    return counter.partition(".")[0] in NARROW


def _of_day(ranges: list[tuple[int, int]], number: int) -> Mask:
    mask = np.zeros(BINS_PER_DAY, dtype=bool)
    for start, end in ranges:
        mask[max(0, start - number * BINS_PER_DAY) : max(0, end - number * BINS_PER_DAY)] = True
    return mask


def _kept(series: Series, keep: Mask) -> Series:
    if keep.all():
        return series
    total = None if series.total is None else series.total[keep]
    return Series(
        series.port, series.machine, series.counter, series.window[keep], series.span[keep], series.value[keep],
        total, series.quality[keep],
    )  # fmt: skip

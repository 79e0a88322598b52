"""The proof of a change: with and without it in turns, and the difference with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal

import numpy as np

from whydrop.act.meter import NoMeasurementError, metrics
from whydrop.recording.metrics.definitions import METRICS
from whydrop.recording.recording import Recording
from whydrop.recording.statistics.differences import Difference, of_groups
from whydrop.text.quantities import significant

# With fewer runs of each kind nothing is known of how runs vary.
ROUNDS = 3
# A difference that is no difference: so much of the value before, or the metric's own least that matters.
_CLEAR_SHARE = 0.02
# What a change for one metric may cost of another, as a share. Of a round trip more: a paced flow keeps at least two
# packets in this host's own queue (TCP small queues), which at a low rate are many milliseconds.
_MAY_COST = {"goodput-up": 0.1, "rtt-median": 0.5, "retransmits": 0.1}
# A smaller share is no price.
_LEAST_PRICE = 0.005
_NAMES = {
    "goodput-up": "goodput",
    "rtt-median": "round-trip time under load",
    "retransmits": "retransmitted segments",
}

Kind = Literal["without", "with"]


@dataclass(frozen=True)
class Effect:
    """The effect of a change on one metric.

    Attributes:
        key: of the metric.
        runs_without, runs_with: the value of each run.
        difference: with less without, and its 95 % interval over runs.
    """

    key: str
    runs_without: tuple[float, ...]
    runs_with: tuple[float, ...]
    difference: Difference

    @property
    def without(self) -> float:
        """The mean of the runs without the change."""
        return fmean(self.runs_without)

    @property
    def with_it(self) -> float:
        """The mean of the runs with it."""
        return fmean(self.runs_with)

    @property
    def gain(self) -> float:
        """The difference, counted so that more is better."""
        return self._signed(self.difference.value)

    @property
    def is_better(self) -> bool:
        """True if it is better by more than the noise: also at the worse end of the interval, and by what matters."""
        found = self.difference
        ends = (self._signed(found.low), self._signed(found.high))
        # Runs that agree to the last digit have no interval; then their difference is all there is.
        worst = min(ends) if all(map(math.isfinite, ends)) else self.gain
        return worst > 0 and self.gain > self._matters()

    @property
    def is_worse(self) -> bool:
        """True if the change costs more of this than it may."""
        allowed = _MAY_COST[self.key] * abs(self.without)
        return self.gain < -max(allowed, METRICS[self.key].negligible)

    @property
    def gain_share(self) -> float:
        """The gain as a share of what there was before; of a share, such as retransmissions, in points of it."""
        whole = 100.0 if METRICS[self.key].units == "%" else abs(self.without)
        return self.gain / whole if whole else 0.0

    @property
    def is_price(self) -> bool:
        """True if the change costs some of this, though less than it may: beyond the noise, or by what matters."""
        ends = (self._signed(self.difference.low), self._signed(self.difference.high))
        is_sure = max(ends) < 0 if all(map(math.isfinite, ends)) else True
        return self.gain_share < -_LEAST_PRICE and (is_sure or self.gain < -self._matters())

    def words(self) -> str:
        """The change for people, such as ``goodput −4.0 % (from 9.10 to 8.74 Mbit/s)``."""
        metric, before = METRICS[self.key], abs(self.without)
        ends = f"from {significant(self.without)} to {significant(self.with_it)} {metric.units}"
        if metric.units == "%" or not before:
            return f"{_NAMES[self.key]} {ends}"
        sign = "−" if self.difference.value < 0 else "+"
        return f"{_NAMES[self.key]} {sign}{significant(100 * abs(self.difference.value) / before, 2)} % ({ends})"

    def _signed(self, value: float) -> float:
        return value if METRICS[self.key].better == "higher" else -value

    def _matters(self) -> float:
        metric = METRICS[self.key]
        return max(metric.negligible, max(metric.negligible_share, _CLEAR_SHARE) * abs(self.without))


@dataclass(frozen=True)
class Proof:
    """The runs with and without a change, and their differences.

    Attributes:
        aim: the metric that it was made for, named before anything was measured.
        effects: by metric, the aim first.
        order: in which the runs were made.
        recordings: of the runs, in that order.
    """

    aim: str
    effects: tuple[Effect, ...]
    order: tuple[Kind, ...]
    recordings: tuple[Path, ...]

    @property
    def holds(self) -> bool:
        """True if the change is worth keeping: better where it should be, and not much worse elsewhere."""
        return self.effects[0].is_better and not self.costs

    @property
    def costs(self) -> list[Effect]:
        """The effects that are worse than a fix may make them, and goodput where it costs more than is gained."""
        return [one for one in self.effects[1:] if one.is_worse or self._outweighs(one)]

    @property
    def price(self) -> list[Effect]:
        """The effects beside the aim that are worse with the change, whether or not they are worth it."""
        return [one for one in self.effects[1:] if one.is_price or one in self.costs]

    def _outweighs(self, one: Effect) -> bool:
        return one.key == "goodput-up" and one.is_price and -one.gain_share > self.effects[0].gain_share

    def sentence(self) -> str:
        """The result in one sentence: whether it helps, by how much, and what that costs."""
        aim, price = self.effects[0], ", ".join(one.words() for one in self.price)
        if self.holds:
            return f"It helps: {aim.words()}" + (f", at the price of {price}." if price else ".")
        if not aim.is_better:
            noise = ", within the noise" if aim.gain > 0 else ""
            words = f"It does not help: {aim.words()}{noise}"
            return words + (f", and it costs {price}." if price else ".")
        return f"It costs more than it gains: {price}, for {aim.words()}."


def prove(
    measured: Callable[[str], Path],
    on: Callable[[], None],
    off: Callable[[], None],
    aim: str,
    beside: tuple[str, ...] = (),
    rounds: int = ROUNDS,
) -> Proof:
    """Measure without, with, without, with ... and compare; the change is on at the end.

    Args:
        measured: makes one run with a title, and returns its recording's folder.
        on: applies the change.
        off: takes it back.
        aim: the key of the metric that should be better.
        beside: keys of those that must not be much worse.
        rounds: how many runs of each kind.

    Raises:
        NoMeasurementError: the aim could not be measured in every run.
    """
    runs: dict[Kind, list[dict[str, float]]] = {"without": [], "with": []}
    order: list[Kind] = []
    folders: list[Path] = []
    kinds: tuple[Kind, Kind] = ("without", "with")
    for number in range(1, rounds + 1):
        for kind in kinds:
            if kind == "with":
                on()
            elif number > 1:
                off()
            folders.append(measured(f"{kind} {number}"))
            order.append(kind)
            runs[kind].append(metrics(Recording.open(folders[-1])))
    found = [_effect(key, runs["without"], runs["with"]) for key in (aim, *beside)]
    if found[0] is None:
        raise NoMeasurementError(f"{METRICS[aim].name}: not known for every run (recordings: {folders[0].parent})")
    return Proof(aim, tuple(one for one in found if one is not None), tuple(order), tuple(folders))


def _effect(key: str, without: list[dict[str, float]], with_it: list[dict[str, float]]) -> Effect | None:
    one, other = (np.array([run.get(key, math.nan) for run in runs]) for runs in (without, with_it))
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return None
    return Effect(key, tuple(map(float, one)), tuple(map(float, other)), of_groups(one, other))

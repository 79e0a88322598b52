"""Recorded connections, reproduced: the setting with the runs that are nearest to them.

The setting is run once for each of several seeds, which differ in the moments at which connections begin, in round
trips by 1 %, in the delays of acknowledgments and in random numbers of the path. Where the first losses fall decides
much of a connection of some seconds: of all runs, those count that are nearest to what was recorded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl

from whydrop.explaining.explained import Explained
from whydrop.explaining.predicting import recorded, recorded_test
from whydrop.explaining.predicting.changing import fitting
from whydrop.explaining.predicting.control.naming import control_of
from whydrop.explaining.predicting.recorded import Quantities
from whydrop.explaining.predicting.running import Json, Runs
from whydrop.explaining.predicting.setting import Assumed, Candidate, settings
from whydrop.formats.importing import open_recording

ControlFrom = Literal["user", "default", "kernel", "windows", "runs"]
CONTROLS = ("cubic", "reno", "bbr")
RUNS = 20
# So many times as many are run, of which the nearest to the recorded values are kept.
RUN_FOR_EACH = 3
# Fewer, but so many, where all would have more packets than these.
_LEAST_RUNS, _MOST_PACKETS = 8, 4_000_000
# Flows with most data, of which the windows are read: a replay takes up to seconds for each.
_MOST_NAMED = 16
# For the choice of the congestion control and of the law of queue management: first some runs of each, then the rest
# of those that are not far behind, in the units of the distance.
_FIRST_RUNS, _TRIAL_RUNS, _TRIAL_KEPT = 2, 8, 4
_FAR_BEHIND = 6.0
# A trial ends early when it has so many times the recorded packets, acknowledgments among them: it is far off.
_TRIAL_PACKETS, _LEAST_PACKETS = 4, 20_000
# Recorded values must be reproduced within these: a share of goodput, a share of losses or so many of all packets, a
# share of delay or so much time; or be no rarer than the rarest tenth of all runs: what was recorded is one of them.
GOODPUT_WITHIN = 0.15
LOSS_WITHIN_SHARE, LOSS_WITHIN = 0.5, 0.001
DELAY_WITHIN_SHARE, DELAY_WITHIN_S = 0.25, 0.002
_USUAL = (0.05, 0.95)
# In the units of the distance, of which 1 is all that is allowed of one quantity.
_CLEARLY_BETTER = 0.5
# One quantity does not outweigh all others.
_MOST_DISTANT = 8.0


@dataclass(frozen=True)
class Reproduction:
    """The setting that reproduces best what captures show.

    Attributes:
        found: the captures, or their beginning; or a recording.
        recorded: what they show.
        greatest_load_bps: the most that arrived before the path in 100 ms.
        setting: the path and the senders.
        assumed, bounds: of the path, as :class:`Candidate` has them.
        control_from: how the congestion control is known.
        every: all runs.
        before: those that are nearest to what was recorded, the nearest first.
        seed: that of the nearest.
        simulated_s: only so much from the beginning of the captures; ``None``: all.
    """

    found: Explained
    recorded: Quantities
    greatest_load_bps: float
    setting: Json
    assumed: Assumed
    control_from: ControlFrom
    every: tuple[Quantities, ...]
    before: tuple[Quantities, ...]
    seed: int
    simulated_s: float | None
    bounds: tuple[Json, ...] = ()

    @cached_property
    def reproduced(self) -> Quantities:
        """The median of the runs."""
        return median(self.before, self.recorded)

    @cached_property
    def misses(self) -> tuple[str, ...]:
        """Recorded quantities that the runs do not have."""
        was = self.recorded
        allowed = {
            "goodput": ("goodput_bps", GOODPUT_WITHIN * was.goodput_bps),
            "loss rate": ("loss_rate", _allowed_loss(was.loss_rate)),
            "queueing delay": ("delay_p95_s", _allowed_delay_s(was.delay_p95_s or 0.0)),
        }
        return tuple(words for words, (name, within) in allowed.items() if not self._has(name, within))

    def _has(self, name: str, within: float) -> bool:
        """Return whether the median of the runs has a recorded value, or runs often have it."""
        was, runs = getattr(self.recorded, name), getattr(self.reproduced, name)
        if was is None or runs is None or abs(runs - was) <= within:
            return True
        least, most = np.quantile([getattr(one, name) for one in self.every], _USUAL)
        return bool(least <= was <= most)


def reproduce(
    found: Explained, control: str | None, count: int, runs: Runs, changes: Sequence[str] = ()
) -> Reproduction:
    """Reproduce what captures, or a recording, show.

    Args:
        found: the captures, or the recording of a test.
        control: the congestion control of all senders; ``None`` where it is not known.
        count: runs that are kept; fewer where each has many packets.
        runs: where they are made.
        changes: that are to be predicted.

    Raises:
        PredictionError: there is nothing that could be run.
        ChangeError: a change is not understood, or fits none of the paths that are tried.
    """
    seen = _seen(found, control, runs)
    was, tried = seen.recorded, fitting(seen.tried, changes)
    packets = RUN_FOR_EACH * max(1, was.packets or 0)
    count = min(count, max(_LEAST_RUNS, _MOST_PACKETS // packets))
    best = _best(tried, was, runs, RUN_FOR_EACH * count)
    all_runs = runs.of(best.setting, range(1, RUN_FOR_EACH * count + 1))
    nearest = _nearest(was, all_runs, count)
    return Reproduction(
        seen.found,
        was,
        seen.greatest_load_bps,
        best.setting,
        best.assumed,
        seen.control_from,
        tuple(all_runs),
        tuple(nearest),
        1 + all_runs.index(nearest[0]),
        seen.simulated_s,
        best.bounds,
    )


def fitted_setting(found: Explained, runs: Runs) -> Json:
    """The path and the senders that reproduce best what captures, or a recording, show.

    Raises:
        PredictionError: there is nothing that could be run.
    """
    seen = _seen(found, None, runs)
    return _best(seen.tried, seen.recorded, runs).setting


@dataclass(frozen=True)
class _Seen:
    """Recorded values, and the settings that may have caused them."""

    found: Explained
    recorded: Quantities
    greatest_load_bps: float
    tried: list[Candidate]
    control_from: ControlFrom
    simulated_s: float | None = None


def _seen(found: Explained, control: str | None, runs: Runs) -> _Seen:
    if found.recordings and not found.flows:
        return _seen_by_test(found, control)
    named = named_controls(found, runs) if control is None else {}
    begun, simulated_s = recorded.beginning(found)
    tried = settings(begun, CONTROLS if control is None else (control,), named)
    by_itself: ControlFrom = "windows" if len(named) == len(tried[0].setting["flows"]) else "runs"
    return _Seen(
        begun,
        recorded.quantities(begun),
        recorded.greatest_load_bps(begun),
        tried,
        by_itself if control is None else "user",
        simulated_s,
    )


def _seen_by_test(found: Explained, control: str | None) -> _Seen:
    was = recorded_test.quantities(found)
    flows = open_recording(found.recordings[0]["path"]).table("flows")
    by_kernel = recorded_test.control_of(found, flows, CONTROLS)
    known = control or by_kernel
    tried = recorded_test.settings(found, CONTROLS if known is None else (known,))
    control_from: ControlFrom = "user" if control else "kernel" if by_kernel else "runs"
    # A queue that stands has seen more than its rate; how much more is not recorded.
    return _Seen(found, was, was.goodput_bps, tried, control_from)


def named_controls(found: Explained, runs: Runs) -> dict[int, str]:
    """The congestion controls that the windows of senders name, by flow; only those that can be simulated."""
    sent = found.table("segments").group_by("flow").agg(pl.col("payload_bytes").sum())
    flows = sent.sort("payload_bytes", "flow", descending=[True, False]).head(_MOST_NAMED)["flow"].sort()
    named = {}
    for done, flow in enumerate(flows):
        runs.advance("Naming congestion controls", done, len(flows))
        if (name := control_of(found, flow).name) in CONTROLS:
            named[flow] = name
    return named


def _best(candidates: Sequence[Candidate], was: Quantities, runs: Runs, afterwards: int = 0) -> Candidate:
    """The setting that reproduces best what was recorded; of congestion controls Linux's default, if it is as good."""
    # Where all senders are named, each congestion control gives the same.
    tried = list({json.dumps(one.setting): one for one in candidates}.values())
    runs.expect(afterwards)
    if len(tried) == 1:
        return tried[0]
    most_packets = _LEAST_PACKETS + _TRIAL_PACKETS * (was.packets or 0)
    tried = [replace(one, setting=one.setting | {"most_packets": most_packets}) for one in tried]
    runs.expect(_TRIAL_RUNS * len(tried))
    first = [runs.of(one.setting, range(1, _FIRST_RUNS + 1)) for one in tried]
    badness = [_badness(one, was, of_one, 1) for one, of_one in zip(tried, first, strict=True)]
    near = [place for place, bad in enumerate(badness) if bad <= min(badness) + _FAR_BEHIND]
    runs.expect((_FIRST_RUNS - _TRIAL_RUNS) * (len(tried) - len(near)))

    def of_all(place: int) -> float:
        rest = runs.of(tried[place].setting, range(_FIRST_RUNS + 1, _TRIAL_RUNS + 1))
        return _badness(tried[place], was, first[place] + rest, _TRIAL_KEPT)

    best = tried[min(near, key=of_all)]
    return replace(best, setting=best.setting | {"most_packets": None})


def _badness(one: Candidate, was: Quantities, all_runs: Sequence[Quantities], kept: int) -> float:
    rare = 0.0 if one.setting["flows"][0]["control"] == CONTROLS[0] else _CLEARLY_BETTER
    nearest = _nearest(was, all_runs, kept)
    return _distance(was, median(nearest, was)) + rare


def _nearest(was: Quantities, all_runs: Sequence[Quantities], count: int) -> list[Quantities]:
    return sorted(all_runs, key=lambda one: _distance(was, one))[:count]


def median(runs: Sequence[Quantities], was: Quantities | None = None) -> Quantities:
    """The median of each quantity; of delays only where they were recorded."""
    names = ["goodput_bps", "loss_rate"]
    if was is None or was.delay_p95_s is not None:
        names += ["delay_p95_s", "delay_greatest_s"]
    packets = int(np.median([one.packets or 0 for one in runs]))
    middle = {name: float(np.median([getattr(one, name) for one in runs])) for name in names}
    return Quantities(**middle, packets=packets)


def _distance(was: Quantities, found: Quantities) -> float:
    """How far runs are from what was recorded, in units of what is allowed."""
    goodput = abs(math.log(max(found.goodput_bps, 1.0) / max(was.goodput_bps, 1.0))) / GOODPUT_WITHIN
    loss = abs(found.loss_rate - was.loss_rate) / _allowed_loss(was.loss_rate)
    delay = 0.0
    if was.delay_p95_s is not None and found.delay_p95_s is not None:
        delay = abs(found.delay_p95_s - was.delay_p95_s) / _allowed_delay_s(was.delay_p95_s)
    return sum(min(one, _MOST_DISTANT) for one in (goodput, loss, delay))


def _allowed_loss(rate: float) -> float:
    return max(LOSS_WITHIN_SHARE * rate, LOSS_WITHIN)


def _allowed_delay_s(delay_s: float) -> float:
    return max(DELAY_WITHIN_SHARE * delay_s, DELAY_WITHIN_S)

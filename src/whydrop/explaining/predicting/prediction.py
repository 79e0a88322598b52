"""A prediction: first what was recorded, then what a change would bring.

The setting is run once for each of several seeds, which differ in the moments at which connections begin, in round
trips by 1 %, in the delays of acknowledgments and in random numbers of the path. Where the first losses fall decides
much of a connection of some seconds: of the runs without a change, those count that are nearest to what was recorded.
A prediction is the recorded value, multiplied by the ratio of a run with the change and one without it. Its interval
has the spread of the ratios and the error with which the recorded value was reproduced.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from whydrop import _core
from whydrop.errors import Mistake
from whydrop.explaining.explained import Explained
from whydrop.explaining.predicting import recorded
from whydrop.explaining.predicting.control.naming import control_of
from whydrop.explaining.predicting.described import Described, setting_of
from whydrop.explaining.predicting.recorded import Quantities
from whydrop.explaining.predicting.setting import PredictionError, settings
from whydrop.explaining.replaying import readable

Json = dict[str, Any]

ControlFrom = Literal["user", "default", "windows", "runs"]
CONTROLS = ("cubic", "reno", "bbr")
# Flows with most data, of which the windows are read: a replay takes up to seconds for each.
_MOST_NAMED = 16
RUNS = 20
# So many times as many are run, of which the nearest to the recorded values are kept.
_RUN_FOR_EACH = 3
# For the choice of the congestion control and of the law of queue management.
_TRIAL_RUNS, _TRIAL_KEPT = 8, 4
# Recorded values must be reproduced within these: a share of goodput, a share of losses or so many of all packets, a
# share of delay or so much time.
GOODPUT_WITHIN = 0.15
LOSS_WITHIN_SHARE, LOSS_WITHIN = 0.5, 0.001
DELAY_WITHIN_SHARE, DELAY_WITHIN_S = 0.25, 0.002
# In the units of the distance, of which 1 is all that is allowed of one quantity.
_CLEARLY_BETTER = 0.5
# An interval of 90 % of a normal distribution, and the standard deviation of the model itself.
_DEVIATIONS = 1.645
_MODEL = {"goodput_bps": 0.03, "loss_rate": 0.15, "delay_p95_s": 0.15}
# Our BBR does not slow down in recovery: at a policer it loses about half as much again as Linux's.
_MODEL_OF_BBR = _MODEL | {"loss_rate": 0.4}
# Load beyond the greatest that was seen is not predicted; so much more is the same.
_SAME_LOAD = 1.05


class ChangeError(Mistake):
    """A change that cannot be made; the message says what was expected."""


@dataclass(frozen=True)
class Value:
    """A predicted value and its 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Prediction:
    """Recorded values, those that the model reproduces, and those that a change would bring.

    Attributes:
        path: the fitted path in its text form, and with the changes.
        control: the congestion control of the senders.
        control_from: ``user``; ``default``, over a described path; ``windows``, if the windows of every sender name it;
            else ``runs``: it reproduces the recorded values best.
        senders: each connection as it is simulated: congestion control, limits, load, times in ns and rates in bit/s.
        changes: as the user wrote them.
        recorded: what the captures show; ``None`` for a described path.
        reproduced: the median of the runs without a change.
        misses: quantities that the model does not reproduce; then nothing is predicted.
        goodput_bps, loss_rate, delay_p95_s: with the changes; ``None`` without a change or where it is not known. The
            delay that BBR causes is not.
        refusal: why nothing is predicted, if so.
    """

    path: str
    changed_path: str
    control: str
    control_from: ControlFrom
    senders: tuple[Json, ...]
    changes: tuple[str, ...]
    recorded: Quantities | None
    reproduced: Quantities
    misses: tuple[str, ...]
    goodput_bps: Value | None
    loss_rate: Value | None
    delay_p95_s: Value | None
    refusal: str | None

    def as_json(self) -> Json:
        """As ``whydrop predict --json`` prints it."""
        return asdict(self)


def predict(found: Explained, changes: Sequence[str] = (), control: str | None = None, runs: int = RUNS) -> Prediction:
    """Predict what changes would bring to the connections of captures.

    Raises:
        PredictionError: the captures have nothing that could be run.
        ChangeError: a change is not understood, or does not fit the path.
    """
    was = recorded.quantities(found)
    named = named_controls(found) if control is None else {}
    setting = _best(found, was, CONTROLS if control is None else (control,), named)
    changed = _changed(setting, changes)
    before = _nearest(was, _run(setting, range(1, _RUN_FOR_EACH * runs + 1)), runs)
    reproduced = _median(before, was)
    misses = tuple(_misses(was, reproduced))
    refusal, after = None, None
    if misses:
        refusal = f"the model does not reproduce the recorded {' and '.join(misses)}"
    elif changes:
        # Other random numbers: where losses fall with the change is not known.
        after = _run(changed, range(_RUN_FOR_EACH * runs + 1, (_RUN_FOR_EACH + 1) * runs + 1))
        refusal = _beyond(found, _median(after, was))
    by_itself: ControlFrom = "windows" if len(named) == len(setting["flows"]) else "runs"
    control_from: ControlFrom = by_itself if control is None else "user"
    simulated = _Found(setting, changed, control_from, tuple(changes), was, reproduced, misses, refusal)
    return simulated.prediction(before, None if refusal else after)


def predict_described(
    described: Described, changes: Sequence[str] = (), control: str | None = None, runs: int = RUNS
) -> Prediction:
    """Predict the goodput of one sender over a described path, with changes and without.

    Raises:
        PredictionError: the path cannot be run.
        PathError: the description has no round trip.
        ChangeError: a change is not understood, or does not fit the path.
    """
    setting = setting_of(described, control or CONTROLS[0])
    changed = _changed(setting, changes)
    before = _run(setting, range(1, runs + 1))
    after = _run(changed, range(runs + 1, 2 * runs + 1)) if changes else None
    control_from: ControlFrom = "default" if control is None else "user"
    return _Found(setting, changed, control_from, tuple(changes), None, _median(before)).prediction(before, after)


@dataclass(frozen=True)
class _Found:
    """A prediction without its values."""

    setting: Json
    changed: Json
    control_from: ControlFrom
    changes: tuple[str, ...]
    recorded: Quantities | None
    reproduced: Quantities
    misses: tuple[str, ...] = ()
    refusal: str | None = None

    def prediction(self, before: Sequence[Quantities], after: Sequence[Quantities] | None) -> Prediction:
        """With the values of runs with a change, if there are any."""
        was = self.recorded or self.reproduced
        # Linux's BBR fills about twice as much of a queue as ours.
        is_bbr = any(flow["control"] == "bbr" for flow in self.changed["flows"])
        has_delay = was.delay_p95_s is not None and not is_bbr
        model = _MODEL_OF_BBR if is_bbr else _MODEL

        def value(name: str, least: float) -> Value | None:
            return None if after is None else _value(was, before, after, name, least, model[name])

        return Prediction(
            readable(self.setting["path"]),
            readable(self.changed["path"]),
            ", ".join(dict.fromkeys(flow["control"] for flow in self.setting["flows"])),
            self.control_from,
            tuple(self.setting["flows"]),
            self.changes,
            self.recorded,
            self.reproduced,
            self.misses,
            value("goodput_bps", 1.0),
            value("loss_rate", LOSS_WITHIN),
            value("delay_p95_s", DELAY_WITHIN_S) if has_delay else None,
            self.refusal,
        )


def fitted_setting(found: Explained) -> Json:
    """The path and the senders that reproduce best what captures show.

    Raises:
        PredictionError: the captures have nothing that could be run.
    """
    return _best(found, recorded.quantities(found), CONTROLS, named_controls(found))


def named_controls(found: Explained) -> dict[int, str]:
    """The congestion controls that the windows of senders name, by flow; only those that can be simulated."""
    sent = found.table("segments").group_by("flow").agg(pl.col("payload_bytes").sum())
    flows = sent.sort("payload_bytes", "flow", descending=[True, False]).head(_MOST_NAMED)["flow"].sort()
    named = ((flow, control_of(found, flow).name) for flow in flows)
    return {flow: name for flow, name in named if name in CONTROLS}


def _best(found: Explained, was: Quantities, controls: Sequence[str], named: Mapping[int, str]) -> Json:
    """The setting that reproduces best what was recorded; of congestion controls Linux's default, if it is as good."""
    # Where all senders are named, each congestion control gives the same.
    tried = list({json.dumps(one): one for one in settings(found, controls, named)}.values())
    if len(tried) == 1:
        return tried[0]
    seeds = range(1, _TRIAL_RUNS + 1)

    def badness(setting: Json) -> float:
        rare = 0.0 if setting["flows"][0]["control"] == CONTROLS[0] else _CLEARLY_BETTER
        runs = _nearest(was, _run(setting, seeds), _TRIAL_KEPT)
        return _distance(was, _median(runs, was)) + rare

    return min(tried, key=badness)


def _changed(setting: Json, changes: Sequence[str]) -> Json:
    text = json.dumps(setting)
    for change in changes:
        try:
            text = _core.changed_setting(text, change)
        except ValueError as reason:
            raise ChangeError(f"--change {reason}") from None
    changed: Json = json.loads(text)
    return changed


def _run(setting: Json, seeds: Sequence[int]) -> list[Quantities]:
    try:
        outcomes = json.loads(_core.predict(json.dumps(setting), list(seeds)))
    except ValueError as reason:
        raise PredictionError(f"the path cannot be run: {reason}") from None
    return [Quantities(one["goodput_bps"], one["loss_rate"], one["queueing_p95_s"]) for one in outcomes]


def _nearest(was: Quantities, runs: Sequence[Quantities], count: int) -> list[Quantities]:
    return sorted(runs, key=lambda one: _distance(was, one))[:count]


def _median(runs: Sequence[Quantities], was: Quantities | None = None) -> Quantities:
    delay_s = (
        None if was is not None and was.delay_p95_s is None else float(np.median([one.delay_p95_s for one in runs]))
    )
    goodput_bps, loss_rate = (float(np.median([getattr(one, name) for one in runs])) for name in _FIRST)
    return Quantities(goodput_bps, loss_rate, delay_s)


_FIRST = ("goodput_bps", "loss_rate")


def _distance(was: Quantities, found: Quantities) -> float:
    """How far runs are from what was recorded, in units of what is allowed; no quantity outweighs all others."""
    goodput = abs(math.log(max(found.goodput_bps, 1.0) / max(was.goodput_bps, 1.0))) / GOODPUT_WITHIN
    loss = abs(found.loss_rate - was.loss_rate) / _allowed_loss(was.loss_rate)
    delay = 0.0
    if was.delay_p95_s is not None and found.delay_p95_s is not None:
        delay = abs(found.delay_p95_s - was.delay_p95_s) / _allowed_delay_s(was.delay_p95_s)
    return sum(min(one, 8.0) for one in (goodput, loss, delay))


def _allowed_loss(rate: float) -> float:
    return max(LOSS_WITHIN_SHARE * rate, LOSS_WITHIN)


def _allowed_delay_s(delay_s: float) -> float:
    return max(DELAY_WITHIN_SHARE * delay_s, DELAY_WITHIN_S)


def _misses(was: Quantities, found: Quantities) -> list[str]:
    misses = []
    if not abs(found.goodput_bps - was.goodput_bps) <= GOODPUT_WITHIN * was.goodput_bps:
        misses.append("goodput")
    if not abs(found.loss_rate - was.loss_rate) <= _allowed_loss(was.loss_rate):
        misses.append("loss rate")
    if was.delay_p95_s is None or found.delay_p95_s is None:
        return misses
    if not abs(found.delay_p95_s - was.delay_p95_s) <= _allowed_delay_s(was.delay_p95_s):
        misses.append("queueing delay")
    return misses


def _beyond(found: Explained, after: Quantities) -> str | None:
    greatest_bps = recorded.greatest_load_bps(found)
    if after.goodput_bps <= _SAME_LOAD * greatest_bps:
        return None
    return (
        f"the model predicts {after.goodput_bps / 1e6:.3g} Mbit/s, and the path never saw more than "
        f"{greatest_bps / 1e6:.3g} Mbit/s: what limits it beyond that does not show"
    )


def _value(
    was: Quantities,
    before: Sequence[Quantities],
    after: Sequence[Quantities],
    name: str,
    least: float,
    model_deviation: float,
) -> Value:
    """The recorded value times the ratio of the runs; ``least`` keeps ratios of small numbers from growing."""
    recorded_value = getattr(was, name)
    old, new = (np.array([getattr(one, name) for one in runs]) + least for runs in (before, after))
    ratios = np.log(new / np.median(old))
    error = math.log((recorded_value + least) / float(np.median(old)))
    deviation = math.hypot(float(np.std(ratios)), error, model_deviation)
    middle = (recorded_value + least) * math.exp(float(np.median(ratios)))
    value, low, high = (middle * math.exp(sign * _DEVIATIONS * deviation) - least for sign in (0.0, -1.0, 1.0))
    if name == "goodput_bps":
        # No more than the best run: where the path is full, an error of the model does not make it larger.
        best = max(recorded_value, float(np.max(new)) - least)
        value, low, high = min(value, best), min(low, best), min(high, (1 + model_deviation) * best)
    return Value(*(max(0.0, bound) for bound in (value, low, high)))

"""A prediction: first what was recorded, then what a change would bring.

A prediction is the recorded value, multiplied by the ratio of a run with the change and one without it. Its interval
has the spread of the ratios and the error with which the recorded value was reproduced.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from whydrop.explaining.explained import Explained
from whydrop.explaining.predicting.changing import changed_setting
from whydrop.explaining.predicting.course import Course, of_captures, of_run
from whydrop.explaining.predicting.described import Described, setting_of
from whydrop.explaining.predicting.recorded import Quantities
from whydrop.explaining.predicting.reproducing import (
    CONTROLS,
    DELAY_WITHIN_S,
    LOSS_WITHIN,
    RUN_FOR_EACH,
    RUNS,
    ControlFrom,
    Reproduction,
    median,
    reproduce,
)
from whydrop.explaining.predicting.running import Json, Runs
from whydrop.explaining.predicting.setting import Assumed
from whydrop.explaining.replaying import readable

_NOTHING = 1e-3
# An interval of 90 % of a normal distribution, and the standard deviation of the model itself: with these, intervals
# of simulated senders contain nine tenths of the values of Linux's over the same paths (docs/prediction.md).
_DEVIATIONS = 1.645
_MODEL = {"goodput_bps": 0.02, "loss_rate": 0.2, "delay_p95_s": 0.05}
# BBR's losses and delay depend on the first rounds of its start-up.
_MODEL_OF_BBR = _MODEL | {"loss_rate": 0.25, "delay_p95_s": 0.2}
# Load beyond the greatest that was seen is not predicted; so much more is the same.
_SAME_LOAD = 1.05
# Less than this share of goodput shows that the change limits it.
_LESS_GOODPUT = 0.9
# A queue that grows by this factor, or this time, beyond what was seen may meet a limit that was not.
_SAME_DELAY, _SAME_DELAY_S = 1.25, 0.005
# Changes after which the limit of the queue is known.
_CHANGES_OF_LIMITS = ("aqm", "limit", "path")
# Fewer runs of a described path, where each has so many packets that all would have more than these; but so many.
_MOST_PACKETS = 20_000_000
_LEAST_RUNS = 4
# A run of a described path is shorter where it would have more packets than this, acknowledgments among them: data are
# a third of them at least.
_MOST_IN_A_RUN, _DATA_SHARE = 1_000_000, 1 / 3
_SHORTER = 2
_LEAST_DURATION_NS = 1_000_000
# With a change a run ends at so many times the recorded packets.
_MANY, _MANY_PACKETS = 20, 100_000
# Of the runs with a change, so many with a parameter at an end of its interval.
_BOUND_SHARE = 0.25


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
        control_from: ``user``; ``default``, over a described path; ``kernel``, in a recording; ``windows``, if the
            windows of every sender name it; else ``runs``: it reproduces the recorded values best.
        senders: each connection as it is simulated: congestion control, limits, load, times in ns and rates in bit/s.
        changes: as the user wrote them.
        recorded: what the captures show; ``None`` for a described path.
        reproduced: the median of the runs without a change.
        misses: quantities that the model does not reproduce; then nothing is predicted.
        assumed: ``limit``: no loss shows how much the queue can contain; ``law``: of queue management only the rate is
            known, the rest are Linux's defaults; else ``nothing``.
        goodput_bps, loss_rate, delay_p95_s: with the changes; ``None`` without a change or where it is not known.
        refusal: why nothing is predicted, if so.
        simulated_s: only so much from the beginning of the captures is simulated and compared; ``None``: all.
        notes: what to know of the captures or the recording, such as damage.
        tried: without a change: those that are worth it, one by one, the best first.
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
    assumed: Assumed
    goodput_bps: Value | None
    loss_rate: Value | None
    delay_p95_s: Value | None
    refusal: str | None
    simulated_s: float | None
    notes: tuple[str, ...] = ()
    tried: tuple[Prediction, ...] = ()

    def as_json(self) -> Json:
        """As ``whydrop predict --json`` prints it."""
        whole = asdict(self)
        names = ("changes", "changed_path", "goodput_bps", "loss_rate", "delay_p95_s", "refusal")
        return whole | {"tried": [{name: one[name] for name in names} for one in whole["tried"]]}


def predict(
    found: Explained,
    changes: Sequence[str] = (),
    control: str | None = None,
    count: int = RUNS,
    runs: Runs | None = None,
) -> Prediction:
    """Predict what changes would bring to the connections of captures.

    Raises:
        PredictionError: the captures have nothing that could be run.
        ChangeError: a change is not understood, or does not fit the path.
    """
    runs = Runs() if runs is None else runs
    runs.expect(count if changes else 0)
    return with_changes(reproduce(found, control, count, runs, changes), changes, runs)


def with_changes(was: Reproduction, changes: Sequence[str], runs: Runs) -> Prediction:
    """Predict what changes would bring to connections that are reproduced.

    Raises:
        ChangeError: a change is not understood, or does not fit the path.
    """
    changed = changed_setting(was.setting, changes)
    refusal, after = None, None
    if was.misses:
        refusal = f"the model does not reproduce the recorded {' and '.join(was.misses)}"
    elif changes:
        # Other random numbers: where losses fall with the change is not known.
        first = RUN_FOR_EACH * len(was.before) + 1
        most = _most_packets(was)
        after = runs.of({**changed, "most_packets": most}, range(first, first + len(was.before)))
        refusal = (
            _nothing_arrives(after)
            or _beyond_load(was, after)
            or _beyond_queue(was, changes, after)
            or _beyond_packets(after, most)
        )
    return _prediction(
        _Settings(was.setting, changed, was.control_from, tuple(changes)),
        was.before,
        None if refusal else after,
        at_bounds=() if refusal or not changes else _at_bounds(was, changed, changes, runs),
        recorded=was.recorded,
        reproduced=was.reproduced,
        misses=was.misses,
        refusal=refusal,
        simulated_s=was.simulated_s,
        assumed=was.assumed,
        notes=was.found.notes,
    )


def _at_bounds(was: Reproduction, changed: Json, changes: Sequence[str], runs: Runs) -> list[Quantities]:
    """The medians with the change where a parameter is at an end of its interval, unless the change sets it."""
    count = math.ceil(_BOUND_SHARE * len(was.before))
    first, found = RUN_FOR_EACH * len(was.before) + 1, []
    for element in was.bounds:
        elements = [element, *was.setting["path"]["elements"][1:]]
        setting = {**was.setting, "path": {**was.setting["path"], "elements": elements}}
        at_bound = changed_setting(setting, changes)
        if at_bound != changed:
            bounded = {**at_bound, "most_packets": _most_packets(was)}
            found.append(median(runs.of(bounded, range(first, first + count))))
    return found


def _most_packets(was: Reproduction) -> int:
    """A run with a change ends at so many packets."""
    return _MANY_PACKETS + _MANY * (was.recorded.packets or 0)


def predict_described(
    described: Described,
    changes: Sequence[str] = (),
    control: str | None = None,
    count: int = RUNS,
    runs: Runs | None = None,
) -> Prediction:
    """Predict the goodput of one sender over a described path, with changes and without.

    Raises:
        PredictionError: the path cannot be run.
        PathError: the description has no round trip.
        ChangeError: a change is not understood, or does not fit the path.
    """
    runs = Runs() if runs is None else runs
    setting = setting_of(described, control or CONTROLS[0])
    changed = changed_setting(setting, changes)
    duration_ns = min(_duration_ns(one, runs) for one in ((setting, changed) if changes else (setting,)))
    simulated_s = duration_ns / 1e9 if duration_ns < setting["duration_ns"] else None
    setting, changed = ({**one, "duration_ns": duration_ns} for one in (setting, changed))
    first = runs.of(setting, [1])
    count = min(count, max(_LEAST_RUNS, _MOST_PACKETS // (2 * max(1, first[0].packets or 0))))
    runs.expect(1 + (2 if changes else 1) * count)
    before = first + (runs.of(setting, range(2, count + 1)) if count > 1 else [])
    after = runs.of(changed, range(count + 1, 2 * count + 1)) if changes else None
    control_from: ControlFrom = "default" if control is None else "user"
    refusal = _nothing_arrives(after or before)
    return _prediction(
        _Settings(setting, changed, control_from, tuple(changes)),
        before,
        None if refusal else after,
        reproduced=median(before),
        refusal=refusal,
        simulated_s=simulated_s,
    )


def _duration_ns(setting: Json, runs: Runs) -> int:
    """The time of a run that has not too many packets."""
    duration_ns = int(setting["duration_ns"])
    (flow,) = setting["flows"]
    while duration_ns > _LEAST_DURATION_NS:
        runs.expect(1)
        (one,) = runs.of({**setting, "duration_ns": duration_ns, "most_packets": _MOST_IN_A_RUN}, [1])
        packets = one.packets or 0
        if packets < _DATA_SHARE * _MOST_IN_A_RUN:
            break
        ended_ns = 8e9 * packets * flow["mss_bytes"] / max(1.0, one.goodput_bps)
        duration_ns = max(_LEAST_DURATION_NS, min(duration_ns, round(ended_ns)) // _SHORTER)
    return duration_ns


def courses(was: Reproduction, changes: Sequence[str]) -> list[Course]:
    """The course of the captures, of the run nearest to them, and of one with changes that begins as that does."""
    duration_s = was.setting["duration_ns"] / 1e9
    found = [of_captures(was.found, duration_s), of_run("reproduced", was.setting, was.seed, duration_s)]
    if changes and not was.misses:
        found.append(of_run("changed", changed_setting(was.setting, changes), was.seed, duration_s))
    return found


@dataclass(frozen=True)
class _Settings:
    """Settings that are run: without the changes, and with them."""

    before: Json
    changed: Json
    control_from: ControlFrom
    changes: tuple[str, ...]


def _prediction(
    settings: _Settings,
    before: Sequence[Quantities],
    after: Sequence[Quantities] | None,
    *,
    reproduced: Quantities,
    at_bounds: Sequence[Quantities] = (),
    recorded: Quantities | None = None,
    misses: tuple[str, ...] = (),
    refusal: str | None = None,
    simulated_s: float | None = None,
    assumed: Assumed = "nothing",
    notes: tuple[str, ...] = (),
) -> Prediction:
    was = recorded or reproduced
    is_bbr = any(flow["control"] == "bbr" for flow in settings.changed["flows"])
    has_delay = was.delay_p95_s is not None
    model = _MODEL_OF_BBR if is_bbr else _MODEL

    def value(name: str, least: float) -> Value | None:
        if after is None:
            return None
        return _widened(_value(was, before, after, name, least, model[name]), was, before, at_bounds, name, least)

    return Prediction(
        readable(settings.before["path"]),
        readable(settings.changed["path"]),
        ", ".join(dict.fromkeys(flow["control"] for flow in settings.before["flows"])),
        settings.control_from,
        tuple(settings.before["flows"]),
        settings.changes,
        recorded,
        reproduced,
        misses,
        assumed,
        value("goodput_bps", 1.0),
        value("loss_rate", LOSS_WITHIN),
        value("delay_p95_s", DELAY_WITHIN_S) if has_delay else None,
        refusal,
        simulated_s,
        notes,
    )


def _nothing_arrives(after: Sequence[Quantities]) -> str | None:
    if median(after).goodput_bps > 0:
        return None
    return "no data are acknowledged in the time that is simulated"


def _beyond_load(was: Reproduction, after: Sequence[Quantities]) -> str | None:
    greatest_bps, goodput_bps = was.greatest_load_bps, median(after).goodput_bps
    if goodput_bps <= _SAME_LOAD * greatest_bps:
        return None
    return (
        f"the model predicts {goodput_bps / 1e6:.3g} Mbit/s, and the path never saw more than "
        f"{greatest_bps / 1e6:.3g} Mbit/s: what limits it beyond that does not show"
    )


def _beyond_packets(after: Sequence[Quantities], most: int) -> str | None:
    """The reason for no prediction: runs end before their time, as most of the packets are lost."""
    if (median(after).packets or 0) < _DATA_SHARE * most:
        return None
    return f"with the change, more than {_MANY * _DATA_SHARE:.0f} times as many packets would be sent as were recorded"


def _beyond_queue(was: Reproduction, changes: Sequence[str], after: Sequence[Quantities]) -> str | None:
    """The reason for no prediction: the queue grows beyond what was seen, and its limit did not show."""
    names = (change.partition("=")[0].strip().rpartition(".")[2] for change in changes)
    greatest_s, new_s = was.recorded.delay_greatest_s, median(after).delay_greatest_s
    if was.assumed != "limit" or greatest_s is None or new_s is None:
        return None
    if any(name in _CHANGES_OF_LIMITS for name in names) or new_s <= _SAME_DELAY * greatest_s + _SAME_DELAY_S:
        return None
    return (
        f"the queue would hold up to {1e3 * new_s:.3g} ms, and the capture shows no more than "
        f"{1e3 * greatest_s:.3g} ms: whether it can hold more does not show; state its limit with "
        "--change queue.limit=150kB"
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
        best = float(np.max(new)) - least
        if np.median(new) > _LESS_GOODPUT * np.median(old):
            best = max(recorded_value, best)
        value, low, high = min(value, best), min(low, best), min(high, (1 + model_deviation) * best)
    most = 1.0 if name == "loss_rate" else math.inf
    # What is left of a subtraction is no value.
    bounds = (0.0 if bound < _NOTHING * least else min(bound, most) for bound in (value, low, high))
    return Value(*bounds)


def _widened(
    one: Value, was: Quantities, before: Sequence[Quantities], at_bounds: Sequence[Quantities], name: str, least: float
) -> Value:
    """The value with an interval that has those with parameters at the ends of their intervals too."""
    old = float(np.median([getattr(run, name) for run in before])) + least
    recorded_value = getattr(was, name) + least
    others = [max(0.0, recorded_value * (getattr(run, name) + least) / old - least) for run in at_bounds]
    return Value(one.value, min([one.low, *others]), max([one.high, *others]))

"""Changes that are worth a prediction, ranked by what they would bring."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from whydrop.explaining.predicting.gains import best
from whydrop.explaining.predicting.prediction import Prediction, Value, with_changes
from whydrop.explaining.predicting.reproducing import RUNS, Reproduction, reproduce
from whydrop.explaining.predicting.running import Json, Runs
from whydrop.explaining.predicting.setting import QUEUES
from whydrop.explaining.words.common import PACED_SHARE
from whydrop.explaining.words.policers import sawtooth_burst_bytes

if TYPE_CHECKING:
    from whydrop.explaining.explained import Explained

# Goodputs that differ by less are the same: then losses decide, in such steps, then delay.
_SAME_GOODPUT = 0.05
_SAME_LOSS = 0.01
_POLICERS = ("policer", "linux-police")
_MANAGED = ("codel", "pie", "red", "fq-codel", "fq-pie", "cake", "dual-pi2")
# A queue this much larger or smaller than the product of rate and round trip is worth a change.
_ANOTHER_LIMIT = 1.5
_LEAST_LIMIT_BYTES = 15_000


def ranked(found: Explained, control: str | None = None, count: int = RUNS, runs: Runs | None = None) -> Prediction:
    """The reproduction of captures, and what each change that is worth it would bring, the best first (``tried``).

    Raises:
        PredictionError: the captures have nothing that could be run.
    """
    runs = Runs() if runs is None else runs
    return predicted(reproduce(found, control, count, runs), (), runs)


def predicted(was: Reproduction, changes: Sequence[str], runs: Runs) -> Prediction:
    """A prediction of changes; without any, of those that are worth it, one by one, the best first (``tried``).

    Raises:
        ChangeError: a change is not understood, or does not fit the path.
    """
    if not changes:
        return _with_usual(was, runs)
    runs.expect(len(was.before))
    return with_changes(was, changes, runs)


def _with_usual(was: Reproduction, runs: Runs) -> Prediction:
    reproduced = with_changes(was, (), runs)
    if was.misses:
        return reproduced
    changes = [*worth_trying(was.setting)]
    runs.expect(len(was.before) * len(changes))
    return replace(reproduced, tried=_ranked([with_changes(was, [one], runs) for one in changes]))


def worth_trying(setting: Json) -> Iterator[str]:
    """Changes that the elements of a path and its senders suggest, as ``--change`` takes them.

    >>> flow = {"control": "cubic", "mss_bytes": 1448, "pace_bps": None}
    >>> policer = {"element": "policer", "rate_bps": 20e6, "burst_bytes": 50e3}
    >>> setting = {"path": {"elements": [policer]}, "round_trip_ns": 40_000_000, "flows": [flow]}
    >>> list(worth_trying(setting))
    ['pace=19M', 'policer.burst=384kB', 'cc=bbr']
    """
    for element in setting["path"]["elements"]:
        if element["element"] in (*_POLICERS, *QUEUES, *_MANAGED):
            yield from _slower(setting, element)
        if element["element"] in _POLICERS:
            yield from _larger_burst(setting, element)
        if element["element"] == "fifo":
            yield from _another_limit(setting, element)
        if element["element"] in (*QUEUES, *_MANAGED) and element["element"] != "fq-codel":
            yield "aqm=fq_codel"
    controls = {flow["control"] for flow in setting["flows"]}
    if controls != {"bbr"}:
        yield "cc=bbr"
    if "bbr" in controls:
        yield "cc=cubic"


def _slower(setting: Json, element: Json) -> Iterator[str]:
    """Senders paced below the rate of an element, unless they are already."""
    rate_bps = PACED_SHARE * element["rate_bps"]
    paces_bps = [flow["pace_bps"] for flow in setting["flows"]]
    if None in paces_bps or sum(paces_bps) > rate_bps:
        yield f"pace={_digits(rate_bps / 1e6)}M"


def _larger_burst(setting: Json, element: Json) -> Iterator[str]:
    needed = sawtooth_burst_bytes(element["rate_bps"], setting["round_trip_ns"] / 1e9, _mss_bytes(setting))
    if needed > _ANOTHER_LIMIT * element["burst_bytes"]:
        yield f"{element['element']}.burst={_digits(needed / 1e3)}kB"


def _another_limit(setting: Json, element: Json) -> Iterator[str]:
    product = max(element["rate_bps"] / 8 * setting["round_trip_ns"] / 1e9, _LEAST_LIMIT_BYTES)
    size = _mss_bytes(setting)
    limit = element.get("limit_bytes") or (element.get("limit_packets") or math.inf) * size
    if not 1 / _ANOTHER_LIMIT < limit / product < _ANOTHER_LIMIT:
        yield f"queue.limit={math.ceil(product / size)}packets"


def _digits(value: float) -> str:
    """Four digits, without an exponent.

    >>> _digits(3437.49), _digits(19.0), _digits(123456.0)
    ('3437', '19', '123500')
    """
    return np.format_float_positional(float(f"{value:.4g}"), trim="-")


def _mss_bytes(setting: Json) -> int:
    return max(int(flow["mss_bytes"]) for flow in setting["flows"])


def _ranked(tried: Sequence[Prediction]) -> tuple[Prediction, ...]:
    """The one that helps most, then by goodput; where that is the same, by losses and delay; unknown ones last."""
    left = [one for one in tried if one.goodput_bps is not None]
    found: list[Prediction] = []
    while left:
        best_bps = max(_value(one, "goodput_bps") for one in left)
        same = [one for one in left if _value(one, "goodput_bps") >= (1 - _SAME_GOODPUT) * best_bps]
        found += sorted(same, key=_harm)
        left = [one for one in left if one not in same]
    if helps := best(found):
        found.remove(helps[0])
        found.insert(0, helps[0])
    return (*found, *(one for one in tried if one.goodput_bps is None))


def _harm(one: Prediction) -> tuple[float, float]:
    """Losses in steps, and delay: an unknown one counts as the recorded one."""
    return round(_value(one, "loss_rate") / _SAME_LOSS), _value(one, "delay_p95_s")


def _value(one: Prediction, name: str) -> float:
    value: Value | None = getattr(one, name)
    return (getattr(one.recorded, name) or 0.0) if value is None else value.value

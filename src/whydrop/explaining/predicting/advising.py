"""Changes that are worth a prediction, ranked by what they would bring."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from whydrop.explaining.predicting.prediction import Prediction, Value, with_changes
from whydrop.explaining.predicting.reproducing import RUNS, Reproduction, reproduce
from whydrop.explaining.predicting.running import Json, Runs
from whydrop.explaining.words.common import PACED_SHARE
from whydrop.explaining.words.policers import sawtooth_burst_bytes

if TYPE_CHECKING:
    from whydrop.explaining.explained import Explained

# Goodputs that differ by less are the same: then delay decides, then losses.
_SAME_GOODPUT = 0.05
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
    return tried_on(reproduce(found, control, count, runs), runs)


def tried_on(was: Reproduction, runs: Runs) -> Prediction:
    """The same, of captures that are reproduced."""
    reproduced = with_changes(was, (), runs)
    if was.misses:
        return reproduced
    changes = [*worth_trying(was.setting)]
    runs.expect(len(was.before) * len(changes))
    return replace(reproduced, tried=tuple(sorted((with_changes(was, [one], runs) for one in changes), key=_rank)))


def worth_trying(setting: Json) -> Iterator[str]:
    """Changes that the elements of a path and its senders suggest, as ``--change`` takes them.

    >>> flow = {"control": "cubic", "mss_bytes": 1448}
    >>> policer = {"element": "policer", "rate_bps": 20e6, "burst_bytes": 50e3}
    >>> setting = {"path": {"elements": [policer]}, "round_trip_ns": 40_000_000, "flows": [flow]}
    >>> list(worth_trying(setting))
    ['pace=19M', 'policer.burst=384kB', 'cc=bbr']
    """
    for element in setting["path"]["elements"]:
        kind, rate_bps = element["element"], element.get("rate_bps")
        if rate_bps is None:
            continue
        if kind in _POLICERS:
            yield f"pace={PACED_SHARE * rate_bps / 1e6:.4g}M"
            yield from _larger_burst(setting, element)
        elif kind in (*_MANAGED, "fifo"):
            yield f"pace={PACED_SHARE * rate_bps / 1e6:.4g}M"
        if kind == "fifo":
            yield from _another_limit(setting, element)
        if kind in ("fifo", *_MANAGED) and kind != "fq-codel":
            yield "aqm=fq_codel"
    controls = {flow["control"] for flow in setting["flows"]}
    yield from (f"cc={control}" for control in ("bbr", "cubic") if controls != {control} and _suits(control, controls))


def _suits(control: str, controls: set[str]) -> bool:
    return control == "bbr" or "bbr" in controls


def _larger_burst(setting: Json, element: Json) -> Iterator[str]:
    needed = sawtooth_burst_bytes(element["rate_bps"], setting["round_trip_ns"] / 1e9, _mss_bytes(setting))
    if needed > _ANOTHER_LIMIT * element["burst_bytes"]:
        yield f"{element['element']}.burst={needed / 1e3:.3g}kB"


def _another_limit(setting: Json, element: Json) -> Iterator[str]:
    product = max(element["rate_bps"] / 8 * setting["round_trip_ns"] / 1e9, _LEAST_LIMIT_BYTES)
    size = _mss_bytes(setting)
    limit = element.get("limit_bytes") or (element.get("limit_packets") or math.inf) * size
    if not 1 / _ANOTHER_LIMIT < limit / product < _ANOTHER_LIMIT:
        yield f"queue.limit={math.ceil(product / size)}packets"


def _mss_bytes(setting: Json) -> int:
    return max(int(flow["mss_bytes"]) for flow in setting["flows"])


def _rank(one: Prediction) -> tuple[float, float, float]:
    if one.goodput_bps is None:
        return (math.inf, 0.0, 0.0)
    classes = math.log(max(one.goodput_bps.value, 1.0)) / math.log1p(_SAME_GOODPUT)
    return (-round(classes), _or_recorded(one, "delay_p95_s"), _or_recorded(one, "loss_rate"))


def _or_recorded(one: Prediction, name: str) -> float:
    value: Value | None = getattr(one, name)
    return (getattr(one.recorded, name) or 0.0) if value is None else value.value

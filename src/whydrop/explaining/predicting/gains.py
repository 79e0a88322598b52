"""Which of several predicted changes helps most, and by what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from whydrop.explaining.predicting.prediction import Prediction, Value
    from whydrop.explaining.predicting.recorded import Quantities

Gain = Literal["goodput_bps", "delay_p95_s", "loss_rate"]

# Less than this is no gain: the interval of a prediction is wider.
LEAST_GAIN = 0.05
# Delay and losses matter from here on.
_LEAST_DELAY_S = 0.01
_LEAST_LOSS = 0.001


def best(tried: Sequence[Prediction]) -> tuple[Prediction, Gain] | None:
    """The change that helps most, and by what: more goodput, else less delay, else fewer losses.

    Args:
        tried: predictions of one setting, in the order in which they count where several help.
    """
    gains: tuple[Gain, ...] = ("goodput_bps", "delay_p95_s", "loss_rate")
    return next(((one, gain) for gain in gains for one in tried if _has(one, gain)), None)


def _has(one: Prediction, gain: Gain) -> bool:
    was, goodput = one.recorded, one.goodput_bps
    if was is None or goodput is None:
        return False
    if gain == "goodput_bps":
        return goodput.value > (1 + LEAST_GAIN) * was.goodput_bps and goodput.low > was.goodput_bps
    if goodput.value < (1 - 2 * LEAST_GAIN) * was.goodput_bps:
        return False
    return _shortens(one.delay_p95_s, was) if gain == "delay_p95_s" else _saves(one.loss_rate, was)


def _shortens(delay_s: Value | None, was: Quantities) -> bool:
    was_s = was.delay_p95_s
    return delay_s is not None and was_s is not None and was_s > _LEAST_DELAY_S and 2 * delay_s.value < was_s


def _saves(loss: Value | None, was: Quantities) -> bool:
    return loss is not None and was.loss_rate >= _LEAST_LOSS and 2 * loss.high <= was.loss_rate

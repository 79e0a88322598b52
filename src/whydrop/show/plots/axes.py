"""Where axes end, what is beyond them, and which words stand at them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from whydrop.show.plots.schema import PanelSpec

Values = NDArray[np.float64]

# The room at the ends of a zoomed axis, so that marks at its very end are seen: a hundredth, as Flent leaves.
_ROOM = 0.01
# Where the whole range is not much larger than the zoomed one, zooming would only hide the last few samples.
_WORTH_ZOOMING = 1.25
_HEADROOM = 1.05

# Units of amounts; their axis begins at zero by default: cut off, a small difference looks large.
_FROM_ZERO = ("Mbit/s",)

# From a series' unit to the words of an axis.
WORDS = {
    "Mbit/s": "Goodput",
    "ms": "Delay",
    "%": "Share",
    "packets": "Packets",
    "bytes": "Bytes",
}
LONG_UNITS = {"1/s": "per second", "count": "number"}


def title(words: str, units: str) -> str:
    """An axis's title: what it shows and the unit.

    >>> title("Latency", "ms"), title("", "Mbit/s"), title("Fairness (Jain)", "")
    ('Latency (ms)', 'Goodput (Mbit/s)', 'Fairness (Jain)')
    """
    words = words or WORDS.get(units, "Value")
    unit = LONG_UNITS.get(units, units)
    return f"{words} ({unit})" if unit and unit.lower() != words.lower() else words


def begins_at_zero(panel: PanelSpec, units: str) -> bool | None:
    """True if an axis of values in these units begins at zero; ``None`` where the values decide.

    Percentiles at its ends, fixed ends and a logarithmic axis leave no room for that.
    """
    if panel.zoom is not None or panel.limits is not None or units in panel.limits_of or panel.log:
        return False
    return panel.from_zero if panel.from_zero is not None else True if units in _FROM_ZERO else None


def ends(values: Sequence[Values], panel: PanelSpec, units: str) -> tuple[float, float]:
    """The ends of the axis of a panel's values, which are in these units."""
    if (limits := panel.limits_of.get(units, panel.limits)) is not None:
        return limits
    known = np.concatenate([array[np.isfinite(array)] for array in values]) if values else np.array([])
    if panel.log:
        known = known[known > 0]
    if not len(known):
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    zoomed = _zoomed(known, panel.zoom) if panel.zoom is not None else None
    if zoomed is not None:
        return zoomed
    if panel.log:
        return low / _HEADROOM, high * _HEADROOM
    from_zero = begins_at_zero(panel, units)
    from_zero = 0 <= low < high / 2 if from_zero is None else from_zero
    room = (high - low) * (_HEADROOM - 1) or abs(high) * 0.1 or 1.0
    return (0.0 if from_zero and low >= 0 else low - room), high + room


def _zoomed(known: Values, percentiles: tuple[float, float]) -> tuple[float, float] | None:
    low, high = (float(end) for end in np.percentile(known, percentiles))
    if not low < high or np.ptp(known) <= _WORTH_ZOOMING * (high - low):
        return None
    room = (high - low) * _ROOM
    return low - room, high + room


def beyond(values: Values, axis: tuple[float, float]) -> int:
    """How many values are outside of an axis."""
    known = values[np.isfinite(values)]
    return int(((known < axis[0]) | (known > axis[1])).sum())

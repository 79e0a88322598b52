"""Reducers: one number of a recording's series. Plots name them in their files; Flent's names are understood."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from whydrop.errors import Error
from whydrop.recording.comparing.metadata_difference import value_of
from whydrop.recording.statistics.describing import jain

if TYPE_CHECKING:
    from whydrop.recording.metrics.load import Window
    from whydrop.recording.recording import Recording

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Reduction:
    """The input of a reducer: the values, without those that are missing, and where they come from."""

    values: Values
    times_s: Values | None = None
    step_s: float = 0.2
    recording: Recording | None = None
    series: str = ""
    flow: int | None = None
    load: Window | None = None
    lost: int = 0  # probes without a value


class UnknownReducer(Error, ValueError):  # noqa: N818 (reads as a sentence)
    """There is no reducer of this name."""


def _total(of: Reduction) -> float:
    """The values times the time that each stands for: of a rate in Mbit/s, the amount in Mbit."""
    if of.times_s is None or len(of.values) < 2:
        return float(of.values.sum() * of.step_s)
    lasted = np.diff(of.times_s, append=of.times_s[-1] + float(np.median(np.diff(of.times_s))))
    # What was not measured is not counted.
    return float((of.values * np.minimum(lasted, 5 * max(of.step_s, float(np.median(lasted))))).sum())


def _mean_with_zeros(of: Reduction) -> float:
    if of.times_s is None or not len(of.times_s):
        return float(of.values.mean())
    steps = max(len(of.values), round(float(of.times_s[-1] - of.times_s[0]) / of.step_s) + 1)
    return float(of.values.sum() / steps)


def _loss(of: Reduction) -> float | None:
    every = len(of.values) + of.lost
    return 100 * of.lost / every if every else None


def _mos(of: Reduction) -> float | None:
    if of.recording is None:
        return None
    from whydrop.recording.metrics import speech

    found = speech.of_series(of.recording, of.series, of.load)
    return None if found is None else found.mos


def _fairness(of: Reduction) -> float | None:
    """Jain's index of the values themselves; of a series that is an index already, its mean."""
    return float(of.values.mean()) if "fairness" in of.series.lower() else jain(of.values)


# Each takes values that are not empty.
REDUCERS: dict[str, Callable[[Reduction], float | None]] = {
    "mean": lambda of: float(of.values.mean()),
    "median": lambda of: float(np.median(of.values)),
    "min": lambda of: float(of.values.min()),
    "max": lambda of: float(of.values.max()),
    "std": lambda of: float(of.values.std()),
    "var": lambda of: float(of.values.var()),
    "pct95": lambda of: float(np.percentile(of.values, 95)),
    "pct99": lambda of: float(np.percentile(of.values, 99)),
    "span": lambda of: float(np.ptp(of.values)),
    "mean-span": lambda of: float(of.values.mean() - of.values.min()),
    "mean-zero": _mean_with_zeros,
    "cumsum": _total,
    "fairness": _fairness,
    "fairness-mean": _fairness,
    "loss": _loss,
    "seq-loss": _loss,
    "mos": _mos,
}


def reduce(name: str, of: Reduction) -> float | None:
    """The number, or ``None`` where there is none; ``meta:KEY`` is a value of the metadata or of the flow's facts.

    Raises:
        UnknownReducer: no reducer has this name.
    """
    if name.startswith("meta:"):
        return _from_metadata(name.removeprefix("meta:"), of)
    plain = normalised(name)
    if plain in ("loss", "seq-loss", "mos"):
        return REDUCERS[plain](of)
    return REDUCERS[plain](of) if len(of.values) else None


def normalised(name: str) -> str:
    """Our spelling of a reducer's name: Flent's ``raw_`` is what ours do anyway, and underscores are hyphens.

    Raises:
        UnknownReducer: no reducer has this name; the message names the nearest.
    """
    plain = name.replace("_", "-").removeprefix("raw-")
    if plain not in REDUCERS:
        near = difflib.get_close_matches(plain, REDUCERS, n=1)
        meant = f" (did you mean {near[0]!r}?)" if near else ""
        raise UnknownReducer(f"no reducer {name!r}{meant}; there are {', '.join(REDUCERS)} and meta:KEY")
    return plain


def _from_metadata(key: str, of: Reduction) -> float | None:
    if of.recording is None:
        return None
    value = value_of(of.recording.metadata, key)
    if value is None and of.flow is not None:
        from whydrop.recording import document

        flows = of.recording.table("flows").filter(flow=of.flow)
        facts = flows["facts"][0] if flows.height else None
        value = value_of(document.json_object(facts), key)
    try:
        return None if value is None else float(value)
    except (ValueError, TypeError, OverflowError):
        return None

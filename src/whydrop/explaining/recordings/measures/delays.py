"""How much longer packets take while there is load than while there is none, and how the delay is distributed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from whydrop.explaining.recordings import likelihood
from whydrop.explaining.recordings.measures.series import Stream, Times, Values
from whydrop.explaining.recordings.measures.spans import Spans
from whydrop.explaining.recordings.thresholds import FEWEST_SAMPLES, HIGH_QUANTILE, LOW_QUANTILE
from whydrop.recording.statistics import resampling
from whydrop.recording.statistics.differences import Estimate, mean, resampled
from whydrop.recording.statistics.distributions import student_quantile

# A stream with samples in less of the load than this fell silent, and is no measure of it (as in statistics.metrics).
_COVERED = 0.5
# Blocks of time of which a stream must have samples.
_BLOCKS = 20


@dataclass(frozen=True)
class Shift:
    """A difference with its standard error, the degrees of freedom of that, and its 95 % interval.

    ``least`` and ``most`` bound the interval by what was seen: of few independent samples it would have no end.
    """

    value: float
    error: float
    freedom: float
    least: float = -math.inf
    most: float = math.inf

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return max(min(self.value, self.least), self.value - self._half)

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return min(max(self.value, self.most), self.value + self._half)

    @property
    def _half(self) -> float:
        return student_quantile(0.975, max(1.0, self.freedom)) * self.error


@dataclass(frozen=True)
class Delay:
    """How long packets take under load, in one direction (``both``: the round trip), over all streams; seconds.

    Attributes:
        base: median without load, mean over the streams.
        induced: median under load, less that without.
        low_s, high_s: quantiles of the delay under load above the base.
        peak_s: the highest that two probes in a row met, settling included; above the base.
        after_s: the highest step in the steady load.
        steps_s: mean of each step of the steady load above the base; NaN without samples.
        idle_steps_s: the same of the steps without load that have samples.
        samples, idle_samples: with and without load.
        growth_nats: where the flows' own round trips show the delay, and no probes: for it to grow with their windows.
    """

    way: str
    base: Shift
    induced: Shift
    low_s: float
    high_s: float
    peak_s: float
    after_s: float
    steps_s: Values
    idle_steps_s: Values
    samples: int
    idle_samples: int
    growth_nats: float | None = None

    @property
    def base_s(self) -> float:
        """The median without load."""
        return self.base.value

    @property
    def by(self) -> str:
        """The witnesses: ``probes`` or ``flows``."""
        return "probes" if self.growth_nats is None else "flows"

    @cached_property
    def nats(self) -> float:
        """For a wait at all, against the same delay with and without load."""
        return self.nats_beyond(0.0)

    def nats_beyond(self, floor_s: float) -> float:
        """For a wait of more than ``floor_s``."""
        if self.growth_nats is not None:
            return self.growth_nats
        return likelihood.of_higher(self.idle_steps_s, self.steps_s, floor_s)

    def share_above(self, floor_s: float) -> float:
        """The share of the steady load in which more than this was waited."""
        known = self.steps_s[np.isfinite(self.steps_s)]
        return float((known > floor_s).mean()) if len(known) else 0.0


def measure(streams: Sequence[Stream], spans: Spans, way: str) -> Delay | None:
    """The delay in one direction; ``None`` where there are too few samples with or without load."""
    known = [(stream, np.isfinite(stream.delays_s[way])) for stream in streams]
    usable = [
        (stream.times_ns[kept], stream.delays_s[way][kept])
        for stream, kept in known
        if spans.idle(stream.times_ns[kept]).sum() >= FEWEST_SAMPLES
        and spans.loaded(stream.times_ns[kept]).sum() >= FEWEST_SAMPLES
        and _covers(spans, stream, kept)
    ]
    if not usable:
        return None
    bases = [float(np.median(delays[spans.idle(times)])) for times, delays in usable]
    parts = [(times, delays - base) for (times, delays), base in zip(usable, bases, strict=True)]
    idle = np.concatenate([above[spans.idle(times)] for times, above in parts])
    loaded = np.concatenate([above[spans.loaded(times)] for times, above in parts])
    steps = mean_over([spans.means(times, above) for times, above in parts])
    random = np.random.default_rng(resampling.SEED)
    during = _median(steps, random)
    idle_steps = _in_turn(parts, spans)
    before = _median(idle_steps, random)
    return Delay(
        way,
        Shift(float(np.mean(bases)), before.error if math.isfinite(before.error) else 0.0, max(1.0, before.freedom)),
        _within(difference(before, during, float(np.median(loaded) - np.median(idle))), steps),
        float(np.quantile(loaded, LOW_QUANTILE)),
        float(np.quantile(loaded, HIGH_QUANTILE)),
        _peak(parts, spans),
        float(np.nanmax(steps)),
        steps,
        idle_steps,
        len(loaded),
        len(idle),
    )


def _covers(spans: Spans, stream: Stream, kept: NDArray[np.bool_]) -> bool:
    """True if a stream was answered all through the load."""
    times = stream.times_ns[kept]
    times = times[spans.loaded(times)]
    blocks = (times - spans.steady_ns) * _BLOCKS // max(1, spans.end_ns - spans.steady_ns)
    return len(np.unique(blocks)) >= _COVERED * _BLOCKS


def mean_over(rows: Sequence[Values]) -> Values:
    """The mean over streams, or flows, at each step; NaN where none has a sample."""
    stacked = np.vstack(rows)
    counts = np.isfinite(stacked).sum(axis=0)
    sums = np.nansum(stacked, axis=0)
    return np.asarray(np.where(counts > 0, sums / np.maximum(counts, 1), np.nan))


def _in_turn(parts: Sequence[tuple[Times, Values]], spans: Spans) -> Values:
    """Idle samples in steps: the mean over the streams of each, in order of time."""
    steps: dict[int, list[float]] = {}
    for times, above in parts:
        idle = spans.idle(times)
        for number, value in zip((times[idle] // spans.step_ns).tolist(), above[idle].tolist(), strict=True):
            steps.setdefault(number, []).append(value)
    return np.array([float(np.mean(steps[number])) for number in sorted(steps)])


def _median(values: Values, random: np.random.Generator) -> Estimate:
    """The median of an autocorrelated series, with its error."""
    known = values[np.isfinite(values)]
    order = np.argsort(known)
    ordered = known[order]

    def statistic(times: Values) -> Values:
        reached = np.cumsum(times[:, order], axis=1)
        return np.asarray(ordered[np.argmax(reached >= 0.5 * reached[:, -1:], axis=1)])

    return resampled(statistic, known, random)


def difference(before: Estimate, during: Estimate, value: float | None = None) -> Shift:
    """The second less the first, with Welch and Satterthwaite's degrees of freedom, at least one."""
    variances = [one.error**2 if np.isfinite(one.error) else 0.0 for one in (before, during)]
    error = float(np.sqrt(sum(variances)))
    freedom = 1.0
    if error > 0:
        parts = sum(
            variance**2 / max(1.0, one.freedom) for variance, one in zip(variances, (before, during), strict=True)
        )
        freedom = max(1.0, error**4 / parts)
    return Shift(during.value - before.value if value is None else value, error, freedom)


def _within(shift: Shift, steps: Values) -> Shift:
    """Its interval bounded by the values seen under load."""
    return replace(shift, least=float(np.nanmin(steps)), most=float(np.nanmax(steps)))


def mean_of(values: Values) -> Shift:
    """The mean of an autocorrelated series with gaps."""
    known = values[np.isfinite(values)]
    if not len(known):
        return Shift(math.nan, 0.0, 1.0)

    found = mean(known)
    error = found.error if np.isfinite(found.error) else 0.0
    return Shift(found.value, error, max(1.0, found.freedom), float(known.min()), float(known.max()))


def _peak(parts: Sequence[tuple[Times, Values]], spans: Spans) -> float:
    """The highest that two probes in a row both met, of whatever streams: one late packet is no queue."""
    times = np.concatenate([times for times, _ in parts])
    above = np.concatenate([above for _, above in parts])
    loaded = (times >= spans.start_ns) & (times < spans.end_ns)
    above = above[loaded][np.argsort(times[loaded], kind="stable")]
    return float(np.minimum(above[1:], above[:-1]).max()) if len(above) > 1 else 0.0

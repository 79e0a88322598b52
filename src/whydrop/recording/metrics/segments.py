"""Where on a path delay and loss arise: between this host and its access point, or beyond it.

Both the access point and a far end are probed at the same times from one host (:mod:`whydrop.measure.segments`). What
the load adds to the round trip to the access point arose before it; what it adds to the difference of two round trips
that began together arose beyond it. The two add up to what it adds to the whole.

The intervals (95 %) say how well the probes sample this run, not how runs differ. Their variance is estimated by
successive differences, as for systematic samples of a process that changes slowly (K. Wolter, "Introduction to Variance
Estimation", 2007, chapter 8).

An access point may answer late or seldom although it forwards at once. Then its own lateness is no delay of the path:
it does not recur in the round trip to the far end, which is tested. Where the test says neither yes nor no, the answer
has a condition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.recording import access_point
from whydrop.recording.metrics.load import Window, window
from whydrop.recording.troubles import NOT_OF_PATH

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

Values = NDArray[np.float64]
Where = Literal["near", "beyond", "both", "none", "unknown"]

# Less than this does not matter, whatever its share of the whole: it is the best grade's bound of induced latency.
NEGLIGIBLE_MS = 5.0
NEGLIGIBLE_PERCENT = 0.5
# Nor does less than this share of the whole.
_NEGLIGIBLE_SHARE = 0.1
# With fewer pairs of probes under load nothing is said.
FEWEST_PAIRS = 50
_FEWEST_IDLE = 10
# The first answers wait for addresses to be resolved.
_SETTLING_NS = 500_000_000
# Probes that leave within this time of each other meet the same queue before the access point.
_TOGETHER_NS = 25_000_000
# Means of so many pairs follow the queue and not the noise of single answers.
_PAIRS_PER_MEAN = 5
# One-sided, 1 %.
_SIGNIFICANT_SIGMAS = 2.33
# Where the load pauses, its steps move everything at once: changes so many times as large as usual are left out.
_STEP = 3.0
_AS_IDLE = 0.1
# After the load the queues have emptied by then.
_EMPTIED_NS = 2_000_000_000


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Segment:
    """One segment, or the whole path.

    Attributes:
        idle_ms: mean round-trip time before the load; beyond the access point the difference of two.
        loaded_ms: the same under load.
        added_ms: by the load.
        lost_percent: of all probes of the test; beyond the access point the difference of two shares.
    """

    idle_ms: float
    loaded_ms: float
    added_ms: Interval
    lost_percent: Interval


@dataclass(frozen=True)
class Segments:
    """Both segments of the path to a far end.

    Attributes:
        access_point, far_end: the hosts.
        is_next_hop: true where the route goes by the access point; ``None`` where that is not known.
        pairs: of probes that both were answered under load.
        near, beyond, whole: ``None`` where too little was measured.
        delay, loss: where it arises.
        delay_reason, loss_reason: why that is unknown, or on what condition it is true.
    """

    access_point: str
    far_end: str
    is_next_hop: bool | None
    pairs: int
    near: Segment | None = None
    beyond: Segment | None = None
    whole: Segment | None = None
    delay: Where = "unknown"
    delay_reason: str = ""
    loss: Where = "unknown"
    loss_reason: str = ""


def segments(recording: Recording) -> list[Segments]:
    """Of each far end of a test that probed its access point; none of other recordings."""
    planned = access_point.planned(recording)
    if planned is None:
        return []
    near, span = planned["near"], window(recording)
    is_next_hop = planned.get("is_next_hop")
    found = []
    for far in planned["far"]:
        said = (str(near["host"]), str(far["host"]), is_next_hop if isinstance(is_next_hop, bool) else None)
        if span is None:
            found.append(_unknown(said, 0, "nothing made load"))
            continue
        ours, theirs = (_probes(recording, str(one["probe"])) for one in (near, far))
        found.append(_of(said, ours, theirs, span))
    return found


def _probes(recording: Recording, name: str) -> pl.DataFrame:
    """Time, round trip and one-way delays (ms, null if lost or unknown) of each probe of a stream that left."""
    flows = recording.table("flows").filter(pl.col("name") == name)["flow"]
    rows = recording.table("probes").filter(pl.col("flow").is_in(flows.to_list()))
    rows = rows.filter(pl.col("fate").is_not_null() & ~pl.col("fate").is_in(NOT_OF_PATH))
    lost = pl.col("fate").str.starts_with("lost")
    return (
        rows.select(
            at=pl.coalesce("sent_ns", "scheduled_ns"),
            rtt=pl.when(~lost).then(pl.col("rtt_ns") / 1e6),
            up=pl.col("up_ns") / 1e6,
            down=pl.col("down_ns") / 1e6,
            lost=lost.cast(pl.Float64),
        )
        .filter(pl.col("at").is_not_null() & (pl.col("rtt").is_not_null() | (pl.col("lost") == 1)))
        .sort("at")
    )


def _of(said: tuple[str, str, bool | None], near: pl.DataFrame, far: pl.DataFrame, span: Window) -> Segments:
    if near.is_empty() or near["rtt"].null_count() == near.height:
        return _unknown(said, 0, f"{said[0]} answered no echo request")
    if far.is_empty() or far["rtt"].null_count() == far.height:
        return _unknown(said, 0, f"{said[1]} answered no probe")
    pairs = near.join_asof(far, on="at", strategy="nearest", tolerance=_TOGETHER_NS, suffix="_far")
    pairs = pairs.drop_nulls("lost_far").filter(pl.col("at") >= pl.col("at").min() + _SETTLING_NS)
    loaded = pairs.filter(pl.col("at").is_between(span.start_ns, span.end_ns, closed="left"))
    idle = pairs.filter((pl.col("at") < span.start_ns) | (pl.col("at") > span.end_ns + _EMPTIED_NS))
    idle, both = (some.drop_nulls(["rtt", "rtt_far"]) for some in (idle, loaded))
    if both.height < FEWEST_PAIRS:
        return _unknown(said, both.height, _too_few(said, loaded))
    if idle.height < _FEWEST_IDLE:
        return _unknown(said, both.height, "the test has no idle time to compare with (`--set delay=5s`)")
    return _located(said, _measured(idle, both, pairs), pairs)


def _too_few(said: tuple[str, str, bool | None], loaded: pl.DataFrame) -> str:
    near, far = (loaded.height - loaded[name].null_count() for name in ("rtt", "rtt_far"))
    host, answered = (said[0], near) if near <= far else (said[1], far)
    if answered >= FEWEST_PAIRS or loaded.height < FEWEST_PAIRS:
        return f"only {min(near, far)} pairs of probes were answered under load"
    return f"{host} answered {answered} of {loaded.height} probes under load"


def _unknown(said: tuple[str, str, bool | None], pairs: int, reason: str) -> Segments:
    return Segments(*said, pairs, delay_reason=reason, loss_reason=reason)


@dataclass(frozen=True)
class _Measured:
    near: Segment
    beyond: Segment
    whole: Segment
    pairs: int
    slopes: tuple[Interval, ...]


def _columns(pairs: pl.DataFrame) -> tuple[Values, Values]:
    return pairs["rtt"].to_numpy().astype(float), pairs["rtt_far"].to_numpy().astype(float)


def _measured(idle: pl.DataFrame, loaded: pl.DataFrame, pairs: pl.DataFrame) -> _Measured:
    (near, whole), (idle_near, idle_whole) = _columns(loaded), _columns(idle)
    lost, lost_whole = (pairs[name].to_numpy().astype(float) for name in ("lost", "lost_far"))
    return _Measured(
        _segment(idle_near, near, lost),
        _segment(idle_whole - idle_near, whole - near, lost_whole - lost),
        _segment(idle_whole, whole, lost_whole),
        loaded.height,
        tuple(_slopes(loaded, comes_and_goes=_comes_and_goes(idle_whole, whole))),
    )


def _comes_and_goes(idle: Values, loaded: Values) -> bool:
    """True if the load pauses, as of square waves and tests of several phases: round trips are then often idle ones."""
    added = loaded - idle.mean()
    return float((added < _AS_IDLE * added.mean()).mean()) > _AS_IDLE


def _slopes(loaded: pl.DataFrame, *, comes_and_goes: bool) -> Iterator[Interval]:
    """How much of the changes to the access point recurs farther on, where queues of one direction are met together.

    Those from this host are met by probes that leave together, those towards it by probes that come back together.
    Round trips alone do not do where queues of both directions fill: while a window stays, one shrinks as the other
    grows.
    """
    back = _back_together(loaded)
    for pairs, columns in ((loaded, ("rtt_far", "up_far")), (back, ("rtt_far", "down_far"))):
        for column in columns:
            known = pairs.drop_nulls(["rtt", column])
            if known.height >= FEWEST_PAIRS:
                near, farther = (known[name].to_numpy().astype(float) for name in ("rtt", column))
                yield _slope(near, farther, without_steps=comes_and_goes)


def _back_together(loaded: pl.DataFrame) -> pl.DataFrame:
    """The round trips paired by when their answers came."""
    near, far = (
        loaded.select((pl.col("at") + (pl.col(rtt) * 1e6).cast(pl.Int64)).alias("at"), rtt, *others).sort("at")
        for rtt, others in (("rtt", ()), ("rtt_far", ("down_far",)))
    )
    return near.join_asof(far, on="at", strategy="nearest", tolerance=_TOGETHER_NS)


def _segment(idle: Values, loaded: Values, lost: Values) -> Segment:
    before, under = _mean(idle), _mean(loaded)
    value = under.value - before.value
    half = math.hypot(under.high - under.value, before.high - before.value)
    return Segment(before.value, under.value, Interval(value, value - half, value + half), _share(lost))


def _mean(values: Values) -> Interval:
    """The mean of a systematic sample, its variance by successive differences."""
    value = float(values.mean())
    if len(values) < 2:
        return Interval(value, -math.inf, math.inf)
    variance = float((np.diff(values) ** 2).sum()) / (2 * (len(values) - 1)) / len(values)
    half = 1.96 * math.sqrt(variance)
    return Interval(value, value - half, value + half)


def _share(lost: Values) -> Interval:
    """The mean of ones and zeros, or of their differences, in %; never more certain than by the rule of three."""
    found, least = _mean(100.0 * lost), 300.0 / len(lost)
    half = max(found.high - found.value, least if not lost.any() else least / 2)
    return Interval(found.value, found.value - half, found.value + half)


def _slope(near: Values, whole: Values, *, without_steps: bool) -> Interval:
    """How much of a change of the round trip to the access point recurs in that to the far end: 1 if it is the path's.

    By least squares over the changes from one mean of some pairs to the next.
    """
    count = len(near) // _PAIRS_PER_MEAN
    used = slice(0, count * _PAIRS_PER_MEAN)
    changes = [np.diff(values[used].reshape(count, _PAIRS_PER_MEAN).mean(axis=1)) for values in (near, whole)]
    x, y = changes
    if without_steps and len(x):
        usual = np.abs(x) <= _STEP * np.median(np.abs(x))
        x, y = x[usual], y[usual]
    power = float(x @ x)
    if len(x) < 3 or power <= 0:
        return Interval(math.nan, -math.inf, math.inf)
    value = float(x @ y) / power
    half = 2.0 * math.sqrt(float(((y - value * x) ** 2).sum()) / (len(x) - 1) / power)
    return Interval(value, value - half, value + half)


# --- where ---


def _located(said: tuple[str, str, bool | None], found: _Measured, pairs: pl.DataFrame) -> Segments:
    delay, delay_reason = _where_delay(found, said[0])
    loss, loss_reason = _where_loss(found, pairs, said[0])
    return Segments(*said, found.pairs, found.near, found.beyond, found.whole, delay, delay_reason, loss, loss_reason)


def _where_delay(found: _Measured, near_host: str) -> tuple[Where, str]:
    whole = found.whole.added_ms
    least = max(NEGLIGIBLE_MS, _NEGLIGIBLE_SHARE * whole.value)
    if whole.high < least:
        return "none", ""
    if whole.low <= least:
        return "unknown", f"the added delay is too close to {NEGLIGIBLE_MS:g} ms"
    if found.beyond.added_ms.low < -least:
        return "unknown", f"{near_host} is slow to answer pings; its forwarding may be fine"
    near, beyond = (_adds(one.added_ms, least) for one in (found.near, found.beyond))
    recurs = any(slope.low > 0.5 and slope.high < 1.5 for slope in found.slopes)
    refuted = all(slope.high < 0.5 or slope.low > 1.5 for slope in found.slopes)
    if near is False and beyond:
        return "beyond", ""
    if near and beyond is False and not refuted:
        return "near", "" if recurs else f"unless {near_host} is as slow to answer pings as the path beyond it"
    if near and beyond and recurs:
        return "both", ""
    if near and not recurs:
        return "unknown", f"pings to {near_host} are delayed at other times than those to the far end"
    return "unknown", "the share of one segment is too close to what counts as nothing"


def _adds(added: Interval, least: float) -> bool | None:
    return True if added.low > least else False if added.high < least else None


def _where_loss(found: _Measured, pairs: pl.DataFrame, near_host: str) -> tuple[Where, str]:
    near, beyond, whole = (one.lost_percent for one in (found.near, found.beyond, found.whole))
    if whole.high < NEGLIGIBLE_PERCENT or not pairs["lost_far"].sum():
        return "none", ""
    if whole.low <= NEGLIGIBLE_PERCENT:
        return "unknown", "too few probes were lost"
    if beyond.high < 0:
        return "unknown", f"{near_host} drops pings to itself but forwards others"
    in_near, in_beyond = _adds(near, NEGLIGIBLE_PERCENT), _adds(beyond, NEGLIGIBLE_PERCENT)
    together = _lost_together(pairs)
    if in_near and in_beyond:
        # Losses at random on both sides look like those of a host that limits its answers.
        return ("both", "") if together else ("unknown", f"{near_host} may drop pings to itself")
    # Where losses are few, one share is known to be the larger long before the other is known to be none.
    more = _share(2 * pairs["lost"].to_numpy() - pairs["lost_far"].to_numpy())
    if in_near and more.low > 0:
        return "near", "" if together else f"unless {near_host} drops pings to itself"
    if in_beyond and more.high < 0:
        return "beyond", ""
    return "unknown", "too few probes were lost to compare the segments"


def _lost_together(pairs: pl.DataFrame) -> bool:
    """True if probes that left together were lost together more often than by chance, within each second.

    Seconds are strata (N. Mantel and W. Haenszel, 1959): that two causes of loss come and go with the load is no
    reason.
    """
    strata = pairs.group_by(pl.col("at") // 1_000_000_000).agg(
        n=pl.len().cast(pl.Float64),
        near=pl.col("lost").sum(),
        far=pl.col("lost_far").sum(),
        both=(pl.col("lost") * pl.col("lost_far")).sum(),
    )
    n, near, far, both = (strata[name].to_numpy() for name in ("n", "near", "far", "both"))
    known = n > 1
    n, near, far, both = n[known], near[known], far[known], both[known]
    variance = float((near * (n - near) * far * (n - far) / (n**2 * (n - 1))).sum())
    return variance > 0 and float((both - near * far / n).sum()) > _SIGNIFICANT_SIGMAS * math.sqrt(variance)

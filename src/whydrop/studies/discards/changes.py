"""Did the switch's own discards change? DISCARD_CHANGES, computed from DISCARD_RATIO.

Days are the units: within a day discards come in bursts. Days are not independent either, since a busy week is busy on
all its days: the autocorrelation of both periods' days gives the effective number of independent ones. Weekdays are
matched, as weekends are quiet: each period has as many Mondays as the other.

The test is of ranks, because discards are heavy-tailed and many days have none; the ratio of sums is the size of the
change.

Weeks may differ by more than the autocorrelation of days explains: levels last for weeks, and change without a change
of configuration. Where there is history, windows of it as long as the periods show that variation, as placebos do for
speeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.recording.statistics.differences import holm
from whydrop.studies.days import LEAST_DAYS, dependence, effective, effective_for_variance, weekends, without_weekends
from whydrop.studies.discards import results

if TYPE_CHECKING:
    from whydrop.studies.discards.parameters import Days, Parameters

Values = NDArray[np.float64]
# Of DISCARD_CHANGES, without the columns that are null, and ``rank_shift``: by how much days rank higher afterwards.
Row = dict[str, Any]

CONFIDENCE = 0.95
# With fewer windows on a side their variation without a change is unknown.
_LEAST_WINDOWS = 3
# Days so far around the periods show the autocorrelation.
_HALF_A_YEAR = 182
# An interval that spans a factor of e^20 carries no information.
_MOST_UNSURE = 10.0


@dataclass(frozen=True)
class Period:
    """Days of one site, in order of time, each with packets.

    Attributes:
        day: proleptic ordinals.
    """

    day: NDArray[np.int64]
    discards: Values
    packets: Values

    @property
    def ratios(self) -> Values:
        """Discards to packets of each day."""
        return np.asarray(self.discards / self.packets)

    @property
    def weekends(self) -> NDArray[np.bool_]:
        """Which days are Saturdays or Sundays."""
        return weekends(self.day)

    def only(self, which: NDArray[np.bool_]) -> Period:
        """Some of the days."""
        return Period(self.day[which], self.discards[which], self.packets[which])

    def within(self, first: int, last: int) -> Period:
        """The days from ``first`` to ``last``, ordinals."""
        return self.only((self.day >= first) & (self.day <= last))


@dataclass(frozen=True)
class SiteDays:
    """All days of one site, and the change's two periods."""

    days: Period
    first: Days
    second: Days

    @property
    def before(self) -> Period:
        """The days before the change that are compared."""
        return self.days.within(self.first.first.toordinal(), self.first.last.toordinal())

    @property
    def after(self) -> Period:
        """The days after the change that are compared."""
        return self.days.within(self.second.first.toordinal(), self.second.last.toordinal())

    def sides(self) -> tuple[list[Period], list[Period]]:
        """Each period, and windows of its length before the one and after the other, within half a year."""
        earlier = self._beyond(self.first.first.toordinal(), self.first.length, -1)
        later = self._beyond(self.second.last.toordinal(), self.second.length, 1)
        return [self.before, *earlier], [self.after, *later]

    def _beyond(self, start: int, length: int, step: int) -> list[Period]:
        found = []
        for number in range(_HALF_A_YEAR // length):
            near = start + step * (1 + number * length)
            far = near + step * (length - 1)
            found.append(self.days.within(min(near, far), max(near, far)))
        return found


@dataclass(frozen=True)
class Drift:
    """The variation of a site's periods without a change.

    Attributes:
        share: variance of a period's mean in excess of what dependent days explain, relative to that of a day.
        freedom: degrees of freedom of that estimate.
    """

    share: float = 0.0
    freedom: int = 0


def discard_changes(discard_ratio: pl.DataFrame, parameters: Parameters) -> pl.DataFrame:
    """A row of DISCARD_CHANGES for each site of DISCARD_RATIO that has days with packets in either period.

    Sites of the change's metros are one family of tests, the others, where nothing was changed, another: findings there
    are the rate of false alarms.
    """
    change = parameters.change
    if change is None or discard_ratio.is_empty():
        return pl.DataFrame(schema=results.DISCARD_CHANGES)
    rows: list[Row] = []
    usable = discard_ratio.filter((pl.col("packets") > 0) & pl.col("discards").is_not_null())
    for (metro, site), days in usable.sort("metro", "site", "day").group_by(("metro", "site"), maintain_order=True):
        site_days = SiteDays(_period(days), change.before, change.after)
        if len(site_days.before.day) or len(site_days.after.day):
            rows.append({"metro": metro, "site": site, **compared(site_days)})
    for changed in (True, False):
        family = [row for row in rows if (not change.metros or row["metro"] in change.metros) == changed]
        for row, p in zip(family, holm([row.get("p") for row in family]), strict=True):
            row["adjusted_p"] = p
            row["conclusion"] = _conclusion(row, change.significance)
    return pl.DataFrame(rows, schema=results.DISCARD_CHANGES, strict=False)


def _period(days: pl.DataFrame) -> Period:
    """All rows of a site; several of one day (several machines, as published) are added up."""
    days = days.group_by("day").agg(pl.col("discards").sum(), pl.col("packets").sum()).sort("day")
    ordinals = [date.fromisoformat(day).toordinal() for day in days["day"]]
    return Period(np.array(ordinals, dtype=np.int64), days["discards"].to_numpy(), days["packets"].to_numpy())


def compared(site_days: SiteDays) -> Row:
    """Compare the discards of one site, with the test of no change; not adjusted and without a conclusion."""
    before, after = matched(site_days.before, site_days.after)
    enough = min(len(before.day), len(after.day)) >= LEAST_DAYS
    if not enough:
        # Too few for a test: all days are shown then, whatever their weekdays.
        before, after = site_days.before, site_days.after
    row: Row = {"days_before": len(before.day), "days_after": len(after.day)}
    if not row["days_before"] or not row["days_after"]:
        return row
    row["ratio_before"], row["ratio_after"] = (float(one.discards.sum() / one.packets.sum()) for one in (before, after))
    ratio = row["ratio_after"] / row["ratio_before"] if row["ratio_before"] > 0 else math.nan
    row["ratio"] = ratio if math.isfinite(ratio) else None
    if not enough:
        return row
    sides = site_days.sides()
    autocorrelation = dependence([(window.day, window.ratios) for side in sides for window in side])
    own = drift(sides, autocorrelation)
    if row["ratio"] is not None:
        row["ratio_low"], row["ratio_high"] = _interval(before, after, ratio, autocorrelation, own)
    row["p"] = step_p(before, after, autocorrelation, own)
    row["rank_shift"] = rank_shift(before, after)
    return row


def matched(before: Period, after: Period) -> tuple[Period, Period]:
    """Both periods with as many days of each weekday, those nearest to the change."""
    keep_before, keep_after = np.zeros(len(before.day), dtype=bool), np.zeros(len(after.day), dtype=bool)
    for weekday in range(7):
        ones, others = np.flatnonzero(before.day % 7 == weekday), np.flatnonzero(after.day % 7 == weekday)
        count = min(len(ones), len(others))
        keep_before[ones[len(ones) - count :]] = True
        keep_after[others[:count]] = True
    return before.only(keep_before), after.only(keep_after)


def rank_shift(before: Period, after: Period) -> float:
    """The mean rank of the days after, less that of the days before, among all of them."""
    from scipy import stats

    ranks = stats.rankdata(np.concatenate([before.ratios, after.ratios]))
    return float(ranks[len(before.day) :].mean() - ranks[: len(before.day)].mean())


def step_p(before: Period, after: Period, autocorrelation: float, own: Drift = Drift()) -> float | None:
    """The p-value of no change between two periods of days, two-sided; none if it is unknown.

    Daily ratios are ranked among the days of both periods. The difference of the two mean ranks is compared with
    Student's t. With a lag-1 autocorrelation, the effective number of independent days is smaller, and differs between
    a mean and a variance (G. V. Bayley and J. M. Hammersley, "The 'Effective' Number of Independent Observations in an
    Autocorrelated Time Series", Supplement to J. R. Stat. Soc. 8, 1946): the first sets the error, the second the
    degrees of freedom. The variation of periods without a change is added (Satterthwaite).
    """
    from scipy import stats

    ranks = stats.rankdata(np.concatenate([before.ratios, after.ratios]))
    if not np.ptp(ranks):
        return 1.0
    # One variance for both, as under no change: a period without any discard has none of its own, and the difference
    # would look more certain than it is.
    means, of_a_day, counts = _means([before, after], ranks, autocorrelation)
    # Two means and the mean of weekends are estimated from the same days.
    freedom = sum(effective_for_variance(period.day, autocorrelation) for period in (before, after)) - 3
    if freedom < 1 or of_a_day is None:
        return None
    by_chance, by_itself = of_a_day * sum(1 / count for count in counts), of_a_day * 2 * own.share
    if by_itself > 0:
        freedom = (by_chance + by_itself) ** 2 / (by_chance**2 / freedom + by_itself**2 / own.freedom)
    return float(2 * stats.t.sf(abs(means[1] - means[0]) / math.sqrt(by_chance + by_itself), freedom))


def _means(periods: list[Period], ranks: Values, autocorrelation: float) -> tuple[Values, float | None, list[float]]:
    """Each period's mean rank, the variance of a day within periods, and each period's effective number of days.

    The variance about the mean of dependent days is too small, and corrected for that; ``None`` if nothing is left.
    """
    own = np.split(ranks, np.cumsum([len(period.day) for period in periods])[:-1])
    counts = [effective(period.day, autocorrelation) for period in periods]
    weekends = np.concatenate([period.weekends for period in periods])
    rest = np.concatenate([one - one.mean() for one in own])
    squares = float((without_weekends(rest, weekends) ** 2).sum())
    seen = sum(len(one) - len(one) / count for one, count in zip(own, counts, strict=True)) - 1
    means = np.array([one.mean() for one in own])
    return means, squares / seen if seen > 0 and squares > 0 else None, counts


def drift(sides: Iterable[list[Period]], autocorrelation: float) -> Drift:
    """The variation of windows on one side of the change in excess of that of days with this lag-1 autocorrelation.

    The variance of their mean ranks less its expectation: the moment estimate of a random effect, as
    `inference.own_change` has it of speeds; zero where there is too little history.
    """
    from scipy import stats

    beyond, freedom = 0.0, 0
    for side in sides:
        windows = [window for window in side if len(window.day) >= LEAST_DAYS]
        if len(windows) < _LEAST_WINDOWS:
            continue
        ranks = stats.rankdata(np.concatenate([window.ratios for window in windows]))
        means, of_a_day, counts = _means(windows, ranks, autocorrelation)
        if of_a_day is None:
            continue
        expected = float(np.mean([1 / count for count in counts]))
        beyond += (len(windows) - 1) * (float(means.var(ddof=1)) / of_a_day - expected)
        freedom += len(windows) - 1
    return Drift(max(0.0, beyond / freedom), freedom) if freedom else Drift()


def _interval(
    before: Period, after: Period, ratio: float, autocorrelation: float, own: Drift
) -> tuple[float | None, float | None]:
    """95 % interval of the ratio after / before, symmetric in the logarithm; ``None`` for too few days."""
    from scipy import stats

    if ratio <= 0:
        return None, None
    counts = [effective(period.day, autocorrelation) for period in (before, after)]
    if min(counts) <= 1:
        return None, None
    parts = [
        log_ratio_variance(period, count) * (1 + own.share * count)
        for period, count in zip((before, after), counts, strict=True)
    ]
    if sum(parts) <= 0:
        return None, None
    # Welch and Satterthwaite's degrees of freedom.
    freedom = sum(parts) ** 2 / sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * math.sqrt(sum(parts))
    return (ratio * math.exp(-half), ratio * math.exp(half)) if half < _MOST_UNSURE else (None, None)


def log_ratio_variance(period: Period, count: float) -> float:
    """The variance of the logarithm of sum of discards / sum of packets, of ``count`` effectively independent days.

    The larger of two: by linearisation (W. G. Cochran, "Sampling Techniques", 1977, section 6.8), which depends on the
    worst observed days only; and that of the mean of a log-normal distribution with the days' own spread (Cox's method:
    X.-H. Zhou and S. Gao, "Confidence intervals for the log-normal mean", Statistics in Medicine 16, 1997), which
    allows for days worse than any observed.
    """
    some = period.ratios > 0
    n, share = len(period.day), float(some.mean())
    seen = n - n / count
    linear = float((_influence(period) ** 2).sum()) / seen / count
    logarithms = np.log(period.ratios[some])
    spread = float(((logarithms - logarithms.mean()) ** 2).sum()) / (seen * share)
    of_logarithms = spread / (count * share) + spread**2 / (2 * max(1.0, count * share - 1))
    return max(linear, of_logarithms + (1 - share) / (share * count))


def _influence(period: Period) -> Values:
    """How much each day moves the logarithm of the period's ratio, times the number of days."""
    ratio = period.discards.sum() / period.packets.sum()
    return np.asarray((period.discards - ratio * period.packets) / (ratio * period.packets.mean()))


def _conclusion(row: Row, significance: float) -> str:
    if not row["days_before"] or not row["days_after"]:
        return "no-data"
    if not row["ratio_before"] and not row["ratio_after"]:
        return "none-seen"
    if row["adjusted_p"] is None or row["adjusted_p"] >= significance:
        return "undecided"
    # From none at all there is no ratio: any is more.
    more = row["ratio"] is None or row["ratio"] > 1
    # One terrible day may make the sum larger although most days are better: no conclusion then.
    return "undecided" if more != (row["rank_shift"] > 0) else "more" if more else "fewer"

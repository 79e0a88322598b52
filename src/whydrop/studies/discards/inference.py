"""Did the clients' speeds change with the configuration? Figure 6's conclusions, drawn from CLIENT_SPEEDS.

Published: two samples of clients' speeds, one of each period, compared by the Kolmogorov-Smirnov test.
Corrected: the same clients are in both periods, so each is compared with itself. Their differences of log10 give the
median ratio, a test of no change (F. Wilcoxon, "Individual Comparisons by Ranking Methods", Biometrics Bulletin 1,
1945), and a test of equivalence (D. J. Schuirmann, "A comparison of the two one-sided tests procedure and the power
approach", J. Pharmacokinetics and Biopharmaceutics 15, 1987).

Clients are the units. An event that affects all clients of a site on the same days (a full transit link, a holiday)
looks like the change, however many clients there are. Placebos measure such variation: the same comparison between
pairs of periods before the change. A difference is attributed to the change only if it exceeds that variation.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.recording.statistics.differences import holm
from whydrop.studies.discards import results

if TYPE_CHECKING:
    from whydrop.studies.discards.parameters import Change, Parameters

Values = NDArray[np.float64]
# Of COMPARISONS, without the columns that are null.
Row = dict[str, Any]

STATISTICS = ("max", "mean")
CONFIDENCE = 0.95
POWER = 0.8
# Medians of resamples are drawn from their exact distribution: many cost little, and show the tails.
_RESAMPLES = 20_000
# The exact distribution of the Kolmogorov-Smirnov distance costs n x m; above this, the asymptotic one is as good.
_EXACT_PAIRS = 1_000_000
# With fewer placebos the variation without a change is unknown.
LEAST_PLACEBOS = 3
# Densities are estimated from all pairs of at most so many differences: 8 MB.
_MOST_FOR_DENSITY = 1000


@dataclass(frozen=True)
class _Sample:
    """Speeds of one site's clients, as log10 of bit/s, and the row that they make."""

    row: Row
    before: Values
    after: Values
    differences: Values  # of the clients that are in both periods, sorted


@dataclass(frozen=True)
class OwnChange:
    """The variation of a site's median between periods without a change.

    Attributes:
        spread: standard deviation of the logarithm (10) of the ratio, in excess of sampling error.
        freedom: degrees of freedom of that estimate.
    """

    spread: float
    freedom: float


def comparisons(
    client_speeds: pl.DataFrame, parameters: Parameters, placebos: pl.DataFrame | None = None
) -> pl.DataFrame:
    """A row of COMPARISONS for each site and statistic of CLIENT_SPEEDS.

    ``placebos``, rows of PLACEBO_COMPARISONS, show the variation without a change.

    Speeds that are not positive numbers have no logarithm and are left out. A site without clients in one of the
    periods is undecided.
    """
    change = parameters.change
    if change is None or client_speeds.is_empty():
        return pl.DataFrame(schema=results.COMPARISONS)
    samples = list(_samples(client_speeds))
    for sample in samples:
        _compare(sample)
    rows = [sample.row for sample in samples]
    if parameters.is_published:
        for row in rows:
            row["adjusted_p"] = row.get("ks_p")
            if row["adjusted_p"] is not None:
                row["conclusion"] = "rejected" if row["adjusted_p"] < change.significance else "fail to reject"
    else:
        own = {statistic: own_change(placebos, statistic) for statistic in STATISTICS}
        for sample in samples:
            _pair(sample, change, parameters.seed, len(rows), own[sample.row["statistic"]])
        _adjust(rows)
        for row in rows:
            row["conclusion"] = _conclusion(row, change)
    return pl.DataFrame(rows, schema=results.COMPARISONS)


def _samples(client_speeds: pl.DataFrame) -> Iterator[_Sample]:
    for (metro, site), rows in client_speeds.sort("metro", "site").group_by(("metro", "site"), maintain_order=True):
        for statistic in STATISTICS:
            speed = pl.col(f"{statistic}_bps")
            speeds = rows.filter(speed.is_finite() & (speed > 0)).with_columns(speed=speed.log10())
            speeds = speeds.sort("machine", "client", nulls_last=True)
            before, after = (speeds.filter(period=period) for period in ("before", "after"))
            pairs = before.join(after, on=("machine", "client"), nulls_equal=True, suffix="_after")
            yield _Sample(
                {
                    "metro": metro, "site": site, "statistic": statistic, "before": before.height,
                    "after": after.height, "conclusion": "undecided",
                },
                before["speed"].to_numpy(),
                after["speed"].to_numpy(),
                np.sort((pairs["speed_after"] - pairs["speed"]).to_numpy()),
            )  # fmt: skip


def _compare(sample: _Sample) -> None:
    """Compare the two samples by Kolmogorov and Smirnov's test, as if they were independent.

    The same clients twice are not independent: their distance is smaller than between different clients, and p is too
    large. It is given because it was published.
    """
    from scipy import stats

    if len(sample.before) and len(sample.after):
        method = "exact" if len(sample.before) * len(sample.after) <= _EXACT_PAIRS else "asymp"
        with warnings.catch_warnings():
            # For some sizes the exact sum fails, and scipy uses the asymptotic distribution instead.
            warnings.simplefilter("ignore", RuntimeWarning)
            found = stats.ks_2samp(sample.before, sample.after, method=method)
        sample.row.update(ks_distance=float(found.statistic), ks_p=float(found.pvalue))


def _pair(sample: _Sample, change: Change, seed: int, rows: int, own: OwnChange | None) -> None:
    """Compare each client's speed after with its own speed before."""
    row, differences = sample.row, sample.differences
    n = len(differences)
    if not n:
        return
    middle = float(np.median(differences))
    # Seeded by its site and statistic, so that one more site in the study changes no other's interval.
    name = zlib.crc32(f"{row['metro']}/{row['site']}/{row['statistic']}".encode())
    medians = resampled_medians(differences, np.random.default_rng([seed, name]))
    level = 1 - 2 * change.significance
    row["ratio"] = 10**middle
    row["ratio_low"], row["ratio_high"] = _interval(medians, middle, n, CONFIDENCE, own)
    row["equivalence_low"], row["equivalence_high"] = _interval(medians, middle, n, level, own, differences)
    row["paired_p"] = signed_rank_p(differences)
    if own is not None:
        row["own_change"] = 10**own.spread
        row["placebo_p"] = _placebo_p(middle, float(medians.var()), own)
    row["detectable_ratio"] = detectable_ratio(differences, change.significance / rows, own.spread if own else 0.0)


def own_change(placebos: pl.DataFrame | None, statistic: str) -> OwnChange | None:
    """The variation without a change, of all sites and placebos together; ``None`` if there are too few.

    The mean square of the placebos' medians, less their sampling variance (by their intervals): the moment estimate of
    a random effect (R. DerSimonian and N. Laird, "Meta-analysis in clinical trials", Controlled Clinical Trials 7,
    1986), about zero, as a trend is no effect of the change either.
    """
    from scipy import stats

    if placebos is None:
        return None
    known = placebos.filter((pl.col("statistic") == statistic) & pl.col("ratio_low").is_not_null())
    if known.height < LEAST_PLACEBOS:
        return None
    squares = known["ratio"].log10().to_numpy() ** 2
    widths = (known["ratio_high"].log10() - known["ratio_low"].log10()).to_numpy()
    by_chance = (widths / (2 * stats.norm.ppf((1 + CONFIDENCE) / 2))) ** 2
    excess = float(np.mean(squares - by_chance))
    # Successive placebos of a site share a period: two carry little more information than one.
    sites = known.select("metro", "site").unique().height
    return OwnChange(math.sqrt(max(0.0, excess)), max(float(sites), known.height / 2))


def _placebo_p(middle: float, by_chance: float, own: OwnChange) -> float:
    """The p-value of no change beyond that variation: Student's t, degrees of freedom by Satterthwaite."""
    from scipy import stats

    variance = by_chance + own.spread**2
    if variance <= 0:
        return 1.0 if middle == 0 else 0.0
    if own.spread == 0:
        return float(2 * stats.norm.sf(abs(middle) / math.sqrt(variance)))
    freedom = variance**2 / (own.spread**4 / own.freedom)
    return float(2 * stats.t.sf(abs(middle) / math.sqrt(variance), freedom))


def resampled_medians(ordered: Values, random: np.random.Generator) -> Values:
    """Medians of resamples (with replacement) of sorted values: Efron's bootstrap without the resamples.

    The k-th smallest of n draws from n values is the value at the rank that the k-th smallest of n uniform numbers
    falls into, and that is distributed as Beta(k, n + 1 - k); the next of an even number's two middle values is the
    smallest of the n - k uniform numbers above it. (B. Efron, "Bootstrap methods: another look at the jackknife",
    Annals of Statistics 7, 1979, remark on the median.)

    Returns:
        20 000 medians, sorted.
    """
    n = len(ordered)
    middle = (n + 1) // 2
    lower = random.beta(middle, n + 1 - middle, _RESAMPLES)
    found = ordered[np.minimum((lower * n).astype(np.int64), n - 1)]
    if n % 2 == 0:
        upper = lower + (1 - lower) * random.beta(1, n - middle, _RESAMPLES)
        found = (found + ordered[np.minimum((upper * n).astype(np.int64), n - 1)]) / 2
    return np.sort(found)


def _interval(
    medians: Values, middle: float, n: int, level: float, own: OwnChange | None, exact: Values | None = None
) -> tuple[float | None, float | None]:
    """Percentiles of the resampled medians, as ratios, widened by the variation without a change.

    With ``exact``, the sorted values, it is no narrower than the sign test's interval: with ten values, percentiles
    miss the median twice as often as claimed, too often for a conclusion of equivalence.

    ``None`` if ``n`` values cannot bound a median at this level: all of them lie on one side of it with probability
    2^(1-n), so even the interval from the smallest to the largest misses it as often.
    """
    from scipy import stats

    if 2.0 ** (1 - n) > 1 - level:
        return None, None
    low, high = np.quantile(medians, ((1 - level) / 2, (1 + level) / 2))
    if exact is not None:
        # The k-th values from both ends hold the median whatever the distribution, but for at most 1 - level (W. R.
        # Thompson, Annals of Mathematical Statistics 7, 1936). ppf gives the first k with a probability not below.
        k = max(0, int(stats.binom.ppf((1 - level) / 2, n, 0.5)) - 1)
        low, high = min(low, exact[k]), max(high, exact[n - 1 - k])
    if own is not None and own.spread > 0:
        more = float(stats.t.ppf((1 + level) / 2, own.freedom)) * own.spread
        low, high = middle - math.hypot(middle - low, more), middle + math.hypot(high - middle, more)
    return float(10**low), float(10**high)


def signed_rank_p(differences: Values) -> float:
    """Wilcoxon's signed-rank test of no change, two-sided; 1 where no client changed.

    Under no change, differences are symmetric about zero. Zeros keep their ranks (J. W. Pratt, J. Am. Stat. Assoc. 54,
    1959): without them, p would be too small.
    """
    from scipy import stats

    if not differences.any():
        return 1.0
    if len(differences) <= 25 and differences.all() and len(np.unique(np.abs(differences))) == len(differences):
        return float(stats.wilcoxon(differences, method="exact").pvalue)
    return float(stats.wilcoxon(differences, zero_method="pratt", correction=True, method="asymptotic").pvalue)


def detectable_ratio(differences: Values, significance: float, own_spread: float = 0.0) -> float | None:
    """The smallest ratio above 1 that a signed-rank test of so many clients detects with a power of 0.8.

    ``own_spread`` is the variation without a change (:class:`OwnChange`), which a change must exceed.

    It depends on the spread of the clients only: the standard error of the pseudo-median, which the test measures, is
    1 / (sqrt(12 n) x integral of f squared), f the density of the differences (E. L. Lehmann, "Nonparametrics", 1975,
    appendix 5). That integral is the density of two clients' difference at zero, here estimated with a Gaussian kernel.
    """
    from scipy import stats

    n = len(differences)
    # Every k-th of the sorted values covers the whole distribution.
    some = differences[:: max(1, math.ceil(n / _MOST_FOR_DENSITY))]
    apart = np.abs(some[:, None] - some[None, :])[np.triu_indices(len(some), 1)]
    if not len(apart) or not apart.any():
        return None
    # Half of all pairs are closer than this; of a normal distribution 0.674 x its standard deviation.
    spread = float(np.median(apart)) / 0.674 or float(np.sqrt(np.mean(apart**2)))
    width = spread * len(some) ** -0.4  # P. Hall and J. S. Marron, Statistics & Probability Letters 6 (1987)
    density = float(np.mean(np.exp(-0.5 * (apart / width) ** 2)) / (width * math.sqrt(2 * math.pi)))
    error = 1 / (math.sqrt(12 * n) * density)
    needed = float(stats.norm.isf(significance / 2) + stats.norm.ppf(POWER)) * math.hypot(error, own_spread)
    # Above a factor of 10^12 no change is detectable.
    return float(10**needed) if needed < 12 and 2.0 ** (1 - n) < significance else None


def _adjust(rows: list[Row]) -> None:
    """Holm's correction over all rows, for each of the two tests."""
    paired = [None if "paired_p" not in row else max(row["paired_p"], row.get("placebo_p", 0.0)) for row in rows]
    tests = {"adjusted_p": [row.get("ks_p") for row in rows], "adjusted_paired_p": paired}
    for name, p_values in tests.items():
        for row, adjusted in zip(rows, holm(p_values), strict=True):
            row[name] = adjusted


def _conclusion(row: Row, change: Change) -> str:
    """The conclusion on a site; with a question mark if no placebos show the variation without a change."""
    word = _word(row, change)
    return word if word == "undecided" or "placebo_p" in row else word + results.UNSURE


def _word(row: Row, change: Change) -> str:
    """Equivalence comes first: a change that is too small to matter is none."""
    most = 1 + change.equivalence_margin
    low, high = row.get("equivalence_low"), row.get("equivalence_high")
    if low is not None and high is not None and 1 / most < low and high < most:
        return "same"
    p, ratio = row["adjusted_paired_p"], row.get("ratio")
    if p is None or ratio is None or p >= change.significance:
        return "undecided"
    # A test of ranks may find most clients shifted while the median does not move.
    return "faster" if ratio > 1 else "slower" if ratio < 1 else "undecided"

"""Did the clients' speeds change with the configuration? Figure 6's conclusions, drawn from CLIENT_SPEEDS.

Published: two samples of clients' speeds, one of each period, compared by the Kolmogorov-Smirnov test.
Corrected: the same clients are in both periods, so each is compared with itself. Their differences of log10 give the
median ratio, a test of no change (F. Wilcoxon, "Individual Comparisons by Ranking Methods", Biometrics Bulletin 1,
1945), and a test of equivalence (D. J. Schuirmann, "A comparison of the two one-sided tests procedure and the power
approach", J. Pharmacokinetics and Biopharmaceutics 15, 1987).

Clients are the units. What happens to all clients of a site on the same days (a full transit link, a holiday) looks
like the change, and however many clients agree on it. Placebos show how much that is: the same comparison between pairs
of periods before the change, when nothing was changed. A change is only called one if it stands out from these.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.recording.statistics.differences import holm
from whydrop.studies.discards import results

if TYPE_CHECKING:
    from whydrop.studies.discards.parameters import Change, Parameters

Values = NDArray[np.float64]

STATISTICS = ("max", "mean")
CONFIDENCE = 0.95
POWER = 0.8
# Medians of resamples: drawn from their exact distribution at a constant cost, so that tails are known well.
_RESAMPLES = 20_000
# The exact distribution of Kolmogorov and Smirnov's distance costs n x m; beyond, the asymptotic one is as good.
_EXACT_PAIRS = 1_000_000
# With fewer placebos it is not known how much sites change by themselves.
LEAST_PLACEBOS = 3
# Densities of differences are estimated from at most so many clients, all pairs of them: 8 MB.
_MOST_FOR_DENSITY = 1000


@dataclass
class Comparison:
    """A row of COMPARISONS: one site and statistic."""

    metro: str | None
    site: str | None
    statistic: str
    before: int
    after: int
    ks_distance: float | None = None
    ks_p: float | None = None
    adjusted_p: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    paired_p: float | None = None
    adjusted_paired_p: float | None = None
    own_change: float | None = None
    placebo_p: float | None = None
    equivalence_low: float | None = None
    equivalence_high: float | None = None
    conclusion: str = "undecided"
    detectable_ratio: float | None = None


@dataclass(frozen=True)
class _Sample:
    """Speeds of one site's clients, as log10 of bit/s."""

    metro: str | None
    site: str | None
    statistic: str
    before: Values
    after: Values
    differences: Values  # of the clients that are in both periods


@dataclass(frozen=True)
class OwnChange:
    """How much a site's median changes by itself.

    Attributes:
        spread: standard deviation of the logarithm (10) of the ratio, beyond what chance among clients explains.
        freedom: of that estimate.
    """

    spread: float
    freedom: float


def comparisons(
    client_speeds: pl.DataFrame, parameters: Parameters, placebos: pl.DataFrame | None = None
) -> pl.DataFrame:
    """A row of COMPARISONS for each site and statistic of CLIENT_SPEEDS.

    ``placebos``, rows of PLACEBO_COMPARISONS, say how much sites change by themselves.

    Speeds that are not positive numbers have no logarithm and are left out. A site without clients in one of the
    periods is undecided.
    """
    change = parameters.change
    if change is None or client_speeds.is_empty():
        return pl.DataFrame(schema=results.COMPARISONS)
    published = parameters.definitions == "published"
    samples = list(_samples(client_speeds))
    rows = [_compared(sample) for sample in samples]
    if published:
        for row in rows:
            row.adjusted_p = row.ks_p
            if row.ks_p is not None:
                row.conclusion = "rejected" if row.ks_p < change.significance else "fail to reject"
    else:
        for sample, row in zip(samples, rows, strict=True):
            own = None if placebos is None else own_change(placebos, sample.statistic)
            _pair(row, sample, change, parameters.seed, len(rows), own)
        _adjust(rows)
        for row in rows:
            row.conclusion = _conclusion(row, change)
    return pl.DataFrame([asdict(row) for row in rows], schema=results.COMPARISONS)


def _samples(client_speeds: pl.DataFrame) -> Iterator[_Sample]:
    for (metro, site), rows in client_speeds.sort("metro", "site").group_by(("metro", "site"), maintain_order=True):
        for statistic in STATISTICS:
            speeds = (
                rows.filter(pl.col(f"{statistic}_bps").is_finite() & (pl.col(f"{statistic}_bps") > 0))
                .with_columns(speed=pl.col(f"{statistic}_bps").log10())
                .sort("machine", "client", nulls_last=True)
            )
            before, after = (speeds.filter(pl.col("period") == period) for period in ("before", "after"))
            pairs = before.join(after, on=("machine", "client"), nulls_equal=True, suffix="_after")
            yield _Sample(
                metro,
                site,
                statistic,
                before["speed"].to_numpy(),
                after["speed"].to_numpy(),
                np.sort((pairs["speed_after"] - pairs["speed"]).to_numpy()),
            )


def _compared(sample: _Sample) -> Comparison:
    """The two samples by Kolmogorov and Smirnov, as if they were independent.

    The same clients twice are not: their distance is smaller than chance would make that of other clients, so that p is
    too large. It is given because it was published.
    """
    from scipy import stats

    row = Comparison(sample.metro, sample.site, sample.statistic, len(sample.before), len(sample.after))
    if row.before and row.after:
        method = "exact" if row.before * row.after <= _EXACT_PAIRS else "asymp"
        with warnings.catch_warnings():
            # Of some sizes the exact sum does not come out, and scipy takes the asymptotic one by itself.
            warnings.simplefilter("ignore", RuntimeWarning)
            found = stats.ks_2samp(sample.before, sample.after, method=method)
        row.ks_distance, row.ks_p = float(found.statistic), float(found.pvalue)
    return row


def _pair(row: Comparison, sample: _Sample, change: Change, seed: int, rows: int, own: OwnChange | None) -> None:
    """Each client's speed after against its own before."""
    differences = sample.differences
    if not len(differences):
        return
    middle = float(np.median(differences))
    row.ratio = 10**middle
    # Of its own site and statistic, so that one more site in the study changes no other's interval.
    name = zlib.crc32(f"{sample.metro}/{sample.site}/{sample.statistic}".encode())
    medians = resampled_medians(differences, np.random.default_rng([seed, name]))
    row.ratio_low, row.ratio_high = _interval(medians, middle, len(differences), CONFIDENCE, own)
    level = 1 - 2 * change.significance
    row.equivalence_low, row.equivalence_high = _interval(medians, middle, len(differences), level, own, differences)
    row.paired_p = signed_rank_p(differences)
    if own is not None:
        row.own_change = 10**own.spread
        row.placebo_p = _placebo_p(middle, float(medians.var()), own)
    row.detectable_ratio = detectable_ratio(differences, change.significance / rows, own.spread if own else 0.0)


def own_change(placebos: pl.DataFrame, statistic: str) -> OwnChange | None:
    """How much sites change by themselves, of all sites and placebos together; none where there are too few.

    The mean square of the placebos' medians, less what chance among clients contributes (by their intervals): the
    moment estimate of a random effect (R. DerSimonian and N. Laird, "Meta-analysis in clinical trials", Controlled
    Clinical Trials 7, 1986), about zero, as a trend is no effect of the change either.
    """
    from scipy import stats

    known = placebos.filter((pl.col("statistic") == statistic) & pl.col("ratio_low").is_not_null())
    if known.height < LEAST_PLACEBOS:
        return None
    squares = known["ratio"].log10().to_numpy() ** 2
    widths = (known["ratio_high"].log10() - known["ratio_low"].log10()).to_numpy()
    by_chance = (widths / (2 * stats.norm.ppf((1 + CONFIDENCE) / 2))) ** 2
    excess = float(np.mean(squares - by_chance))
    # Successive placebos of a site share a period: two of them show little more than one.
    sites = known.select("metro", "site").unique().height
    return OwnChange(math.sqrt(max(0.0, excess)), max(float(sites), known.height / 2))


def _placebo_p(middle: float, by_chance: float, own: OwnChange) -> float:
    """No change but what sites do by themselves: Student's t by Satterthwaite, as only that part is ill known."""
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
    """Percentiles of the resampled medians, as ratios, widened by what sites change by themselves.

    With ``exact``, the sorted values, it is no narrower than the sign test's interval: of ten values the percentiles
    alone miss the median twice as often as they say, and what is called the same must not rest on that.

    None where ``n`` values cannot bound a median so surely: all of them lie on one side of it with probability 2^(1-n),
    and even the interval from the smallest to the largest misses it as often.
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

    Under no change, before and after could be swapped: differences are symmetric about zero. Zeros keep their ranks
    (J. W. Pratt, J. Am. Stat. Assoc. 54, 1959): leaving them out would overstate what the others show.
    """
    from scipy import stats

    if not differences.any():
        return 1.0
    if len(differences) <= 25 and differences.all() and len(np.unique(np.abs(differences))) == len(differences):
        return float(stats.wilcoxon(differences, method="exact").pvalue)
    return float(stats.wilcoxon(differences, zero_method="pratt", correction=True, method="asymptotic").pvalue)


def detectable_ratio(differences: Values, significance: float, own_spread: float = 0.0) -> float | None:
    """The smallest ratio above 1 that a signed-rank test of so many clients would find with a power of 0.8.

    ``own_spread`` is what sites change by themselves (see :class:`OwnChange`), which a change must stand out from.

    From the clients' spread alone, whatever their change was: the standard error of what the test measures, the
    pseudo-median, is 1 / (sqrt(12 n) x integral of f squared), f the density of the differences (E. L. Lehmann,
    "Nonparametrics", 1975, appendix 5). That integral is the density of two clients' difference at zero, here
    estimated with a Gaussian kernel.
    """
    from scipy import stats

    n = len(differences)
    # Every k-th of the sorted ones: all of the distribution.
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
    # Beyond a factor of 10^12 nothing could be distinguished from no change.
    return float(10**needed) if needed < 12 and 2.0 ** (1 - n) < significance else None


def _adjust(rows: list[Comparison]) -> None:
    """Holm's correction over all rows, for each of the two tests."""
    by_ks = {str(number): row.ks_p for number, row in enumerate(rows) if row.ks_p is not None}
    for number, p in holm(by_ks).items():
        rows[int(number)].adjusted_p = p
    paired = {
        str(number): max(row.paired_p, row.placebo_p or 0.0)
        for number, row in enumerate(rows)
        if row.paired_p is not None
    }
    for number, p in holm(paired).items():
        rows[int(number)].adjusted_paired_p = p


def _conclusion(row: Comparison, change: Change) -> str:
    """The conclusion on a site; with a question mark if no placebos show how it varies without a change."""
    word = _word(row, change)
    return word if word == "undecided" or row.placebo_p is not None else word + results.UNSURE


def _word(row: Comparison, change: Change) -> str:
    """That a change is too small to matter comes before that there is one."""
    most = 1 + change.equivalence_margin
    low, high = row.equivalence_low, row.equivalence_high
    if low is not None and high is not None and 1 / most < low and high < most:
        return "same"
    if row.adjusted_paired_p is None or row.ratio is None or row.adjusted_paired_p >= change.significance:
        return "undecided"
    # A test of ranks may find the bulk of clients shifted while the median does not move.
    return "faster" if row.ratio > 1 else "slower" if row.ratio < 1 else "undecided"

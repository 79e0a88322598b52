"""A linear mixed model with nested random intercepts, fitted by restricted maximum likelihood (REML).

    y = X b + u(stratum) + v(block within stratum) + e

with independent normal u, v and e. H. D. Patterson and R. Thompson, "Recovery of inter-block information when block
sizes are unequal", Biometrika 58 (1971); the profiled criterion is that of D. Bates et al., "Fitting Linear Mixed-
Effects Models Using lme4", Journal of Statistical Software 67 (2015), section 3. As the groups are nested, the inverse
and the determinant of the covariance are sums over groups (Sherman and Morrison's formula, twice): nothing larger than
the number of fixed effects is inverted, however many values there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Groups = NDArray[np.int64]

_LARGEST_RATIO = 1e4


@dataclass(frozen=True)
class Mixed:
    """A fitted model.

    Attributes:
        effects: the fixed effects b.
        covariance: of these estimates.
        strata: standard deviation of the strata's intercepts.
        blocks: that of the blocks' intercepts within strata.
        residual: that of what is left.
        criterion: -2 times the restricted log-likelihood.
        freedom: degrees of freedom of contrasts within blocks: values less blocks less contrasts.
    """

    effects: Values
    covariance: Values
    strata: float
    blocks: float
    residual: float
    criterion: float
    freedom: int


def reml(y: Values, x: Values, strata: Groups, blocks: Groups) -> Mixed | None:
    """The model of values, or ``None`` where they do not determine it.

    Args:
        y: values.
        x: a row for each, with full column rank.
        strata: a number for each value's stratum.
        blocks: a number for its block; each block belongs to one stratum.
    """
    count, effects = x.shape
    if count <= effects or np.linalg.matrix_rank(x) < effects:
        return None
    # Of contrasts within blocks: what is left when blocks too are fixed effects, one of which the constant is.
    block_number = np.unique(blocks, return_inverse=True)[1]
    freedom = count - (int(block_number.max()) + 1) - (effects - 1)
    scale = float(y.std())
    if freedom < 1 or not scale > 1e-12 * max(1.0, float(np.abs(y).max())):
        return None
    profile = _Profile(y / scale, x, np.unique(strata, return_inverse=True)[1], block_number)
    ratios = _optimum(profile)
    solved = profile.solve(ratios)
    if solved is None:
        return None
    variance = solved.squares / (count - effects) * scale**2
    criterion = solved.criterion + 2 * (count - effects) * math.log(scale)
    return Mixed(
        solved.effects * scale, solved.inverse * variance, ratios[0] * math.sqrt(variance),
        ratios[1] * math.sqrt(variance), math.sqrt(variance), criterion, freedom,
    )  # fmt: skip


@dataclass(frozen=True)
class _Solved:
    effects: Values
    inverse: Values
    squares: float
    criterion: float


class _Profile:
    """The restricted likelihood as a function of two ratios of standard deviations to the residual's."""

    def __init__(self, y: Values, x: Values, strata: Groups, blocks: Groups) -> None:
        # The values are one more column: all products come from one matrix.
        self.z = np.column_stack((x, y))
        self.effects = x.shape[1]
        self.products = self.z.T @ self.z
        number = int(blocks.max()) + 1
        self.sums = np.zeros((number, self.z.shape[1]))
        np.add.at(self.sums, blocks, self.z)
        self.sizes = np.bincount(blocks, minlength=number).astype(float)
        self.stratum_of = np.zeros(number, dtype=np.int64)
        self.stratum_of[blocks] = strata
        self.strata = int(strata.max()) + 1

    def solve(self, ratios: tuple[float, float]) -> _Solved | None:
        """The fixed effects and the criterion for given ratios; ``None`` where they are not determined."""
        of_strata, of_blocks = ratios[0] ** 2, ratios[1] ** 2
        shrunk = 1 / (1 + of_blocks * self.sizes)
        products = self.products - (self.sums * (of_blocks * shrunk)[:, None]).T @ self.sums
        weights = np.bincount(self.stratum_of, self.sizes * shrunk, self.strata)
        sums = np.zeros((self.strata, self.z.shape[1]))
        np.add.at(sums, self.stratum_of, self.sums * shrunk[:, None])
        products = products - (sums * (of_strata / (1 + of_strata * weights))[:, None]).T @ sums
        p = self.effects
        left, right = products[:p, :p], products[:p, p]
        try:
            inverse: Values = np.asarray(np.linalg.inv(left), dtype=float)
        except np.linalg.LinAlgError:
            return None
        effects = inverse @ right
        squares = float(products[p, p] - right @ effects)
        sign, determinant = np.linalg.slogdet(left)
        if squares <= 0 or sign <= 0:
            return None
        of_covariance = float(np.log1p(of_blocks * self.sizes).sum() + np.log1p(of_strata * weights).sum())
        free = len(self.z) - p
        criterion = of_covariance + float(determinant) + free * (1 + math.log(2 * math.pi * squares / free))
        return _Solved(effects, inverse, squares, criterion)


def _optimum(profile: _Profile) -> tuple[float, float]:
    """The ratios of the least criterion, from several starts: a ratio may be 0."""
    from scipy import optimize

    def criterion(ratios: Values) -> float:
        solved = profile.solve((float(ratios[0]), float(ratios[1])))
        return math.inf if solved is None else solved.criterion

    bounds = [(0.0, _LARGEST_RATIO)] * 2
    best: tuple[float, tuple[float, float]] = (math.inf, (0.0, 0.0))
    for start in ((1.0, 1.0), (0.1, 3.0)):
        found = optimize.minimize(
            criterion, np.array(start), method="Nelder-Mead", bounds=bounds, options={"xatol": 1e-6, "fatol": 1e-9}
        )
        best = min(best, (float(found.fun), (float(found.x[0]), float(found.x[1]))))
    return best[1]

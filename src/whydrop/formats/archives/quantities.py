"""Numbers of files as columns of tables: whole numbers of 64 bits in the tables' units, null where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

LARGEST = (1 << 63) - 1


def column(values: npt.NDArray[Any], factor: int = 1, valid: npt.NDArray[np.bool_] | None = None) -> pl.Series:
    """Integers times ``factor`` as ``Int64``: null where ``valid`` is false, or where 64 bits do not hold them."""
    fits = values <= LARGEST // factor
    if valid is not None:
        fits &= valid
    whole = np.where(fits, values, 0).astype(np.int64) * factor
    series = pl.Series(whole, dtype=pl.Int64)
    if fits.all():
        return series
    return pl.select(pl.when(pl.Series(fits)).then(series)).to_series()


def unwrapped(values: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """A counter of 32 bits without its wraps, from its first value on.

    A step down of more than half the range is a wrap. A smaller one may be damage, and stays.
    """
    wide = values.astype(np.int64)
    down = np.diff(wide) < -(1 << 31)
    if down.any():
        wide[1:] += np.cumsum(down) << 32
    return wide


def whole(value: object, most: int = LARGEST) -> int | None:
    """A whole number of JSON, if it is one and not larger than ``most``; else None. (True is no number.)"""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if -most <= value <= most else None

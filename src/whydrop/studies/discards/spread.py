"""Typical values, over the clients of a site, of each client's tests before and after the change."""

from __future__ import annotations

import polars as pl

from whydrop.studies.discards import results

COLUMNS = ("tests", "min_bps", "mean_bps", "max_bps", "sd_bps", "cv")


def client_spread(client_speeds: pl.DataFrame) -> pl.DataFrame:
    """A frame of `results.CLIENT_SPREAD`: medians over the rows of CLIENT_SPEEDS of each site and period."""
    medians = (pl.col(name).median() for name in COLUMNS)
    found = client_speeds.group_by("metro", "site", "period").agg(*medians, clients=pl.len())
    found = found.select(pl.col(name).cast(kind) for name, kind in results.CLIENT_SPREAD.items())
    return found.sort("metro", "site", pl.col("period") != "before", nulls_last=False)

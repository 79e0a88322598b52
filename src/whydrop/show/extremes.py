"""The rows of a line that are seen at the resolution of a picture."""

from __future__ import annotations

import polars as pl


def extremes(data: pl.DataFrame, **places: pl.Expr) -> pl.DataFrame:
    """Of the rows at each place the first, the last, the lowest and the highest: no peak is lost, and none moves.

    Args:
        data: the points of lines: ``y``, and what the places are made of. A place without any ``y`` (a break) keeps its
            first and last row.
        places: what tells places apart, such as the column of pixels; rows that agree in all of it are at one place.
    """
    kept = (
        data.with_row_index("row")
        .group_by(maintain_order=True, **places)
        .agg(
            pl.col("row").first().alias("first"),
            pl.col("row").last().alias("last"),
            pl.col("row").gather(pl.col("y").arg_min()).first().alias("lowest"),
            pl.col("row").gather(pl.col("y").arg_max()).first().alias("highest"),
        )
    )
    rows = pl.concat([kept[name].cast(pl.UInt32).alias("row") for name in ("first", "lowest", "highest", "last")])
    return data[rows.drop_nulls().unique().sort()]

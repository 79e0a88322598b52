"""The time that a sample covers if its own file does not say: the time since the sample before, if there is one.

A file of DISCO's version 2 begins with a growth since the poll before, which is in the file before. When it was, that
one shows: its counters must be what these were before they grew. Counters that stand still would fit any older poll;
so one that grew has to be among those of the poll, and none may contradict.
"""

from __future__ import annotations

import polars as pl

# A poll: what it read of one switch.
_POLL = ("site", "switch", "machine")
_SERIES = (*_POLL, "port", "counter")


def filled(table: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of a table, in their order; unknown spans of samples are derived from the samples before.

    Args:
        table: a name in `tables.TABLES`; only ``counters`` has spans.
        rows: of that table.
    """
    if table != "counters":
        return rows
    grown = pl.col("value").is_not_null() & pl.col("total").is_not_null()
    is_open = pl.col("span_ns").is_null() & grown
    first = rows.lazy().filter(is_open).select(*_SERIES, "end_ns", "value", "total").unique().collect()
    if first.is_empty():
        return rows
    spans = _proven(first, rows)
    if spans.is_empty():
        return rows
    joined = rows.with_row_index("_row").join(spans, on=[*_POLL, "end_ns"], how="left", nulls_equal=True)
    fills = is_open & pl.col("_span_ns").is_not_null()
    late = fills & (2 * pl.col("_span_ns") > 3 * pl.col("_usual_ns"))
    gap = pl.when(pl.col("quality") == "ok").then(pl.lit("gap")).otherwise("gap+" + pl.col("quality"))
    return (
        joined.sort("_row")
        .with_columns(
            pl.when(fills).then("_span_ns").otherwise("span_ns").alias("span_ns"),
            pl.when(late).then(gap).otherwise("quality").alias("quality"),
        )
        .select(rows.columns)
    )


def _proven(first: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """For polls of which samples lack their span: the span that the poll before proves, and what is usual there."""
    of_switches = rows.join(first.select(_POLL).unique(), on=_POLL, how="semi", nulls_equal=True)
    name = pl.concat_str([pl.col(key).fill_null("\0") for key in _SERIES], separator="\1").alias("_series")
    before = of_switches.filter(pl.col("total").is_not_null()).select(name, "end_ns", _at="end_ns", _total="total")
    pairs = (
        first.with_columns(name)
        .sort("end_ns")
        .join_asof(
            before.sort("end_ns"), on="end_ns", by="_series", strategy="backward",
            allow_exact_matches=False, check_sortedness=False,
        )
    )  # fmt: skip
    was = pl.col("total") - pl.col("value").cast(pl.Int64)
    # Of 32 bits that were full in between it was more.
    was = pl.when(was < 0).then(was + 2**32).otherwise(was)
    fits = pl.col("_total").is_not_null() & (was == pl.col("_total"))
    polls = pairs.group_by(*_POLL, "end_ns").agg(
        (pl.col("end_ns").first() - pl.col("_at").first()).alias("_span_ns"),
        proven=fits.all() & (pl.col("_at").n_unique() == 1) & (fits & (pl.col("value") > 0)).any(),
    )
    usual = of_switches.group_by(_POLL).agg(pl.col("span_ns").min().alias("_usual_ns"))
    return polls.filter("proven").drop("proven").join(usual, on=_POLL, how="left", nulls_equal=True)

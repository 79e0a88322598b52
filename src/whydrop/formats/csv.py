"""Recordings as CSV (RFC 4180, in UTF-8, with a line of names)."""

from __future__ import annotations

from whydrop.recording.recording import Recording


def gridded(recording: Recording) -> bytes:
    """One line a step: ``time_s`` since the start, and a column for each series, empty in gaps (as Flent's CSV)."""
    return recording.grid().write_csv().encode()


def raw(recording: Recording) -> bytes:
    """One line a sample: ``series``, ``units``, ``time_ns`` since the Unix epoch, ``value`` (empty: there is none)."""
    import polars as pl

    frames = [
        recording.samples(series.name).select(
            pl.lit(series.name).alias("series"), pl.lit(series.units).alias("units"), "time_ns", "value"
        )
        for series in recording.series()
    ]
    if not frames:
        return b"series,units,time_ns,value\n"
    return pl.concat(frames).write_csv().encode()

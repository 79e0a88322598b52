"""Which packets of a capture hold which rows of the table ``segments``: captures of a sender hold several in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars

    from whydrop.explaining.explained import Explained

# Sequence numbers of a TCP header are of 32 bits (RFC 9293).
_SEQUENCE_NUMBERS = 1 << 32


def held_segments(found: Explained, packets: polars.DataFrame, segments: polars.DataFrame) -> polars.DataFrame:
    """The segments that each packet holds.

    Args:
        found: the explanation of the capture.
        packets: rows of :attr:`whydrop.explaining.packets.Packets.table`.
        segments: rows of the table ``segments``; of each moment all of a flow, so that they show where its numbers
            begin.

    Returns:
        A row for each pair: ``frame_number``, and the columns of ``segments``.
    """
    import polars as pl

    names = found.table("flows").select("flow", "name")
    own = segments.join(names, on="flow", how="inner")
    name = pl.format("{}:{} > {}:{}", _address("source"), "source_port", _address("destination"), "destination_port")
    first, held_bytes = pl.col("sequence").cast(pl.Int64).alias("first"), pl.col("payload_bytes").alias("held_bytes")
    frames = packets.select("frame_number", "time_ns", first, held_bytes, name=name)
    frames = frames.filter(pl.col("held_bytes") > 0).drop_nulls()
    both = frames.join(_offsets(frames, own), on="name").join(own, on=["name", "time_ns"])
    ahead = (pl.col("sequence") + pl.col("offset") - pl.col("first")) % _SEQUENCE_NUMBERS
    return both.filter(ahead < pl.col("held_bytes")).select("frame_number", *segments.columns)


def _offsets(frames: polars.DataFrame, segments: polars.DataFrame) -> polars.DataFrame:
    """The number in the header of each flow's first byte: the least numbers of a moment belong together."""
    import polars as pl

    least = frames.group_by("name", "time_ns").agg(pl.col("first").min())
    least = least.join(segments.group_by("name", "time_ns").agg(pl.col("sequence").min()), on=["name", "time_ns"])
    offset = (pl.col("first") - pl.col("sequence")) % _SEQUENCE_NUMBERS
    return least.group_by("name").agg(offset=offset.mode().min())


def _address(name: str) -> Any:
    """An address as names of flows have it: one with colons in brackets."""
    import polars as pl

    address = pl.col(name)
    return pl.when(address.str.contains(":", literal=True)).then(pl.format("[{}]", address)).otherwise(address)

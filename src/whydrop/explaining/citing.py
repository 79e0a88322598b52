"""The numbers of the packets that rows of the table ``segments`` are about, as Wireshark counts them."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING

from whydrop import _core
from whydrop.explaining.explained import Explained

if TYPE_CHECKING:
    import polars

# Sequence numbers of a TCP header are of 32 bits (RFC 9293).
_WRAP = 1 << 32
# Of each flow, segments that begin a frame: as many show which number the flow's first byte has.
_BEGINS = 64


def with_frame_numbers(
    found: Explained, captures: Sequence[str | PathLike[str]], segments: polars.DataFrame
) -> polars.DataFrame:
    """Rows of ``segments`` with a column ``frame_number``; it is null where the packet is not in the capture.

    That is so for losses before the capture point, which gaps in the sequence show, and where the timestamps of the
    capture were put right before they were analysed.

    Args:
        found: what the rows are of: the explanation of one capture.
        captures: the file, or the pieces of one capture in their order; they are read once.
        segments: a few rows of its table.

    Raises:
        whydrop.CaptureError: a capture can no longer be read.
    """
    import polars

    known = found.table("segments").filter(polars.col("flow").is_in(segments["flow"].unique().implode()))
    begins = known.group_by("flow", "time_ns", maintain_order=True).first().group_by("flow").head(_BEGINS)
    times_ns = {*segments["time_ns"].to_list(), *begins["time_ns"].to_list()}
    table, _, _ = _core.packets([fspath(one) for one in captures], 2**63 - 1, times_ns=times_ns)
    frames = polars.DataFrame(table).filter(polars.col("protocol") == "tcp").with_columns(flow=_names())
    names = found.table("flows").select(polars.col("flow").alias("number"), polars.col("name").alias("flow"))

    def with_frames(rows: polars.DataFrame) -> polars.DataFrame:
        named = rows.join(names, left_on="flow", right_on="number", suffix="_name")
        return named.join(frames, left_on=["time_ns", "flow_name"], right_on=["time_ns", "flow"], suffix="_frame")

    first = with_frames(begins).group_by("flow").agg(_first_byte().alias("first_byte"))
    rows = segments.with_row_index("row")
    pairs = with_frames(rows).join(first, on="flow").filter(_is_within())
    numbers = pairs.group_by("row").agg(polars.col("frame_number").min())
    return rows.join(numbers, on="row", how="left").sort("row").drop("row")


def _names() -> polars.Expr:
    """The name of a packet's flow, as the document has it."""
    import polars

    ends = []
    for end in ("source", "destination"):
        address, port = polars.col(end), polars.col(f"{end}_port")
        is_v6 = address.str.contains(":", literal=True)
        ends.append(
            polars.when(is_v6)
            .then(polars.format("[{}]:{}", address, port))
            .otherwise(polars.format("{}:{}", address, port))
        )
    return polars.format("{} > {}", *ends)


def _first_byte() -> polars.Expr:
    """The number that the headers give a flow's first byte: the one with which the most segments begin a frame."""
    import polars

    return ((polars.col("sequence_frame").cast(polars.Int64) - polars.col("sequence")) % _WRAP).mode().sort().first()


def _is_within() -> polars.Expr:
    """True where a frame has the first byte of a segment."""
    import polars

    begins = polars.col("sequence") + polars.col("first_byte") - polars.col("sequence_frame").cast(polars.Int64)
    return begins % _WRAP < polars.col("payload_bytes_frame")

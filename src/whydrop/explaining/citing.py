"""The numbers of the packets that rows of the table ``segments`` are about, as Wireshark counts them."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING

from whydrop import _core
from whydrop.explaining.explained import Explained
from whydrop.explaining.held_segments import held_segments

if TYPE_CHECKING:
    import polars

_KEY = ("flow", "time_ns", "sequence")
# Of each flow, moments that are looked at beside those asked for: as many show where its numbers begin.
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
    begins = known.unique(["flow", "time_ns"], maintain_order=True).group_by("flow").head(_BEGINS)
    times_ns = {*segments["time_ns"].to_list(), *begins["time_ns"].to_list()}
    table, _, _ = _core.packets([fspath(one) for one in captures], 2**63 - 1, times_ns=times_ns)
    near = known.filter(polars.col("time_ns").is_in(times_ns)).select(_KEY)
    numbers = held_segments(found, polars.DataFrame(table), near).group_by(_KEY).agg(polars.col("frame_number").min())
    return segments.join(numbers, on=_KEY, how="left", maintain_order="left")

"""Only the matching of two captures: which packet of the one is which of the other, as a table to go on with."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from whydrop import _core
from whydrop.explaining.explained import Analysis, crossings_labelled
from whydrop.explaining.pair import Pair
from whydrop.text import csv

if TYPE_CHECKING:
    import polars

    from whydrop.explaining.hints import PairHints

# Suffix of the file, and what it then is.
FORMATS = {".parquet": "Parquet", ".csv": "comma-separated values", ".arrow": "Arrow IPC"}


def match(
    first: str | PathLike[str],
    second: str | PathLike[str],
    *,
    progress: Callable[[int, int], None] | None = None,
    hints: PairHints | None = None,
) -> Matching:
    """Match the packets of two captures of one path, align the clocks and place the losses; explain nothing.

    Args:
        first: a pcap or pcapng file, plain or compressed.
        second: a capture of the same packets at another point of the path.
        progress: as for :func:`whydrop.explain`.
        hints: what is known of the path between them.

    Raises:
        whydrop.CaptureError: one of the captures could not be read, or they have no packet in common.
        whydrop.Error: a hint does not fit the captures.

    >>> import whydrop
    >>> found = whydrop.match(
    ...     "examples/policed-download.pcap.zst", "examples/policed-download-far.pcap.zst"
    ... )
    >>> found.crossings.filter(found.crossings["crossing"] == "lost").height == found.pair.lost
    True
    """
    paths = [fspath(first), fspath(second)]
    known = None if hints is None else hints.of_captures(paths)
    return Matching(_core.match_pair(paths, progress=progress, hints=known))


class Matching:
    """Two captures matched packet by packet."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis

    @cached_property
    def document(self) -> dict[str, Any]:
        """The ``pair`` object of the JSON contract as plain Python values: what ``whydrop match --json`` prints."""
        pair: dict[str, Any] = self._analysis.document()["pair"]
        return pair

    @cached_property
    def pair(self) -> Pair:
        """How many packets were matched, lost and missed, the clocks, the transit times."""
        return Pair.from_json(self.document)

    @cached_property
    def crossings(self) -> polars.DataFrame:
        """One row for each packet: the columns of the table ``crossings``, see :meth:`whydrop.Explanation.table`."""
        import polars

        return crossings_labelled(polars.DataFrame(self._analysis.table("crossings")))

    def write(self, path: str | PathLike[str]) -> int:
        """Write the packets with the names of their flows; return their number.

        Args:
            path: what is written is chosen by its suffix: ``.parquet`` (its metadata has the ``pair`` object under
                the key ``whydrop_pair``), ``.csv`` or ``.arrow``. A file that is there already is replaced,
                when the new one is whole.

        Raises:
            ValueError: the suffix is another one.
        """
        import polars

        from whydrop.runtime import durable

        target = Path(path)
        check_suffix(target)
        frame = self._named()

        def fill(temporary: Path) -> None:
            try:
                with temporary.open("wb") as stream:
                    self._write(frame, target.suffix, stream)
            except (OSError, polars.exceptions.PolarsError) as reason:
                # Such as a full disk: polars does not say which file.
                raise OSError(None, str(reason), str(target)) from reason

        durable.write_by(target, fill)
        return frame.height

    def _write(self, frame: polars.DataFrame, suffix: str, stream: BinaryIO) -> None:
        if suffix == ".parquet":
            frame.write_parquet(stream, metadata={"whydrop_pair": json.dumps(self.document)})
        elif suffix == ".csv":
            csv.safe(frame).write_csv(stream)
        else:
            frame.write_ipc(stream, compression="zstd")

    def _named(self) -> polars.DataFrame:
        import polars

        names = polars.DataFrame(
            {"flow": range(len(self.pair.flows)), "flow_name": [flow.flow for flow in self.pair.flows]},
            schema={"flow": self.crossings.schema["flow"], "flow_name": polars.String},
        ).with_columns(polars.col("flow_name").cast(polars.Categorical))
        return self.crossings.join(names, on="flow", how="left", maintain_order="left")

    def __repr__(self) -> str:
        pair = self.pair
        return f"<whydrop.Matching: {pair.matched} packets matched, {pair.lost} lost between the captures>"


def check_suffix(path: Path) -> None:
    """Refuse what :meth:`Matching.write` could not write.

    >>> from pathlib import Path
    >>> check_suffix(Path("packets.xlsx"))
    Traceback (most recent call last):
        ...
    ValueError: packets.xlsx: the suffix chooses the format: .parquet, .csv or .arrow
    """
    if path.suffix not in FORMATS:
        *others, last = FORMATS
        raise ValueError(f"{path}: the suffix chooses the format: {', '.join(others)} or {last}")

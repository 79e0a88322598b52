"""Recordings: opened, compared, drawn, described, read from and written for other tools."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whydrop.recording.comparing.comparison import Comparison
    from whydrop.recording.recording import Recording
    from whydrop.store.store import Store


def open(path: str | PathLike[str]) -> Recording | Store:
    """Open what measurements are kept in.

    Args:
        path: the folder of a recording; a file of Flent, netperf-wrapper, ``iperf3 --json`` or DISCO; a store: its
            folder, or a prefix of an object store such as ``s3://bucket/fleet``.

    Raises:
        whydrop.recording.errors.RecordingError: it is none of these (a store's error is one of them, too).

    >>> import whydrop
    >>> whydrop.open("rrul.recording").table("probes")  # doctest: +SKIP
    """
    from whydrop.formats.importing import open_recording
    from whydrop.store.store import DESCRIPTION, Store

    if "://" in fspath(path) or (Path(path) / DESCRIPTION).is_file():
        return Store.open(path)
    return open_recording(path)


def compare(
    *recordings: Recording | str | PathLike[str], group_by: Sequence[str] = (), seed: int | None = None
) -> Comparison:
    """Compare recordings, or groups of them, with the first: each metric with its difference, and how certain it is.

    Args:
        recordings: two or more, open or by their paths.
        group_by: keys of the metadata, such as ``batch.variables.qdisc``: recordings with the same values are one side.
        seed: of the resampling.

    Raises:
        ValueError: fewer than two sides, or a key that no recording has.
    """
    from whydrop.formats.importing import open_recording
    from whydrop.recording.comparing import comparison
    from whydrop.recording.comparing.grouping import sides
    from whydrop.recording.recording import Recording
    from whydrop.recording.statistics.resampling import SEED
    from whydrop.show import labels

    opened = [one if isinstance(one, Recording) else open_recording(one) for one in recordings]
    return comparison.compare(sides(opened, labels.of_recordings(opened), group_by), SEED if seed is None else seed)

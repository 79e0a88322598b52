"""Recordings: opened, described, compared, drawn, read from and written for other tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from whydrop.errors import Mistake

if TYPE_CHECKING:
    import polars as pl

    from whydrop.recording.comparing.comparison import Comparison
    from whydrop.recording.recording import Recording
    from whydrop.store.store import Store

    Source = Recording | str | PathLike[str]


def open(path: str | PathLike[str]) -> Recording | Store:
    """Open a recording, a file of another tool, or a store.

    Args:
        path: the folder of a recording; a file of Flent, netperf-wrapper, ``iperf3 --json`` or DISCO, or one with TCP
            statistics; a store: its folder, or a prefix of an object store such as ``s3://bucket/fleet``.

    Raises:
        whydrop.Error: it is none of these.

    >>> import whydrop
    >>> whydrop.open("rrul.recording").table("probes")  # doctest: +SKIP
    """
    from whydrop.formats.importing import open_recording
    from whydrop.store.store import DESCRIPTION, Store

    if "://" in fspath(path) or (Path(path) / DESCRIPTION).is_file():
        return Store.open(path)
    return open_recording(path)


def opened(sources: Sequence[Source]) -> list[Recording]:
    """Recordings as they are; of files all the tests that they hold."""
    from whydrop.formats.importing import open_recordings
    from whydrop.recording.recording import Recording

    found: list[Recording] = []
    for one in sources:
        found += [one] if isinstance(one, Recording) else open_recordings(one)
    return found


def compare(*recordings: Source, group_by: Sequence[str] = (), seed: int | None = None) -> Comparison:
    """Compare recordings, or groups of them, with the first: each metric with its difference and the uncertainty.

    Args:
        recordings: two or more, open or by their paths.
        group_by: keys of the metadata, such as ``batch.variables.qdisc``: recordings with the same values are one side.
        seed: of the resampling.

    Raises:
        whydrop.Error: a recording cannot be read, or no recording has the key.
        ValueError: fewer than two sides.
    """
    from whydrop.recording.comparing import comparison
    from whydrop.recording.comparing.grouping import sides
    from whydrop.recording.statistics.resampling import SEED
    from whydrop.show import labels

    found = opened(recordings)
    return comparison.compare(sides(found, labels.of_recordings(found), group_by), SEED if seed is None else seed)


def summary(recording: Source) -> dict[str, Any]:
    """The figures of a recording: what ``whydrop show --json`` prints (docs/recordings.md).

    Raises:
        whydrop.Error: it cannot be read.
    """
    from whydrop.recording import document
    from whydrop.recording.metrics.summary import Summary

    (found,) = opened([recording])
    figures: dict[str, Any] = document.plain(Summary(found).document())
    return figures


@dataclass(frozen=True)
class Statistics:
    """Statistics of recordings.

    Attributes:
        recordings: their names in the tables.
        metrics: one row for each recording and metric: ``recording``, ``metric``, ``name``, ``units``, ``value``,
            ``note``.
        series: one row for each recording and series: ``recording``, ``series``, ``units``, then count, mean, median,
            percentiles and spread.
    """

    recordings: tuple[str, ...]
    metrics: pl.DataFrame
    series: pl.DataFrame


def stats(*recordings: Source, series: Sequence[str] = (), whole: bool = False) -> Statistics:
    """Compute the metrics of recordings, and statistics of each series under load.

    Args:
        recordings: open, or by their paths.
        series: only series with names that match one of these patterns, as in a shell, and no metrics.
        whole: of the whole recording instead of the time under load.

    Raises:
        whydrop.Error: a recording cannot be read.
    """
    import polars as pl

    from whydrop.recording.metrics import table
    from whydrop.show import labels

    found = opened(recordings)
    names = labels.of_recordings(found)
    named = list(zip(names, found, strict=True))
    metrics = [] if series else [row for label, one in named for row in table.of_metrics(label, one)]
    rows = [row for label, one in named for row in table.of_series(label, one, series or ("*",), whole=whole)]
    return Statistics(
        tuple(names), pl.DataFrame(metrics, schema=table.METRICS), pl.DataFrame(rows, infer_schema_length=None)
    )


def metadata(recording: Source, key: str | None = None) -> Any:
    """The metadata of a recording: the test, the hosts, their kernels, settings, interfaces and queues.

    Args:
        recording: open, or by its path.
        key: one part of it, such as ``"hosts.local.sysctls"`` or ``"hosts.local.interfaces.eth0.qdiscs.0.kind"``.

    Raises:
        whydrop.Error: the recording cannot be read, or it has no such key.
    """
    from whydrop.recording.document import part

    (found,) = opened([recording])
    return found.metadata if key is None else part(found.metadata, key, str(found.path))


def import_file(
    path: str | PathLike[str], *, output: str | PathLike[str] = ".", title: str | None = None
) -> list[Recording]:
    """Make recordings of a file of Flent, netperf-wrapper, iperf3, pScheduler, DISCO, or of TCP statistics.

    No function needs this: all that take a recording read these files as they are.

    Args:
        path: the file. A log of iperf3 may hold several tests.
        output: the folder in which each recording gets a folder of its own.
        title: instead of the file's own.

    Returns:
        The recordings, one for each test; :attr:`Recording.notes` has repairs and omissions.

    Raises:
        whydrop.Error: it cannot be read, or it is the file of no known tool.
    """
    from whydrop.recording.recording import Recording
    from whydrop.recording.writer import folder_for

    made = []
    for found in opened([path]):
        if title is not None:
            found.metadata["title"] = title
        name, shown = str(found.metadata["name"]), str(found.metadata["title"] or "")
        saved = Recording.open(found.save(folder_for(Path(output), name, found.started_ns, shown)))
        saved.notes[:0] = found.notes
        made.append(saved)
    return made


Format = Literal["flent", "csv", "json", "recording"]


def export(
    recording: Source,
    format: Format,
    output: str | PathLike[str] | None = None,
    *,
    raw: bool = False,
    redact: bool = False,
    overwrite: bool = False,
) -> Path:
    """Write a recording as a file of Flent, as CSV, as JSON, or as a copy.

    Args:
        recording: open, or by its path.
        format: ``"recording"`` makes a copy.
        output: the file or folder; by default beside the recording, under its name.
        raw: with ``"csv"``: one line for each sample instead of a grid of equal steps.
        redact: replace names and addresses of hosts by pseudonyms, and hide secrets.
        overwrite: replace a file that is there.

    Returns:
        The path that was written.

    Raises:
        ValueError: there is no such format.
        FileExistsError: the file is there already.
        whydrop.Error: the recording cannot be read or written.
    """
    from whydrop.formats import exporting

    if format not in get_args(Format):
        raise Mistake(f"format: {format!r}: expected {', '.join(get_args(Format))}")
    (found,) = opened([recording])
    target = exporting.beside(found, format) if output is None else Path(output)
    if target.exists() and not overwrite:
        raise FileExistsError(f"{str(target)!r} exists: overwrite=True overwrites it")
    return exporting.write(exporting.redacted(found) if redact else found, format, target, raw=raw)

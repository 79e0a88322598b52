"""Stores: filled from files and captures, and asked by studies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whydrop.explaining.many.explaining import Tally
    from whydrop.formats.archives.ingesting import Report
    from whydrop.studies.discards.study import Results as Discards
    from whydrop.studies.tcp.study import Results as Limits


def import_into(
    store: str | PathLike[str],
    *files: str | PathLike[str],
    again: bool = False,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Read files of measurement platforms into a store.

    Args:
        store: its folder, or a prefix of an object store; made if it is not there.
        files: switch telemetry of DISCO, web100 snaplogs, tcp-info, SideStream, NDT5, NDT7, logs of ``ss``, archives
            and folders of these, and recordings, of which the store takes the TCP statistics.
        again: read files that were read before.
        workers: processes that read; by default one for each processor.
        progress: called with the bytes read so far and the bytes in all.

    Returns:
        What became of each file, and the rows of each table.

    Raises:
        whydrop.Error: the store cannot be read or written. A file that cannot be read stops none of the others.
    """
    from whydrop.formats.archives.ingesting import ingest
    from whydrop.store.store import Store

    return ingest(Store.create(store), [Path(file) for file in files], progress, again=again, processes=workers)


def explain_into(
    store: str | PathLike[str],
    *captures: str | PathLike[str],
    workers: int | None = None,
    time_limit_s: float = 600.0,
    memory_limit_bytes: int | None = None,
    retry_failed: bool = False,
    progress: Callable[[Tally], None] | None = None,
) -> Tally:
    """Explain captures, each by itself, into the tables of a store; captures that are in it are left out.

    Args:
        store: its folder, or a prefix of an object store; made if it is not there.
        captures: files, folders of them, and ``@FILE`` for a list of them.
        workers: processes; by default one for each processor.
        time_limit_s: for one capture.
        memory_limit_bytes: for one process; by default its share of 90 % of the memory.
        retry_failed: try captures again that could not be analysed before.
        progress: called as captures are explained.

    Raises:
        whydrop.Error: the store cannot be read or written. A capture that cannot be analysed is a row, too.
    """
    from whydrop.explaining.many import finding
    from whydrop.explaining.many.explaining import explain_into as explained
    from whydrop.explaining.many.workers import CostLimits
    from whydrop.store.store import Store

    found = finding.captures([Path(capture) for capture in captures])
    tally = explained(
        Store.create(store),
        found.paths,
        workers=workers,
        limits=CostLimits(time_limit_s, memory_limit_bytes),
        retry_failed=retry_failed,
        progress=progress,
    )
    tally.unreadable.extend(found.unreadable)
    return tally


def study(
    store: str | PathLike[str],
    parameters: str | PathLike[str] | None = None,
    *,
    settings: Sequence[str] = (),
    as_published: bool = False,
    backend: str = "duckdb",
    mapping: str | PathLike[str] | None = None,
) -> Discards:
    """Study the discards of a store's switches and the speeds of its clients (docs/discards.md).

    Args:
        store: its folder, or a prefix of an object store.
        parameters: a TOML file; by default the parameters of the published report.
        settings: parameters as ``change.significance=0.05``, which win over the file.
        as_published: compute as the report did, its faults included.
        backend: the engine: ``duckdb``, ``spark``, ``spark://host:port``, ``bigquery:PROJECT``.
        mapping: with BigQuery, a file that says how its tables become ours; by default M-Lab's.

    Returns:
        Tables as polars frames, and notes.

    Raises:
        whydrop.Error: the parameters have mistakes, or the engine cannot open the store.
    """
    from whydrop.store.engines import open_backend
    from whydrop.studies.discards import parameter_files
    from whydrop.studies.discards.study import run

    chosen = parameter_files.read(
        None if parameters is None else Path(parameters),
        [*settings, *(['definitions="published"'] if as_published else [])],
    )
    with open_backend(fspath(store), backend, mapping=None if mapping is None else Path(mapping)) as opened:
        return run(opened, chosen)


def study_tcp(
    store: str | PathLike[str],
    *,
    first: date | None = None,
    last: date | None = None,
    sites: Sequence[str] = (),
    backend: str = "duckdb",
) -> Limits:
    """Study what limits the TCP connections of a store, by site, day and network (docs/study-tcp.md).

    Args:
        store: its folder, or a prefix of an object store.
        first: the first UTC day; by default the first that the store has.
        last: the last UTC day, included.
        sites: only these; none: all.
        backend: the engine: ``duckdb``, ``spark``, ``spark://host:port``.

    Returns:
        Tables as polars frames, and notes.

    Raises:
        whydrop.Error: the engine cannot open the store, or it failed.
    """
    from whydrop.store.engines import open_backend
    from whydrop.studies.tcp.study import Parameters, run

    with open_backend(fspath(store), backend) as opened:
        return run(opened, Parameters(first, last, tuple(sites)))

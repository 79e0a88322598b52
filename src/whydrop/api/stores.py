"""Stores: filled from switches, files and captures, and asked by studies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from whydrop.explaining.many.explaining import Tally
    from whydrop.formats.archives.ingesting import Report
    from whydrop.store.engines import Backend
    from whydrop.studies.discards.flow_control import FlowControl
    from whydrop.studies.discards.multi_stream import MultiStream
    from whydrop.studies.discards.parameters import Parameters
    from whydrop.studies.discards.pauses import Pauses
    from whydrop.studies.discards.study import Results as Discards
    from whydrop.studies.queues.study import Results as Queues
    from whydrop.studies.tcp.study import Results as Limits


@dataclass(frozen=True)
class Collected:
    """The outcome of :func:`collect`.

    Attributes:
        polls: counts of polls by status: ``ok``, and why the others failed.
        complete: whether the store took all readings.
    """

    polls: dict[str, int]
    complete: bool


def collect(
    config: str | PathLike[str],
    *,
    duration_s: float | None = None,
    say: Callable[[str], None] = lambda _line: None,
) -> Collected:
    """Poll switches by SNMP, and keep their counters in a store, until Ctrl-C or for a time.

    Args:
        config: a TOML file (docs/switches.md).
        duration_s: stop after this time; by default at Ctrl-C.
        say: called with a line when a switch changes its state.

    Raises:
        whydrop.Error: the file has mistakes, or the store or the exporter cannot be opened.
    """
    import asyncio

    from whydrop.monitoring.switches import config as configuration
    from whydrop.monitoring.switches import running

    wanted = configuration.load(Path(config))
    running.allow_sockets(len(wanted.switches), say)
    outputs = running.delivery(wanted, say)
    polls: dict[str, int] = {}

    async def poll() -> None:
        nonlocal polls
        collector = running.collector(wanted, outputs, say)
        polls = collector.standings.counts
        await collector.run(asyncio.Event(), duration_s)

    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(poll())
    finally:
        complete = outputs.close()
    return Collected(polls, complete)


def collect_once(config: str | PathLike[str]) -> pl.DataFrame:
    """Poll the switches of a configuration once, and keep nothing.

    Returns:
        A row for each counter: ``switch``, ``port``, ``machine``, ``counter``, ``value``; a switch that does not answer
        has one row with the reason as ``problem``.

    Raises:
        whydrop.Error: the file has mistakes.
    """
    import asyncio

    import polars as pl

    from whydrop.monitoring.switches import config as configuration
    from whydrop.monitoring.switches import running
    from whydrop.monitoring.switches.sessions import AskingError

    rows: list[dict[str, Any]] = []
    for source, result in asyncio.run(running.examined(configuration.load(Path(config)), poll=True)):
        if result is None or isinstance(result, AskingError) or result.status != "ok":
            problem = result.message if result is not None and not isinstance(result, AskingError) else result
            rows.append({"switch": source.name, "problem": str(problem)})
            continue
        rows += [
            {"switch": source.name, "port": port.name, "machine": port.machine, "counter": counter.name, "value": value}
            for (port, counter), value in result.values.items()
        ]
    types = dict.fromkeys(("switch", "port", "machine", "counter"), pl.String())
    return pl.DataFrame(rows, schema={**types, "value": pl.UInt64(), "problem": pl.String()})


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
    changes: str | PathLike[str] | None = None,
    backend: str = "duckdb",
    mapping: str | PathLike[str] | None = None,
    endpoint: str | None = None,
) -> Discards:
    """Study the discards of a store's switches and the speeds of its clients (docs/discards.md).

    Args:
        store: its folder, or a prefix of an object store.
        parameters: a TOML file; by default the parameters of the published report.
        settings: parameters as ``change.significance=0.05``, which win over the file.
        as_published: compute as the report did, its faults included.
        changes: a CSV file of changes (date, text and site), which figures over time show.
        backend: the engine: ``duckdb``, ``spark``, ``spark://host:port``, ``bigquery:PROJECT``.
        mapping: with BigQuery, a file that says how its tables become ours; by default M-Lab's.
        endpoint: with BigQuery, the URL of another service that speaks its protocol, such as an emulator.

    Returns:
        Tables as polars frames, and notes.

    Raises:
        whydrop.Error: the parameters or the changes have mistakes, or the engine cannot open the store.
    """
    from whydrop.studies.discards.changes_file import read as read_changes
    from whydrop.studies.discards.study import run

    settings = [*settings, *(['definitions="published"'] if as_published else [])]
    noted = () if changes is None else tuple(read_changes(Path(changes)))
    with _asked(store, parameters, settings, backend, mapping, endpoint) as (opened, chosen):
        return replace(run(opened, chosen), noted=noted)


@contextlib.contextmanager
def _asked(
    store: str | PathLike[str],
    parameters: str | PathLike[str] | None,
    settings: Sequence[str],
    backend: str,
    mapping: str | PathLike[str] | None,
    endpoint: str | None,
) -> Iterator[tuple[Backend, Parameters]]:
    """Open what a study of discards asks, with its parameters."""
    from whydrop.store.engines import open_backend
    from whydrop.studies.discards.parameters import read

    chosen = read(None if parameters is None else Path(parameters), list(settings))
    table_mapping = None if mapping is None else Path(mapping)
    with open_backend(fspath(store), backend, mapping=table_mapping, endpoint=endpoint) as opened:
        yield opened, chosen


def study_rollout(
    store: str | PathLike[str],
    changes: str | PathLike[str],
    *,
    days: int = 14,
    parameters: str | PathLike[str] | None = None,
    settings: Sequence[str] = (),
    backend: str = "duckdb",
    mapping: str | PathLike[str] | None = None,
    endpoint: str | None = None,
) -> pl.DataFrame:
    """Judge each stage of a change against the sites that were not changed (docs/discards.md).

    Args:
        store: its folder, or a prefix of an object store.
        changes: a CSV file of changes: date, text and site.
        days: how many days before and after each stage are compared.
        parameters: as of :func:`study`.
        settings: as of :func:`study`.
        backend: as of :func:`study`.
        mapping: as of :func:`study`.
        endpoint: as of :func:`study`.

    Returns:
        A row for each stage and measure (discards, speed): sites, ratios, interval, p-value and conclusion.

    Raises:
        whydrop.Error: a file has mistakes, or the engine cannot open the store.
    """
    from whydrop.studies.discards.changes_file import read as read_changes
    from whydrop.studies.discards.rollout import judged_stages

    noted = read_changes(Path(changes))
    with _asked(store, parameters, settings, backend, mapping, endpoint) as (opened, chosen):
        return judged_stages(opened, chosen, noted, days)


def study_flow_control(
    store: str | PathLike[str],
    *,
    parameters: str | PathLike[str] | None = None,
    settings: Sequence[str] = (),
    backend: str = "duckdb",
    mapping: str | PathLike[str] | None = None,
    endpoint: str | None = None,
) -> FlowControl:
    """Find ports at which flow control could replace discards, and what else a pause would stop (docs/discards.md).

    Args:
        store: its folder, or a prefix of an object store.
        parameters: as of :func:`study`.
        settings: as of :func:`study`.
        backend: as of :func:`study`.
        mapping: as of :func:`study`.
        endpoint: as of :func:`study`.

    Returns:
        Frames of ports, of the ports that feed them and of others at the same time, and notes on what is unknown.

    Raises:
        whydrop.Error: a file has mistakes, or the engine cannot open the store.
    """
    from whydrop.studies.discards.flow_control import find

    with _asked(store, parameters, settings, backend, mapping, endpoint) as (opened, chosen):
        return find(opened, chosen)


def study_streams(
    store: str | PathLike[str],
    *,
    parameters: str | PathLike[str] | None = None,
    settings: Sequence[str] = (),
    backend: str = "duckdb",
) -> MultiStream:
    """Repeat the comparison before and after a change with tests of several connections at once (docs/discards.md).

    Args:
        store: its folder, or a prefix of an object store.
        parameters: as of :func:`study`.
        settings: as of :func:`study`.
        backend: as of :func:`study`, but BigQuery, which has no table of samples.

    Returns:
        Frames of clients' speeds, of comparisons by both kinds of tests, and whether these agree; notes.

    Raises:
        whydrop.Error: a file has mistakes, or the engine cannot open the store.
    """
    from whydrop.studies.discards.multi_stream import compare

    with _asked(store, parameters, settings, backend, None, None) as (opened, chosen):
        return compare(opened, chosen)


def study_pauses(
    store: str | PathLike[str],
    *,
    parameters: str | PathLike[str] | None = None,
    settings: Sequence[str] = (),
    backend: str = "duckdb",
    mapping: str | PathLike[str] | None = None,
    endpoint: str | None = None,
) -> Pauses:
    """Compare each day's pause frames with the speed of downloads and with discards, by site (docs/discards.md).

    Args:
        store: its folder, or a prefix of an object store.
        parameters: as of :func:`study`.
        settings: as of :func:`study`.
        backend: as of :func:`study`.
        mapping: as of :func:`study`.
        endpoint: as of :func:`study`.

    Returns:
        Frames of days and of correlations, and notes on what is unknown.

    Raises:
        whydrop.Error: a file has mistakes, or the engine cannot open the store.
    """
    from whydrop.studies.discards.pauses import pauses

    with _asked(store, parameters, settings, backend, mapping, endpoint) as (opened, chosen):
        return pauses(opened, chosen)


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


def study_queues(
    store: str | PathLike[str],
    *,
    queue: str = "queue",
    strata: Sequence[str] = ("line", "control", "scene"),
    baseline: str = "pfifo_fast",
    target_ms: float = 50.0,
    backend: str = "duckdb",
) -> Queues:
    """Study which queue suits which line, from recordings of one experiment (docs/queue-study.md).

    Args:
        store: its folder, or a prefix of an object store.
        queue: variable of the batch that names the queue.
        strata: variables that name the conditions; queues are compared within them.
        baseline: the queue without AQM that others are compared with.
        target_ms: induced delay that counts as contained.
        backend: the engine: ``duckdb``, ``spark``, ``spark://host:port``.

    Returns:
        Tables as polars frames, and notes.

    Raises:
        whydrop.Error: the engine cannot open the store, or it failed; a name or the target is none that can be.
    """
    from whydrop.store.engines import open_backend
    from whydrop.studies.queues.parameters import Parameters
    from whydrop.studies.queues.study import run

    # A text is one name, not a list of letters.
    wanted = Parameters(queue, (strata,) if isinstance(strata, str) else tuple(strata), baseline, target_ms)
    with open_backend(fspath(store), backend) as opened:
        return run(opened, wanted)

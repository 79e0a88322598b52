"""``whydrop store``: what a store holds; reading files and captures into it; compacting it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Command

if TYPE_CHECKING:
    from whydrop.show import document as doc
    from whydrop.store.compacting import Compacted
    from whydrop.store.contents import Contents
    from whydrop.store.store import Store

EXAMPLES = """
\b
Examples:
  whydrop store telemetry
  whydrop store import telemetry archives/ ss.log
  whydrop store explain telemetry captures/ @more.txt
  whydrop store compact telemetry --before 2018-03-01
  whydrop store s3://bucket/telemetry --json
"""
IMPORT_EXAMPLES = """
\b
Examples:
  whydrop store import telemetry 2018*-switch.json.gz
  whydrop store import telemetry archives/
  whydrop store import telemetry watch.recording ss.log
  whydrop store import s3://bucket/telemetry *.tgz --json
"""
EXPLAIN_EXAMPLES = """
\b
Examples:
  whydrop store explain paths.store captures/
  whydrop store explain paths.store @list.txt --workers 8
"""
COMPACT_EXAMPLES = """
\b
Examples:
  whydrop store compact telemetry
  whydrop store compact telemetry --table counters
"""

_MOST_SITES = 12
_WORKERS = click.option(
    "--workers", type=quantities.Whole(1), metavar="N", help="Number of processes.  [default: one a processor]"
)


@click.command("store", cls=Command, epilog=EXAMPLES)
@click.argument("place", metavar="STORE")
@options.as_json
def command(place: str, as_json: bool) -> None:
    """Show what a store holds: its tables with rows, days and bytes, and its sites."""
    _show(place, as_json=as_json)


@command.subcommand("import", short_help="Read files of measurement platforms into a store.", epilog=IMPORT_EXAMPLES)
@click.argument("place", metavar="STORE")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=options.ANY_PATH)
@click.option("--again", is_flag=True, help="Also read files that were read before.")
@_WORKERS
@options.as_json
def import_(place: str, files: tuple[Path, ...], again: bool, workers: int | None, as_json: bool) -> None:
    """Read files, folders and archives of measurement platforms into a store (docs/archives.md)."""
    from whydrop.cli import import_into_store

    sys.exit(import_into_store.run(files, place, again=again, workers=workers, as_json=as_json))


@command.subcommand("explain", short_help="Explain many captures into a store.", epilog=EXPLAIN_EXAMPLES)
@click.argument("place", metavar="STORE")
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, type=options.ANY_PATH)
@options.backend("local or spark://HOST:PORT.", "local")
@_WORKERS
@click.option("--time-limit", type=quantities.DURATION, metavar="TIME",
              help="Longest time for one capture.  [default: 10 min]")  # fmt: skip
@click.option("--memory-limit", type=quantities.SIZE, metavar="SIZE",
              help="Largest memory of one process.  [default: its share of 90 % of all]")  # fmt: skip
@click.option("--retry-failed", is_flag=True, help="Analyse captures that failed before again.")
@options.as_json
def explain(
    place: str,
    captures: tuple[Path, ...],
    backend: str,
    workers: int | None,
    time_limit: float | None,
    memory_limit: float | None,
    retry_failed: bool,
    as_json: bool,
) -> None:
    """Explain many captures, also of folders and @FILE lists, each by itself, into a store (docs/many-captures.md)."""
    from whydrop.cli.explain_many import explain_into_store
    from whydrop.store.engines import BackendError
    from whydrop.store.errors import StoreError

    limits = {"time_s": time_limit, "memory_bytes": memory_limit and int(memory_limit)}
    try:
        status = explain_into_store(
            place, captures, backend=backend, workers=workers, limits=limits, retry=retry_failed, as_json=as_json
        )
    except (StoreError, BackendError, OSError) as reason:
        status = ending.status(reason)
    sys.exit(status)


@command.subcommand("compact", short_help="Merge the files of each day into one.", epilog=COMPACT_EXAMPLES)
@click.argument("place", metavar="STORE")
@click.option("--table", metavar="TABLE", help="Only this table.  [default: all]")
@click.option("--before", metavar="DAY", help="Only days before this UTC day, such as 2018-03-01.")
@options.as_json
def compact(place: str, table: str | None, before: str | None, as_json: bool) -> None:
    """Merge the files of each past day of a store into one, so that queries open fewer files."""
    _check_usage(table, before)
    _show(place, as_json=as_json, compacting=(table, before))


def _show(place: str, *, as_json: bool, compacting: tuple[str | None, str | None] | None = None) -> None:
    from whydrop.recording.errors import RecordingError
    from whydrop.store.store import Store

    try:
        store = Store.open(place)
        done = store.compact(*compacting) if compacting is not None else None
        contents = store.contents()
    except (RecordingError, OSError) as reason:
        sys.exit(ending.status(reason))
    if as_json:
        import json

        ending.write_document(json.dumps(_document(store, place, contents, done or []), indent=1))
    else:
        from whydrop.show import terminal

        terminal.print_document(_text(place, contents, done))
    for note in store.notes:
        sys.stderr.write(f"whydrop: {ending.printable(' '.join(note.split()))}\n")
    sys.exit(1 if store.notes else 0)


def _check_usage(table: str | None, before: str | None) -> None:
    from whydrop.store.tables import TABLES

    if table is not None and table not in TABLES:
        raise click.UsageError(f"--table: no table {ending.printable(table)!r}. Expected one of {', '.join(TABLES)}.")
    if before is not None and not _is_day(before):
        raise click.UsageError(f"--before: {ending.printable(before)!r}. Expected a UTC day such as 2018-03-01.")


def _is_day(text: str) -> bool:
    from datetime import date

    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _text(place: str, contents: list[Contents], done: list[Compacted] | None) -> doc.Document:
    from whydrop.show import document as doc
    from whydrop.text.quantities import count, plural, size

    total = f"{plural(sum(of.rows for of in contents), 'row')} in {size(sum(of.bytes for of in contents))}"
    columns: doc.Columns[Contents] = {
        doc.Column("Table"): lambda of: of.table,
        doc.Column("Rows", number=True): lambda of: count(of.rows),
        doc.Column("Days", True, 2): lambda of: count(len(of.days)),
        doc.Column("Files", True, 3): lambda of: count(of.parts),
        doc.Column("Size", True, 1): lambda of: size(of.bytes),
        doc.Column("First", True, 4): lambda of: _time(of.first_ns),
        doc.Column("Last", True, 5): lambda of: _time(of.last_ns),
    }
    sites = sorted({site for of in contents for site in of.sites if site is not None})
    more = f" and {len(sites) - _MOST_SITES} more" if len(sites) > _MOST_SITES else ""
    shown = doc.parts(
        doc.Text("" if done is None else _compacted(done)),
        doc.Table.of("Tables", columns, contents),
        doc.Text(f"Sites ({len(sites)}): {', '.join(sites[:_MOST_SITES])}{more}" if sites else ""),
    )
    return doc.Document(place, (doc.Section(f"{place}: {total if contents else 'the store is empty'}", shown),))


def _compacted(done: list[Compacted]) -> str:
    from whydrop.text.quantities import plural, size

    if not done:
        return "Compacted: nothing, as no past day has several files."
    before, after = sum(of.bytes_before for of in done), sum(of.bytes_after for of in done)
    files = plural(sum(of.parts for of in done), "file")
    return f"Compacted: {files} of {size(before)} became {plural(len(done), 'file')} of {size(after)}."


def _time(ns: int | None) -> str:
    from datetime import UTC, datetime

    if ns is None:
        return "–"
    return datetime.fromtimestamp(ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _document(store: Store, place: str, contents: list[Contents], done: list[Compacted]) -> dict[str, Any]:
    from whydrop import _core

    tables = {
        of.table: vars(of) | {"days": sorted(of.days), "sites": sorted(site for site in of.sites if site is not None)}
        for of in contents
    }
    return {
        "whydrop": _core.__version__,
        "schema": 1,
        "store": place,
        "tables": tables,
        "compacted": [vars(of) for of in done],
        "notes": store.notes,
    }

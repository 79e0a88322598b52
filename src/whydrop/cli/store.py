"""``whydrop store``: what a store holds; reading files and captures into it; compacting it."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import whydrop
from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Command
from whydrop.text.quantities import count, instant, plural, size

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
def command(place: str, as_json: bool) -> int:
    """Show what a store holds: its tables with rows, days and bytes, and its sites."""
    return _show(place, as_json=as_json)


@command.subcommand("import", short_help="Read files of measurement platforms into a store.", epilog=IMPORT_EXAMPLES)
@click.argument("place", metavar="STORE")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=options.ANY_PATH)
@click.option("--again", is_flag=True, help="Also read files that were read before.")
@_WORKERS
@options.as_json
def import_(place: str, files: tuple[Path, ...], as_json: bool, **given: Any) -> int:
    """Read files, folders and archives of measurement platforms into a store (docs/archives.md)."""
    from whydrop.cli import import_into_store

    return import_into_store.run(files, place, as_json=as_json, **given)


@command.subcommand("explain", short_help="Explain many captures into a store.", epilog=EXPLAIN_EXAMPLES)
@click.argument("place", metavar="STORE")
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, type=options.ANY_PATH)
@options.backend("local or spark://HOST:PORT.", "local")
@_WORKERS
@click.option("--time-limit", "time_s", type=quantities.DURATION, metavar="TIME",
              help="Longest time for one capture.  [default: 10 min]")  # fmt: skip
@click.option("--memory-limit", "memory_bytes", type=quantities.SIZE, metavar="SIZE",
              help="Largest memory of one process.  [default: its share of 90 % of all]")  # fmt: skip
@click.option("--retry-failed", is_flag=True, help="Also analyse captures that failed before.")
@options.as_json
def explain(place: str, captures: tuple[Path, ...], as_json: bool, **given: Any) -> int:
    """Explain many captures, also of folders and @FILE lists, each by itself, into a store (docs/many-captures.md)."""
    from whydrop.cli import explain_many

    return explain_many.run(place, captures, as_json=as_json, **given)


@command.subcommand("compact", short_help="Merge the files of each day into one.", epilog=COMPACT_EXAMPLES)
@click.argument("place", metavar="STORE")
@click.option("--table", metavar="TABLE", help="Only this table.  [default: all]")
@click.option("--before", metavar="DAY", help="Only days before this UTC day, such as 2018-03-01.")
@options.as_json
def compact(place: str, table: str | None, before: str | None, as_json: bool) -> int:
    """Merge the files of each past day of a store into one, so that queries open fewer files."""
    _check_usage(table, before)
    return _show(place, as_json=as_json, compacting=(table, before))


def _show(place: str, *, as_json: bool, compacting: tuple[str | None, str | None] | None = None) -> int:
    from whydrop.store.store import Store

    store = Store.open(place)
    done = store.compact(*compacting) if compacting is not None else None
    contents = store.contents()
    if as_json:
        ending.write_json(_as_json(store, place, contents, done or []), indent=1)
    else:
        ending.show(_document(place, contents, done))
    for note in store.notes:
        ending.note(" ".join(note.split()))
    return 1 if store.notes else 0


def _check_usage(table: str | None, before: str | None) -> None:
    from whydrop.store.tables import TABLES

    if table is not None and table not in TABLES:
        raise click.UsageError(f"--table: no table {ending.printable(table)!r}. Expected one of {', '.join(TABLES)}.")
    if before is not None and not _is_day(before):
        raise click.UsageError(f"--before: {ending.printable(before)!r}. Expected a UTC day such as 2018-03-01.")


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _document(place: str, contents: list[Contents], done: list[Compacted] | None) -> doc.Document:
    from whydrop.show import document as doc

    total = f"{plural(sum(of.rows for of in contents), 'row')} in {size(sum(of.bytes for of in contents))}"
    columns: doc.Columns[Contents] = {
        doc.Column("Table"): lambda of: of.table,
        doc.Column("Rows", number=True): lambda of: count(of.rows),
        doc.Column("Days", True, 2): lambda of: count(len(of.days)),
        doc.Column("Files", True, 3): lambda of: count(of.parts),
        doc.Column("Size", True, 1): lambda of: size(of.bytes),
        doc.Column("First", True, 4): lambda of: doc.known(of.first_ns, _time),
        doc.Column("Last", True, 5): lambda of: doc.known(of.last_ns, _time),
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
    if not done:
        return "Compacted: nothing, as no past day has several files."
    before, after = sum(of.bytes_before for of in done), sum(of.bytes_after for of in done)
    files = plural(sum(of.parts for of in done), "file")
    return f"Compacted: {files} of {size(before)} became {plural(len(done), 'file')} of {size(after)}."


def _time(ns: int) -> str:
    """To the second."""
    return f"{instant(ns // 1_000_000_000)[:19]}Z"


def _as_json(store: Store, place: str, contents: list[Contents], done: list[Compacted]) -> dict[str, Any]:
    tables = {
        of.table: vars(of) | {"days": sorted(of.days), "sites": sorted(site for site in of.sites if site is not None)}
        for of in contents
    }
    return {
        "whydrop": whydrop.__version__,
        "schema": 1,
        "store": place,
        "tables": tables,
        "compacted": [vars(of) for of in done],
        "notes": store.notes,
    }

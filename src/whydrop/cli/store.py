"""``whydrop store``: what a store holds; one part of many parts of a day."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import aligned, ending

if TYPE_CHECKING:
    from whydrop.store.compacting import Compacted
    from whydrop.store.contents import Contents
    from whydrop.store.store import Store

EXAMPLES = """
\b
Examples:
  whydrop store telemetry
  whydrop store telemetry --compact
  whydrop store s3://bucket/telemetry --json
"""

_MOST_SITES = 12


@click.command(
    "store",
    epilog=EXAMPLES,
)
@click.argument("place", metavar="DIR")
@click.option("--compact", is_flag=True, help="Make one file of the many files of each day that is over.")
@click.option("--table", metavar="TABLE", help="Compact this table only.")
@click.option("--before", metavar="DAY", help="Compact days before this UTC day only, such as 2018-03-01.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document on standard output, and nothing else.")
def command(place: str, compact: bool, table: str | None, before: str | None, as_json: bool) -> None:
    """Say what a store holds: tables, days, rows, bytes, and the sites that they tell of.

    With --compact days that many files were read into, or that a collector wrote hour by hour, become one file each:
    whoever reads many days opens fewer.

    Exits with 1 when the store, or a part of it, could not be read.
    """
    from whydrop.recording.errors import RecordingError
    from whydrop.store.store import Store

    _check_usage(compact, table, before)
    try:
        store = Store.open(place)
        done = store.compact(table, before) if compact else []
        contents = store.contents()
    except (RecordingError, OSError) as reason:
        sys.exit(ending.status(reason))
    if as_json:
        import json

        ending.write_document(json.dumps(_document(store, place, contents, done), indent=1))
    else:
        _print(place, contents, done if compact else None)
    for note in store.notes:
        sys.stderr.write(f"whydrop: {ending.printable(' '.join(note.split()))}\n")
    sys.exit(1 if store.notes else 0)


def _check_usage(compact: bool, table: str | None, before: str | None) -> None:
    from whydrop.store.tables import TABLES

    if not compact and (table is not None or before is not None):
        raise click.UsageError("--table and --before say what to compact: give --compact too.")
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


def _print(place: str, contents: list[Contents], done: list[Compacted] | None) -> None:
    from whydrop.text import quantities

    print(f"{ending.printable(place)}: {quantities.count(sum(of.rows for of in contents))} rows", end="")
    print(f" in {quantities.size(sum(of.bytes for of in contents))}" if contents else ": the store is empty")
    if done is not None:
        before, after = sum(of.bytes_before for of in done), sum(of.bytes_after for of in done)
        files = sum(of.parts for of in done)
        print(
            f"Compacted: {quantities.count(files)} files of {quantities.size(before)} became "
            f"{quantities.count(len(done))} of {quantities.size(after)}"
            if done
            else "Compacted: nothing, as no day that is over has several files"
        )
    if contents:
        print()
        for line in aligned.numbers(("Table", "Rows", "Days", "Files", "Size", "First", "Last"), map(_row, contents)):
            print(line)
    sites = sorted({site for of in contents for site in of.sites if site is not None})
    if sites:
        more = f" and {len(sites) - _MOST_SITES} more" if len(sites) > _MOST_SITES else ""
        print()
        print(aligned.paragraph(f"Sites ({len(sites)}): {', '.join(sites[:_MOST_SITES])}{more}"))


def _row(of: Contents) -> tuple[str, ...]:
    from whydrop.text import quantities

    span = (_time(of.first_ns), _time(of.last_ns))
    return (
        of.table,
        quantities.count(of.rows),
        quantities.count(len(of.days)),
        quantities.count(of.parts),
        quantities.size(of.bytes),
        *span,
    )


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

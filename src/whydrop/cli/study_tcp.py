"""``whydrop study tcp``: what limits the TCP connections of a store."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, options, progress, study_output
from whydrop.cli.command import Command
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    from whydrop.studies.tcp.study import Results

EXAMPLES = """
\b
Examples:
  whydrop study tcp fleet.store
  whydrop study tcp fleet.store --site ams01 --site lhr01
  whydrop study tcp fleet.store --first 2019-05-01
  whydrop study tcp fleet.store -o report --format html
  whydrop study tcp fleet.store --backend spark:local[4]
"""
SCHEMA = 1
_FORMATS = ("png", "svg", "pdf", "html", "parquet", "csv")
_DEFAULT = "html,png,csv"
# Tables by network can have 100 000 rows: only the files hold them.
_IN_DOCUMENT = ("all", "site", "day")
_DAY = click.DateTime(["%Y-%m-%d"])


def _listed(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    given = tuple(dict.fromkeys(part.strip() for part in value.split(",")))
    wrong = [part for part in given if part not in _FORMATS]
    if wrong:
        raise click.BadParameter(f"{ending.printable(wrong[0])!r}: expected some of {', '.join(_FORMATS)}.")
    return given


@click.command("tcp", cls=Command, epilog=EXAMPLES)
@click.argument("store", metavar="STORE")
@click.option("--first", type=_DAY, metavar="DAY", help="First UTC day, such as 2019-05-01.  [default: the store's]")
@click.option("--last", type=_DAY, metavar="DAY", help="Last UTC day.  [default: the store's]")
@click.option("--site", "sites", multiple=True, metavar="SITE", help="Only this site. Repeatable.")
@options.backend("duckdb, spark://HOST:PORT or spark:local[N].", "duckdb")
@options.output_folder("Write figures, report and tables into DIR.", default=None)
@click.option("-f", "--format", "formats", default=_DEFAULT, show_default=True, callback=_listed, metavar="LIST",
              help=f"One or more of {','.join(_FORMATS)}.")  # fmt: skip
@options.as_json
def tcp(
    store: str,
    first: datetime | None,
    last: datetime | None,
    sites: tuple[str, ...],
    backend: str,
    output: Path | None,
    formats: tuple[str, ...],
    as_json: bool,
) -> None:
    """Find what limits the TCP connections of a store, by site, day and clients' network (docs/study-tcp.md)."""
    from whydrop.store.engines import BackendError, check_engine
    from whydrop.studies.tcp.study import Parameters

    parameters = Parameters(first and first.date(), last and last.date(), sites)
    if first and last and first > last:
        raise click.UsageError(f"--first ({parameters.first}) is after --last ({parameters.last}).")
    if backend.startswith("bigquery"):
        raise click.UsageError("--backend: BigQuery has no table of samples: import the files into a store.")
    try:
        check_engine(backend)
    except BackendError as reason:
        raise click.UsageError(f"--backend: {ending.printable(str(reason))}") from None
    sys.exit(_run(store, backend, parameters, output, formats, as_json=as_json))


def _run(
    store: str, engine: str, parameters: Any, output: Path | None, formats: tuple[str, ...], *, as_json: bool
) -> int:
    from whydrop.store.engines import BackendError, open_backend
    from whydrop.studies.study_files import Folder
    from whydrop.studies.tcp import study

    cancelling.import_polars()
    folder = None if output is None else Folder(output, {"parameters": parameters.document()})
    try:
        with (
            study_output.said_where(folder),
            open_backend(store, engine) as backend,
            progress.stepping("Opening the store") as advance,
        ):
            results = study.run(backend, parameters, advance)
            cancelling.raise_if_received()
            files = 0
            if folder is not None and results.facts["connections"]:
                files = _write(results, folder, formats, advance)
    except (BackendError, OSError) as reason:
        return ending.status(reason)
    if as_json:
        ending.write_document(json.dumps(document(results), ensure_ascii=False, allow_nan=False))
    else:
        from whydrop.show import terminal
        from whydrop.studies.tcp import document as documents

        terminal.print_document(documents.document(results))
    if folder is not None and files:
        study_output.say_files(folder, files, sys.stderr if as_json else sys.stdout)
    return 0 if results.facts["connections"] else ending.NOT_ANALYSED


def _write(results: Results, folder: Any, formats: tuple[str, ...], advance: progress.Advance) -> int:
    from whydrop.show import html
    from whydrop.studies import study_files
    from whydrop.studies.tcp import document as documents
    from whydrop.studies.tcp import figures

    pictures = figures.figures(results)
    contents = study_files.Contents(
        {"parameters": results.parameters.document(), "notes": results.notes, "facts": results.facts},
        results.tables,
        pictures,
        lambda: html.page(documents.document(results, pictures)),
    )
    return len(
        study_files.write(contents, folder, formats, lambda what, done, of: advance(f"Writing {what}", done, of))
    )


def document(results: Results) -> dict[str, Any]:
    """The study as JSON: its sentences and tables, without those by network."""
    import polars as pl

    from whydrop import _core
    from whydrop.studies.tcp import sentences

    tables = {
        name: frame.filter(pl.col("by").is_in(_IN_DOCUMENT)) if "by" in frame.columns else frame
        for name, frame in results.tables.items()
    }
    return {
        "whydrop": _core.__version__,
        "schema": SCHEMA,
        "study": "tcp",
        "parameters": results.parameters.document(),
        "summary": sentences.summary(results),
        "notes": results.notes,
        "facts": results.facts,
        "rows": {name: frame.height for name, frame in results.tables.items()},
        "tables": {name: study_output.rows_of(frame) for name, frame in tables.items()},
    }

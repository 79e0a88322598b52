"""``whydrop study``: questions that a whole store answers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, study_tcp, usage
from whydrop.cli.quantities import DURATION

if TYPE_CHECKING:
    from whydrop.studies.discards.parameters import Parameters

_STUDIES = {
    "discards": "Do switches' discards keep downloads slow? Seven figures, and which tests were exposed.",
    "tcp": "What limits TCP connections, by site, day and clients' network; distributions and change.",
}

EXAMPLES = """
\b
Examples:
  whydrop study discards fleet.store
  whydrop study discards fleet.store --output report --format html,png,csv
  whydrop study discards fleet.store --as-published --set days.first=2017-01-01
  whydrop study discards --example > study.toml
  whydrop study discards fleet.store --parameters study.toml --backend spark://host:7077
  whydrop study discards fleet.store --tests --class non-zero > exposed.csv
  said=$(whydrop study discards fleet.store --watch 2>&1) || echo "$said" | mail -s discards noc@example.org
"""

FIGURES = ("png", "svg", "pdf", "html")
TABLES = ("parquet", "csv")
_DEFAULT = "html,png,parquet,csv"
_LISTS = ("csv", "json", "parquet")
_CLASSES = ("zero", "non-zero", "unknown")


@click.group(
    "study",
    invoke_without_command=True,
    epilog="Example: whydrop study discards fleet.store --output report",
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Ask a store of many recordings, switches' counters and tests a question (docs/discards.md, docs/study-tcp.md)."""
    if ctx.invoked_subcommand is None:
        for name, line in _STUDIES.items():
            click.echo(f"{name}  {line}")
        click.echo("\nwhydrop study NAME --help says more.")


_WHAT: Any = (
    click.argument("store", required=False, metavar="STORE"),
    click.option("--parameters", "file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
                 help="Metros, days, filters and the change, in TOML.  [default: the published report's]"),
    click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
                 help="One parameter, such as change.significance=0.05; wins over the file; may be given again."),
    click.option("--example", is_flag=True, help="Print a commented parameter file, and do nothing else."),
    click.option("--as-published", is_flag=True, help="Compute as the report did, its faults included."),
    click.option("--backend", default="duckdb", show_default=True, metavar="ENGINE",
                 help="duckdb, spark://HOST:PORT, spark:local[N] or bigquery:PROJECT."),
    click.option("--mapping", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
                 help="With BigQuery: how its tables become ours.  [default: M-Lab's]"),
)  # fmt: skip
_OUTPUT: Any = (
    click.option("--output", type=click.Path(path_type=Path), metavar="PATH",
                 help="A folder for figures, report and tables; with --tests the file."),
    click.option("--format", "formats", multiple=True, metavar="LIST",
                 help=f"Of png, svg, pdf, html, parquet, csv, with commas.  [default: {_DEFAULT}]  With --tests one of "
                 "csv, json, parquet.  [default: csv]"),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output."),
    click.option("--tests", "list_tests", is_flag=True, help="List the tests, each with its class and discards."),
    click.option("--class", "classes", multiple=True, type=click.Choice(_CLASSES),
                 help="With --tests: only these; may be given again.  [default: all]"),
)  # fmt: skip
_WATCH: Any = (
    click.option("--watch", is_flag=True, help="Say which ports newly exceed a discard ratio; exits with 3 if any."),
    click.option("--now", metavar="TIME", help="With --watch: the end of the window, such as 2018-02-11T12:00:00Z."),
    click.option("--every", type=DURATION, metavar="TIME", help="With --watch: go on, looking again so often."),
    click.option("--state", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
                 help="With --watch: what was reported.  [default: watch-state.json in STORE, or none]"),
)  # fmt: skip


def _decorated(function: Any) -> Any:
    for decorate in (*_WHAT, *_OUTPUT, *_WATCH)[::-1]:
        function = decorate(function)
    return function


@command.command("discards", epilog=EXAMPLES, short_help=_STUDIES["discards"])
@_decorated
def discards(**options: Any) -> None:
    """Do the discards of switches keep downloads slow?

    STORE is a folder, or a prefix of an object store, that `whydrop import --store` and `whydrop collect` write. Prints
    what was found in sentences and tables; --output DIR writes the seven figures, a report and all tables.

    Exits with 0 when the study was made, 1 when it or a part of it could not be computed, 2 when the command line or
    the parameters are wrong, and with --watch 3 when a port newly exceeds the ratio.
    """
    if options["example"]:
        from whydrop.studies.discards import reading

        click.echo(reading.example(), nl=False)
        return
    _check_usage(options)
    parameters = _parameters(options)
    sys.exit(_watch(options, parameters) if options["watch"] else _study(options, parameters))


def _check_usage(options: dict[str, Any]) -> None:
    if options["store"] is None and not options["backend"].startswith("bigquery"):
        raise click.UsageError("Give a STORE; or --example for a parameter file.")
    only_watch = [name for name in ("now", "every", "state") if options[name] is not None]
    if only_watch and not options["watch"]:
        raise click.UsageError(f"--{only_watch[0]} goes with --watch.")
    if options["watch"] and (options["output"] or options["formats"] or options["list_tests"]):
        raise click.UsageError("--watch prints what it finds: --output, --format and --tests do not go with it.")
    if options["every"] is not None and not options["every"] > 0:
        raise click.UsageError("--every: expected a time above zero, such as 5min.")
    if options["now"] is not None and options["every"] is not None:
        raise click.UsageError("--now looks at one time, --every goes on: give one of them.")
    if options["classes"] and not options["list_tests"]:
        raise click.UsageError("--class goes with --tests.")
    if options["list_tests"]:
        _check_list(options)
    elif options["formats"] and options["output"] is None:
        raise click.UsageError("--format chooses what --output writes: give --output DIR too.")
    elif options["output"] is not None and options["output"].is_file():
        raise click.UsageError(f"--output: {ending.printable(str(options['output']))!r} is a file; expected a folder.")
    _formats(options)
    _check_engine(options)


def _check_engine(options: dict[str, Any]) -> None:
    from whydrop.store.engines import BackendError, check_engine

    try:
        check_engine(options["backend"], options["mapping"])
    except BackendError as reason:
        raise click.UsageError(f"--backend: {ending.printable(str(reason))}") from None


def _check_list(options: dict[str, Any]) -> None:
    if options["as_json"]:
        raise click.UsageError("--tests --format json prints the list as JSON; --json is for the study itself.")
    if options["output"] is None:
        if _formats(options) == ("parquet",) and sys.stdout.isatty():
            raise click.UsageError("Parquet is not for a terminal: give --output FILE, or pipe it.")
        return
    usage.folder_exists("--output", options["output"])
    if options["output"].is_dir():
        raise click.UsageError(f"--output: {ending.printable(str(options['output']))!r} is a folder; expected a file.")


def _formats(options: dict[str, Any]) -> tuple[str, ...]:
    """The formats that are wanted, each once."""
    known: tuple[str, ...] = _LISTS if options["list_tests"] else FIGURES + TABLES
    default = "csv" if options["list_tests"] else _DEFAULT
    given = [part.strip() for text in options["formats"] or (default,) for part in text.split(",")]
    wrong = [part for part in given if part not in known]
    if wrong:
        raise click.UsageError(f"--format: {ending.printable(wrong[0])!r}: expected some of {', '.join(known)}.")
    if options["list_tests"] and len(set(given)) > 1:
        raise click.UsageError("--tests writes one list: give one --format.")
    return tuple(dict.fromkeys(given))


def _parameters(options: dict[str, Any]) -> Parameters:
    from whydrop.runtime.user_files.problems import FileError
    from whydrop.studies.discards import reading

    settings = [*options["settings"], *(['definitions="published"'] if options["as_published"] else [])]
    try:
        return reading.read(options["file"], settings)
    except FileError as reason:
        for problem in reason.problems:
            click.echo(f"whydrop: {ending.printable(str(problem))}", err=True)
        sys.exit(2)


def _study(options: dict[str, Any], parameters: Parameters) -> int:
    from whydrop.cli import study_run

    return study_run.run(options, parameters, _formats(options))


def _watch(options: dict[str, Any], parameters: Parameters) -> int:
    from whydrop.cli import study_watch

    return study_watch.run(options, parameters)


command.add_command(study_tcp.tcp)

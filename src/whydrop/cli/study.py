"""``whydrop study``: questions to a whole store."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Command, Group
from whydrop.show import pictures

if TYPE_CHECKING:
    from whydrop.studies.discards.parameters import Parameters

EXAMPLES = """
\b
Examples:
  whydrop study discards fleet.store
  whydrop study discards fleet.store -o out --format html
  whydrop study discards example > study.toml
  whydrop study discards my.store --parameters study.toml
  whydrop study discards watch fleet.store --interval 5min
  whydrop study discards tests fleet.store > tests.csv
"""
TESTS_EXAMPLES = """
\b
Examples:
  whydrop study discards tests fleet.store > tests.csv
  whydrop study discards tests my.store --class non-zero
"""
WATCH_EXAMPLES = """
\b
Examples:
  whydrop study discards watch fleet.store || mail-noc
  whydrop study discards watch fleet.store -i 5min
"""

ROLLOUT_EXAMPLES = """
\b
Examples:
  whydrop study discards rollout my.store --changes a.csv
  whydrop study discards rollout s3://b/x --changes a.csv
"""

STREAMS_EXAMPLES = """
\b
Examples:
  whydrop study discards streams fleet.store
  whydrop study discards streams fleet.store --json
"""

PAUSES_EXAMPLES = """
\b
Examples:
  whydrop study discards pauses fleet.store
  whydrop study discards pauses fleet.store -o pauses
"""

FLOW_CONTROL_EXAMPLES = """
\b
Examples:
  whydrop study discards flow-control fleet.store
  whydrop study discards flow-control my.store --json
"""

TCP_EXAMPLES = """
\b
Examples:
  whydrop study tcp fleet.store
  whydrop study tcp fleet.store --site ams01 --site lhr01
  whydrop study tcp fleet.store --first 2019-05-01
  whydrop study tcp fleet.store -o report --format html
  whydrop study tcp fleet.store --backend spark:local[4]
"""
QUEUES_EXAMPLES = """
\b
Examples:
  whydrop study queues lab.store
  whydrop study queues lab.store -o report --format html
  whydrop study queues lab.store --stratum line --json
"""
FIGURES = (*pictures.FORMATS, "html")
TABLES = ("parquet", "csv")
_DEFAULT = ("html", "parquet", "csv")
_TCP_DEFAULT = ("html", "csv")
_DAY = click.DateTime(["%Y-%m-%d"])
_LISTS = ("csv", "json", "parquet")
_CLASSES = ("zero", "non-zero", "unknown")


@click.group("study", cls=Group, epilog="Example: whydrop study discards fleet.store -o report")
def command() -> None:
    """Answer a question from a store of switch counters and tests."""


_store = options.together(
    click.argument("store", required=False, metavar="STORE"),
    click.option("--parameters", "file", type=options.FILE, metavar="FILE",
                 help="TOML file with metros, days and filters.  [default: the published report's]"),
    click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
                 help="Set one parameter, such as change.significance=0.05. Repeatable."),
    click.option("--as-published", is_flag=True, help="Compute as the published report did, with its faults."),
    options.backend("duckdb, spark://HOST:PORT, bigquery:PROJECT.", "duckdb"),
    click.option("--mapping", type=options.FILE, metavar="FILE",
                 help="Mapping of BigQuery tables to those of a store.  [default: M-Lab's]"),
    click.option("--endpoint", metavar="URL", help="Service to ask instead of Google's, such as an emulator."),
)  # fmt: skip


def _listed(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """The formats of lists with commas, each once."""
    found = [part.strip() for text in given for part in text.split(",")]
    wrong = [part for part in found if part not in FIGURES + TABLES]
    if wrong:
        expected = ", ".join(FIGURES + TABLES)
        raise click.UsageError(f"--format: {ending.printable(wrong[0])!r}: expected some of {expected}.")
    return tuple(dict.fromkeys(found))


def _formats(default: tuple[str, ...]) -> options.Decorator:
    words = f"One or more of {','.join(FIGURES + TABLES)}.  [default: {','.join(default)}]"
    return click.option("-f", "--format", "formats", multiple=True, callback=_listed, metavar="LIST", help=words)


def _formats_need_a_folder(given: dict[str, Any]) -> None:
    if given["formats"] and given["output"] is None:
        raise click.UsageError("--format chooses what --output writes: give --output DIR too.")
    pictures.need_for(*given["formats"])


@command.command("discards", short_help="Find whether discards of switches slow downloads down.", epilog=EXAMPLES)
@_store
@options.output_folder("Write figures, report and tables into DIR.", default=None)
@_formats(_DEFAULT)
@click.option("--changes", type=options.FILE, metavar="FILE",
              help="CSV file of changes (date,text,site) to draw into figures.")  # fmt: skip
@options.as_json
def discards(**given: Any) -> int:
    """Find whether packets that switches discard slow downloads down; makes seven figures (docs/discards.md)."""
    from whydrop.cli import study_run

    parameters = _parameters(given)
    formats = given["formats"] or _DEFAULT
    _formats_need_a_folder(given)
    if given["changes"] and given["output"] is None:
        raise click.UsageError("--changes are drawn into the figures of --output: give --output DIR too.")
    return study_run.discards(given, parameters, formats)


assert isinstance(discards, Command)


@discards.subcommand("tests", short_help="List the tests with their discards.", epilog=TESTS_EXAMPLES)
@_store
@click.option("--class", "classes", multiple=True, type=click.Choice(_CLASSES), metavar="CLASS",
              help=f"Only this class: {', '.join(_CLASSES)}. Repeatable.  [default: all]")  # fmt: skip
@options.output_file("File to write.  [default: standard output]")
@click.option("-f", "--format", "kind", type=click.Choice(_LISTS), default="csv", metavar="FORMAT", show_default=True,
              help=f"{', '.join(_LISTS)}.")  # fmt: skip
def tests(kind: str, **given: Any) -> int:
    """List the tests of a store, each with the discards during it and its class: zero, non-zero or unknown."""
    from whydrop.cli import study_run

    parameters = _parameters(given)
    if given["output"] is not None:
        options.folder_exists("--output", given["output"])
    elif kind == "parquet" and sys.stdout.isatty():
        raise click.UsageError("Parquet is not for a terminal: give --output FILE, or pipe it.")
    return study_run.list_tests(given, parameters, kind)


@discards.subcommand("watch", short_help="Report ports that began to discard too much.", epilog=WATCH_EXAMPLES)
@_store
@options.interval("Look again every TIME.  [default: look once]")
@click.option("--now", metavar="TIME", help="End of the window, such as 2018-02-11T12:00:00Z.  [default: now]")
@click.option("--state", type=options.FILE, metavar="FILE",
              help="File with the ports that were reported before.  [default: watch-state.json in STORE]")  # fmt: skip
@options.as_json
def watch(**given: Any) -> int:
    """Report the ports that began to exceed a discard ratio; exit with 3 if there are any."""
    from whydrop.cli import study_watch

    options.above_zero("--interval", given["interval_s"])
    if given["now"] is not None and given["interval_s"] is not None:
        raise click.UsageError("--now looks once, --interval again and again: give one of them.")
    parameters = _parameters(given)
    return study_watch.run(given, parameters)


@discards.subcommand("rollout", short_help="Judge the stages of a change.", epilog=ROLLOUT_EXAMPLES)
@_store
@click.option(
    "--changes", required=True, type=options.FILE, metavar="FILE", help="CSV file of changes: date,text,site."
)
@click.option("--days", type=click.IntRange(5, 366), default=14, show_default=True, metavar="N",
              help="Days before and after each stage that are compared.")  # fmt: skip
@options.as_json
def rollout(**given: Any) -> int:
    """Judge each stage of a change, one site, some or all, against the sites that were not changed."""
    from whydrop.cli import study_run

    if given["as_published"]:
        raise click.UsageError("--as-published: stages are judged by the corrected definitions only.")
    return study_run.rollout(given, _parameters(given))


@discards.subcommand("pauses", short_help="Compare pause frames with speeds.", epilog=PAUSES_EXAMPLES)
@_store
@options.output_folder("Write figures, report and tables into DIR.", default=None)
@_formats(_TCP_DEFAULT)
@options.as_json
def pauses(**given: Any) -> int:
    """Compare each day's pause frames with the speed of downloads and with discards, by site."""
    from whydrop.cli import study_run

    if given["as_published"]:
        raise click.UsageError("--as-published: the report has no pause frames.")
    _formats_need_a_folder(given)
    given["formats"] = given["formats"] or _TCP_DEFAULT
    return study_run.pauses(given, _parameters(given))


@discards.subcommand("streams", short_help="Compare by multi-stream tests.", epilog=STREAMS_EXAMPLES)
@_store
@options.as_json
def streams(**given: Any) -> int:
    """Repeat the comparison before and after a change with tests of several connections at once."""
    from whydrop.cli import study_run

    if given["as_published"]:
        raise click.UsageError("--as-published: tests of several connections are compared as corrected only.")
    if given["backend"].startswith("bigquery"):
        raise click.UsageError("--backend: BigQuery has no table of samples: import the files into a store.")
    return study_run.streams(given, _parameters(given))


@discards.subcommand("flow-control", short_help="Find where pauses could help.", epilog=FLOW_CONTROL_EXAMPLES)
@_store
@options.as_json
def flow_control(**given: Any) -> int:
    """Find ports at which flow control could replace discards, and what else a pause would stop."""
    from whydrop.cli import study_run

    if given["as_published"]:
        raise click.UsageError("--as-published: the report has no flow control.")
    return study_run.flow_control(given, _parameters(given))


@discards.subcommand(
    "example",
    short_help="Print a commented parameter file.",
    epilog="Example: whydrop study discards example > study.toml",
)
def example() -> None:
    """Print a commented parameter file for `--parameters`."""
    from whydrop.studies.discards import parameters

    click.echo(parameters.example(), nl=False)


@command.command("tcp", short_help="Find what limits TCP connections.", epilog=TCP_EXAMPLES)
@click.argument("store", metavar="STORE")
@click.option("--first", type=_DAY, metavar="DAY", help="First UTC day, such as 2019-05-01.  [default: the store's]")
@click.option("--last", type=_DAY, metavar="DAY", help="Last UTC day.  [default: the store's]")
@click.option("--site", "sites", multiple=True, metavar="SITE", help="Only this site. Repeatable.")
@options.backend("duckdb, spark://HOST:PORT or spark:local[N].", "duckdb")
@options.output_folder("Write figures, report and tables into DIR.", default=None)
@_formats(_TCP_DEFAULT)
@options.as_json
def tcp(first: datetime | None, last: datetime | None, sites: tuple[str, ...], **given: Any) -> int:
    """Find what limits the TCP connections of a store, by site, day and clients' network (docs/study-tcp.md)."""
    from whydrop.cli import study_run
    from whydrop.studies.tcp.study import Parameters

    parameters = Parameters(first and first.date(), last and last.date(), sites)
    if first and last and first > last:
        raise click.UsageError(f"--first ({parameters.first}) is after --last ({parameters.last}).")
    if given["backend"].startswith("bigquery"):
        raise click.UsageError("--backend: BigQuery has no table of samples: import the files into a store.")
    _check_engine(given["backend"])
    given["formats"] = given["formats"] or _TCP_DEFAULT
    return study_run.tcp(given, parameters)


@command.command("queues", short_help="Find which queue suits which line.", epilog=QUEUES_EXAMPLES)
@click.argument("store", metavar="STORE")
@click.option("--queue", default="queue", show_default=True, metavar="VARIABLE", help="Variable that names the queue.")
@click.option(
    "--stratum",
    "strata",
    multiple=True,
    metavar="VARIABLE",
    help="Condition to compare within. Repeatable.  [default: line, control, scene]",
)
@click.option(
    "--baseline", default="pfifo_fast", show_default=True, metavar="QUEUE", help="Queue without AQM to compare with."
)
@click.option(
    "--target",
    "target_s",
    type=quantities.DURATION,
    default="50ms",
    show_default=True,
    metavar="TIME",
    help="Latency that counts as contained.",
)
@options.backend("duckdb, spark://HOST:PORT or spark:local[N].", "duckdb")
@options.output_folder("Write figures, report and tables into DIR.", default=None)
@_formats(_DEFAULT)
@options.as_json
def queues(queue: str, strata: tuple[str, ...], baseline: str, target_s: float, **given: Any) -> int:
    """Find which queue suits which line, from recordings of one experiment (docs/queue-study.md)."""
    from whydrop.cli import study_queues
    from whydrop.studies.queues.parameters import STRATA, Parameters

    chosen = tuple(dict.fromkeys(strata)) or STRATA
    if queue in chosen:
        raise click.UsageError(f"--stratum {ending.printable(queue)}: --queue names the same variable.")
    if target_s <= 0:
        raise click.UsageError("--target: expected a time above zero, such as 50ms.")
    _formats_need_a_folder(given)
    if given["backend"].startswith("bigquery"):
        raise click.UsageError("--backend: BigQuery has no table of recordings: import them into a store.")
    _check_engine(given["backend"])
    given["formats"] = given["formats"] or _DEFAULT
    return study_queues.run(given, Parameters(queue, chosen, baseline, target_s * 1e3))


def _parameters(given: dict[str, Any]) -> Parameters:
    """Check the store and its engine, and read the parameters."""
    from whydrop.studies.discards import parameters

    if given["store"] is None and not given["backend"].startswith("bigquery"):
        raise click.UsageError("Missing argument 'STORE'.")
    _check_engine(given["backend"], given["mapping"], given["endpoint"])
    settings = [*given["settings"], *(['definitions="published"'] if given["as_published"] else [])]
    return parameters.read(given["file"], settings)


def _check_engine(backend: str, mapping: Path | None = None, endpoint: str | None = None) -> None:
    from whydrop.store.engines import BackendError, check_engine

    for option, given in (("--backend", None), ("--endpoint", endpoint)):
        try:
            check_engine(backend, mapping, given)
        except BackendError as reason:
            raise click.UsageError(f"{option}: {ending.printable(str(reason))}") from None

"""``whydrop tests``: the tests there are, one test explained, and test files checked."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from whydrop.cli import aligned, ending, options
from whydrop.cli.command import Command

if TYPE_CHECKING:
    from whydrop.measure.plan import Plan
    from whydrop.measure.tests import Test

EXAMPLES = """
\b
Examples:
  whydrop tests
  whydrop tests rrul
  whydrop tests ./mine.toml
  whydrop tests check mine.toml
"""


@click.command("tests", cls=Command, epilog=EXAMPLES)
@click.argument("name", required=False, metavar="[TEST]")
@options.as_json
def command(name: str | None, as_json: bool) -> None:
    """List the tests that `whydrop run` can run, or explain one: a name, or a file (docs/writing-tests.md)."""
    try:
        if name is not None:
            _explain(name, as_json)
        else:
            _list(as_json)
    except BrokenPipeError as reason:
        sys.exit(ending.status(reason))


@command.subcommand(
    "check", short_help="List the mistakes in test files.", epilog="Example: whydrop tests check mine.toml"
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=options.FILE)
def check(files: tuple[Path, ...]) -> None:
    """List every mistake in test files of your own, one a line."""
    try:
        _check(files)
    except BrokenPipeError as reason:
        sys.exit(ending.status(reason))


def print_flows(plan: Plan) -> None:
    """Show what a plan would run."""
    from whydrop.measure.tests.explaining import flow_rows

    for line in aligned.columns(flow_rows(plan.flows)) if plan.flows else ["  no flows: only counters of this host"]:
        click.echo(line)
    for note in plan.notes:
        click.echo(aligned.paragraph(note, "  "))
    from whydrop.text import quantities

    click.echo(f"  Takes {quantities.duration(plan.total_s)}.")


def _list(as_json: bool) -> None:
    from whydrop.measure.tests.explaining import listing
    from whydrop.measure.tests.schema import FAMILIES

    tests = listing()
    if as_json:
        ending.write_document(json.dumps(tests, ensure_ascii=False))
        return
    widest = max(len(test["name"]) for test in tests)
    for family, members in groupby(tests, lambda test: test["family"]):
        title = FAMILIES[family]
        click.echo(click.style(f"{title[0].upper()}{title[1:]}", bold=True))
        for line in aligned.columns([(test["name"].ljust(widest), test["title"]) for test in members]):
            click.echo(line)
        click.echo()
    click.echo("`whydrop tests TEST` explains one; `whydrop run TEST --to HOST` runs it.")


def _explain(name: str, as_json: bool) -> None:
    from whydrop.measure.tests import FileError, SettingError, UnknownTestError, load
    from whydrop.measure.tests.explaining import document

    try:
        test = load(name)
        if as_json:
            ending.write_document(json.dumps(document(test), ensure_ascii=False))
        else:
            _print(test)
    except (FileError, SettingError, UnknownTestError) as reason:
        _refuse(str(reason).splitlines())


def _print(test: Test) -> None:
    from whydrop.measure.tests.explaining import common_rows, example_plan, parameter_rows

    click.echo(click.style(f"{test.name}: {test.title}", bold=True))
    if test.variant_of:
        settings = ", ".join(f"{key}={_written(value)}" for key, value in test.presets.items())
        click.echo(aligned.paragraph(f"Is {test.variant_of}" + (f" with {settings}." if settings else ".")))
    for text in (test.description, test.shows and f"Shows: {test.shows}"):
        if text:
            click.echo("\n" + aligned.paragraph(text))
    _heading("Flows")
    print_flows(example_plan(test))
    if test.own_parameters:
        _heading("Parameters (--set NAME=VALUE)")
        _lines(parameter_rows(test))
    _heading("Parameters of every test")
    _lines(common_rows(test))
    if test.plots:
        _heading("Plots")
        click.echo(
            aligned.paragraph(
                ", ".join(f"{plot} (default)" if plot == test.default_plot else plot for plot in test.plots), "  "
            )
        )
    if test.example:
        _heading("Example")
        click.echo(f"  {ending.printable(test.example)}")


def _written(value: object) -> str:
    from whydrop.measure.tests.expressions import written

    return written(value)


def _heading(text: str) -> None:
    click.echo("\n" + click.style(text, bold=True))


def _lines(rows: list[tuple[str, str, str]]) -> None:
    for line in aligned.columns(rows):
        click.echo(line)


def _check(files: tuple[Path, ...]) -> None:
    from whydrop.measure.tests import check as mistakes

    problems = [problem for file in files for problem in mistakes(file)]
    if problems:
        _refuse([str(problem) for problem in problems])
    for file in files:
        click.echo(f"{ending.printable(str(file))}: a well-formed test")


def _refuse(lines: list[str]) -> NoReturn:
    for line in lines:
        click.echo(f"whydrop: {ending.printable(line)}", err=True)
    sys.exit(2)

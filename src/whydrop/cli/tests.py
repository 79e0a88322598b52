"""``whydrop tests``: the tests there are, one test explained, and test files checked."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from whydrop.cli import ending, options
from whydrop.cli.command import Command

if TYPE_CHECKING:
    from whydrop.measure.plan import Plan
    from whydrop.measure.tests import Test
    from whydrop.show.document import Part, Table

# The order in which columns of the table of flows are left out on a narrow terminal.
_RANKS = (0, 2, 3, 4, 5, 1)

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


def flows_of(plan: Plan) -> tuple[Part, ...]:
    """The flows that a plan would run, for people."""
    from whydrop.measure.tests.explaining import flow_rows
    from whydrop.show.document import Column, Table, Text, parts
    from whydrop.text import quantities

    titles, *rows = flow_rows(plan.flows)
    columns = (Column(titles[0]), *(Column(title, rank=rank) for title, rank in zip(titles[1:], _RANKS, strict=True)))
    none = Text("" if rows else "No flows: only counters of this host.")
    notes = (*plan.notes, f"Takes {quantities.duration(plan.total_s)}.")
    return parts(none, Table("", columns, tuple(rows)), *map(Text, notes))


def _list(as_json: bool) -> None:
    from whydrop.measure.tests.explaining import listing
    from whydrop.measure.tests.schema import FAMILIES

    tests = listing()
    if as_json:
        ending.write_document(json.dumps(tests, ensure_ascii=False))
        return
    from whydrop.show import terminal
    from whydrop.show.document import Column, Document, Section, Table, Text
    from whydrop.text.phrases import capital

    widest = max(len(test["name"]) for test in tests)
    families = [
        Table(
            capital(FAMILIES[family]), (Column(""), Column("")),
            tuple((test["name"].ljust(widest), test["title"]) for test in members),
        )
        for family, members in groupby(tests, lambda test: test["family"])
    ]  # fmt: skip
    hint = Section("", (Text(""), Text("`whydrop tests TEST` explains one; `whydrop run TEST --to HOST` runs it.")))
    title = f"{len(tests)} tests"
    terminal.print_document(Document(title, (Section(title, ()), *families, hint)))


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
    from whydrop.show import terminal
    from whydrop.show.document import Document, Section, Text, parts

    settings = ", ".join(f"{key}={_written(value)}" for key, value in test.presets.items())
    variant = f"A variant of {test.variant_of}" + (f", with {settings}." if settings else ".")
    plots = ", ".join(f"{plot} (default)" if plot == test.default_plot else plot for plot in test.plots)
    words = parts(
        Text(variant if test.variant_of else ""),
        Text(test.description or ""),
        Text(f"Shows: {test.shows}" if test.shows else ""),
    )
    shown = parts(
        Section("Flows", flows_of(example_plan(test))),
        _parameters("Parameters (--set NAME=VALUE)", parameter_rows(test) if test.own_parameters else []),
        _parameters("Parameters of every test", common_rows(test)),
        Section("Plots", parts(Text(plots))),
        Section("Example", parts(Text(test.example or ""))),
    )
    title = f"{test.name}: {test.title}"
    terminal.print_document(Document(title, (Section(title, words), *shown)))


def _parameters(title: str, rows: list[tuple[str, str, str]]) -> Table:
    from whydrop.show.document import Column, Table

    return Table(title, (Column("Name"), Column("Default"), Column("Meaning")), tuple(rows))


def _written(value: object) -> str:
    from whydrop.measure.tests.expressions import written

    return written(value)


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

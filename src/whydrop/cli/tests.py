"""``whydrop tests``: the tests there are, one test explained, and test files checked."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import whydrop
from whydrop.cli import ending, options
from whydrop.cli.command import Command
from whydrop.errors import Mistake

if TYPE_CHECKING:
    from whydrop.measure.plan import Plan
    from whydrop.measure.tests import Test
    from whydrop.show.document import Document, Part, Table

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
    """List the tests that `whydrop run` can run, or describe one, given by name or file (docs/writing-tests.md)."""
    if name is not None and as_json:
        ending.write_json(whydrop.describe_test(name))
    elif name is not None:
        from whydrop.measure.tests import load

        ending.show(_explanation(load(name)))
    elif as_json:
        ending.write_json(whydrop.tests())
    else:
        ending.show(_list(whydrop.tests()))


@command.subcommand(
    "check", short_help="List the mistakes in test files.", epilog="Example: whydrop tests check mine.toml"
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=options.FILE)
def check(files: tuple[Path, ...]) -> None:
    """List every mistake in your own test files, one in each line."""
    from whydrop.measure.tests import check as mistakes

    problems = [problem for file in files for problem in mistakes(file)]
    if problems:
        raise Mistake("\n".join(map(str, problems)))
    for file in files:
        click.echo(f"{ending.printable(str(file))}: a well-formed test")


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


def _list(tests: list[dict[str, Any]]) -> Document:
    from whydrop.measure.tests.schema import FAMILIES
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
    return Document(title, (Section(title, ()), *families, hint))


def _explanation(test: Test) -> Document:
    from whydrop.measure.tests.explaining import common_rows, example_plan, parameter_rows
    from whydrop.measure.tests.expressions import written
    from whydrop.show.document import Document, Section, Text, parts

    settings = ", ".join(f"{key}={written(value)}" for key, value in test.presets.items())
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
    return Document(title, (Section(title, words), *shown))


def _parameters(title: str, rows: list[tuple[str, str, str]]) -> Table:
    from whydrop.show.document import Column, Table

    return Table(title, (Column("Name"), Column("Default"), Column("Meaning")), tuple(rows))

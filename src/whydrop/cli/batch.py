"""``whydrop batch``: plan and run many tests from one file; convert batch files of Flent."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Group
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    from whydrop.measure.batch.executing import Summary
    from whydrop.measure.batch.expanding import Run
    from whydrop.measure.batch.preparing import Prepared
    from whydrop.measure.batch.state import State
    from whydrop.show.document import Table

EXAMPLES = """
\b
Examples:
  whydrop batch plan queues.toml
  whydrop batch run queues.toml -o results
  whydrop batch run queues.toml -o results --resume
  whydrop batch run queues.toml -b 'rrul*' --repetitions 3
  whydrop batch run queues.toml --set hosts=server.example
  whydrop batch convert old.batch -o queues.toml
"""


@click.group("batch", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Run many tests from one file: all combinations of arguments, repeated, in random order (docs/batches.md)."""


_choosing = options.together(
    click.argument("files", metavar="FILE...", nargs=-1, required=True, type=options.FILE),
    click.option("-b", "--batch", "batches", multiple=True, metavar="NAME",
                 help="Only batches that match NAME, such as 'rrul*'. Repeatable."),
    click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE",
                 help="Setting or variable of every batch; set.NAME for a test's. Repeatable."),
    click.option("--repetitions", type=quantities.Whole(1), metavar="N",
                 help="Repetitions of each run.  [default: the file's]"),
    click.option("--shuffle/--no-shuffle", default=None, help="Run in random order.  [default: the file's]"),
    click.option("--seed", type=int, metavar="N", help="Seed of the random order.  [default: from the files]"),
    options.output_folder("Folder for the recordings and the state.  [default: here]"),
)  # fmt: skip


@command.command("plan", epilog="Example: whydrop batch plan queues.toml --commands")
@_choosing
@click.option("--commands", "with_commands", is_flag=True, help="Also show the commands of each run.")
@options.as_json
def plan(with_commands: bool, as_json: bool, **given: Any) -> None:
    """Show the runs in their order, and how long they take; run nothing."""
    prepared = _prepared(given)
    if as_json:
        ending.write_document(json.dumps(prepared.document(), ensure_ascii=False))
        return
    _print_plan(prepared, with_commands=with_commands)


@command.command("run", epilog=EXAMPLES)
@_choosing
@click.option("--resume", is_flag=True, help="Continue where an interrupted call stopped.")
@click.option("--restart", is_flag=True, help="Start again, although an earlier call left runs to do.")
@click.option("--stop-on-failure", is_flag=True, help="Stop at the first run that fails.  [default: continue]")
def run(resume: bool, restart: bool, stop_on_failure: bool, **given: Any) -> None:
    """Run the batches of a file; Ctrl-C stops after the post commands, and --resume continues later."""
    if resume and restart:
        raise click.UsageError("Give --resume, which continues, or --restart, which starts again; not both.")
    chosen = [key for key in ("batches", "overrides", "repetitions", "shuffle", "seed") if given[key] not in ((), None)]
    if resume and chosen:
        raise click.UsageError("--resume continues with the choices of the first call: leave out the other options.")
    try:
        sys.exit(_run(resume, restart, stop_on_failure, given))
    except OSError as reason:
        sys.exit(ending.status(reason))


@command.command("convert", epilog="Example: whydrop batch convert old.batch -o queues.toml")
@click.argument("file", type=options.FILE)
@options.output_file("File to write.  [default: standard output]")
def convert(file: Path, output: Path | None) -> None:
    """Convert a batch file of Flent (INI) to TOML; notes name the settings without a counterpart."""
    from whydrop.measure.batch.converting import ConversionError
    from whydrop.measure.batch.converting import convert as converted
    from whydrop.runtime import durable

    try:
        found = converted(file)
        if output is None:
            click.echo(found.text, nl=False)
        else:
            durable.write_bytes(output, found.text.encode())
    except (ConversionError, OSError) as reason:
        sys.exit(ending.status(reason))
    for note in found.notes:
        click.echo(f"whydrop: note: {ending.printable(note)}", err=True)


# --- from files to runs ---


def _prepared(options: dict[str, Any], *, resume: bool = False) -> Prepared:
    """The runs of the files; mistakes in them end the program with status 2."""
    from whydrop.measure.batch.expanding import BatchError
    from whydrop.measure.batch.planning import RunsError
    from whydrop.measure.batch.preparing import Choice, prepare
    from whydrop.runtime.user_files.problems import FileError

    choice = Choice(
        options["batches"], _overrides(options), options["repetitions"], options["shuffle"], options["seed"]
    )
    try:
        return prepare(options["files"], options["output"], choice, resume=resume)
    except (FileError, BatchError, RunsError) as reason:
        for line in str(reason).splitlines():
            click.echo(f"whydrop: {ending.printable(line)}", err=True)
        sys.exit(2)


def _overrides(options: dict[str, Any]) -> dict[str, str]:
    found = {}
    for override in options["overrides"]:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"--set {ending.printable(override)!r}: expected KEY=VALUE.")
        found[key.strip()] = value
    return found


# --- running ---


def _run(resume: bool, restart: bool, stop_on_failure: bool, options: dict[str, Any]) -> int:
    from whydrop.cli.batch_progress import watching
    from whydrop.measure.batch import preparing
    from whydrop.measure.batch.executing import execute
    from whydrop.measure.batch.one_run import run_test
    from whydrop.measure.batch.state import StateError

    try:
        if not resume and not restart:
            preparing.require_nothing_left(preparing.state_path(options["files"], options["output"]))
        prepared = _prepared(options, resume=resume)
    except StateError as reason:
        return ending.status(reason)
    for note in prepared.notes:
        click.echo(f"whydrop: {ending.printable(note)}", err=True)
    with watching(prepared.times_s) as watcher:
        summary = execute(
            prepared.runs, prepared.state, state_path=prepared.path, output=options["output"], run_test=run_test,
            watcher=watcher, stop_on_failure=stop_on_failure,
        )  # fmt: skip
    return _summary(summary, prepared.state, prepared.path)


def _summary(summary: Summary, state: State, path: Path) -> int:
    parts = [f"{summary.count(status)} {status}" for status in ("complete", "failed", "interrupted")]
    parts = [part for part in parts if not part.startswith("0 ")] or ["none run"]
    if summary.skipped:
        parts.append(f"{summary.skipped} complete before")
    if summary.left:
        parts.append(f"{summary.left} not begun")
    order = f"; order by seed {state.seed}" if state.seed is not None else ""
    click.echo(f"Runs: {', '.join(parts)} ({path}{order})")
    if summary.interrupted:
        click.echo("whydrop: stopped; --resume continues", err=True)
        return cancelling.exit_status()
    return ending.NOT_ANALYSED if summary.count("failed") else 0


# --- showing ---


def _print_plan(prepared: Prepared, *, with_commands: bool) -> None:
    from whydrop.show import terminal
    from whydrop.show.document import Column, Columns, Document, Table, Text, parts
    from whydrop.text import quantities

    columns: Columns[tuple[int, Run]] = {
        Column("#", number=True): lambda row: str(row[0]),
        Column("Batch", rank=2): lambda row: row[1].batch,
        Column("With"): lambda row: ", ".join(row[1].arguments) or "–",
        Column("Rep.", True, 1): lambda row: f"{row[1].repetition:02d}",
        Column("Test", rank=3): lambda row: row[1].test or "(command)",
        Column("Takes", True, 4): lambda row: quantities.duration(prepared.times_s[row[1].key]),
        Column("Title", rank=5): lambda row: row[1].title,
    }
    runs, seed = prepared.runs, prepared.state.seed
    order = f" Random order by seed {seed}." if seed is not None else ""
    title = f"{quantities.plural(len(runs), 'run')}, {quantities.long_duration(prepared.total_s)} in all.{order}"
    commands = map(_commands, enumerate(runs, 1)) if with_commands else ()
    shown = parts(Table.of("", columns, enumerate(runs, 1)), *commands, Text(title))
    terminal.print_document(Document(title, shown))


def _commands(numbered: tuple[int, Run]) -> Table:
    from whydrop.show.document import Column, Table

    number, one = numbered
    rows = [(each.kind, each.name, _words(each.run)) for each in one.commands]
    rows += [("run", "", _words(one.run))] if one.run is not None else []
    return Table(f"Run {number}", (Column(""), Column(""), Column("")), tuple(rows))


def _words(line: str | list[str]) -> str:
    import shlex

    return line if isinstance(line, str) else shlex.join(line)

"""``whydrop batch``: plan and run many tests from one file; convert batch files of Flent."""

from __future__ import annotations

import shlex
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import whydrop
from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Group
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    from whydrop.cli.batch_progress import Showing
    from whydrop.measure.batch.executing import Summary
    from whydrop.measure.batch.expanding import Run
    from whydrop.measure.batch.preparing import Prepared
    from whydrop.show.document import Document, Table

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


def _share(_: click.Context, __: click.Parameter, given: str | None) -> tuple[int, int] | None:
    """Number and count of a share."""
    if given is None:
        return None
    parts = given.split("/")
    number, count = parts if len(parts) == 2 else ("", "")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise click.UsageError(f"--share: {ending.printable(given)!r}: expected K/N with K from 1 to N, such as 1/2.")
    return int(number), int(count)


_choosing = options.together(
    click.argument("files", metavar="FILE...", nargs=-1, required=True, type=options.FILE),
    click.option("-b", "--batch", "batches", multiple=True, metavar="NAME",
                 help="Run only batches that match NAME, such as 'rrul*'. Repeatable."),
    options.settings(
        "overrides", "Set a key or variable of every batch, or set.NAME of its test. Repeatable.", "KEY=VALUE"
    ),
    click.option("--repetitions", type=quantities.Whole(1), metavar="N",
                 help="Repetitions of each run.  [default: the file's]"),
    click.option("--shuffle/--no-shuffle", default=None, help="Run in random order.  [default: as the file says]"),
    click.option("--seed", type=int, metavar="N", help="Seed of the random order.  [default: from the files]"),
    click.option("--share", callback=_share, metavar="K/N",
                 help="Run only share K of N, such as 1/2.  [default: all]"),
    options.output_folder("Folder for the recordings and the state.  [default: here]"),
)  # fmt: skip


@command.command(
    "plan",
    short_help="Show the runs and how long they take.",
    epilog="Example: whydrop batch plan queues.toml --commands",
)
@_choosing
@click.option("--commands", "with_commands", is_flag=True, help="Also show the commands of each run.")
@options.as_json
def plan(files: tuple[Path, ...], with_commands: bool, as_json: bool, **given: Any) -> None:
    """Show the runs in their order and how long they take, without running them."""
    prepared = whydrop.batch_plan(*files, **given)
    if as_json:
        ending.write_json(prepared.document())
    else:
        ending.show(_document(prepared, with_commands=with_commands))


@command.command("run", short_help="Run the batches of a file.", epilog=EXAMPLES)
@_choosing
@click.option("--resume", is_flag=True, help="Continue where an interrupted call stopped.")
@click.option("--restart", is_flag=True, help="Start again, although an earlier call did not finish.")
@click.option("--stop-on-failure", is_flag=True, help="Stop at the first run that fails.  [default: continue]")
def run(files: tuple[Path, ...], resume: bool, restart: bool, **given: Any) -> int:
    """Run the batches of a file; Ctrl-C ends it after the file's clean-up commands, and --resume continues later."""
    if resume and restart:
        raise click.UsageError("Give --resume, which continues, or --restart, which starts again; not both.")
    choices = ("batches", "overrides", "repetitions", "shuffle", "seed", "share")
    chosen = [key for key in choices if given[key] not in ((), {}, None)]
    if resume and chosen:
        raise click.UsageError("--resume continues with the choices of the first call: leave out the other options.")
    prepared: list[Prepared] = []

    def watching(found: Prepared) -> AbstractContextManager[Showing]:
        from whydrop.cli import batch_progress

        prepared.append(found)
        for note in found.notes:
            ending.note(note)
        return batch_progress.watching(found.times_s)

    summary = whydrop.batch(*files, resume=resume, restart=restart, watching=watching, **given)
    return _report(summary, prepared[0])


@command.command(
    "convert",
    short_help="Convert a batch file of Flent to TOML.",
    epilog="Example: whydrop batch convert old.batch -o queues.toml",
)
@click.argument("file", type=options.FILE)
@options.output_file("File to write.  [default: standard output]")
def convert(file: Path, output: Path | None) -> None:
    """Convert a batch file of Flent (INI) to TOML; notes list the settings that whydrop does not have."""
    from whydrop.measure.batch.converting import convert as converted
    from whydrop.runtime import durable

    found = converted(file)
    if output is None:
        click.echo(found.text, nl=False)
    else:
        durable.write_bytes(output, found.text.encode())
    for note in found.notes:
        ending.note(f"note: {note}")


def _report(summary: Summary, prepared: Prepared) -> int:
    counts = {status: summary.count(status) for status in ("complete", "failed", "skipped", "interrupted")}
    parts = [f"{number} {status}" for status, number in counts.items() if number] or ["none run"]
    if summary.skipped:
        parts.append(f"{summary.skipped} complete before")
    if summary.left:
        parts.append(f"{summary.left} not begun")
    seed = prepared.state.seed
    order = f"; order by seed {seed}" if seed is not None else ""
    click.echo(f"Runs: {', '.join(parts)} ({prepared.path}{order})")
    if summary.interrupted:
        ending.note("stopped; --resume continues")
        return cancelling.exit_status()
    return ending.NOT_ANALYSED if counts["failed"] else 0


def _document(prepared: Prepared, *, with_commands: bool) -> Document:
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
    return Document(title, shown)


def _commands(numbered: tuple[int, Run]) -> Table:
    from whydrop.show.document import Column, Table

    number, one = numbered
    rows = [(each.kind, each.name, _words(each.run)) for each in one.commands]
    rows += [("run", "", _words(one.run))] if one.run is not None else []
    return Table(f"Run {number}", (Column(""), Column(""), Column("")), tuple(rows))


def _words(line: str | list[str]) -> str:
    return line if isinstance(line, str) else shlex.join(line)

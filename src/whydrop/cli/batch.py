"""``whydrop batch``: plan and run many tests from one file; convert batch files of Flent."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Group
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    from whydrop.measure.batch.executing import Summary
    from whydrop.measure.batch.expanding import Run
    from whydrop.measure.batch.reading import Tables
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
    tables = _read(given["files"])
    state, _ = _begun(tables, given, resume=False)
    runs = _ordered(_expanded(tables, state), state)
    times = _times(runs)
    if as_json:
        ending.write_document(json.dumps(_document(runs, times, state), ensure_ascii=False))
        return
    _print_plan(runs, times, state, with_commands=with_commands)


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


def _read(files: Sequence[Path]) -> Tables:
    from whydrop.measure.batch.reading import read
    from whydrop.runtime.user_files.problems import FileError

    try:
        return read(files)
    except FileError as reason:
        _refuse([str(problem) for problem in reason.problems])


def _refuse(lines: Sequence[str]) -> NoReturn:
    for line in lines:
        click.echo(f"whydrop: {ending.printable(line)}", err=True)
    sys.exit(2)


def _state_path(options: dict[str, Any]) -> Path:
    from whydrop.measure.batch.state import SUFFIX

    return Path(options["output"]) / f"{options['files'][0].stem}{SUFFIX}"


def _begun(tables: Tables, options: dict[str, Any], *, resume: bool) -> tuple[State, list[str]]:
    """The state to continue with, or a new one; and notes about it."""
    import uuid
    from datetime import datetime

    from whydrop.measure.batch.state import State, digests, seed_of

    if resume:
        state = State.read(_state_path(options))
        changed = [name for name, digest in digests(tables.files).items() if state.files.get(name) != digest]
        return state, [f"{name} has changed since the batch began" for name in changed]
    shuffle = tables.shuffle if options["shuffle"] is None else options["shuffle"]
    seed = options["seed"] if options["seed"] is not None else seed_of(tables.files)
    time = datetime.now().strftime("%Y-%m-%dT%H%M%S")
    wanted = {key: options[key] for key in ("batches", "repetitions")} | {"overrides": _overrides(options)}
    return State(str(uuid.uuid4()), time, seed if shuffle else None, [], wanted, digests(tables.files)), []


def _overrides(options: dict[str, Any]) -> dict[str, str]:
    found = {}
    for override in options["overrides"]:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"--set {ending.printable(override)!r}: expected KEY=VALUE.")
        found[key.strip()] = value
    return found


def _expanded(tables: Tables, state: State) -> list[Run]:
    from whydrop.measure.batch.expanding import BatchError, Wanted, expand_runs
    from whydrop.runtime.user_files.problems import FileError

    try:
        return expand_runs(tables, Wanted(**state.wanted, time=state.time))
    except FileError as reason:
        _refuse([str(problem) for problem in reason.problems])
    except BatchError as reason:
        _refuse([str(reason)])


def _ordered(runs: list[Run], state: State) -> list[Run]:
    """The runs in the state's order; runs that are not in it come last."""
    from whydrop.measure.batch.expanding import shuffled

    if state.seed is not None:
        runs = shuffled(runs, state.seed)
    place = {key: number for number, key in enumerate(state.order)}
    runs = sorted(runs, key=lambda run: place.get(run.key, len(place)))
    state.order = [run.key for run in runs]
    return runs


def _times(runs: Sequence[Run]) -> dict[str, float]:
    from whydrop.measure.batch.planning import RunsError, times_s

    try:
        return times_s(runs)
    except RunsError as reason:
        _refuse(reason.lines)


# --- running ---


def _run(resume: bool, restart: bool, stop_on_failure: bool, options: dict[str, Any]) -> int:
    from whydrop.cli.batch_progress import watching
    from whydrop.measure.batch.executing import execute
    from whydrop.measure.batch.measuring import run_test
    from whydrop.measure.batch.state import StateError

    tables = _read(options["files"])
    path = _state_path(options)
    try:
        if not resume and not restart:
            _nothing_left(path)
        state, notes = _begun(tables, options, resume=resume)
    except StateError as reason:
        return ending.status(reason)
    state_keys = set(state.order)
    runs = _ordered(_expanded(tables, state), state)
    if not runs:
        _refuse(["no batch to run: every batch of the file is abstract or disabled"])
    times = _times(runs)
    gone = state_keys - {run.key for run in runs}
    notes += [f"run {key} is no longer in the file; left out" for key in sorted(gone)]
    for note in notes:
        click.echo(f"whydrop: {ending.printable(note)}", err=True)
    with watching(times) as watcher:
        summary = execute(
            runs, state, state_path=path, output=options["output"], run_test=run_test, watcher=watcher,
            stop_on_failure=stop_on_failure,
        )  # fmt: skip
    return _summary(summary, state, path)


def _nothing_left(path: Path) -> None:
    """Refuse to start again while an earlier call has runs left to do."""
    from whydrop.measure.batch.state import State, StateError

    if not path.exists():
        return
    state = State.read(path)
    left = len(state.unfinished())
    if left:
        raise StateError(
            f"{path}: {left} of {len(state.order)} runs are left to do; continue with --resume, or start again with "
            "--restart"
        )


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


def _print_plan(runs: Sequence[Run], times: dict[str, float], state: State, *, with_commands: bool) -> None:
    from whydrop.show import terminal
    from whydrop.show.document import Column, Columns, Document, Table, Text, parts
    from whydrop.text import quantities

    columns: Columns[tuple[int, Run]] = {
        Column("#", number=True): lambda row: str(row[0]),
        Column("Batch", rank=2): lambda row: row[1].batch,
        Column("With"): lambda row: ", ".join(row[1].arguments) or "–",
        Column("Rep.", True, 1): lambda row: f"{row[1].repetition:02d}",
        Column("Test", rank=3): lambda row: row[1].test or "(command)",
        Column("Takes", True, 4): lambda row: quantities.duration(times[row[1].key]),
        Column("Title", rank=5): lambda row: row[1].title,
    }
    total_s = sum(times.values()) + sum(one.pause_s for one in runs[:-1])
    order = f" Random order by seed {state.seed}." if state.seed is not None else ""
    title = f"{quantities.plural(len(runs), 'run')}, {quantities.long_duration(total_s)} in all.{order}"
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


def _document(runs: Sequence[Run], times: dict[str, float], state: State) -> dict[str, Any]:
    import dataclasses

    found = []
    for one in runs:
        data = dataclasses.asdict(one) | {"takes_s": times[one.key], "folder": str(one.folder)}
        data["secret_file"] = str(one.secret_file) if one.secret_file else None
        found.append(data)
    total_s = sum(times.values()) + sum(one.pause_s for one in runs[:-1])
    return {"seed": state.seed, "total_s": total_s, "runs": found}

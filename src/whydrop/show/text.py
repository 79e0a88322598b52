"""An explanation as text for a terminal; plain where the output is piped or colour is not wanted."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from whydrop.explaining import parameters
from whydrop.explaining.document import Capture, Verdict
from whydrop.explaining.explained import Explained
from whydrop.explaining.pair import Pair
from whydrop.show import pair_words, tables, words
from whydrop.show.terminal import heading, print_by, safe
from whydrop.text import quantities

if TYPE_CHECKING:
    from whydrop.explaining.matching import Matching

_LONGEST_TABLE = 12
_MOST_MINOR = 12


def print_explanation(found: Explained, console: Console | None = None) -> None:
    """Print verdicts, evidence, runners-up, advice and the tables of transfers and flows."""
    print_by(lambda console: _print(found, console), console)


def print_matching(found: Matching, console: Console | None = None) -> None:
    """Print what was matched, what was lost each way, and the clocks."""
    print_by(lambda console: _print_matching(found.pair, console), console)


def _print(found: Explained, console: Console) -> None:
    _print_captures_notes(found.captures, console)
    for recording in found.recordings:
        for note in recording["notes"]:
            console.print(safe(f"{recording['path']}: {note}", style="yellow"))
    if not found.verdicts:
        console.print(Text("No verdict: the capture holds no packets to explain.", style="bold"))
    said: set[str | tuple[str, ...]] = set()
    for verdict in found.verdicts[:1]:
        _print_verdict(verdict, console, found)
        said.update((verdict.cause, *_steps(verdict.advice)))
    if found.pair is not None:
        _print_pair(found.pair, found.path_segments, console)
    further = words.further(found.verdicts)
    if further:
        heading(console, "Also")
    for verdict in further[:_MOST_MINOR]:
        _print_minor(verdict, console, found, said)
        said.update((verdict.cause, *_steps(verdict.advice)))
    left = len(further) - _MOST_MINOR
    if left > 0:
        console.print(safe(f"  and {quantities.count(left)} more, which explain less (--json lists all)", style="dim"))
    for sheet in (tables.transfers(found), tables.flows(found), tables.datagrams(found), tables.captures(found)):
        _print_table(console, sheet)


def _print_captures_notes(captures: Iterable[Capture], console: Console) -> None:
    for capture in captures:
        for note in capture.notes:
            console.print(safe(f"{capture.path}: {note}", style="yellow"))


def _print_verdict(verdict: Verdict, console: Console, found: Explained) -> None:
    console.print(safe(words.stated(verdict), style="bold"))
    if verdict.place is not None:
        console.print(safe(f"Where: {words.place(verdict.place, found.captures)}", style="bold"))
    if flows := words.flows(verdict, len(found.flows)):
        console.print(safe(f"Flow: {flows}"))
    console.print(safe(_standing(verdict), style="dim"))
    _print_list(console, "Evidence", verdict.evidence)
    _print_parameters(verdict, console)
    _print_against(verdict, console)
    if verdict.models:
        _print_table(console, pair_words.models(verdict))
        for why in pair_words.ruled_out(verdict):
            console.print(_bullet(safe(words.sentence(why))))
    _print_list(console, "What to do", verdict.advice)
    if verdict.throughput_lost is not None:
        lost = verdict.throughput_lost
        of = f"{quantities.rate(lost.bps)} ({quantities.percent(lost.share)})"
        line = f"Throughput lost to it: {of}, estimated as {lost.method}"
        console.print(_bullet(safe(line)))


def _print_minor(verdict: Verdict, console: Console, found: Explained, said: Container[str | tuple[str, ...]]) -> None:
    """Print a verdict in short, without what was said before: the meaning of its cause, and steps of its advice."""
    flows = words.flows(verdict, len(found.flows))
    whose = safe(f"{flows}: ") if flows else Text()
    standing = safe(f" ({_standing(verdict, is_known=verdict.cause in said)})", style="dim")
    console.print(_bullet(Text.assemble(whose, safe(words.stated(verdict)), standing)))
    new = [step for step in _steps(verdict.advice) if step not in said]
    for line in (line for step in new for line in step):
        if line.startswith("$ "):
            console.print(safe(f"      {line}", style="cyan"), soft_wrap=True)
        else:
            console.print(Padding(safe(line), (0, 0, 0, 4), expand=False))


def _steps(advice: Iterable[str]) -> list[tuple[str, ...]]:
    """Each sentence of advice with the commands that follow it."""
    steps: list[list[str]] = []
    for line in advice:
        if line.startswith("$ ") and steps:
            steps[-1].append(line)
        else:
            steps.append([line])
    return [tuple(step) for step in steps]


def _print_matching(pair: Pair, console: Console) -> None:
    console.print(safe(pair_words.summary(pair), style="bold"))
    _print_pair(pair, (pair,), console)


def _print_pair(pair: Pair, segments: Sequence[Pair], console: Console) -> None:
    """Print what captures of one path show together."""
    sheet = replace(pair_words.ways(segments), title=pair_words.title(segments))
    _print_table(console, sheet, ordered=False)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for label, text in pair_words.facts(pair, segments):
        grid.add_row(Text(label, style="dim"), safe(text))
    console.print(Padding(grid, (1, 0, 0, 2), expand=False))


def _standing(verdict: Verdict, *, is_known: bool = False) -> str:
    meaning = "" if is_known else words.cause_meaning(verdict.cause)
    parts = [f"{words.cause_title(verdict.cause)}: {meaning}" if meaning else words.cause_title(verdict.cause)]
    if verdict.family is not None:
        parts.append(words.family(verdict.family))
    if certainty := words.certainty(verdict):
        parts.append(f"confidence {certainty}")
    if verdict.lost and verdict.explained > 0:
        losses = "the one loss" if verdict.lost == 1 else f"{quantities.count(verdict.lost)} losses"
        parts.append(f"accounts for {quantities.percent(verdict.explained)} of {losses}")
    if verdict.limited_share:
        parts.append(f"limits {quantities.percent(verdict.limited_share)} of the time")
    return " · ".join(parts)


def _print_list(console: Console, title: str, lines: Sequence[str]) -> None:
    if not lines:
        return
    heading(console, title)
    for line in lines:
        if line.startswith("$ "):
            # Never wrapped, so that it can be copied as one line.
            console.print(safe(f"      {line}", style="cyan"), soft_wrap=True)
        else:
            console.print(_bullet(safe(words.sentence(line))))


def _print_parameters(verdict: Verdict, console: Console) -> None:
    if not verdict.parameters:
        return
    heading(console, "Parameters")
    grid = Table.grid(padding=(0, 2))
    for _ in range(3):
        grid.add_column()
    for name, parameter in parameters.ordered(verdict.parameters):
        label, write = parameters.parameter_words(name)
        interval = Text(f"95 % interval: {parameters.interval(name, parameter)}", style="dim")
        grid.add_row(Text(label), Text(write(parameter.value), style="bold"), interval)
    console.print(Padding(grid, (0, 0, 0, 2), expand=False))
    if verdict.byte_basis is not None:
        basis = tables.BYTE_BASES.get(verdict.byte_basis, verdict.byte_basis)
        console.print(Padding(safe(f"Sizes count {basis}.", style="dim"), (0, 0, 0, 2), expand=False))


def _print_against(verdict: Verdict, console: Console) -> None:
    if not verdict.against:
        return
    heading(console, "Why not something else")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for runner_up in verdict.against:
        grid.add_row(safe(words.cause_title(runner_up.cause)), safe(runner_up.why))
    console.print(Padding(grid, (0, 0, 0, 2), expand=False))


def _print_table(console: Console, sheet: tables.Sheet, *, ordered: bool = True) -> None:
    if not sheet.rows:
        return
    heading(console, sheet.title)
    shown = sheet.most_important(_LONGEST_TABLE) if ordered else list(sheet.rows)
    columns = sheet.columns_within(console.width - 2, shown)
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    for column in columns:
        column_heading = sheet.columns[column]
        table.add_column(
            Text(column_heading.title),
            justify="right" if column_heading.number else "left",
            no_wrap=column_heading.number,
            overflow="fold",
        )
    for row in shown:
        table.add_row(*(safe(row[column]) for column in columns))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))
    left = len(sheet.rows) - len(shown)
    if left:
        more = f"and {quantities.count(left)} more ({sheet.order}; --json and --report list all)"
        console.print(Padding(safe(more, style="dim"), (0, 0, 0, 2), expand=False))
    if sheet.summed:
        console.print(Padding(safe(sheet.summed, style="dim"), (0, 0, 0, 2), expand=False))


def _bullet(text: Text) -> Padding:
    grid = Table.grid()
    grid.add_column(width=2)
    grid.add_column()
    grid.add_row(Text("•", style="dim"), text)
    return Padding(grid, (0, 0, 0, 2), expand=False)

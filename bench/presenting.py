"""The results as a table for the terminal and as Markdown."""

from __future__ import annotations

import datetime
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from aims import Bar, grouped, times
from measuring import Series, own_peak_bytes, ratio
from programs import Program


def marks(section: str) -> tuple[str, str]:
    """Between these lines of the page stands what was measured."""
    begin = f"<!-- measured on {section}: begin (bench/run.py --readme writes what stands between these marks) -->"
    return begin, f"<!-- measured on {section}: end -->"


class Shown(Protocol):
    """A table as it is shown: the first cell of a row is text, the others are numbers."""

    def caption(self) -> str:
        """The caption."""

    def headings(self) -> list[str]:
        """Of the columns."""

    def rows(self) -> list[list[str]]:
        """Cells in the order of the headings."""


class Section(NamedTuple):
    """The tables and bars measured together, and where in the page they go."""

    name: str
    tables: Sequence[Shown]
    bars: list[Bar]
    programs: list[Program]
    core: int | None
    """That everything ran on; ``None``: on all."""
    judged_by: str = " (CPU time)"


@dataclass
class Grid:
    """A table with finished cells."""

    title: str
    columns: list[str]
    lines: list[list[str]] = field(default_factory=list)

    def caption(self) -> str:
        """The caption."""
        return self.title

    def headings(self) -> list[str]:
        """Of the columns."""
        return self.columns

    def rows(self) -> list[list[str]]:
        """Cells in the order of the headings."""
        return self.lines


@dataclass(frozen=True)
class Table:
    """All programs on one capture, or one pair of them; whydrop is the first."""

    title: str
    packets: int
    size_bytes: int
    series: list[Series]

    def caption(self) -> str:
        """The caption: the capture that the programs ran on."""
        return f"{self.title}: {grouped(self.packets)} packets, {self.size_bytes / 1e6:.1f} MB"

    def named(self, name: str) -> Series | None:
        """The runs of a program; ``None`` where it was not measured."""
        return next((one for one in self.series if one.name == name), None)

    def headings(self) -> list[str]:
        """Of the columns."""
        ours = self.series[0].name
        return ["program", "CPU s", "wall s", "CPU µs/packet", "peak MB", f"CPU: x {ours}", f"wall: x {ours}"]

    def rows(self) -> list[list[str]]:
        """Cells in the order of the headings."""
        return [self._row(one) for one in self.series]

    def _row(self, one: Series) -> list[str]:
        runs = len(one.runs)
        cells = [
            f"{one.name} ({runs} run{'s' * (runs > 1)})",
            _seconds(one.cpu_s()),
            _seconds(one.wall_s()),
            f"{one.cpu_s() / self.packets * 1e6:.3g}",
            _peak(one.peak_bytes()),
        ]
        ours = self.series[0]
        if one is ours:
            return [*cells, "1", "1"]
        return [*cells, times(ratio(one, ours, wall=False)), times(ratio(one, ours, wall=True))]


def for_terminal(tables: Sequence[Shown], bars: Sequence[Bar]) -> str:
    """Aligned columns."""
    blocks = []
    for table in tables:
        rows = [table.headings(), *table.rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [_aligned(row, widths) for row in rows]
        blocks.append("\n".join([table.caption(), *lines]))
    aims = [f"{bar.answer():<8} {bar.what}: {bar.measured} (wanted {bar.wanted})" for bar in bars]
    return "\n\n".join([*blocks, "\n".join(aims)])


def as_markdown(
    tables: Sequence[Shown], bars: Sequence[Bar], programs: Sequence[Program], core: int | None, judged_by: str
) -> str:
    """Date, machine, versions, commands, tables and aims.

    Args:
        core: that everything ran on; ``None``: on all.
        judged_by: the quantity that the targets are for.
    """
    where = f"everything on core {core}" if core is not None else "on all cores"
    lines = [f"{datetime.datetime.now(datetime.UTC).date().isoformat()}, {machine()}; {where}.", ""]
    lines += ["| program | command | version |", "|---|---|---|"]
    lines += [f"| {program.name} | `{program.shown()}` | {program.version()} |" for program in programs]
    for table in tables:
        rule = "|---" + "|--:" * (len(table.headings()) - 1) + "|"
        lines += ["", f"**{table.caption()}**", "", _markdown_row(table.headings()), rule]
        lines += [_markdown_row(row) for row in table.rows()]
    lines += ["", f"| target{judged_by} | wanted | measured | |", "|---|--:|--:|---|"]
    lines += [_markdown_row([bar.what, bar.wanted, bar.measured, bar.answer()]) for bar in bars]
    return "\n".join(lines)


def write_into(readme: Path, section: str, measured: str) -> None:
    """Replace what stands between the marks of a section."""
    first, last = marks(section)
    text = readme.read_text()
    before, begin, rest = text.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"{readme} lacks the lines {first!r} and {last!r}, between which the results go")
    readme.write_text(f"{before}{first}\n\n{measured}\n\n{last}{after}")


def machine() -> str:
    """Cores, memory, processor."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return (
        f"{os.cpu_count()} cores ({processor()}), {memory_bytes / 1e9:.0f} GB, {platform.system()} {platform.machine()}"
    )


def processor() -> str:
    """The model, if the system reports it."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown processor"
    models = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(models, "unknown processor")


def _seconds(value_s: float) -> str:
    return f"{value_s:.3f}" if value_s < 10 else f"{value_s:.1f}"


def _peak(peak_bytes: int) -> str:
    """Megabytes; a peak below this program's own memory is only known to be below it."""
    floor_bytes = own_peak_bytes()
    if peak_bytes <= 1.05 * floor_bytes:
        return f"< {math.ceil(1.05 * floor_bytes / 1e6)}"
    return f"{peak_bytes / 1e6:.0f}"


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """The first cell to the left, the others, which are numbers, to the right."""
    numbers = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
    return "  ".join([row[0].ljust(widths[0]), *numbers])


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"

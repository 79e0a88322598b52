"""The results as a table for the terminal and as Markdown."""

from __future__ import annotations

import datetime
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from measuring import Series, own_peak_bytes, ratio
from programs import Program

BEGIN = "<!-- measured: begin (bench/run.py --readme writes what stands between these marks) -->"
END = "<!-- measured: end -->"
HEADINGS = ("program", "CPU s", "wall s", "CPU µs/packet", "peak MB", "CPU: x whydrop", "wall: x whydrop")

RULE = "|---" + "|--:" * (len(HEADINGS) - 1) + "|"


@dataclass(frozen=True)
class Table:
    """All programs on one capture; whydrop is the first."""

    title: str
    packets: int
    size_bytes: int
    series: list[Series]

    def caption(self) -> str:
        """What the programs ran on."""
        return f"{self.title}: {_grouped(self.packets)} packets, {self.size_bytes / 1e6:.1f} MB"

    def named(self, name: str) -> Series | None:
        """The runs of a program; ``None`` where it was not measured."""
        return next((one for one in self.series if one.name == name), None)

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
        return [*cells, _times(ratio(one, ours, wall=False)), _times(ratio(one, ours, wall=True))]


@dataclass(frozen=True)
class Bar:
    """Something that we hold whydrop to."""

    what: str
    wanted: str
    measured: str
    met: bool

    def answer(self) -> str:
        """For people."""
        return "met" if self.met else "not met"


def bars(small: Table, part: Table, large: Table) -> list[Bar]:
    """What we hold whydrop to, by processor time: other work on the machine stretches wall time."""
    found = []
    if tshark := small.named("tshark"):
        times = ratio(tshark, small.series[0], wall=False)
        found.append(_at_least("small capture, whole process, against tshark", 10, times))
    if tshark := part.named("tshark"):
        times = ratio(tshark, large.series[0], wall=False, packets=(part.packets, large.packets))
        what = f"per packet, large capture, against tshark (on its first {_grouped(part.packets)} packets)"
        found.append(_at_least(what, 100, times))
    if tcptrace := large.named("tcptrace"):
        times = ratio(tcptrace, large.series[0], wall=False)
        found.append(_at_least("per packet, large capture, against tcptrace", 5, times))
    peak_mb = large.series[0].peak_bytes() / 1e6
    found.append(Bar("peak memory, large capture", "< 400 MB", f"{peak_mb:.0f} MB", peak_mb < 400))
    return found


def for_terminal(tables: Sequence[Table]) -> str:
    """Aligned columns."""
    blocks = []
    for table in tables:
        rows = [list(HEADINGS), *table.rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
        lines = [_aligned(row, widths) for row in rows]
        blocks.append("\n".join([table.caption(), *lines]))
    aims = [f"{bar.answer():<8} {bar.what}: {bar.measured} (wanted {bar.wanted})" for bar in bars(*tables)]
    return "\n\n".join([*blocks, "\n".join(aims)])


def as_markdown(tables: Sequence[Table], programs: Sequence[Program], core: int) -> str:
    """Date, machine, versions, commands, tables and aims."""
    lines = [f"{datetime.datetime.now(datetime.UTC).date().isoformat()}, {machine()}; everything on core {core}.", ""]
    lines += ["| program | command | version |", "|---|---|---|"]
    lines += [f"| {program.name} | `{program.shown()}` | {program.version()} |" for program in programs]
    for table in tables:
        lines += ["", f"**{table.caption()}**", "", _markdown_row(HEADINGS), RULE]
        lines += [_markdown_row(row) for row in table.rows()]
    lines += ["", "| what we hold it to (CPU time) | wanted | measured | |", "|---|--:|--:|---|"]
    lines += [_markdown_row([bar.what, bar.wanted, bar.measured, bar.answer()]) for bar in bars(*tables)]
    return "\n".join(lines)


def write_into(readme: Path, measured: str) -> None:
    """Replace what stands between the marks."""
    text = readme.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{readme} lacks the lines {BEGIN!r} and {END!r}, between which the results go")
    readme.write_text(f"{before}{BEGIN}\n\n{measured}\n\n{END}{after}")


def machine() -> str:
    """Cores, memory, processor."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return (
        f"{os.cpu_count()} cores ({processor()}), {memory_bytes / 1e9:.0f} GB, {platform.system()} {platform.machine()}"
    )


def processor() -> str:
    """The model, where the system tells it."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown processor"
    models = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(models, "unknown processor")


def _at_least(what: str, wanted: float, measured: float) -> Bar:
    return Bar(what, f">= {wanted:g} x", f"{_times(measured)} x", measured >= wanted)


def _grouped(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _seconds(value_s: float) -> str:
    return f"{value_s:.3f}" if value_s < 10 else f"{value_s:.1f}"


def _peak(peak_bytes: int) -> str:
    """Megabytes; below what this program itself holds, the kernel's figure tells no more than that."""
    floor_bytes = own_peak_bytes()
    if peak_bytes <= 1.05 * floor_bytes:
        return f"< {math.ceil(1.05 * floor_bytes / 1e6)}"
    return f"{peak_bytes / 1e6:.0f}"


def _times(value: float) -> str:
    return f"{value:.2g}" if value < 9.95 else f"{value:.0f}"


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """The first cell to the left, the others, which are numbers, to the right."""
    numbers = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
    return "  ".join([row[0].ljust(widths[0]), *numbers])


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"

"""Writing to a terminal with rich; plain where the output is piped or colour is not wanted."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segments
from rich.table import Table
from rich.text import Text

from whydrop.text.quantities import NO_BREAK

WIDEST = 110
# For tables with a column for each recording.
WIDE = 160
# Padding and a border at both sides.
_BETWEEN_COLUMNS = 4


class Output(Console):
    """Standard output: names of flows and hosts are no markup, whatever brackets and colons they have.

    Where its reader stops early that is an error as any other, which rich would end the program for.
    """

    def __init__(self, **settings: Any) -> None:
        """As rich's console."""
        super().__init__(highlight=False, markup=False, emoji=False, **settings)

    def on_broken_pipe(self) -> None:
        """Leave it to whoever called."""
        raise BrokenPipeError


def console_for_stdout(widest: int = WIDEST) -> Console:
    """The terminal, or the file or pipe that standard output leads to; no wider than so many columns."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that knows ASCII only gets question marks for the rest, and its verdict.
        sys.stdout.reconfigure(errors="replace")
    console = Output()
    if not console.is_terminal:
        # Piped text goes to files and mail: rich's 80 columns would cut tables that have the room.
        return Output(width=widest, no_color=True)
    return Output(width=min(console.width, widest))


def print_by(write: Callable[[Console], None], console: Console | None = None) -> None:
    """Have ``write`` print to a console; that of standard output where none is given."""
    console = console or console_for_stdout()
    if console.is_terminal:
        write(console)
        return
    # rich fills lines with spaces, which are in the way in files and mail.
    with console.capture() as captured:
        write(console)
    for line in captured.get().splitlines():
        # Where nothing wraps lines any more, an ordinary space is found by grep.
        console.file.write(f"{line.rstrip()}\n".replace(NO_BREAK, " "))


def print_table(console: Console, table: Table) -> None:
    """Print a table with no word or number of it cut: a terminal that is too narrow wraps its lines."""
    needed = 0
    for column in table.columns:
        cells = (column.header, *column.cells)
        column.min_width = max(_longest(str(cell), whole=column.no_wrap) for cell in cells)
        needed += column.min_width + _BETWEEN_COLUMNS
    rendered = console.render(table, console.options.update(width=max(console.width, needed)))
    console.print(Segments(rendered), soft_wrap=True, end="")


def _longest(text: str, *, whole: bool) -> int:
    """The columns of a terminal that the longest word takes, or all of them in one line."""
    return max((cell_len(word) for word in ([text] if whole else text.split())), default=0)


def heading(console: Console, title: str) -> None:
    """The title of what follows, with a line left free before it."""
    console.print()
    console.print(Text(title, style="bold blue"))


def safe(text: str, style: str = "") -> Text:
    """Text that came from outside: no markup is read from it, and no control characters reach the terminal."""
    from whydrop.show.printable import printable

    return Text(printable(text), style=style)

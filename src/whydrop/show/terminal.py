"""Documents on a terminal, or as plain text where the output is piped or colour is not wanted."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from whydrop.show import text_layout
from whydrop.show.document import Document
from whydrop.text import quantities

WIDEST = 110
# For tables with a column for each recording.
WIDE = 160

_STYLES = {
    "strong": "bold", "quiet": "dim", "good": "green", "warning": "yellow", "bad": "red",
    "heading": "bold blue", "command": "cyan",
}  # fmt: skip


def print_document(document: Document, console: Console | None = None, *, widest: int = WIDEST) -> None:
    """Print a document to a console; to standard output where none is given.

    Raises:
        BrokenPipeError: the reader of standard output has stopped.
    """
    is_file = console is None and not sys.stdout.isatty()
    console = console or console_for_stdout(widest)
    for line in lines(document, console.width, whole_names=is_file):
        console.print(line, soft_wrap=True)


def lines(document: Document, width: int, *, whole_names: bool = False) -> Iterator[Text]:
    """The lines of a document, as rich prints them; names of a table's first column may stay whole."""
    for line in text_layout.lines_of(document, text_layout.Page(width, whole_names=whole_names)):
        # Once lines are broken, ordinary spaces do: text is searched and copied.
        spans = ((span.text.replace(quantities.NO_BREAK, " "), _STYLES.get(span.look, "")) for span in line)
        text = Text.assemble(*spans)
        text.rstrip()
        yield text


class Output(Console):
    """Standard output: names of flows and hosts are no markup, whatever brackets and colons they have.

    Where its reader stops early that is an error as any other, which rich would end the program for.
    """

    def __init__(self, **settings: Any) -> None:
        """As rich's console."""
        super().__init__(highlight=False, markup=False, emoji=False, **settings)

    def on_broken_pipe(self) -> None:
        """Leave the error to the caller."""
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

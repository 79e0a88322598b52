"""Writing the figures of ``whydrop plot``, or their numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from whydrop.cli import ending
from whydrop.cli.progress import working

if TYPE_CHECKING:
    from whydrop.show.figure import Figure


class Numbers(Protocol):
    """A writer of the numbers of a figure."""

    def csv_text(self, figure: Figure) -> str:
        """Return a row for each mark."""

    def json_text(self, figure: Figure) -> str:
        """Return a document with the words of the figure, too."""


def write(
    figure: Figure, path: Path, kind: str, numbers: Numbers, *, legend: bool, size: tuple[int, int] | None
) -> None:
    """Write a figure, whole or not at all; print its path, and on standard error which samples it leaves out.

    Args:
        figure: what is drawn.
        path: of the file; ``-`` is standard output.
        kind: its format.
        numbers: what writes its numbers.
        legend: whether there are legends.
        size: of the whole, in pixels.
    """
    from whydrop.runtime import durable
    from whydrop.show.writing import rendered

    name = ending.printable(figure.title or figure.key)
    with working(f"Drawing {ending.printable(figure.key)}"):
        match kind:
            case "csv":
                content = numbers.csv_text(figure).encode()
            case "json":
                content = numbers.json_text(figure).encode()
            case _:
                content = rendered(figure, kind, legend=legend, size=size)
        if str(path) != "-":
            durable.write_bytes(path, content)
    if str(path) == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
    else:
        sys.stdout.write(f"{name}: {ending.printable(str(path))}\n")
    sys.stdout.flush()
    print(f"whydrop: {ending.printable(figure.footnotes()[0])}", file=sys.stderr)

"""Checks of the command line; an error names the argument (exit status 2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from whydrop.cli.ending import printable


def different_files(captures: Sequence[Path]) -> None:
    """Refuse a capture that is given twice: a path has different points."""
    for number, path in enumerate(captures):
        for other in captures[:number]:
            if str(path) == str(other) == "-":
                raise click.UsageError("- is given twice, but standard input can be read only once.")
            if same_file(path, other):
                raise click.UsageError(
                    f"{printable(str(other))!r} and {printable(str(path))!r} are the same file. Several captures are "
                    "taken at different points of one path. If these are one capture in several files (tcpdump -C), "
                    "say so with --sequence."
                )


def same_file(path: Path, other: Path) -> bool:
    """True if two paths lead to one file; ``False`` where one of them does not exist."""
    try:
        return path.samefile(other)
    except OSError:
        return False


def folder_exists(option: str, path: Path) -> None:
    """Refuse an output file in a folder that does not exist, before the work begins."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise click.UsageError(f"{option}: there is no folder {printable(str(folder))!r}.")

"""Faults in a file that a user wrote: every mistake on a line of its own, all of them at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from whydrop.errors import Mistake


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake.

    Attributes:
        line: from 1; 0 where the mistake is in no line (a file that cannot be read, a parameter on the command line).
        key: where in the file, such as ``flows[2].dscp``; may be empty.
        message: what is wrong, what was expected, and the nearest name that exists.
    """

    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        """As compilers print it, so that editors can jump to it."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(part for part in (place, self.key, self.message) if part)


class FileError(Mistake):
    """A file that cannot be used as it stands; ``problems`` holds every mistake, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = sorted(set(problems))
        super().__init__("\n".join(map(str, self.problems)))


def written_path(path: Iterable[str | int]) -> str:
    """A key's place as TOML users write it.

    >>> written_path(("flows", 2, "each", "marking"))
    'flows[2].each.marking'
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text

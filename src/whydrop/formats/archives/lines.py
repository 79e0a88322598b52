"""The lines of a log, with what became of those that cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class Lines:
    """Lines of bytes, one after the other.

    Attributes:
        number: of the present line, from 1 on.
        offset: of the present line in the content.
    """

    def __init__(self, lines: Iterable[bytes]) -> None:
        self.number = self.offset = 0
        self._lines = lines
        self._refused = 0
        self._damage: str | None = None

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            self.number += 1
            yield line
            self.offset += len(line)

    def refuse(self, expected: str, where: tuple[int, int] | None = None) -> None:
        """Leave a line out, the present one or that of number and offset ``where``; the first is named."""
        number, offset = where or (self.number, self.offset)
        self._refused += 1
        self._damage = self._damage or f"line {number}, at offset {offset}: {expected}"

    def stop(self, too_many: str, offset: int | None = None) -> None:
        """Say that the rest was not read; ``too_many`` is a number of things."""
        self._damage = (
            f"more than {too_many}: those from offset {self.offset if offset is None else offset} on were not read"
        )

    @property
    def damage(self) -> str | None:
        """The lines that could not be read: the first, and how many there are."""
        more = f"; {self._refused} such lines were left out" if self._refused > 1 else ""
        return self._damage and self._damage + more

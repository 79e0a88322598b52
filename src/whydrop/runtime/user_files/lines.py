"""The line of each key and of each item of a list in a TOML source, which ``tomllib`` does not report."""

from __future__ import annotations

import tomllib

Path = tuple[str | int, ...]

_SPACE = " \t"
_BLANK = " \t\r\n"


def lines(source: str) -> dict[Path, int]:
    """The line, from 1, of each table, key and item of a TOML source that ``tomllib`` can read.

    >>> found = lines('title = "x"\\n[[flows]]\\nname = "y"\\n')
    >>> found["title",], found["flows", 0], found["flows", 0, "name"]
    (1, 2, 3)
    """
    return _Scanner(source).scan()


def nearest_line(found: dict[Path, int], path: Path) -> int:
    """The line of ``path`` or, where the source has no such key, of the innermost table around it."""
    while path and path not in found:
        path = path[:-1]
    return found.get(path, 1)


class _Scanner:
    """Walks a source that is known to be well formed, so it need not look for mistakes."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.place = 0
        self.line = 1
        self.found: dict[Path, int] = {}
        self.counts: dict[Path, int] = {}

    def scan(self) -> dict[Path, int]:
        table: Path = ()
        while self._skip(_BLANK):
            if self._ahead("[["):
                table = self._header("[[", "]]")
                self.counts[table] = self.counts.get(table, -1) + 1
                table = (*table, self.counts[table])
                self.found[table] = self.line
            elif self._ahead("["):
                table = self._header("[", "]")
                self.found.setdefault(table, self.line)
            else:
                self._pair(table)
        return self.found

    def _header(self, opening: str, closing: str) -> Path:
        self._advance(len(opening))
        keys = self._key()
        self._skip(_SPACE)
        self._advance(len(closing))
        return self._resolved(keys)

    def _resolved(self, keys: list[str]) -> Path:
        """Names in a header that name a list of tables mean the list's last table."""
        path: Path = ()
        for number, key in enumerate(keys):
            path = (*path, key)
            if number < len(keys) - 1:
                self.found.setdefault(path, self.line)
                path = (*path, self.counts[path]) if path in self.counts else path
        return path

    def _pair(self, table: Path) -> None:
        line = self.line
        path = table
        for key in self._key():
            path = (*path, key)
            self.found.setdefault(path, line)
        self._skip(_SPACE)
        self._advance(1)  # =
        self._skip(_SPACE)
        self._value(path)

    def _key(self) -> list[str]:
        keys: list[str] = []
        while True:
            self._skip(_SPACE)
            start = self.place
            if self.source[start] in "\"'":
                self._text()
                quoted = tomllib.loads(f"key = {self.source[start : self.place]}")["key"]
                keys.append(quoted)
            else:
                while self.source[self.place].isalnum() or self.source[self.place] in "-_":
                    self._advance(1)
                keys.append(self.source[start : self.place])
            self._skip(_SPACE)
            if not self._ahead("."):
                return keys
            self._advance(1)

    def _value(self, path: Path) -> None:
        if self._ahead("["):
            self._items(path)
        elif self._ahead("{"):
            self._inline_table(path)
        elif self.source[self.place] in "\"'":
            self._text()
        else:
            while self.place < len(self.source) and self.source[self.place] not in ",]}\n#":
                self._advance(1)

    def _items(self, path: Path) -> None:
        self._advance(1)
        number = 0
        while self._skip(_BLANK) and not self._ahead("]"):
            if self._ahead(","):
                self._advance(1)
                continue
            self.found[(*path, number)] = self.line
            self._value((*path, number))
            number += 1
        self._advance(1)

    def _inline_table(self, path: Path) -> None:
        self._advance(1)
        while self._skip(_BLANK) and not self._ahead("}"):
            if self._ahead(","):
                self._advance(1)
            else:
                self._pair(path)
        self._advance(1)

    def _text(self) -> None:
        quote = self.source[self.place]
        if self._ahead(quote * 3):
            self._advance(3)
            self._until(quote * 3, escapes=quote == '"')
            # Up to two quotes may stand directly before the closing three.
            while self._ahead(quote):
                self._advance(1)
        else:
            self._advance(1)
            self._until(quote, escapes=quote == '"')

    def _until(self, closing: str, *, escapes: bool) -> None:
        while not self._ahead(closing):
            self._advance(2 if escapes and self._ahead("\\") else 1)
        self._advance(len(closing))

    def _skip(self, blanks: str) -> bool:
        """Skip blanks and comments; whether anything is left."""
        while self.place < len(self.source):
            if self._ahead("#"):
                while self.place < len(self.source) and not self._ahead("\n"):
                    self._advance(1)
            elif self.source[self.place] in blanks:
                self._advance(1)
            else:
                return True
            if blanks == _SPACE and self._ahead("\n"):
                return True
        return False

    def _ahead(self, text: str) -> bool:
        return self.source.startswith(text, self.place)

    def _advance(self, count: int) -> None:
        self.line += self.source.count("\n", self.place, self.place + count)
        self.place += count

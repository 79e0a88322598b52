"""A file of changes that an operator made: CSV with the columns ``date``, ``text`` and ``site``."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from whydrop.runtime.user_files.problems import FileError, Problem

_COLUMNS = ("date", "text", "site")
_LARGEST_BYTES = 1_000_000
_EXAMPLE = "2018-02-26,flow control on,dfw02"


@dataclass(frozen=True, order=True)
class Noted:
    """One change.

    Attributes:
        day: UTC, on which it was made.
        text: in words.
        site: that was changed; empty: all sites, or none in particular.
    """

    day: date
    text: str
    site: str = ""


def read(path: Path) -> list[Noted]:
    """The changes of a file, in order of time.

    Raises:
        FileError: with every mistake, and its line.
    """
    name = str(path)
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise FileError([Problem(name, 0, "", f"is larger than {_LARGEST_BYTES // 1_000_000} MB")])
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as reason:
        raise FileError([Problem(name, 0, "", f"not UTF-8 (byte {reason.start})")]) from None
    except OSError as reason:
        raise FileError([Problem(name, 0, "", reason.strerror or str(reason))]) from None
    return _parsed(name, text)


def _parsed(name: str, text: str) -> list[Noted]:
    reader = csv.reader(text.splitlines())
    mistakes: list[Problem] = []
    found: list[Noted] = []
    heads: list[str] | None = None
    try:
        for line in reader:
            cells = [cell.strip() for cell in line]
            if not any(cells) or cells[0].startswith("#"):
                continue
            if heads is None:
                heads = [cell.lower() for cell in cells]
                if sorted(heads) != sorted(_COLUMNS):
                    message = f"the first line has {', '.join(cells)}; expected the columns date,text,site"
                    raise FileError([Problem(name, reader.line_num, "", message)])
                continue
            if len(cells) != len(heads):
                expected = f"expected three, such as {_EXAMPLE} (a text with a comma stands in quotes)"
                mistakes.append(Problem(name, reader.line_num, "", f"{len(cells)} values: {expected}"))
                continue
            row = dict(zip(heads, cells, strict=True))
            try:
                found.append(Noted(date.fromisoformat(row["date"]), row["text"], row["site"]))
            except ValueError:
                message = f"{row['date']!r}: expected a day such as 2018-02-26"
                mistakes.append(Problem(name, reader.line_num, "date", message))
    except csv.Error as reason:
        mistakes.append(Problem(name, reader.line_num, "", f"not CSV ({reason})"))
    if not mistakes and not found:
        mistakes.append(Problem(name, 0, "", f"has no change: expected date,text,site and lines such as {_EXAMPLE}"))
    if mistakes:
        raise FileError(mistakes)
    return sorted(found)

"""Gathering item by item: one item that cannot be read must not cost the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


class Items:
    """The items that were found, and in words those that were not."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.missing: list[str] = []

    def add(self, name: str, gather: Callable[[], Any]) -> None:
        """Put what ``gather`` returns under ``name``; when it fails, say why."""
        value = self.try_(name, gather)
        if value is not None:
            self.found[name] = value

    def try_(self, name: str, gather: Callable[[], Any]) -> Any:
        """Call ``gather`` and return its result, or ``None`` when it fails; then say why."""
        try:
            return gather()
        except Exception as reason:
            # Files of /proc and /sys differ between kernels, and libraries raise what they like: metadata are not
            # worth a test.
            words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
            self.missing.append(f"{name}: {' '.join(words.split())[:200]}")
            return None


def line(path: str | Path) -> str:
    """The contents of a file of one line.

    Raises:
        OSError: it cannot be read.
    """
    return Path(path).read_text(errors="replace").strip()


def line_or_none(path: str | Path) -> str | None:
    """The contents of a file of one line, if it can be read."""
    try:
        return line(path)
    except (OSError, ValueError):
        return None


def whole_number(text: str) -> int | str:
    """A number where the text is one.

    >>> whole_number("212992"), whole_number("4096\\t131072")
    (212992, '4096\\t131072')
    """
    try:
        return int(text)
    except ValueError:
        return text

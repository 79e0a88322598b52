"""Text from files, hosts and switches, made fit to be shown: it must not command the terminal or the page."""

from __future__ import annotations


def one_line(text: str) -> str:
    r"""``text`` made fit to be shown in a paragraph: its line breaks are spaces.

    >>> one_line("one\n  two\x07")
    'one two\\x07'
    """
    # `explain --json` starts in less time than this import takes.
    import re

    return printable(re.sub(r"[ \t\r\n]+", " ", text))


def printable(text: str) -> str:
    """``text`` with control characters made visible: a file name must not command the terminal.

    >>> printable("evil\\x1b[2J.pcap")
    'evil\\\\x1b[2J.pcap'
    """
    if text.isprintable():
        return text
    return "".join(_visible(char) for char in text)


# No-break and thin spaces, which numbers are grouped with, are harmless; str.isprintable() knows only one space.
_SPACES = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}"


def _visible(char: str) -> str:
    return char if char.isprintable() or char in _SPACES else char.encode("unicode_escape").decode()

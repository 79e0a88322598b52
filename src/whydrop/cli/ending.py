"""How the program ends: one line on stderr, and the exit status of the contract."""

from __future__ import annotations

import os
import sys

NOT_ANALYSED = 1
INTERRUPTED = 128 + 2  # as a shell reports SIGINT


def write_document(text: str) -> None:
    """Print the JSON document and nothing else: in UTF-8 whatever the locale, as JSON is (RFC 8259)."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def status(reason: BaseException) -> int:
    """Say on stderr why the program stops, in one line; return its exit status."""
    if isinstance(reason, BrokenPipeError):
        # The reader (such as `head`) has what it wanted. Python would complain at exit when it flushes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(reason, KeyboardInterrupt):
        sys.stderr.write("whydrop: stopped\n")
        # Another thread may still be reading; an orderly end of the interpreter would wait for it, or crash it.
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    sys.stderr.write(f"whydrop: {printable(one_line(reason))}\n")
    return NOT_ANALYSED


def one_line(reason: BaseException) -> str:
    """The message of an error; for errors of the operating system the file first."""
    if isinstance(reason, OSError) and reason.filename is not None:
        return f"{os.fsdecode(reason.filename)}: {reason.strerror}"
    return " ".join(str(reason).splitlines())


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

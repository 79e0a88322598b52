"""How the program ends: one line on stderr, and the exit status of the contract."""

from __future__ import annotations

import errno
import os
import sys

from whydrop.text.printable import printable as printable

# Type checkers know this name; importing collections.abc would take longer than ``direct`` takes to start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from whydrop.show.document import Document

NOT_ANALYSED, USAGE = 1, 2
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
INTERRUPTED = 128 + 2  # as a shell reports SIGINT

_IS_RECORDING = "a recording of a test, not a capture of packets: try `whydrop show`"


def write_json(value: Any, indent: int | None = None, **options: Any) -> None:
    """Print a value as JSON in UTF-8 (RFC 8259), whatever the locale; ``options`` are of :func:`json.dumps`."""
    import json

    sys.stdout.flush()
    sys.stdout.buffer.write(json.dumps(value, ensure_ascii=False, indent=indent, **options).encode() + b"\n")
    sys.stdout.buffer.flush()


def show(document: Document, **layout: int) -> None:
    """Print a document; ``layout`` is of :func:`whydrop.show.terminal.print_document`."""
    from whydrop.show import terminal

    terminal.print_document(document, **layout)  # type: ignore[arg-type]
    # Notes follow on the other stream, perhaps on the same terminal.
    sys.stdout.flush()


def note(line: object) -> None:
    """Print a line on standard error, with control characters escaped."""
    print(f"whydrop: {printable(str(line))}", file=sys.stderr, flush=True)


def write_found(found: Mapping[str, Any]) -> None:
    """Print the JSON of an explanation while it is made, as it can be large; indented on a terminal."""
    from whydrop._core import dump

    sys.stdout.flush()
    dump(found, sys.stdout.buffer, pretty=sys.stdout.isatty())
    sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def status(reason: BaseException) -> int:
    """Say on stderr why the program stops, in one line and one for each note on it; return its exit status."""
    if isinstance(reason, OSError):
        _leave_stdout()
    if isinstance(reason, BrokenPipeError):
        # The reader, such as `head`, needs no more.
        return 0
    if isinstance(reason, KeyboardInterrupt):
        try:
            for line in ("stopped", *getattr(reason, "__notes__", ())):
                sys.stderr.write(f"whydrop: {printable(line)}\n")
            sys.stderr.flush()
        finally:
            # Another thread may still read; a regular exit of the interpreter would wait for it, or crash it.
            os._exit(getattr(reason, "status", INTERRUPTED))
    found: int = getattr(reason, "exit_status", NOT_ANALYSED)
    # Mistakes in a file are one a line.
    lines = str(reason).splitlines() if found == USAGE else [one_line(reason)]
    for line in (*lines, *getattr(reason, "__notes__", ())):
        sys.stderr.write(f"whydrop: {printable(line)}\n")
    return found


def of_run(status: str) -> int:
    """The exit status of a measurement: ``complete``, ``failed`` or ``interrupted``."""
    from whydrop.runtime import cancelling

    return {"complete": 0, "failed": NOT_ANALYSED, "interrupted": cancelling.exit_status()}[status]


def _leave_stdout() -> None:
    """Redirect stdout that takes no more: Python would complain at exit, and change the status."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def not_analysed(reason: BaseException, captures: Sequence[str | os.PathLike[str]]) -> int:
    """As :func:`status`; for a recording given as a capture, name the command that reads it."""
    if not isinstance(reason, KeyboardInterrupt | BrokenPipeError):
        from pathlib import Path

        for path in map(Path, captures):
            folder = path if path.is_dir() else path.parent
            ours = path.is_dir() or path.suffix in (".json", ".parquet")
            if ours and (folder / "recording.json").is_file():
                sys.stderr.write(f"whydrop: {printable(str(path))}: {_IS_RECORDING}\n")
                return NOT_ANALYSED
    return status(reason)


def one_line(reason: BaseException) -> str:
    """The message of an error; for errors of the operating system the file first."""
    if isinstance(reason, OSError) and reason.filename is not None:
        return f"{os.fsdecode(reason.filename)}: {reason.strerror}"
    if isinstance(reason, OSError) and reason.errno in _OUTPUT_ERRORS:
        # Errors in files carry the name of the file; this is standard output.
        return f"the output cannot be written: {reason.strerror}"
    return " ".join(str(reason).splitlines())

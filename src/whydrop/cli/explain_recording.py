"""``whydrop explain RECORDING [CAPTURE...]``: why packets of a test waited, or were dropped."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from whydrop.cli import ending


def print_document(path: str | Path) -> int:
    """Print the JSON document of a recording; return the exit status."""
    return explain(path, as_json=True)


def explain(
    path: str | Path,
    captures: Sequence[Path] = (),
    *,
    sequence: bool = False,
    as_json: bool = False,
    report: Path | None = None,
    quiet: bool = False,
    switch: tuple[str, str] | None = None,
) -> int:
    """Print the verdicts of a recording, and write the report where one is wanted; return the exit status.

    Args:
        path: of the recording.
        captures: of the same test; without any, those that lie in the recording's folder.
        sequence: they are one capture in several files.
        as_json: print the document, and no words beside it.
        report: the page to write.
        quiet: print neither document nor words.
        switch: a store with counters of switches, and the port in it that the path goes through.
    """
    from whydrop._core import CaptureError
    from whydrop.api import explain_recording
    from whydrop.cli.interruptible import analysed
    from whydrop.recording.errors import RecordingError

    files = list(captures) or _kept_in(Path(path))
    try:
        captured = analysed(files, sequence=sequence, tables=report is not None) if files else None
    except (CaptureError, OSError, KeyboardInterrupt) as reason:
        return ending.not_analysed(reason, files)
    try:
        found = explain_recording(path, captured, switch)
        if as_json:
            ending.write_found(found.document)
        elif not quiet:
            from whydrop.show import text

            text.print_explanation(found)
        if report is not None:
            found.write_report(report)
            print(f"Report: {ending.printable(str(report))}", file=sys.stderr if as_json else sys.stdout)
    except (RecordingError, OSError, KeyboardInterrupt) as reason:
        return ending.status(reason)
    return 0


def _kept_in(recording: Path) -> list[Path]:
    """The captures that lie in a recording's folder; none where it is a file, or a store."""
    from whydrop.explaining.many.finding import is_capture
    from whydrop.recording.document import FILE_NAME

    is_folder = (recording / FILE_NAME).is_file()
    return [file for file in sorted(recording.iterdir()) if file.is_file() and is_capture(file)] if is_folder else []

"""``whydrop explain RECORDING``: why packets of a test waited, or were dropped."""

from __future__ import annotations

import sys
from pathlib import Path

from whydrop.cli import ending


def print_document(path: str | Path) -> int:
    """Print the JSON document of a recording; return the exit status."""
    return explain(path, as_json=True)


def explain(path: str | Path, *, as_json: bool, report: Path | None = None) -> int:
    """Print the verdicts of a recording, and write the report where one is wanted; return the exit status."""
    from whydrop.api import explain_recording
    from whydrop.record.errors import RecordingError

    try:
        found = explain_recording(path)
        if as_json:
            ending.write_document(found.json(pretty=sys.stdout.isatty()))
        else:
            from whydrop.show import text

            text.print_explanation(found)
        if report is not None:
            found.write_report(report)
            print(f"Report: {ending.printable(str(report))}", file=sys.stderr if as_json else sys.stdout)
    except (RecordingError, OSError, KeyboardInterrupt) as reason:
        return ending.status(reason)
    return 0

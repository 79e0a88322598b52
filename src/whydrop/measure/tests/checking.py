"""Every mistake in a test file, those included that show only when it is resolved."""

from __future__ import annotations

from pathlib import Path

from whydrop.measure.tests.loading import load_file
from whydrop.measure.tests.resolving import trial
from whydrop.runtime.user_files.problems import FileError, Problem


def check(path: Path) -> list[Problem]:
    """Every mistake in a test file; none: it can be used."""
    try:
        test = load_file(path)
    except FileError as reason:
        return reason.problems
    return trial(test)

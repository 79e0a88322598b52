"""Code shared by the commands that read recordings."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from whydrop.cli import ending

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

ARGUMENT = click.Path(path_type=Path)


@contextmanager
def reading() -> Iterator[None]:
    """End the program with one line on stderr where a recording cannot be read or written."""
    from whydrop.recording.errors import RecordingError

    try:
        yield
    except (RecordingError, OSError) as reason:
        sys.exit(ending.status(reason))


def opened(path: Path) -> Recording:
    """A recording, or a file of another tool with one test.

    Raises:
        RecordingError: it is neither.
    """
    from whydrop.formats.importing import open_recording

    return open_recording(path)


def all_opened(paths: Iterable[Path]) -> list[Recording]:
    """Recordings, and every test in files of other tools.

    Raises:
        RecordingError: one is neither.
    """
    from whydrop.formats.importing import open_recordings

    return [one for path in paths for one in open_recordings(path)]

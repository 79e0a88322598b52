"""Flent's files of every version, and those of netperf-wrapper, as Flent was called at first.

A file holds ``metadata``, ``x_values`` (a grid of time), ``results`` (series on that grid) and, from version 2 on,
``raw_values`` (the output of each tool, row by row). Raw values become rows of the tables; the grid is kept in the
table ``grids``, so that Flent's own figures can be reproduced; the metadata are kept unchanged under ``imported``, and
translated where a recording has a field for them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whydrop.formats.flent.metadata import translate
from whydrop.formats.flent.stamps import correct_stamps
from whydrop.formats.flent.upgrade import upgraded
from whydrop.formats.flent.values import Values
from whydrop.recording.recording import Recording


def recording(content: dict[str, Any], path: Path) -> Recording:
    """A Flent file, read from JSON, as a recording.

    Raises:
        RecordingError: it is damaged, or of a version that is newer than those known here.
    """
    file = upgraded(content, str(path))
    correct_stamps(file)
    values = Values(file)
    metadata = translate(file, values, path)
    return Recording(path, metadata, values.tables(), values.notes)

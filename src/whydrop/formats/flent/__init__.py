"""Flent's files of every version, and those of netperf-wrapper, as Flent was called at first.

A file holds ``metadata``, ``x_values`` (a grid of time), ``results`` (series on that grid) and, from version 2 on,
``raw_values`` (what the tools said, row by row). The raw values fill the tables; the grid is kept beside them in table
``grids``, so that every figure that Flent made of it can be made again; the metadata are kept whole under
``imported`` and are translated where a recording has a place for them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whydrop.formats.flent.metadata import translate
from whydrop.formats.flent.stamps import put_right
from whydrop.formats.flent.upgrade import upgraded
from whydrop.formats.flent.values import Values
from whydrop.recording.recording import Recording


def recording(content: dict[str, Any], path: Path) -> Recording:
    """A Flent file, read from JSON, as a recording.

    Raises:
        RecordingError: it is damaged, or of a version that is newer than those known here.
    """
    file = upgraded(content, str(path))
    put_right(file)
    values = Values(file)
    metadata = translate(file, values, path)
    return Recording(path, metadata, values.tables(), values.notes)

"""The output of ``iperf3 --json`` and ``--json-stream`` as recordings, one for each run that a file holds.

A file may be the log of a script or of a server: runs one behind the other, text around them, one cut off.
"""

from __future__ import annotations

from pathlib import Path

from whydrop.formats.iperf3.documents import Document, documents
from whydrop.formats.iperf3.run import recording
from whydrop.recording.errors import RecordingError
from whydrop.recording.recording import Recording

__all__ = ["Document", "documents", "recording", "recordings"]


def recordings(found: list[Document], path: Path) -> list[Recording]:
    """A recording of each run that measured anything; the first says what the others lacked.

    Raises:
        RecordingError: none did.
    """
    opened: list[Recording] = []
    refused: list[RecordingError] = []
    for document in found:
        try:
            one = recording(document.content, path)
        except RecordingError as reason:
            refused.append(reason)
            continue
        one.notes[:0] = document.notes
        opened.append(one)
    if not opened:
        raise refused[0]
    if refused:
        said = str(refused[0]).partition(": ")[2]
        opened[0].notes.append(f"{len(refused)} of {len(found)} runs in this file were left out: {said}")
    if len(opened) > 1:
        for number, one in enumerate(opened, 1):
            one.metadata["title"] = f"{path.stem}, run {number} of {len(opened)}"
    return opened

"""Files of other tools as recordings: Flent's and netperf-wrapper's, iperf3's JSON, DISCO's switch telemetry."""

from __future__ import annotations

from pathlib import Path

from whydrop.formats.files import parsed, read
from whydrop.recording.recording import Recording, RecordingError


def open_file(path: Path) -> Recording:
    """A file of another tool as a recording in memory.

    Raises:
        RecordingError: it cannot be read, or is of no tool that is known here.
    """
    raw = read(path)
    from whydrop.formats import disco

    if disco.is_disco(raw):
        return disco.recording(raw, path)
    content = parsed(raw, path)
    if isinstance(content, dict) and "results" in content and "x_values" in content:
        from whydrop.formats.flent import recording

        return recording(content, path)
    if isinstance(content, dict) and "intervals" in content and "start" in content:
        from whydrop.formats.iperf3 import recording as of_iperf3

        return of_iperf3(content, path)
    raise RecordingError(
        f"{path}: JSON, but of no tool that is known here: expected a file of Flent or netperf-wrapper (with the keys "
        "x_values and results), the output of iperf3 --json (start and intervals), or DISCO's switch telemetry"
    )

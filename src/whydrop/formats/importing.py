"""Files of other tools as recordings: Flent's, iperf3's JSON, pScheduler's, DISCO's, statistics of connections."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TypeVar

from whydrop.formats.files import parsed, read, require_moderate
from whydrop.formats.kinds import is_of_connections
from whydrop.recording import document
from whydrop.recording.recording import Recording, RecordingError


def open_recording(path: str | PathLike[str]) -> Recording:
    """Open the folder of a recording, or a file of another tool as a recording in memory.

    Raises:
        RecordingError: it cannot be read, is of no tool that is known here, or holds more than one test.
    """
    found = open_recordings(path)
    if len(found) > 1:
        raise RecordingError(
            f"{path}: holds {len(found)} tests, one after the other: `whydrop import` makes a recording of each "
            "(`show`, `stats` and `compare` take them as they are)"
        )
    return found[0]


def open_recordings(path: str | PathLike[str]) -> list[Recording]:
    """Every test that a path holds: one, but for logs of iperf3 and archives of pScheduler, which hold a run each.

    Raises:
        RecordingError: it cannot be read, or is of no tool that is known here.
    """
    path = Path(path)
    if path.name == document.FILE_NAME or path.is_dir():
        return [Recording.open(path)]
    return [_of_connections(path)] if is_of_connections(path) else _of_another_tool(path)


Content = TypeVar("Content")
Found = TypeVar("Found")


def _of_connections(path: Path) -> Recording:
    """A file or an archive with TCP's statistics of connections."""
    import polars as pl

    from whydrop.formats import connections
    from whydrop.formats.archives.pieces import pieces
    from whydrop.store.tables import TCP

    found = list(pieces(path))
    frames = [piece.frame for piece in found if piece.table == "tcp"] or [pl.DataFrame(schema=TCP)]
    damage = [f"{piece.source}: {piece.damage}" for piece in found if piece.damage]
    notes = [note for piece in found for note in piece.notes]
    return connections.recording(pl.concat(frames), path, notes, "; ".join(damage) or None)


def _converted(convert: Callable[[Content, Path], Found], content: Content, path: Path, tool: str) -> Found:
    """The recording that JSON holds; a list for a number and the like, anywhere, is damage and no defect."""
    import polars as pl

    try:
        return convert(content, path)
    except RecordingError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as reason:
        raise _damaged(path, tool, reason) from reason
    except pl.exceptions.PolarsError as reason:
        raise _damaged(path, tool, reason) from reason


def _damaged(path: Path, tool: str, reason: Exception) -> RecordingError:
    said = str(reason).partition("\n")[0] or type(reason).__name__
    return RecordingError(f"{path}: damaged, or of no form that {tool} writes: {said}")


def _of_another_tool(path: Path) -> list[Recording]:
    raw = read(path)
    from whydrop.formats import disco, iperf3, msak, pscheduler

    if disco.is_disco(raw):
        return [disco.recording(raw, path)]
    require_moderate(raw, path)
    if pscheduler.is_pscheduler(raw) and (found := _converted(pscheduler.runs, raw, path, "pScheduler")):
        return _converted(pscheduler.recordings, found, path, "pScheduler")
    runs = iperf3.documents(raw)
    if runs:
        return _converted(iperf3.recordings, runs, path, "iperf3")
    content = parsed(raw, path)
    if isinstance(content, dict) and "results" in content and "x_values" in content:
        from whydrop.formats.flent import recording

        return [_converted(recording, content, path, "Flent")]
    if isinstance(content, dict) and msak.is_latency(content):
        return [_converted(msak.recording, content, path, "MSAK")]
    if isinstance(content, dict) and "intervals" in content and "start" in content:
        return _converted(iperf3.recordings, [iperf3.Document(content)], path, "iperf3")
    raise RecordingError(
        f"{path}: JSON, but of no tool that is known here: expected a file of Flent or netperf-wrapper (with the keys "
        "x_values and results), the output of iperf3 --json (start and intervals), a result of pScheduler (throughput, "
        "latency, rtt or trace), DISCO's switch telemetry, or a result of NDT5, NDT7 or MSAK"
    )

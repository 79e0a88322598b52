"""Sources of an explanation: captures of one path, pieces of one capture, a recording, or a mixture."""

# ruff: noqa: PTH112, PTH113, PTH118
# Importing pathlib would take longer than the question: `whydrop explain` asks it at every start.

from __future__ import annotations

import os

from whydrop import _core
from whydrop.errors import Mistake
from whydrop.explaining.same_file import is_same_file
from whydrop.formats.kinds import is_recording, is_store

# As type checkers know it; importing typing would take longer than the question.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from whydrop.explaining.explained import Analysis
    from whydrop.explaining.hints import PairHints
    from whydrop.recording.recording import Recording


class SourceError(Mistake):
    """These sources cannot be explained together; the message says why."""


def analyse(
    sources: Sequence[str | os.PathLike[str] | Recording],
    *,
    sequence: bool = False,
    switch_port: tuple[str, str] | None = None,
    tables: bool = True,
    progress: Callable[[int, int], None] | None = None,
    filter: str | None = None,
    begin: float | None = None,
    end: float | None = None,
    hints: PairHints | None = None,
) -> Analysis:
    """Analyse sources together; :func:`whydrop.explain` describes the arguments.

    Raises:
        SourceError: the sources do not go together, or the filter is wrong.
        CaptureError: a capture could not be analysed.
        RecordingError: the recording could not be read, or it holds neither probes nor flows.
    """
    ends = _ends(sources)
    if ends is not None and not (filter or begin or end or hints or sequence or switch_port):
        from whydrop.explaining.recordings import ends as of_ends

        return of_ends.explain(*ends)
    recording, captures = apart(sources, sequence=sequence)
    selection = {"filter": filter, "begin": begin, "end": end}
    selection = {name: value for name, value in selection.items() if value is not None}
    if selection and recording is not None:
        raise SourceError("a filter and times select packets of captures: explain the captures without the recording")
    if hints is not None and (sequence or recording is not None or len(captures) < 2):
        raise SourceError("hints for matching are for two captures of one path: give both")
    if recording is None:
        if switch_port is not None:
            raise SourceError("a switch port belongs to a recording of flows: give one, or a store with connections")
        return _of_captures(captures, sequence, tables, progress, selection, hints)
    from whydrop.explaining.recordings import document

    captures = captures or kept_in(recording)
    seen = _of_captures(captures, sequence, tables, progress) if captures else None
    if isinstance(recording, str):
        return document.explain(recording, seen, switch_port)
    return document.of_recording(recording, seen, switch_port)


def _ends(sources: Sequence[str | os.PathLike[str] | Recording]) -> tuple[Recording, Recording] | None:
    """The two recordings of `whydrop watch`, if these are the sources."""
    if len(sources) != 2 or not all(not isinstance(one, (str, os.PathLike)) or _is_folder(one) for one in sources):
        return None
    from whydrop.formats.importing import open_recording

    opened = [open_recording(one) if isinstance(one, (str, os.PathLike)) else _opened(one) for one in sources]
    first, second = opened
    return (first, second) if all(one.metadata["name"] == "watch" for one in opened) else None


def _is_folder(path: str | os.PathLike[str]) -> bool:
    return os.path.isdir(path) and is_recording(os.fspath(path))


def apart(
    sources: Sequence[str | os.PathLike[str] | Recording], *, sequence: bool
) -> tuple[str | Recording | None, list[str]]:
    """The recording among the sources, if there is one, and the captures.

    Raises:
        SourceError: the sources do not go together.
    """
    recordings: list[str | Recording] = []
    captures: list[str] = []
    for source in sources:
        if not isinstance(source, (str, os.PathLike)):
            recordings.append(_opened(source))
            continue
        path = os.fspath(source)
        if is_measured(path):
            recordings.append(path)
        else:
            captures.append(path)
    if not recordings and not captures:
        raise SourceError("no source given: expected a capture, a recording, or a file of another tool")
    if len(recordings) > 1:
        first, second = (one if isinstance(one, str) else one.path for one in recordings[:2])
        raise SourceError(
            f"two recordings ({first}, {second}): give one, and captures of the same test if there are any; or two "
            "recordings of `whydrop watch`, one at each end of the same connections"
        )
    if sequence and not captures:
        raise SourceError("sequence=True is for one capture in several files; a recording alone is given")
    if not sequence:
        _require_different(captures)
    return (recordings[0] if recordings else None), captures


def is_measured(path: str | os.PathLike[str]) -> bool:
    """True if a path is a recording, a file that is read as one, or a store."""
    name = os.fspath(path)
    return is_recording(name) or is_store(name)


def _opened(source: object) -> Recording:
    from whydrop.recording.recording import Recording

    if isinstance(source, Recording):
        return source
    raise TypeError(
        f"a source is a path or a whydrop.Recording, not {type(source).__name__}; "
        "give several one by one: explain(*paths), with sequence=True for the pieces of one capture"
    )


def _require_different(captures: Sequence[str]) -> None:
    """Refuse a capture that is given twice: a path has different points."""
    for number, path in enumerate(captures):
        for other in captures[:number]:
            if path == other == "-":
                raise SourceError("- is given twice, but standard input can be read only once")
            if is_same_file(path, other):
                raise SourceError(
                    f"{other!r} and {path!r} are the same file. Several captures are taken at different points of one "
                    "path; for one capture in several files (tcpdump -C) use sequence=True"
                )


def kept_in(recording: str | Recording) -> list[str]:
    """The captures in a recording's folder; none where it is a file, or a store."""
    folder = recording if isinstance(recording, str) else os.fspath(recording.path)
    from whydrop.recording.document import FILE_NAME

    if not os.path.isfile(os.path.join(folder, FILE_NAME)):
        return []
    from pathlib import Path

    from whydrop.explaining.many.finding import is_capture

    return [str(file) for file in sorted(Path(folder).iterdir()) if file.is_file() and is_capture(file)]


def _of_captures(
    captures: Sequence[str],
    sequence: bool,
    tables: bool,
    progress: Callable[[int, int], None] | None,
    selection: Mapping[str, Any] | None = None,
    hints: PairHints | None = None,
) -> _core.Analysis:
    """One capture (in several files with ``sequence``), or several of one path."""
    is_one = sequence or len(captures) == 1
    if selection and not is_one and selection.keys() != {"filter"}:
        raise SourceError("times select packets of one capture; the clocks of several differ")
    explain = _core.explain if is_one else _core.explain_pair
    chosen = {**(selection or {}), **({} if hints is None else {"hints": _fitting(hints, captures)})}
    try:
        found = explain(captures, tables=tables, progress=progress, **chosen)
    except ValueError as reason:
        raise SourceError(f"filter {reason}") from None
    if hints is not None and hints.longest_bytes is not None:
        _need_nearly_all(found.document(), hints.longest_bytes)
    return found


# An explanation needs all but this share of the packets.
_MOST_TOO_LONG = 0.05


def _need_nearly_all(document: Mapping[str, Any], longest_bytes: int) -> None:
    """Refuse an explanation without many of the packets: it would say that nothing was lost."""
    pairs = document.get("path") or [document["pair"]]
    too_long = sum(pair["unmatched"].get("too-long", 0) for pair in pairs)
    matched = sum(pair["matched"] for pair in pairs)
    if too_long > _MOST_TOO_LONG * (too_long + matched):
        raise SourceError(
            f"{too_long} packets are longer than {longest_bytes} bytes and were not matched, and {matched} were, so "
            "the cause of losses and delays is unknown. Give a larger length (packets before segmentation offload have "
            "up to 64 kB), or count the shorter ones with `whydrop match`"
        )


def _fitting(hints: PairHints, captures: Sequence[str]) -> dict[str, Any]:
    from whydrop.explaining.hints import HintError

    try:
        return hints.of_captures(captures)
    except HintError as reason:
        raise SourceError(str(reason)) from None

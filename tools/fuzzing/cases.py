"""One case: captures made of a seed and a number, and what whydrop makes of them."""

from __future__ import annotations

import io
import lzma
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from random import Random

from fuzzing import frames
from fuzzing.conversations import drawn
from fuzzing.frames import Frames
from fuzzing.mutations import mutated, second_point

# Of a file of a gigabyte its beginning is seed enough.
_MOST_FRAMES = 3000
_LARGEST_FILE_BYTES = 64 << 20
# As every defect is named that was contained.
_DEFECT = "a defect of whydrop"


@dataclass(frozen=True)
class Case:
    """Which captures, and what is asked of them."""

    files: tuple[bytes, ...]
    reports: bool


def corpus(paths: list[Path]) -> list[Frames]:
    """Read the captures among files and all that is in folders, in the order of their names."""
    files = sorted(file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]))
    found = []
    for file in files:
        if file.is_file() and file.stat().st_size <= _LARGEST_FILE_BYTES:
            try:
                capture = frames.read(file, _MOST_FRAMES)
            except (OSError, EOFError, ValueError, lzma.LZMAError):
                continue
            if capture is not None and capture.frames:
                found.append(capture)
    return found


def case(seed: int, number: int, seeds: list[Frames]) -> Case:
    """Make a case, the same at each time."""
    random = Random(f"{seed}/{number}")
    first = mutated(random.choice(seeds) if seeds and random.random() < 0.6 else drawn(random), random)
    captures = [first]
    if random.random() < 0.35:
        captures.append(second_point(first, random))
        random.shuffle(captures)
    files = tuple(_file(capture, random) for capture in captures)
    return Case(files, reports=random.random() < 0.08)


def _file(capture: Frames, random: Random) -> bytes:
    content = frames.written(capture)
    if random.random() < 0.05:
        content = content[: random.randrange(24, len(content) + 1)]
    return content


def tried(case: Case, folder: Path) -> str | None:
    """Explain a case in this process; return what went wrong, if anything did."""
    import whydrop

    paths = [folder / f"{number}.pcap" for number in range(len(case.files))]
    for path, content in zip(paths, case.files, strict=True):
        path.write_bytes(content)
    try:
        found = whydrop.explain(*paths)
        said = _printed(found)
        if case.reports:
            found.write_report(folder / "report.html")
        defects = [note for capture in found.captures for note in capture.notes if _DEFECT in note]
        return "\n".join(defects) or (said if _DEFECT in said else None)
    except whydrop.CaptureError as refusal:
        return str(refusal) if _DEFECT in str(refusal) or "\n" in str(refusal) else None
    except BaseException as failure:
        if isinstance(failure, KeyboardInterrupt):
            raise
        return "".join(traceback.format_exception(failure, limit=-6))


def _printed(found: object) -> str:
    from rich.console import Console

    from whydrop.show import explanation, terminal

    stream = io.StringIO()
    terminal.print_document(explanation.document(found), Console(file=stream, width=120))  # type: ignore[arg-type]
    return stream.getvalue()


def limit_memory(largest_bytes: int) -> None:
    """Let this process have no more memory than that."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (largest_bytes, largest_bytes))

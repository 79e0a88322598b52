"""The captures to measure with: made once out of the example captures, kept in a folder that is never committed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
# Frames of the examples are cut at 128 bytes, and each has a header of 16.
MOST_BYTES_PER_PACKET = 144


# Of the same packets further along the path, for pairs.
FAR = "-far"
PROGRAM = Path(__file__).with_name("replicate_captures.rs")


class MakingError(Exception):
    """The captures could not be made; the message says why and what to do."""


@dataclass(frozen=True)
class Measured:
    """A capture to measure with."""

    path: Path
    packets: int

    @property
    def paths(self) -> tuple[Path]:
        """The only one."""
        return (self.path,)

    def size_bytes(self) -> int:
        """Of the file."""
        return self.path.stat().st_size


@dataclass(frozen=True)
class MeasuredPair:
    """Two captures of one path to measure with."""

    paths: tuple[Path, Path]
    packets_each: tuple[int, int]

    @property
    def packets(self) -> int:
        """Of both captures."""
        return sum(self.packets_each)

    def size_bytes(self) -> int:
        """Of both files."""
        return sum(path.stat().st_size for path in self.paths)


def examples() -> list[Path]:
    """Captures of one point each: senders' ends."""
    return sorted(path for path in EXAMPLES.glob("*.pcap.zst") if not _is_far(path))


def example_pairs() -> list[Path]:
    """Captures of two points of a path, one after the other."""
    fars = sorted(path for path in EXAMPLES.glob("*.pcap.zst") if _is_far(path))
    return [path for far in fars for path in (far.with_name(far.name.replace(FAR, "", 1)), far)]


def _is_far(path: Path) -> bool:
    return path.name.split(".")[0].endswith(FAR)


def make_small(folder: Path, source: Path = EXAMPLES / "policed-download.pcap.zst") -> Measured:
    """One example capture, uncompressed, since not every program reads zstd."""
    return _make_one(folder, "once", [source])


def make_large(folder: Path, packets: int, sources: Sequence[Path]) -> Measured:
    """Replicas of captures, each with hosts of its own, eight at a time."""
    return _make_one(folder, str(packets), sources)


def make_pair(folder: Path, packets: int, sources: Sequence[Path]) -> MeasuredPair:
    """Replicas of pairs of captures, eight at a time: so many packets each, or some more."""
    if not sources or len(sources) % 2:
        raise MakingError("captures come in pairs: name two of one path after each other with --pairs")
    prefix = f"pair-{packets}-{_fingerprint(sources)}"
    near, far = (folder / f"{prefix}-{point}.pcap" for point in ("near", "far"))
    # a pair of examples has half as many packets again at the far point, which sees super-segments in pieces
    counts = _make([near, far], folder / f"{prefix}.packets", ["pairs", str(packets)], sources, 3 * packets)
    return MeasuredPair((near, far), (counts[0], counts[1]))


def _make_one(folder: Path, packets: str, sources: Sequence[Path]) -> Measured:
    path = folder / f"{packets}-{_fingerprint(sources)}.pcap"
    most = 1 if packets == "once" else int(packets)
    counts = _make([path], path.with_suffix(".packets"), [packets], sources, most)
    return Measured(path, counts[0])


def _fingerprint(sources: Sequence[Path]) -> str:
    """Of everything that decides what is made."""
    ingredients = hashlib.sha256()
    for part in (PROGRAM, *sorted(PROGRAM.with_name("replicate").glob("*.rs"))):
        ingredients.update(part.read_bytes())
    for source in sources:
        if not source.is_file():
            raise MakingError(f"there is no capture {source}: name captures to replicate with --captures or --pairs")
        ingredients.update(source.read_bytes())
    return ingredients.hexdigest()[:12]


def _make(paths: Sequence[Path], count: Path, what: Sequence[str], sources: Sequence[Path], most: int) -> list[int]:
    """Make the captures unless they are there, and return how many packets each has; ``most`` packets are expected."""
    if not count.exists():
        count.parent.mkdir(parents=True, exist_ok=True)
        _check_room(count.parent, most)
        unfinished = [path.with_suffix(".unfinished") for path in paths]
        counts = _replicate([*what, *map(str, unfinished), *map(str, sources)])
        for before, after in zip(unfinished, paths, strict=True):
            before.replace(after)
        count.write_text(" ".join(map(str, counts)))
    return [int(number) for number in count.read_text().split()]


def _check_room(folder: Path, packets: int) -> None:
    needed, free = packets * MOST_BYTES_PER_PACKET, shutil.disk_usage(folder).free
    if needed > free:
        raise MakingError(
            f"{folder} has {free / 1e6:.0f} MB free and needs {needed / 1e6:.0f} MB: choose another with --folder"
        )


def _replicate(arguments: Sequence[str]) -> list[int]:
    """Return the numbers of packets written."""
    if shutil.which("cargo") is None:
        raise MakingError("no Rust toolchain found (cargo): install one from https://rustup.rs")
    program = ["cargo", "run", "--release", "--quiet", "-p", "whydrop-simulate", "--example", "replicate_captures"]
    command = [*program, "--", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MakingError(f"the captures could not be made: {done.stderr.strip()}")
    return [int(number) for number in done.stdout.split()[:-1]]

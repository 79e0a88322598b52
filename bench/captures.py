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


class MakingError(Exception):
    """The captures could not be made; the message says why and what to do."""


@dataclass(frozen=True)
class Measured:
    """A capture to measure with."""

    path: Path
    packets: int

    def size_bytes(self) -> int:
        """Of the file."""
        return self.path.stat().st_size


def make_small(folder: Path, source: Path = EXAMPLES / "policed-download.pcap.zst") -> Measured:
    """One example capture, uncompressed, since not every program reads zstd."""
    return _make(folder, "once", [source])


def make_large(folder: Path, packets: int, sources: Sequence[Path]) -> Measured:
    """Replicas of captures, each with hosts of its own, eight at a time."""
    return _make(folder, str(packets), sources)


def _make(folder: Path, packets: str, sources: Sequence[Path]) -> Measured:
    folder.mkdir(parents=True, exist_ok=True)
    program = Path(__file__).with_name("replicate_captures.rs")
    ingredients = hashlib.sha256(program.read_bytes())
    for source in sources:
        if not source.is_file():
            raise MakingError(f"there is no capture {source}: name captures to replicate with --captures")
        ingredients.update(source.read_bytes())
    path = folder / f"{packets}-{ingredients.hexdigest()[:12]}.pcap"
    count = path.with_suffix(".packets")
    if not count.exists():
        _check_room(folder, 1 if packets == "once" else int(packets))
        unfinished = path.with_suffix(".unfinished")
        count.write_text(_replicate(packets, unfinished, sources))
        unfinished.replace(path)
    return Measured(path, int(count.read_text()))


def _check_room(folder: Path, packets: int) -> None:
    needed, free = packets * MOST_BYTES_PER_PACKET, shutil.disk_usage(folder).free
    if needed > free:
        raise MakingError(
            f"{folder} has {free / 1e6:.0f} MB free and needs {needed / 1e6:.0f} MB: choose another with --folder"
        )


def _replicate(packets: str, out: Path, sources: Sequence[Path]) -> str:
    """Return the number of packets written."""
    if shutil.which("cargo") is None:
        raise MakingError("no Rust toolchain found (cargo): install one from https://rustup.rs")
    program = ["cargo", "run", "--release", "--quiet", "-p", "whydrop-simulate", "--example", "replicate_captures"]
    command = [*program, "--", packets, str(out), *map(str, sources)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MakingError(f"the captures could not be made: {done.stderr.strip()}")
    return done.stdout.split()[0]

"""Draws the pictures of docs/findings.md from the recordings that the tests of the lab left (``make images``).

.venv/bin/python tools/findings.py [FOLDER]        FOLDER holds recordings; by default build/lab
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"

# Picture, plot, title, size, and the recordings (test and title) that are in it.
PICTURES = (
    ("rrul-pfifo", "all", "RRUL over a FIFO of 1000 packets, 10/10 Mbit/s, 50 ms", "880x860",
     [("rrul", "pfifo")]),
    ("rrul-fq_codel", "all", "RRUL over fq_codel, 10/10 Mbit/s, 50 ms", "880x860", [("rrul", "fq_codel")]),
    ("rrul-latency", "ping_cdf_combine", "Latency under RRUL, 10/10 Mbit/s, 50 ms", "700x420",
     [("rrul", "pfifo"), ("rrul", "fq_codel")]),
    ("rtt-fairness", "bar_combine_up", "Four uploads over 10, 50, 200 and 500 ms share 10 Mbit/s", "700x420",
     [("rtt_fair_up", "pfifo"), ("rtt_fair_up", "fq_codel")]),
)  # fmt: skip


def newest(folder: Path, test: str, title: str) -> Path | None:
    """The newest recording of a test with this title anywhere below ``folder``."""
    found = sorted(folder.rglob(f"{test}-*.{title}.recording"), key=lambda path: path.name)
    return found[-1] if found else None


def main() -> int:
    """Draw what there are recordings for; say what is missing."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "lab"
    IMAGES.mkdir(parents=True, exist_ok=True)
    missing = False
    for name, plot, title, size, wanted in PICTURES:
        recordings = [newest(folder, *one) for one in wanted]
        if None in recordings:
            print(f"{name}: no recordings in {folder}; run: .venv/bin/pytest tests/running/test_findings.py")
            missing = True
            continue
        words = [sys.executable, "-m", "whydrop", "plot", *map(str, recordings), "--plot", plot, "--title", title]
        subprocess.run([*words, "--size", size, "--output", str(IMAGES / f"{name}.png")], check=True)
    return int(missing)


if __name__ == "__main__":
    sys.exit(main())

"""Score the causes of downloads that their client captured itself.

    cargo run --release -p whydrop-simulate -- downloads --out /tmp/downloads --split validation --seed 9 --count 100
    .venv/bin/python bench/downloads.py /tmp/downloads

Of each drawn download the capture at the client alone is explained. What is stated of the transfer that the truth is
about is right, `unknown`, or wrong; `sender` and `receiver-window` are counted apart, as they send their reader to the
wrong host.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from pathlib import Path

from calibrate import explained

ACCUSATIONS = ("sender", "receiver-window")


def main() -> None:
    """Print each wrong statement, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    folders = sorted(path.parent for path in asked.folder.glob("*/truth.json"))
    stated = [one for one in explained(folders, asked.jobs, "behind") if one]
    named = [one for one in stated if one.cause != "unknown"]
    wrong = [one for one in named if not one.right]
    for one in wrong:
        print(f"{one.name:32} {one.cause} {one.confidence:.0%}, right is {one.truth}; {one.lost} lost")
    for cause, number in Counter(one.truth for one in stated if one.cause == "unknown").most_common():
        print(f"unknown where {cause} is right: {number}")
    accused = [one for one in wrong if one.cause in ACCUSATIONS]
    count = len(stated)
    print(
        f"{count} downloads: {len(named) - len(wrong)} right, {count - len(named)} unknown, {len(wrong)} wrong "
        f"({1 - len(wrong) / max(count, 1):.1%} right or unknown), "
        f"{len(accused)} falsely name {' or '.join(ACCUSATIONS)}"
    )


if __name__ == "__main__":
    main()

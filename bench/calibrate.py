"""Whether a stated 80 % is right four times in five: the confidence of transfers' causes.

    cargo run --release -p whydrop-simulate -- transfers --out /tmp/drawn --split validation --seed 9 --count 2000
    .venv/bin/python bench/calibrate.py /tmp/drawn

Each transfer is explained from one capture, before the path element or behind it in turn. Of the connection that the
truth is about the transfer counts that lost most, else the largest, which is most of it. What is called `unknown` states no cause, and is counted apart.

*Expected calibration error*: the mean distance between the confidence that is stated and the share that is right, over
ten classes of equally many transfers (Naeini et al. 2015). *Brier score*: the mean square of the distance between the
confidence and what came true, beside that of the best constant: the share that is right, stated of all.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import whydrop

CLASSES = 10
ENDS = ("b.pcap", "y.pcap")


@dataclass(frozen=True)
class Stated:
    """What was said of one transfer."""

    name: str
    cause: str
    confidence: float
    right: bool
    truth: str
    lost: int


def stated(folder: Path) -> Stated | None:
    """The largest transfer of the connection that the truth is about, by one of the captures. None if it shows none."""
    truth = json.loads((folder / "truth.json").read_text())
    captures = [end for end in ENDS if (folder / end).exists()]
    capture = captures[sum(folder.name.encode()) % len(captures)]
    found = whydrop.explain(folder / capture)
    port = truth["flows"][0]["dport"]
    own = [transfer for transfer in found.transfers if transfer.flow.endswith((f":{port}", f"]:{port}"))]
    if not own:
        return None
    largest = max(own, key=lambda transfer: (transfer.lost, transfer.payload_bytes))
    right = truth["right_causes"]
    return Stated(folder.name, largest.cause, largest.confidence, largest.cause in right, right[0], largest.lost)


def brier(of: Sequence[Stated]) -> float:
    """Mean square of the distance between what was stated and what came true."""
    return sum((one.confidence - one.right) ** 2 for one in of) / max(len(of), 1)


def share_right(of: Sequence[Stated]) -> float:
    """Share of the transfers that are called rightly."""
    return sum(one.right for one in of) / max(len(of), 1)


def reliability(of: Sequence[Stated]) -> list[tuple[int, float, float]]:
    """For each class of equally many, by confidence: how many, the mean confidence and the share that is right."""
    ordered = sorted(of, key=lambda one: one.confidence)
    bounds = [round(len(ordered) * place / CLASSES) for place in range(CLASSES + 1)]
    classes = [ordered[low:high] for low, high in pairwise(bounds) if high > low]
    return [(len(one), sum(each.confidence for each in one) / len(one), share_right(one)) for one in classes]


def calibration_error(of: Sequence[Stated]) -> float:
    """Expected calibration error."""
    return sum(number * abs(said - right) for number, said, right in reliability(of)) / max(len(of), 1)


def say(title: str, of: Sequence[Stated]) -> None:
    """Print how reliable the stated confidences are."""
    share = share_right(of)
    print(
        f"\n{title}: {len(of)} transfers, {share:.3f} right, expected calibration error {calibration_error(of):.3f}, "
        f"Brier score {brier(of):.3f} (best constant {share * (1 - share):.3f})"
    )
    for number, said, right in reliability(of):
        print(f"  stated {said:.3f}  right {right:.3f}  {'#' * round(40 * right):40}  n {number}")


def explained(folders: Sequence[Path], jobs: int) -> Iterable[Stated | None]:
    """All of them, in their order."""
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(stated, folders, chunksize=16)


def main() -> int:
    """Explain, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what `whydrop-simulate transfers` has drawn")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write what was stated of each transfer")
    parser.add_argument("--causes", action="store_true", help="each cause for itself, too, and what was taken for what")
    given = parser.parse_args()
    folders = sorted(truth.parent for truth in given.folder.glob("*/truth.json"))
    if not folders:
        parser.error(f"{given.folder}: holds no drawn transfers")
    found = [one for one in explained(folders, given.jobs) if one is not None]
    named = [one for one in found if one.cause != "unknown"]
    say("all that name a cause", named)
    say("of these, with losses", [one for one in named if one.lost])
    say("without", [one for one in named if not one.lost])
    print(f"\nunknown: {len(found) - len(named)} of {len(found)}; not seen: {len(folders) - len(found)}")
    if given.causes:
        for cause, _ in Counter(one.cause for one in named).most_common():
            say(cause, [one for one in named if one.cause == cause])
            wrong = Counter(one.truth for one in named if one.cause == cause and not one.right)
            print("  wrong where it was:", ", ".join(f"{truth} {number}" for truth, number in wrong.most_common(8)))
        print("\nunknown where it was:", Counter(one.truth for one in found if one.cause == "unknown").most_common())
    if given.json:
        given.json.write_text(json.dumps([vars(one) for one in found], indent=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())

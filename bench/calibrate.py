"""Check that a stated 80 % is right four times in five: the confidence of transfers' causes.

    cargo run --release -p whydrop-simulate -- transfers --out /tmp/drawn --split validation --seed 9 --count 2000
    .venv/bin/python bench/calibrate.py /tmp/drawn --figure docs/images/calibration.png

Each transfer is explained from one capture, that before the path element or that behind it, or from both (`--seen`).
Of the connection that the truth is about the transfer counts that lost most, else the largest; where the captures show
as many transfers as there were, by what happened to that one, else by what happened to the connection.
What is called `unknown` states no cause, and is counted apart.

*Expected calibration error*: the mean distance between the confidence that is stated and the share that is right, over
ten classes of equally many transfers (Naeini et al. 2015). *Brier score*: the mean square of the distance between the
confidence and what came true, beside that of the best constant: the share that is right, stated of all.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import polars as pl

import whydrop
from whydrop.runtime import durable
from whydrop.show.charts.scene import layer
from whydrop.show.figure import Axis, Figure, Layer, Panel
from whydrop.show.vega.drawing import rendered

CLASSES = 10
ENDS = ("b.pcap", "y.pcap")
SEEN: dict[str, Callable[[Sequence[Path]], whydrop.Explanation]] = {
    "before": lambda captures: whydrop.explain(captures[0]),
    "behind": lambda captures: whydrop.explain(captures[-1]),
    "both": lambda captures: whydrop.explain(captures[0], captures[-1]),
}


@dataclass(frozen=True)
class Stated:
    """The statement on one transfer."""

    name: str
    cause: str
    confidence: float
    right: bool
    truth: str
    lost: int


def stated(folder: Path, seen: str) -> Stated | None:
    """The transfer that the truth is about, as `seen`: a key of `SEEN`. None if the captures show none."""
    truth = json.loads((folder / "truth.json").read_text())
    captures = [folder / end for end in ENDS if (folder / end).exists()]
    try:
        found = SEEN[seen](captures)
    except whydrop.CaptureError:  # nothing in common
        return None
    port = truth["flows"][0]["dport"]
    own = [transfer for transfer in found.transfers if transfer.flow.endswith((f":{port}", f"]:{port}"))]
    if not own:
        return None
    largest = max(own, key=lambda transfer: (transfer.lost, transfer.payload_bytes))
    of_each = truth["right_causes_by_transfer"]
    right = of_each[own.index(largest)] if len(of_each) == len(own) else truth["right_causes"]
    return Stated(folder.name, largest.cause, largest.confidence, largest.cause in right, right[0], largest.lost)


def brier(of: Sequence[Stated]) -> float:
    """Mean square of the distance between what was stated and what came true."""
    return sum((one.confidence - one.right) ** 2 for one in of) / max(len(of), 1)


def share_right(of: Sequence[Stated]) -> float:
    """Share of the transfers with the right verdict."""
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


def explained(folders: Sequence[Path], jobs: int, seen: str) -> Iterable[Stated | None]:
    """All of them, in their order."""
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(partial(stated, seen=seen), folders, chunksize=16)


def between(number: int, share: float) -> tuple[float, float]:
    """Wilson's 95 % interval (1927) of a share of so many."""
    z = 1.96
    middle = (share + z * z / (2 * number)) / (1 + z * z / number)
    half = z / (1 + z * z / number) * math.sqrt(share * (1 - share) / number + z * z / (4 * number * number))
    return max(middle - half, 0), min(middle + half, 1)


def figure(named: Sequence[Stated]) -> Figure:
    """The reliability diagram: what is right of each class, over what was stated of it."""

    def layers(name: str, style: str, of: Sequence[Stated]) -> list[Layer]:
        classes = reliability(of)
        ends = [between(number, right) for number, _, right in classes]
        said = [said for _, said, _ in classes]
        bounds = pl.DataFrame({"x": said, "y": [low for low, _ in ends], "y2": [high for _, high in ends]})
        points = pl.DataFrame({"x": said, "y": [right for _, _, right in classes]})
        return [
            layer(f"{name}: 95 %", "window", "spans", bounds),
            layer(f"{name} ({len(of)})", style, "points", points, rare=True),
        ]

    without = [one for one in named if not one.lost]
    diagonal = pl.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0]})
    panel = Panel(
        Axis("stated confidence", ends=(0.0, 1.0)),
        Axis("share that is right", ends=(0.0, 1.0)),
        (
            layer("as stated", "limit", "line", diagonal),
            *layers("nothing lost", "point-1", without),
            *layers("packets lost", "lost", [one for one in named if one.lost]),
        ),
    )
    return Figure(
        "calibration",
        "What a stated confidence is worth",
        f"{len(named)} transfers that name a cause, in classes of equally many",
        (panel,),
        see=f"On the diagonal a stated 80 % is right four times in five. Expected calibration error "
        f"{calibration_error(named):.3f}, Brier score {brier(named):.3f} "
        f"(best constant {share_right(named) * (1 - share_right(named)):.3f}).",
    )


def main() -> int:
    """Explain, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what `whydrop-simulate transfers` has drawn")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write what was stated of each transfer")
    parser.add_argument(
        "--seen", choices=SEEN, default="before", help="from which captures to explain (default: before)"
    )
    parser.add_argument(
        "--figure", type=Path, help="draw the reliability diagram: a path that ends in .png, .svg or .pdf"
    )
    parser.add_argument("--causes", action="store_true", help="each cause alone too, and the confusions between them")
    given = parser.parse_args()
    folders = sorted(truth.parent for truth in given.folder.glob("*/truth.json"))
    if not folders:
        parser.error(f"{given.folder}: holds no drawn transfers")
    found = [one for one in explained(folders, given.jobs, given.seen) if one is not None]
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
    if given.figure:
        durable.write_bytes(given.figure, rendered(figure(named), given.figure.suffix.removeprefix(".")))
    if given.json:
        given.json.write_text(json.dumps([vars(one) for one in found], indent=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())

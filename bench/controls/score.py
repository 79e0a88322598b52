#!/usr/bin/env python
"""How well the congestion control of a sender is named, over the captures of bench/controls/record.py.

    python bench/controls/score.py /tmp/controls

For each set of paths prints a table: a row for each congestion control, a column for each kind of path, with `+` for
the right name, `=` for `reno` or `scalable` where the recorded sender had the windows of Reno or Scalable, `.` for
unknown, and the name itself where it is wrong. LP and CDG that did not reduce by delay, Vegas without a queue and DCTCP
without marks are Reno; YeAH that saw a short queue only is Scalable. With them among the candidates, `reno` and
`scalable` count as right. Below is the strict score, in which only the name of the module is right, and how many of the
unknown have the right name among their candidates.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import whydrop
from whydrop.explaining.predicting.control.naming import UNKNOWN, Control, control_of

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from paths import CONTROLS, SETS  # noqa: E402

WANTED_RIGHT = 0.95
MOST_WRONG = 0.02
CLASSES = ("reno", "scalable")


def main() -> int:
    """Score the sets of a folder; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder with SET/PATH/CONTROL.pcap.zst")
    parser.add_argument("--set", choices=SETS, help="only this set")
    parser.add_argument("--paths", default="", help="kinds of paths, separated by commas (default: all)")
    parser.add_argument("-v", "--verbose", action="store_true", help="costs of the best laws of each capture")
    given = parser.parse_args()
    is_met = True
    for name in [given.set] if given.set else SETS:
        if (given.folder / name).is_dir():
            is_met &= score(given.folder / name, given.paths.split(",") if given.paths else [], given.verbose)
    return 0 if is_met else 1


def score(folder: Path, kinds: list[str], is_verbose: bool) -> bool:
    """Print the table of a set; return true if its bar is met."""
    lines = [kind for kind in SETS[folder.name] if not kinds or kind in kinds]
    total: Counter[str] = Counter()
    columns = {kind: Counter[str]() for kind in lines}
    print(f"\n{folder.name:14}" + "".join(f"{kind:>14}" for kind in lines) + f"{'right':>8}{'wrong':>8}{'unknown':>9}")
    for control in CONTROLS:
        cells, counts = [], Counter[str]()
        for kind in lines:
            capture = folder / kind / f"{control}.pcap.zst"
            if not capture.exists():
                cells.append("")
                continue
            found = named(capture)
            outcome = judged(found, control)
            counts[outcome] += 1
            columns[kind][outcome] += 1
            total["candidate"] += outcome == "unknown" and control in found.candidates
            cells.append({"right": "+", "same": "=", "unknown": "."}.get(outcome, found.name))
            if is_verbose:
                print(f"  {control} over {kind}: {found.name} {detail(found)}", flush=True)
        print(f"{control:14}" + "".join(f"{cell:>14}" for cell in cells) + numbers(counts), flush=True)
        total.update(counts)
    right = "".join(f"{column['right'] + column['same']:>11}/{column.total():2}" for column in columns.values())
    print(f"{'all':14}{right}{numbers(total)}")
    candidates = total.pop("candidate", 0)
    every = max(1, total.total())
    correct, wrong = (total["right"] + total["same"]) / every, total["wrong"] / every
    print(f"named correctly {correct:.1%} (bar: {WANTED_RIGHT:.0%}), incorrectly {wrong:.1%} (bar: {MOST_WRONG:.0%})")
    strictly, against = total["right"] / every, (total["wrong"] + total["same"]) / every
    print(f"strictly: correctly {strictly:.1%}, incorrectly {against:.1%}")
    print(f"unknown with the right name among the candidates: {candidates} of {total['unknown']}")
    return correct >= WANTED_RIGHT and wrong <= MOST_WRONG


def judged(found: Control, control: str) -> str:
    """The outcome of a name: ``right``, ``same`` (windows of Reno or Scalable), ``wrong`` or ``unknown``."""
    if found.name in (control, UNKNOWN):
        return "right" if found.name == control else "unknown"
    return "same" if found.name in CLASSES and control in found.candidates else "wrong"


def named(capture: Path) -> Control:
    """The congestion control of the flow with the most data."""
    found = whydrop.explain(str(capture))
    flows = found.table("flows").sort("payload_bytes", descending=True)
    return control_of(found, int(flows["flow"][0]))


def numbers(counts: Counter[str]) -> str:
    """The three columns of counts."""
    return f"{counts['right'] + counts['same']:8}{counts['wrong']:8}{counts['unknown']:9}"


def detail(found: Control) -> str:
    """Costs of the best laws."""
    costs = ", ".join(
        f"{fit.name} {fit.cost:.0f} ({sum(fit.growth):.0f}/{len(fit.growth)} growth, {sum(fit.reductions):.0f}/"
        f"{len(fit.reductions)} reductions, {sum(fit.falls):.0f}/{len(fit.falls)} falls)"
        for fit in found.fits[:3]
    )
    return f"{found.why}: {costs}"


if __name__ == "__main__":
    sys.exit(main())

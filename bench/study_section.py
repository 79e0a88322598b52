"""The section of the results about the study's conclusions: how often they are wrong."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aims import Bar
from measuring import ProgramError
from presenting import Grid, Section
from programs import Program

ROOT = Path(__file__).parent.parent
SIGNIFICANCE = 0.01
"""That the study holds itself to: of each family of tests, adjusted by Holm."""
Case = dict[str, Any]
# With a question mark: found without placebos to hold it against.
WRONG_IF_NOTHING_CHANGED = {"slower", "faster", "slower?", "faster?", "rejected", "fewer", "more"}
FOUND = {"speeds": {"faster", "faster?", "rejected"}, "discards": {"fewer"}}
SAME = {"same", "same?"}
OPPOSITE = {"slower", "slower?", "more"}
EQUIVALENCE_MARGIN = 0.10


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this section."""
    parser.add_argument("--seeds", type=int, default=200, metavar="N", help="study: fleets of each kind (%(default)s)")


def measure(options: argparse.Namespace, command: tuple[str, ...]) -> Section:
    """Conclusions about fleets with known truth."""
    words = [sys.executable, "-m", "bench.fleet.errors", "--seeds", str(options.seeds)]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise ProgramError(f"{' '.join(words)} ended with status {done.returncode}")
    cases: list[Case] = json.loads(done.stdout)
    found = [false_alarms(cases), misses(cases)]
    return Section("the study's conclusions", found, bars(cases), [_program(command[0])], None, "")


def false_alarms(cases: Sequence[Case]) -> Grid:
    """A change found where there is none."""
    grid = Grid(
        "Nothing was changed: fleets of six sites in which a change was found at any of them",
        ["of what", "fleets", "wrong", "share", "95 % interval", "wrong conclusions of all"],
    )
    for case in cases:
        if not is_nothing(case):
            continue
        wrong = sum(any(word in WRONG_IF_NOTHING_CHANGED for word in fleet) for fleet in case["fleets"])
        low, high = binomial_interval(wrong, len(case["fleets"]))
        each = [_share(fleet, WRONG_IF_NOTHING_CHANGED) for fleet in case["fleets"]]
        grid.lines.append(
            [
                title(case),
                str(len(case["fleets"])),
                str(wrong),
                f"{wrong / len(case['fleets']):.1%}",
                f"{low:.1%} to {high:.1%}",
                f"{statistics.fmean(each):.2%}",
            ]
        )
    return grid


def misses(cases: Sequence[Case]) -> Grid:
    """A change not found where there is one."""
    grid = Grid(
        "Something was changed at all six sites: sites (and statistics, of speeds) at which it was not found",
        ["change", "conclusions", "not found", "95 % interval", "of them called the same", "called the opposite"],
    )
    for case in cases:
        if is_nothing(case):
            continue
        fleets = case["fleets"]
        missed = [1 - _share(fleet, FOUND[case["kind"]]) for fleet in fleets]
        low, high = interval_of_mean(missed)
        same, opposite = (statistics.fmean(_share(fleet, words) for fleet in fleets) for words in (SAME, OPPOSITE))
        grid.lines.append(
            [
                title(case),
                str(sum(sum(fleet.values()) for fleet in fleets)),
                f"{statistics.fmean(missed):.1%}",
                f"{low:.1%} to {high:.1%}",
                f"{same:.1%}",
                f"{opposite:.2%}",
            ]
        )
    return grid


def bars(cases: Sequence[Case]) -> list[Bar]:
    """Of the corrected definitions: what they promise, and what a change of some size must not escape."""
    found = []
    for case in cases:
        if case["definitions"] != "corrected":
            continue
        fleets = case["fleets"]
        if is_nothing(case):
            if case["shared_shock"] and not case["placebos"]:
                # No test distinguishes such a swing from a change.
                continue
            wrong = sum(any(word in WRONG_IF_NOTHING_CHANGED for word in fleet) for fleet in fleets)
            # Not surely above what is promised: the interval's lower end.
            low, _ = binomial_interval(wrong, len(fleets))
            what = f"{title(case)}: false alarms, of {len(fleets)} fleets"
            wanted = f"{SIGNIFICANCE:.0%} within the interval, or less"
            found.append(Bar(what, wanted, f"{wrong / len(fleets):.1%}", low <= SIGNIFICANCE))
        elif case["kind"] == "speeds" and case["effect"] > 1 + EQUIVALENCE_MARGIN:
            # Holds at 1 %, one-sided, of each.
            same = statistics.fmean(_share(fleet, SAME) for fleet in fleets)
            what = f"{title(case)}: called the same, though beyond the margin of {EQUIVALENCE_MARGIN:.0%}"
            found.append(Bar(what, "<= 1 %", f"{same:.1%}", same <= SIGNIFICANCE))
    return found


def is_nothing(case: Case) -> bool:
    """True if nothing was changed."""
    return bool(case["effect"] == 1.0)


def title(case: Case) -> str:
    """A case in words."""
    kind, effect, definitions = case["kind"], case["effect"], case["definitions"]
    of = f"{kind}, {definitions}" if kind == "speeds" else kind
    if case["shared_shock"]:
        of += "; a site's days swing by 2.3 % together"
    if case["placebos"]:
        of += f"; {case['placebos']} periods of history"
    if is_nothing(case):
        return of
    return f"{of}: x {effect:g}" if kind == "speeds" else f"{of}: {effect:.0%} of overflows left"


def binomial_interval(hits: int, of: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval (Biometrika 26, 1934)."""
    from scipy.stats import binomtest

    interval = binomtest(hits, of).proportion_ci(0.95, method="exact")
    return float(interval.low), float(interval.high)


def interval_of_mean(shares: Sequence[float]) -> tuple[float, float]:
    """95 % of a mean over fleets, which are independent as their sites need not be; normal approximation."""
    half = 1.96 * statistics.stdev(shares) / len(shares) ** 0.5 if len(shares) > 1 else 1.0
    mean = statistics.fmean(shares)
    return max(0.0, mean - half), min(1.0, mean + half)


def _share(fleet: dict[str, int], words: set[str]) -> float:
    return sum(count for word, count in fleet.items() if word in words) / max(1, sum(fleet.values()))


def _program(ours: str) -> Program:
    return Program("whydrop", before=("python", "-m", "bench.fleet.errors"), version_command=(ours, "--version"))

"""Every score of the explanations in one table, to be compared before and after a change.

    make scores                                             # all of them, beside those of bench/scores.json
    .venv/bin/python bench/scores.py --only pairs           # sets with this word in their name
    .venv/bin/python bench/scores.py --save bench/scores.json

*Labelled* captures have a truth that was checked by hand or is known from the path; they and their scoring scripts are
in ``../shared``. *Drawn* captures are simulated: the validation split, two seeds. ``--before FILE`` compares with a
saved table. Nothing here depends on the machine, so a table that is saved holds on every other. Exit status: 0 done, 1
if a score could not be had.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"
FROZEN = Path(__file__).with_name("scores.json")
DRAWN = ROOT / "build" / "scores"
SEEDS = (41, 42)

WHYDROP = str(Path(sys.executable).parent / "whydrop")
EXPLAIN = f"{WHYDROP} explain --json"
SIMULATE = str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "whydrop-simulate")

Scores = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Number:
    """A number that a scoring program prints.

    Attributes:
        name: its name in the table.
        pattern: where it stands, with one group for each occurrence; several are added up.
        better: ``higher`` or ``lower``.
    """

    name: str
    pattern: str
    better: str = "higher"

    def read(self, printed: str) -> float | None:
        """The number; ``None`` where the program did not print it."""
        found = re.findall(self.pattern, printed, re.MULTILINE)
        return sum(map(float, found)) if found else None


@dataclass(frozen=True)
class Set:
    """A set of captures with the program that scores them.

    Attributes:
        name: in the table.
        command: of the program; its exit status may be 1 where an entry is wrong.
        numbers: what is read from its output.
        drawn: what the simulator is asked for before, without the folder; empty: nothing.
        folder: of a drawn set; another may have drawn it already.
    """

    name: str
    command: tuple[str, ...]
    numbers: tuple[Number, ...]
    drawn: tuple[str, ...] = ()
    folder: Path = DRAWN


_WILD = (
    Number("right", r"^entries \d+, right (\d+)"),
    Number("entries", r"^entries (\d+)"),
    Number("with a false statement", r"with false statements (\d+)", "lower"),
)
_PAIRS = (
    Number("cause right", r"^cause right: (\d+)/"),
    Number("entries", r"^cause right: \d+/(\d+)"),
    Number("policers falsely named", r"where there is none: (\d+)", "lower"),
)
# a row of the table of parameters: how many the truth has, identifiable ones, stated ones, good ones; errors; bounds
_PARAMETER = r"^\w+_(?:bytes|bps|s|packets) +\d+ +\d+"
_DRAWN_PAIRS = (
    *_PAIRS,
    Number("all right", r"all right: (\d+)/"),
    Number("laws of queues right", r"law right (\d+)/"),
    Number("families of queues right", r"family by name (\d+)/"),
    Number("queues with a law", r"family by name \d+/(\d+)"),
    Number("parameters good", _PARAMETER + r" +\d+ +(\d+)"),
    Number("bounds with the truth", _PARAMETER + r".* (\d+)/\d+$"),
    Number("parameters stated", _PARAMETER + r" +(\d+)"),
)
_POLICING = (
    Number("transfers right", r"^policed or not: (\d+) of"),
    Number("entries", r"^policed or not: \d+ of (\d+)"),
)
_CALIBRATION = (
    Number("right, share", r"^all that name a cause: \d+ transfers, ([0-9.]+) right"),
    Number("calibration error", r"^all that name a cause: .*calibration error ([0-9.]+)", "lower"),
    Number("Brier score", r"^all that name a cause: .*Brier score ([0-9.]+)", "lower"),
    Number("unknown", r"^unknown: (\d+)", "lower"),
)


def sets(jobs: int) -> Iterator[Set]:
    """Every set, labelled ones first."""
    python, many = sys.executable, str(jobs)
    score = str(SHARED / "bench/score_{}.py")
    for name in ("wild", "reported"):
        words = (python, score.format("wild"), "--data", str(SHARED / "data" / name), "--command", EXPLAIN)
        yield Set(f"labelled: {name}", (*words, "--jobs", many), _WILD)
    labels = str(SHARED / "data/policing")
    yield Set("labelled: policing", (python, "bench/policing.py", labels, "--jobs", many), _POLICING)
    for which, more in (("both captures", ()), ("first capture", ("--single",))):
        words = (python, score.format("pairs"), "--data", str(SHARED / "data/pairs"), "--command", EXPLAIN)
        yield Set(f"labelled: pairs, {which}", (*words, *more, "--jobs", many), _PAIRS)
    for seed in SEEDS:
        yield from _drawn(seed, many)


def _drawn(seed: int, jobs: str) -> Iterator[Set]:
    folder = DRAWN / f"pairs-{seed}"
    command = ("--jobs", jobs, "--", *EXPLAIN.split())
    for which, more in (("both", ()), ("first", ("--single",)), ("second", ("--behind",))):
        words = (SIMULATE, "score", str(folder), *more, *command)
        # One capture alone does not show which packets were lost between two.
        numbers = _PAIRS if more else _DRAWN_PAIRS
        yield Set(f"drawn: pairs {seed}, {which}", words, numbers, ("pairs", "--count", "96"), folder)
    folder = DRAWN / f"transfers-{seed}"
    for seen in ("before", "behind", "both"):
        words = (sys.executable, "bench/calibrate.py", str(folder), "--seen", seen, "--jobs", jobs)
        yield Set(f"drawn: transfers {seed}, {seen}", words, _CALIBRATION, ("transfers", "--count", "400"), folder)


class ScoreError(Exception):
    """A score that could not be had; the message says why."""


def draw(one: Set) -> None:
    """Have the simulator write the captures of a drawn set, if they are not there."""
    if not one.drawn or one.folder.exists():
        return
    seed = one.folder.name.rpartition("-")[2]
    making = one.folder.with_name(f".{one.folder.name}")
    run([SIMULATE, *one.drawn, "--split", "validation", "--seed", seed, "--out", str(making)], right=(0,))
    making.rename(one.folder)


def run(command: Sequence[str], right: tuple[int, ...]) -> str:
    """Output of a program.

    Raises:
        ScoreError: it is not there, or ended with another status.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    except OSError as reason:
        raise ScoreError(f"{command[0]}: {reason.strerror}; `make scores` compiles all that is needed") from reason
    if done.returncode not in right:
        last = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise ScoreError(f"{' '.join(command[:3])} ended with status {done.returncode}: {' '.join(last)}")
    return done.stdout


def scored(one: Set) -> dict[str, float]:
    """The numbers of a set.

    Raises:
        ScoreError: its program failed, or did not print one of them.
    """
    draw(one)
    printed = run(one.command, right=(0, 1))
    found = {number.name: number.read(printed) for number in one.numbers}
    lacking = [name for name, value in found.items() if value is None]
    if lacking:
        raise ScoreError(f"{' '.join(one.command[:3])} printed no {', '.join(lacking)}")
    return {name: value for name, value in found.items() if value is not None}


def table(scores: Scores, before: Scores, every: Sequence[Set]) -> Iterator[str]:
    """Lines: each number now, before, and what that means."""
    width = max(map(len, scores), default=0)
    yield f"{'set':{width}}  {'number':24} {'before':>8} {'now':>8}"
    better_of = {(one.name, number.name): number.better for one in every for number in one.numbers}
    for name, numbers in scores.items():
        for number, value in numbers.items():
            old = before.get(name, {}).get(number)
            change = "" if old is None or old == value else _meaning(value - old, better_of[name, number])
            yield f"{name:{width}}  {number:24} {_written(old):>8} {_written(value):>8}  {change}".rstrip()


def _meaning(change: float, better: str) -> str:
    return "better" if (change > 0) == (better == "higher") else "worse"


def _written(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def main() -> int:
    """Score, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="sets with this word in their name")
    parser.add_argument("--before", type=Path, default=FROZEN, metavar="FILE", help="a saved table to compare with")
    parser.add_argument("--save", type=Path, metavar="FILE", help="save the table; sets that were not scored stay")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    every = [one for one in sets(asked.jobs) if asked.only in one.name]
    if not every:
        print(f"scores: no set has {asked.only!r} in its name", file=sys.stderr)
        return 1
    if not SHARED.is_dir():
        print(f"scores: {SHARED} is missing: it has the labelled captures and their scoring scripts", file=sys.stderr)
        return 1
    before: Scores = json.loads(asked.before.read_text()) if asked.before.exists() else {}
    DRAWN.mkdir(parents=True, exist_ok=True)
    scores: Scores = {}
    failures = 0
    for number, one in enumerate(every, 1):
        began_s = time.monotonic()
        try:
            scores[one.name] = scored(one)
            note = f"{time.monotonic() - began_s:.0f} s"
        except ScoreError as reason:
            failures += 1
            note = str(reason)
        print(f"scores: {number} of {len(every)}: {one.name}: {note}", file=sys.stderr)
    print("\n".join(table(scores, before, every)))
    if asked.save:
        saved: Scores = json.loads(asked.save.read_text()) if asked.save.exists() else {}
        asked.save.write_text(json.dumps({**saved, **scores}, indent=1, ensure_ascii=False) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

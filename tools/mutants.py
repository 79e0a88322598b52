"""Small faults, put into the code one at a time: do the tests notice them as well as they did?

Before a test goes or is merged, the same faults are put into the code before and after, and each is run against the
tests that execute its line. The method: R. DeMillo, R. Lipton, F. Sayward, "Hints on Test Data Selection",
IEEE Computer 11/4, 1978.

    tools/mutants.py draw BEFORE AFTER --count 40 --seed 1 --python COVERAGE --rust TARPAULIN.json > mutants.json
    tools/mutants.py run TREE mutants.json --python COVERAGE

COVERAGE (coverage.py's data with a context for each test) and TARPAULIN.json (cargo-tarpaulin's report) are of the tree
BEFORE for `draw`, and of TREE for `run`. A mutant is of a line that tests execute and that both trees have.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

SWAPS = {
    " < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " != ", " != ": " == ",
    " + ": " - ", " - ": " + ", " * ": " + ", " && ": " || ", " || ": " && ", " and ": " or ", " or ": " and ",
    " is not ": " is ", " not in ": " in ", "True": "False", "False": "True", " true": " false", " false": " true",
    " += ": " -= ", ".min(": ".max(", ".max(": ".min(", "min(": "max(", "if not ": "if ",
}  # fmt: skip
# Text, comments, attributes and types hold what looks like operators.
NO_CODE = re.compile(
    r"""^\s*(//|#|/\*|\*|"|'|assert|debug_assert|use |import |from |where |impl|fn |pub fn|def |class |@)"""
)
IN_QUOTES = re.compile(r'"[^"]*"|\'[^\']*\'|//.*$|  # .*$')
# Rust's coverage does not show which tests execute a line: those of its crate and of the crates that use it do.
DEPENDENTS = {"capture": ["tcp"], "tcp": ["pair", "explain"], "path": ["simulate", "explain"], "pair": ["explain"]}
MOST_S = 900
"""A mutant that makes a test run for ever is noticed, too."""


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        file: below the top of the repository.
        line: the whole line as it is without the fault.
        occurrence: which of the lines that are the same in this file, from 0.
        mutated: the line with the fault.
    """

    file: str
    line: str
    occurrence: int
    mutated: str

    def number_in(self, tree: Path) -> int | None:
        """The line's number in a tree, from 1; ``None`` where it is not there."""
        path = tree / self.file
        lines = path.read_text().split("\n") if path.exists() else []
        found = [number for number, line in enumerate(lines, 1) if line == self.line]
        return found[self.occurrence] if self.occurrence < len(found) else None


def faults(line: str) -> Iterator[str]:
    """The line with each fault that it can have."""
    if NO_CODE.match(line):
        return
    quoted = [found.span() for found in IN_QUOTES.finditer(line)]
    for old, new in SWAPS.items():
        for found in re.finditer(re.escape(old), line):
            if not any(begin <= found.start() < end for begin, end in quoted):
                yield line[: found.start()] + new + line[found.end() :]


def executed_python(data: Path, tree: Path) -> dict[str, dict[int, set[str]]]:
    """Lines that tests execute, by file below the top: each with the node ids of these tests."""
    from coverage.numbits import numbits_to_nums

    lines: dict[str, dict[int, set[str]]] = {}
    query = (
        "SELECT file.path, context.context, line_bits.numbits FROM line_bits"
        " JOIN file ON file.id = line_bits.file_id JOIN context ON context.id = line_bits.context_id"
    )
    with sqlite3.connect(data) as connection:
        for path, context, numbits in connection.execute(query):
            tests = {re.sub(r" \((setup|call|teardown)\)$", "", part) for part in context.split("|") if "::" in part}
            file = path.split("/src/whydrop/")[-1]
            for number in numbits_to_nums(numbits) if tests else ():
                lines.setdefault(f"src/whydrop/{file}", {}).setdefault(number, set()).update(tests)
    return {file: found for file, found in lines.items() if (tree / file).exists()}


def executed_rust(report: Path) -> dict[str, set[int]]:
    """Lines that Rust tests execute, by file below the top."""
    lines = {}
    for file in json.loads(report.read_text())["files"]:
        path = "/".join(file["path"])
        below = path[path.rindex("/crates/") + 1 :] if "/crates/" in path else ""
        if re.match(r"crates/\w+/src/", below) and not re.search(r"tests?(\.rs|/)|/main\.rs", below):
            lines[below] = {trace["line"] for trace in file["traces"] if trace["stats"].get("Line", 0) > 0}
    return lines


def drawn(before: Path, after: Path, executed: dict[str, set[int]], count: int, by: random.Random) -> list[Mutant]:
    """So many mutants of different lines, each line as likely as every other."""
    places = sorted((file, number) for file, numbers in executed.items() for number in numbers)
    by.shuffle(places)
    found: list[Mutant] = []
    for file, number in places:
        if len(found) == count:
            break
        lines = (before / file).read_text().split("\n")
        line = lines[number - 1]
        choices = list(faults(line))
        if choices:
            mutant = Mutant(file, line, lines[: number - 1].count(line), by.choice(choices))
            found += [mutant] if mutant.number_in(after) is not None else []
    return found


def notices(words: list[str], tree: Path) -> bool:
    """True if tests fail, or do not end."""
    try:
        done = subprocess.run(words, cwd=tree, capture_output=True, check=False, timeout=MOST_S)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def is_killed(tree: Path, mutant: Mutant, tests: dict[str, dict[int, set[str]]], there: set[str]) -> str:
    """``killed``, ``survived``, or why neither can be said; by those of ``tests`` that are ``there``."""
    number = mutant.number_in(tree)
    if number is None:
        return "not there"
    path = tree / mutant.file
    text = path.read_text()
    lines = text.split("\n")
    lines[number - 1] = mutant.mutated
    path.write_text("\n".join(lines))
    try:
        if mutant.file.endswith(".py"):
            nodes = sorted(tests.get(mutant.file, {}).get(number, set()) & there)
            if not nodes:
                return "not executed"
            listed = tree / "build/mutant-tests"
            listed.write_text("\n".join(nodes))
            words = [".venv/bin/pytest", "-x", "-q", "-n", "2", "--dist", "loadgroup", f"@{listed}"]
            return "killed" if notices(words, tree) else "survived"
        crate = f"whydrop-{mutant.file.split('/')[1]}"
        if notices(["cargo", "build", "--quiet", "-p", crate], tree):
            return "does not compile"
        crates = [crate, *(f"whydrop-{name}" for name in DEPENDENTS.get(mutant.file.split("/")[1], []))]
        return "killed" if any(notices(["cargo", "test", "--quiet", "-p", one], tree) for one in crates) else "survived"
    finally:
        path.write_text(text)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    draw = verbs.add_parser("draw")
    draw.add_argument("before", type=Path)
    draw.add_argument("after", type=Path)
    draw.add_argument("--count", type=int, default=40)
    draw.add_argument("--seed", type=int, default=1)
    draw.add_argument("--rust", type=Path, required=True)
    run = verbs.add_parser("run")
    run.add_argument("tree", type=Path)
    run.add_argument("mutants", type=Path)
    for verb in (draw, run):
        verb.add_argument("--python", type=Path, required=True)
    given = parser.parse_args()
    if given.verb == "draw":
        by = random.Random(given.seed)
        python = {file: set(lines) for file, lines in executed_python(given.python, given.before).items()}
        half = given.count // 2
        mutants = drawn(given.before, given.after, python, half, by)
        mutants += drawn(given.before, given.after, executed_rust(given.rust), given.count - half, by)
        json.dump([asdict(mutant) for mutant in mutants], sys.stdout, indent=1)
        return
    tests = executed_python(given.python, given.tree)
    collect = [".venv/bin/pytest", "--collect-only", "-q", "-o", "addopts=", "-m", "not exhaustive and not needs_vm"]
    there = set(subprocess.run(collect, cwd=given.tree, capture_output=True, text=True, check=True).stdout.splitlines())
    for entry in json.loads(given.mutants.read_text()):
        mutant = Mutant(**entry)
        print(is_killed(given.tree, mutant, tests, there), mutant.file, mutant.mutated.strip(), sep="\t", flush=True)


if __name__ == "__main__":
    main()

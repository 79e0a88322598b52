"""Python processes in which the optional packages are not installed, as after ``pip install whydrop``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from whydrop.runtime import extras

ROOT = Path(__file__).parent.parent
OPTIONAL = tuple(module.partition(".")[0] for modules in extras.PACKAGES.values() for module in modules)

# Hides packages from all imports and searches, of other packages' too, then runs what its arguments say.
HIDING = """
import sys

class Hiding:
    def __init__(self, finder, hidden):
        self.finder, self.hidden = finder, hidden
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in self.hidden else self.finder.find_spec(name, path, target)
    def __getattr__(self, name):
        return getattr(self.finder, name)

hidden = frozenset(sys.argv[1].split(","))
sys.meta_path[:] = [Hiding(finder, hidden) for finder in sys.meta_path]
sys.argv = ["whydrop", *sys.argv[2:]]
"""
PROGRAM = HIDING + "from whydrop.__main__ import main; main()"


def run_without(
    hidden: Iterable[str], *words: str | Path, code: str | None = None, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run the program, or Python code, in a process that finds none of these packages."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM if code is None else HIDING + code, ",".join(hidden), *map(str, words)],
        capture_output=True, text=True, check=False, cwd=cwd,
    )  # fmt: skip


def run_base(*words: str | Path, code: str | None = None, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run the program, or Python code, in a process that finds no optional package."""
    return run_without(OPTIONAL, *words, code=code, cwd=cwd)

"""Files of ``make dist``, for the tests that install them; ``tools/run-tests all`` builds them before."""

from __future__ import annotations

import subprocess
from pathlib import Path

from example_files import ROOT

DIST = ROOT / "dist"


def released(pattern: str) -> Path:
    """The one file of that name in dist."""
    found = list(DIST.glob(pattern))
    assert len(found) == 1, f"dist has {len(found)} files {pattern}: make dist"
    return found[0]


def chroot(name: str) -> Path:
    """The folder of a small Debian, made by the first call on a machine."""
    done = subprocess.run([ROOT / "tools" / "chroot", name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return Path(done.stdout.strip())


def run_inside(folder: Path, *words: str | Path) -> str:
    """Run a program in a chroot; return what it printed."""
    done = subprocess.run(["chroot", folder, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout[-1000:]}{done.stderr[-2000:]}"
    return done.stdout

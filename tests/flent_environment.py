"""Flent itself, in an environment of its own under ``build``: ``tools/test-programs`` makes it, or the first test."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "build" / "flent-venv"


def program(name: str) -> Path:
    """A program of the environment, such as ``flent`` or ``python``; Flent is installed where it is not yet.

    Where that is impossible the test is skipped, and fails in CI, where it would hide a hole.
    """
    FOLDER.parent.mkdir(exist_ok=True)
    # Of several processes that test, one installs it.
    with FOLDER.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (FOLDER / "bin" / "flent").exists():
            _install()
    return FOLDER / "bin" / name


def _install() -> None:
    try:
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True, capture_output=True)
        pip = [str(FOLDER / "bin" / "pip"), "install", "--quiet", "flent==2.3.0", "matplotlib"]
        subprocess.run(pip, check=True, capture_output=True, timeout=600)
    except (subprocess.SubprocessError, OSError) as reason:
        words = f"Flent cannot be installed into {FOLDER} (is the package index reachable?): {reason}"
        if os.environ.get("CI"):
            pytest.fail(words, pytrace=False)
        pytest.skip(words)

"""Tests that need a program: what happens where it is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from example_files import ROOT

pytestmark = pytest.mark.slow

NEEDS = """
import pytest

@pytest.mark.needs_program("no-such-program", "nor-this")
def test_missing(): pass

@pytest.mark.needs_program("no-such-program", "sh")
def test_an_alternative_is_there(): pass

def test_nothing_needed(): pass
"""


@pytest.fixture
def run_apart(tmp_path: Path):
    """pytest in a process of its own over ``NEEDS``: its last lines."""
    file = tmp_path / "test_needs.py"
    file.write_text(NEEDS)

    def run(*words: str, **environment: str) -> str:
        options = ["-q", "-ra", "-W", "ignore", "-p", "installed", "-p", "no:cacheprovider", "-c"]
        command = [sys.executable, "-m", "pytest", *options, os.devnull]
        kept = {key: value for key, value in os.environ.items() if key != "CI"}
        done = subprocess.run(
            [*command, *words, str(file)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**kept, "PYTHONPATH": str(ROOT / "tests"), **environment},
            check=False,
        )
        return done.stdout

    return run


def test_a_missing_program_skips_its_test_and_says_what_to_install(run_apart):
    said = run_apart()
    assert "2 passed, 1 skipped" in said
    assert "no-such-program is not installed; on Debian: apt-get install no-such-program" in said


def test_in_ci_a_missing_program_fails_its_test(run_apart):
    assert "2 passed, 1 error" in run_apart(CI="true")


def test_what_needs_a_program_can_be_left_for_later(run_apart):
    assert "1 passed, 2 deselected" in run_apart("-m", "not needs_programs")

"""Flent itself, in an environment of its own, and the files that it wrote."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import flent_environment

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data" / "flent"

Flent = Callable[..., str]


def flent_files() -> list[Path]:
    """Files of Flent's own tests. They are not part of the repository; where they are missing, tests are skipped."""
    return sorted(SHARED.glob("*.flent.gz"))


@pytest.fixture(params=flent_files() or [None], ids=lambda path: path.name if path else "missing")
def flent_file(request: pytest.FixtureRequest) -> Path:
    if request.param is None:
        pytest.skip(f"the files of Flent's tests are not in {SHARED}: only made-up files are read")
    return request.param


@pytest.fixture(scope="session")
def flent() -> Flent:
    """Run Flent: ``flent("-f", "summary", path)`` returns what it prints."""
    program = flent_environment.program("flent")

    def run(*arguments: str | Path) -> str:
        command = [str(program), *map(str, arguments)]
        environment = {**os.environ, "TZ": "UTC", "MPLBACKEND": "agg"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
        assert done.returncode == 0, f"flent {' '.join(map(str, arguments))} failed:\n{done.stderr[-2000:]}"
        # Flent says on stderr what it could not do, and exits with 0 all the same.
        assert "ERROR" not in done.stderr, done.stderr[-2000:]
        # Its greeting is on standard output, before the CSV.
        return done.stdout.partition("\n")[2] if done.stdout.startswith("Starting Flent") else done.stdout

    return run

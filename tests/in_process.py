"""``run_here``: the program ``whydrop`` in this process, for what does not depend on being one of its own.

A start of its own costs each run most of a second, for importing what has been imported here.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from example_files import ROOT, Run


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch) -> Run:
    """As the fixture ``run``; an exception that the program lets out is raised."""
    from click.testing import CliRunner

    from whydrop.cli.commands import whydrop

    def run(
        *arguments: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        words = [str(argument) for argument in arguments]
        with monkeypatch.context() as here:
            here.chdir(cwd)
            done = CliRunner().invoke(whydrop, words, prog_name="whydrop", env=env, catch_exceptions=False)
        return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)

    return run

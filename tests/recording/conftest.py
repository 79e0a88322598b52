"""Flent itself, in an environment of its own, and the files that it wrote."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
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
        pytest.skip(f"the files of Flent's tests are not in {SHARED}: only synthetic files are read")
    return request.param


# Importing Flent takes most of the time of a run of it: it is imported once, and each run is a copy of that process.
_RUNS = """
import json, os, sys
from flent import run_flent
import flent.formatters, flent.plotters, flent.resultset, flent.settings
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        for number, path in ((1, asked["stdout"]), (2, asked["stderr"])):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv = ["flent", *asked["arguments"]]
        try:
            status = run_flent()
        except SystemExit as end:
            status = end.code
        for stream in (sys.stdout, sys.stderr):
            # Flent closes what it has written to.
            if not stream.closed:
                stream.flush()
        os._exit(status if isinstance(status, int) else int(status is not None))
    _, ended = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(ended), flush=True)
"""


@pytest.fixture(scope="session")
def flent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flent]:
    """Run Flent: ``flent("-f", "summary", path)`` returns what it prints."""
    said = {name: tmp_path_factory.mktemp("flent") / name for name in ("stdout", "stderr")}
    server = subprocess.Popen(
        [str(flent_environment.program("python")), "-c", _RUNS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TZ": "UTC", "MPLBACKEND": "agg"},
    )
    assert server.stdin
    assert server.stdout

    def run(*arguments: str | Path) -> str:
        words = list(map(str, arguments))
        asked = {"arguments": words, **{name: str(path) for name, path in said.items()}}
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        status = server.stdout.readline().strip()
        stdout, stderr = (said[name].read_text() for name in ("stdout", "stderr"))
        assert status == "0", f"flent {' '.join(words)} failed ({status}):\n{stderr[-2000:]}"
        # Flent says on stderr what it could not do, and exits with 0 all the same.
        assert "ERROR" not in stderr, stderr[-2000:]
        # Its greeting is on standard output, before the CSV.
        return stdout.partition("\n")[2] if stdout.startswith("Starting Flent") else stdout

    with server:
        yield run
        server.stdin.close()

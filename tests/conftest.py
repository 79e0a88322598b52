"""Fixtures that all tests have, and how they run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from example_files import POLICED, ROOT, Run
from lab.batch import INSIDE

# What takes long to import is imported where it is used: in the virtual machine it would take half a minute.
if TYPE_CHECKING:
    from whydrop import Explanation

# The fixture `lab`, and the virtual machine behind it; a Spark cluster; a browser; the program in this process; other
# programs; what runs together; the check for what cannot be.
pytest_plugins = (
    "lab.plugin",
    "spark_cluster",
    "in_browser",
    "in_process",
    "installed",
    "together",
    "plausibility.plugin",
)

# What Python does with signals by itself.
BY_DEFAULT = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}


def pytest_configure() -> None:
    """Say how hypothesis looks for examples. None of its tests is one for the virtual machine."""
    if INSIDE in os.environ:
        return
    from hypothesis import HealthCheck, settings

    # No example fails by its time, which depends on the load of the machine. In CI the examples are the same in every
    # run: what it says of a commit must not depend on the day. Elsewhere each run looks for new ones.
    settings.register_profile(
        "whydrop",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize="CI" in os.environ,
        database=None if "CI" in os.environ else settings.default.database,
        print_blob=True,
    )
    settings.load_profile("whydrop")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a long value by its length: each process sends the names of all tests, and one with every report."""
    return f"{argname} of {len(val)}" if isinstance(val, str | bytes) and len(val) > 200 else None


def pytest_sessionstart() -> None:
    """Started by nohup or in the background, pytest and all that it starts would ignore signals that many test."""
    _handle_signals_by_default()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Each test begins with the same handlers: Spark leaves one of its own in the process."""
    _handle_signals_by_default()


def _handle_signals_by_default() -> None:
    for number, handler in BY_DEFAULT.items():
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)


@pytest.fixture(scope="session")
def synthetic() -> Explanation:
    """A synthetic policed transfer, so that output is tested apart from the analysis."""
    from synthetic import policed_transfer
    from whydrop import Explanation

    return Explanation(policed_transfer())


@pytest.fixture(scope="session")
def policed() -> Explanation:
    """The example capture, analysed once."""
    import whydrop

    return whydrop.explain(POLICED)


@pytest.fixture
def run() -> Run:
    """Run the program ``whydrop`` as a user does, from the top of the repository."""

    def whydrop(*arguments: str | Path, **more: object) -> subprocess.CompletedProcess[str]:
        options: dict = {"capture_output": True, "text": True, "timeout": 600, "cwd": ROOT, **more}
        done = subprocess.run([sys.executable, "-m", "whydrop", *map(str, arguments)], **options, check=False)
        if "--json" in arguments:
            from plausibility.plugin import take_output

            take_output(done.stdout)
        return done

    return whydrop

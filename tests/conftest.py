"""Fixtures, and what to do where a program that some tests need is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from synthetic import policed_transfer
from whydrop.api import Explanation

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
POLICED = EXAMPLES / "policed-download.pcap.zst"

# Marker, programs of which one is enough, Debian package.
PROGRAMS = (
    ("needs_tshark", ("tshark",), "tshark"),
    ("needs_browser", ("chromium", "google-chrome"), "chromium"),
)

Run = Callable[..., subprocess.CompletedProcess[str]]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A missing program fails the test in CI, where it would hide a hole; elsewhere it skips and says what to do."""
    for marker, programs, package in PROGRAMS:
        if item.get_closest_marker(marker) is None or any(shutil.which(program) for program in programs):
            continue
        reason = f"{programs[0]} is not installed; on Debian: apt-get install {package} (as root, `make test` does it)"
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def synthetic() -> Explanation:
    """A made-up policed transfer, so that what is shown is tested apart from the analysis."""
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
        options: dict = {"capture_output": True, "text": True, "timeout": 120, "cwd": ROOT, **more}
        return subprocess.run([sys.executable, "-m", "whydrop", *map(str, arguments)], **options, check=False)

    return whydrop


@pytest.fixture(scope="session")
def browser_path() -> str:
    """Chromium's executable."""
    return shutil.which("chromium") or shutil.which("google-chrome") or ""


@pytest.fixture(scope="session")
def browser(request: pytest.FixtureRequest) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = request.getfixturevalue("browser_path")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()

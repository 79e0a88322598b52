"""Programs that tests need: where one is missing, the test skips and says what to install.

In CI, where a skip would hide a hole, it fails.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from in_browser import BROWSERS

# Of which one is enough. `needs_program("iperf3")` says it of any other.
BY_MARKER = {
    "needs_tshark": ("tshark",),
    "needs_browser": BROWSERS,
    "needs_spark": ("java",),
}
BY_FIXTURE = {
    "agent": ("snmpd",),
    "net_snmp_agent": ("snmpd",),
    "lab": ("ethtool",),
}

# Of Debian, where they are not called as the program is.
PACKAGES = {
    "java": "openjdk-17-jre-headless",
    "busybox": "busybox-static",
    "ping": "iputils-ping",
    "sshd": "openssh-server",
    "systemd-analyze": "systemd",
}

# Where those for administrators are, which others need not have among theirs.
SEARCHED = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def found(*programs: str) -> bool:
    """True if one of the programs is on this machine."""
    return any(shutil.which(program, path=SEARCHED) for program in programs)


def wanted_by(item: pytest.Item) -> Iterator[tuple[str, ...]]:
    """Programs of each of which, or of its alternatives, the test needs one."""
    for marker, programs in BY_MARKER.items():
        if item.get_closest_marker(marker) is not None:
            yield programs
    for given in item.iter_markers("needs_program"):
        yield given.args
    for fixture, programs in BY_FIXTURE.items():
        if fixture in getattr(item, "fixturenames", ()):
            yield programs


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what has to wait until programs are installed, before ``-m`` selects."""
    for item in items:
        if any(wanted_by(item)) or item.get_closest_marker("needs_flent") is not None:
            item.add_marker("needs_programs")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """See the module."""
    for programs in wanted_by(item):
        if found(*programs):
            continue
        package = PACKAGES.get(programs[0], programs[0])
        reason = f"{programs[0]} is not installed; on Debian: apt-get install {package} (as root, `make test` does it)"
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)

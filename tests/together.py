"""Which tests run in one process where several run them (pytest-xdist): those of a file, those that share a server.

A file's fixtures are made once then, and a server is started once in a run. Each process has a browser of its own,
which starts in a second: no process waits while another opens every page. Tests with networks of their own mostly wait,
and a busy machine disturbs them: they run in two processes, however many there are.
"""

from __future__ import annotations

import pytest

from example_files import ROOT

SPARK = "spark"
# Both take about as long: these, and all others.
NETWORKS, MORE_NETWORKS = "networks", "more networks"
OF_MORE_NETWORKS = (
    "tests/lab/test_deploying",
    "tests/lab/test_fixing",
    "tests/lab/test_pacing",
    "tests/lab/test_responsiveness",
    "tests/lab/test_rolling",
    "tests/lab/test_segments",
    "tests/running/",
)
# Files that wait long for one thing: a compiler, simulated switches. Begun last, one process would have nothing beside.
OF_LONG_TESTS = ("bench/test_switches.py", "tests/studies/test_google_sql.py", "tests/web/test_wheel.py")


def group_of(item: pytest.Item) -> str:
    """The name of the tests that this one runs with."""
    path = str(item.path.relative_to(ROOT))
    if "lab" in getattr(item, "fixturenames", ()) or item.get_closest_marker("needs_namespaces") is not None:
        return MORE_NETWORKS if path.startswith(OF_MORE_NETWORKS) else NETWORKS
    return SPARK if item.get_closest_marker("needs_spark") is not None else path


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Name each test's group, and put the longest first. Alone, a process keeps the order of the files."""
    if not hasattr(config, "workerinput"):
        return
    groups = {id(item): group_of(item) for item in items}
    for item in items:
        item.add_marker(pytest.mark.xdist_group(groups[id(item)]))
    # The longest are begun first, and the others fill what is left.
    with_browser = {groups[id(item)] for item in items if item.get_closest_marker("needs_browser") is not None}
    first, next_ones = (MORE_NETWORKS, NETWORKS, SPARK), with_browser.union(OF_LONG_TESTS)
    items.sort(key=lambda item: (groups[id(item)] not in first, groups[id(item)] not in next_ones))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Complain where groups are named and ignored: each test would be a group, and each server started many times."""
    named = hasattr(session.config, "workerinput") and getattr(session.config.option, "loadgroup", False)
    if named and session.items and "@" not in session.items[0].nodeid:
        raise pytest.UsageError("this version of pytest does not let pytest-xdist group tests (see pyproject.toml)")

"""Which tests run in one process where several run them (pytest-xdist): those of a file, those that share a server.

A file's fixtures are made once then, and a server is started once in a run. Tests with networks of their own are
together, too: what a kernel lets namespaces do is one setting for all of them. Each process has a browser of its own,
which starts in a second: no process waits while another opens every page.
"""

from __future__ import annotations

import pytest

from example_files import ROOT

# By marker.
SERVERS = {"needs_spark": "spark", "needs_namespaces": "networks"}


def group_of(item: pytest.Item) -> str:
    """The name of the tests that this one runs with."""
    if "lab" in getattr(item, "fixturenames", ()):
        return SERVERS["needs_namespaces"]
    for marker, server in SERVERS.items():
        if item.get_closest_marker(marker) is not None:
            return server
    return str(item.path.relative_to(ROOT))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Name each test's group, and put servers' and browsers' first. Alone, a process keeps the order of the files."""
    if not hasattr(config, "workerinput"):
        return
    groups = {id(item): group_of(item) for item in items}
    for item in items:
        item.add_marker(pytest.mark.xdist_group(groups[id(item)]))
    # The longest are begun first, and the others fill what is left.
    with_browser = {groups[id(item)] for item in items if item.get_closest_marker("needs_browser") is not None}
    items.sort(key=lambda item: (groups[id(item)] not in SERVERS.values(), groups[id(item)] not in with_browser))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Complain where groups are named and ignored: each test would be a group, and each server started many times."""
    named = hasattr(session.config, "workerinput") and getattr(session.config.option, "loadgroup", False)
    if named and session.items and "@" not in session.items[0].nodeid:
        raise pytest.UsageError("this version of pytest does not let pytest-xdist group tests (see pyproject.toml)")

"""The fixture ``lab``, and the tests that run in a virtual machine because this kernel lacks what they need.

Such a test is handed to a second pytest inside the machine; its reports come back and count here as if the test had run
here. All tests of one session that need the machine share one boot (one for each kind of time; two machines beside each
other in virtual time, where there are processors for them).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import kernel
from lab.batch import INSIDE, MACHINE, REPORTS, Batch, BatchError, may_take
from lab.laboratory import Lab
from lab.machine import ROOT, missing
from lab.network import sweep

FILES = ROOT / "build/lab"
"""Where the files stay that tests leave, in folders named after the tests."""

# In the machine tests write here: each write to the shared folder is a wait for the host, over which virtual time
# jumps. What is left is copied when the test is over.
IN_MEMORY = Path("/dev/shm/whydrop-lab")

# For each kind of time (virtual or not) the tests that go to the machine.
_batches = pytest.StashKey[dict[bool, Batch]]()
_virtual_time = pytest.StashKey[bool]()


def _folder_name(nodeid: str) -> str:
    file, _, test = nodeid.partition("::")
    return f"{Path(file).stem}-" + re.sub(r"[^A-Za-z0-9_.-]+", "-", test).strip("-")


def _kind_of_time(item: pytest.Item) -> bool | None:
    """The test's demand on virtual time: it wants it, refuses it, or does not care."""
    said = [marker.kwargs["virtual_time"] for marker in item.iter_markers("needs_kernel") if marker.kwargs]
    return said[0] if said else None


def _wants_machine(item: pytest.Item) -> bool:
    features = [feature for marker in item.iter_markers("needs_kernel") for feature in marker.args]
    return not kernel.may_make_namespaces() or bool(_kind_of_time(item)) or bool(kernel.lacks(features))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what goes to the machine and what makes networks here, before ``-m`` selects."""
    for item in items:
        if "left_by" in getattr(item, "fixturenames", ()):
            # What it stands on must run in the same session.
            item.add_marker("needs_vm")
        if "lab" not in getattr(item, "fixturenames", ()) or os.environ.get(INSIDE):
            continue
        if not _wants_machine(item):
            item.add_marker("needs_namespaces")
        else:
            # In virtual time a test neither waits for idleness to pass nor suffers from a busy machine.
            item.stash[_virtual_time] = _kind_of_time(item) is not False
            item.add_marker("needs_vm")
            item.add_marker("slow")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Gather what is left after the selection."""
    batches = session.config.stash[_batches] = {}
    for virtual in (False, True):
        nodes = [item.nodeid for item in session.items if item.stash.get(_virtual_time, None) is virtual]
        if nodes:
            batches[virtual] = Batch(nodes, FILES / ("virtual-time" if virtual else "real-time"), virtual_time=virtual)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Report what happened to the test in the machine. In there, leave to another machine what it has taken."""
    if os.environ.get(INSIDE):
        return None if may_take(item.nodeid) else _passed_over(item, nextitem)
    if _virtual_time not in item.stash:
        return None
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _reports(item):
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return _passed_over(item, nextitem)


def _passed_over(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """The test does not run here; what an earlier one has set up for its folder or module is torn down as if it had."""
    item.session._setupstate.teardown_exact(nextitem)
    return True


def _reports(item: pytest.Item) -> list[pytest.TestReport]:
    trouble = missing()
    if trouble and not os.environ.get("CI"):
        path, line, _ = item.location
        where = (path, (line or 0) + 1, f"Skipped: {trouble}")
        return [pytest.TestReport(item.nodeid, item.location, {}, "skipped", where, "setup")]
    try:
        if trouble:
            # As for every missing program: in CI a skip would hide a hole.
            raise BatchError(trouble)
        batch = _run(item.config, item.stash[_virtual_time])
        return [
            item.config.hook.pytest_report_from_serializable(config=item.config, data=data)
            for data in batch.reports(item.nodeid)
        ]
    except BatchError as error:
        return [pytest.TestReport(item.nodeid, item.location, {}, "failed", str(error), "call")]


def _run(config: pytest.Config, virtual: bool) -> Batch:
    batch = config.stash[_batches][virtual]
    if not batch.has_run:
        terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
        terminal.ensure_newline()
        machines = "a virtual machine" if batch.machines == 1 else f"{batch.machines} virtual machines"
        terminal.write_line(f"booting {machines} for {len(batch.nodes)} tests; this takes minutes")
        terminal.flush()
        batch.run(_Progress(len(batch.nodes), terminal))
        terminal.write_line(f"that took {batch.wall_s:.0f} s")
    return batch


class _Progress:
    """A line for each test that has ended in the machine: nothing else is seen for minutes."""

    def __init__(self, tests: int, terminal: Any) -> None:
        self._tests, self._terminal = tests, terminal
        self._ended = 0
        self._failed: set[str] = set()
        self._began = time.monotonic()

    def __call__(self, report: dict[str, Any]) -> None:
        node = report["nodeid"]
        if report["outcome"] == "failed":
            self._failed.add(node)
        if report["when"] == "teardown":
            self._ended += 1
            how = "FAILED" if node in self._failed else "ended"
            after_s = time.monotonic() - self._began
            self._terminal.write_line(f"  {self._ended} of {self._tests} {how} after {after_s:.0f} s: {node}")
            self._terminal.flush()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what only root may do."""
    if item.get_closest_marker("needs_root") and os.geteuid() != 0:
        pytest.skip("needs the rights of root")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In the machine, write each report down at once, so that none is lost if the machine is."""
    report = yield
    if os.environ.get(INSIDE):
        data = item.config.hook.pytest_report_to_serializable(config=item.config, report=report)
        with Path(os.environ[INSIDE], os.environ[MACHINE], REPORTS).open("a") as reports:
            reports.write(json.dumps(data) + "\n")
    return report


@pytest.fixture(scope="session")
def _swept() -> list[str]:
    return sweep()


@pytest.fixture
def lab(request: pytest.FixtureRequest, _swept: list[str]) -> Iterator[Lab]:
    """Networks for one test, with a folder for what it leaves; see ``docs/lab.md``."""
    name = _folder_name(request.node.nodeid)
    inside = os.environ.get(INSIDE)
    folder = IN_MEMORY / name if inside else FILES / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield Lab(folder)
    if inside:
        left = Path(inside, name)
        shutil.rmtree(left, ignore_errors=True)
        shutil.copytree(folder, left)
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def left_by(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """The folder that another test of this session has left: ``left_by("tests/lab/test_x.py::test_y")``.

    What is measured in the machine, where Python is slow, is evaluated and drawn out here by other tests.
    """

    def find(nodeid: str) -> Path:
        item = next((item for item in request.session.items if item.nodeid == nodeid), None)
        if item is None:
            pytest.skip(f"stands on what {nodeid} leaves: select that too")
        if _virtual_time not in item.stash:
            return FILES / _folder_name(nodeid)
        virtual = item.stash[_virtual_time]
        for report in _reports(item):
            if report.outcome != "passed":
                pytest.fail(f"stands on what {nodeid} leaves, which {report.outcome}", pytrace=False)
        return FILES / ("virtual-time" if virtual else "real-time") / _folder_name(nodeid)

    return find

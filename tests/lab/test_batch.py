"""The fate of a test's report when the machine does not get through it, and of the machine when we do not."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from lab import machine
from lab.batch import CLAIMS, INSIDE, REPORTS, Batch, BatchError, compile_python, may_take
from lab.network import HANGS_S
from patience import is_running, wait_until

NODE = "tests/test_x.py::test_y"


class Ends:
    """Machines that leave reports, print a line and end."""

    reports: ClassVar[dict[str, str]] = {}

    def __init__(self, shared: Path, name: str, script: str, *, virtual_time: bool) -> None:
        self.name, self.own = name, shared / name
        assert NODE in (self.own / "nodes").read_text()

    def start(self, most_processor_s: float) -> None:
        if self.name in self.reports:
            (self.own / REPORTS).write_text(self.reports[self.name])

    def ended(self) -> machine.Ended:
        return machine.Ended(1.0, "Kernel panic")

    def kill(self) -> None:
        pass


def batch(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *reports: str, nodes: Sequence[str] = (NODE,), cpus: int = 1
) -> Batch:
    """A batch of machines that leave ``reports``, each its own."""
    monkeypatch.setattr(Ends, "reports", {f"machine-{n}": text for n, text in enumerate(reports, 1)})
    monkeypatch.setattr("lab.batch.Machine", Ends)
    monkeypatch.setattr("lab.batch.compile_python", lambda nodes: None)
    monkeypatch.setattr("lab.batch.os.cpu_count", lambda: cpus)
    return Batch(nodes, folder / "shared", virtual_time=True)


def line(when: str, node: str = NODE) -> str:
    return json.dumps({"nodeid": node, "when": when, "outcome": "passed"}) + "\n"


def test_the_tests_of_two_machines_come_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = "tests/test_x.py::test_z"
    monkeypatch.setattr("lab.batch.TESTS_WORTH_A_MACHINE", 3)
    done = batch(tmp_path, monkeypatch, line("teardown"), line("teardown", other), nodes=(NODE, other, "third"), cpus=4)
    told: list[str] = []
    done.run(lambda report: told.append(report["nodeid"]))
    assert (done.machines, sorted(told)) == (2, sorted([NODE, other]))
    assert [len(done.reports(node)) for node in (NODE, other)] == [1, 1]
    orders = [(tmp_path / f"shared/machine-{number}/nodes").read_text().split() for number in (1, 2)]
    assert orders[0] == orders[1][::-1] == [NODE, other, "third"]


def test_few_tests_are_not_worth_a_second_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert batch(tmp_path, monkeypatch, nodes=(NODE, "another"), cpus=4).machines == 1


def test_a_test_is_taken_by_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INSIDE, str(tmp_path))
    (tmp_path / CLAIMS).mkdir()
    taken = [may_take(node) for node in (NODE, NODE, "another")]
    # The environment shows which tests run in the machine.
    monkeypatch.delenv(INSIDE)
    assert taken == [True, False, True]


def test_the_reports_of_a_test_come_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = batch(tmp_path, monkeypatch, line("setup") + line("call") + line("teardown"))
    assert [report["when"] for report in done.reports(NODE)] == ["setup", "call", "teardown"]


@pytest.mark.parametrize("reports", ["", line("setup"), line("setup") + line("call") + line("teardown")[:30]])
def test_a_test_that_the_machine_did_not_end_fails_with_what_its_console_showed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reports: str
) -> None:
    with pytest.raises(BatchError, match=r"did not get through this test\. Its console:\nKernel panic"):
        batch(tmp_path, monkeypatch, reports).reports(NODE)


def test_reports_of_an_earlier_machine_are_not_taken_for_those_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "shared/machine-1"
    own.mkdir(parents=True)
    (own / REPORTS).write_text(line("setup") + line("call") + line("teardown"))
    with pytest.raises(BatchError):
        batch(tmp_path, monkeypatch).reports(NODE)


def test_the_machine_is_killed_with_whoever_started_it(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    sleeper = ["sh", "-c", f"echo $$ > {started}; exec sleep 1000"]
    guard = subprocess.Popen(
        ["sh", "-c", machine.GUARDED, "sh", *sleeper], stdin=subprocess.PIPE, start_new_session=True
    )
    wait_until(lambda: started.exists() and bool(started.read_text().strip()))
    assert guard.stdin is not None
    # As the kernel does when we are killed.
    guard.stdin.close()
    guard.wait(HANGS_S)
    wait_until(lambda: not is_running(int(started.read_text())))


@pytest.mark.slow
@pytest.mark.exhaustive
def test_what_python_needs_in_the_machine_is_compiled_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.batch.COMPILED", tmp_path / "compiled")
    (tmp_path / "nodes").write_text("tests/lab/test_batch.py\n")
    compile_python(tmp_path / "nodes")
    compiled = {path.name.partition(".")[0] for path in (tmp_path / "compiled").rglob("*.pyc")}
    assert {"plan", "core", "test_batch"} <= compiled, "of whydrop, of click, of the tests"

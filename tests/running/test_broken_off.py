"""A run that breaks off, by whatever error or signal: nothing of it runs on, and what was measured can be read."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from click.testing import CliRunner

from patience import is_running, wait_until
from whydrop.cli.commands import whydrop
from whydrop.measure import host
from whydrop.measure import run as running
from whydrop.measure.clocks import Clocks
from whydrop.measure.engine import Engine
from whydrop.measure.host import CounterSampler
from whydrop.measure.plan import Plan, PlannedFlow, Settings
from whydrop.measure.runners.command import CommandRunner
from whydrop.recording import document, table_files
from whydrop.recording.recording import Recording
from whydrop.recording.writer import RecordingWriter
from whydrop.runtime import cancelling
from whydrop.runtime.cancelling import ENDING


@pytest.fixture(autouse=True)
def _as_a_shell_starts_it() -> Iterator[None]:
    """Nothing is ignored, as it would be in the background of a script or under nohup."""
    before = {number: signal.getsignal(number) for number in ENDING}
    for number in ENDING:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _in_short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Describing this host takes longer than all the rest."""
    monkeypatch.setattr(host, "gather", lambda *_: {})
    monkeypatch.setattr(running, "_FLUSH_EVERY_S", 0.02)
    monkeypatch.setattr(running, "_LEAD_S", 0.01)


class Broken(BaseException):
    """An unforeseen exception."""


def breaks(*_: object, **__: object) -> NoReturn:
    raise Broken("in the works")


class Endless:
    """A run of a flow that measures at once and never ends, with a thread that samples counters beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.threads = set(threading.enumerate())
        words = ["sh", "-c", f"echo $$ > {folder}/pid; echo 7; exec sleep 1000"]
        flow = PlannedFlow("Power", "value", units="W", runner="command", options={"command": words})
        self.plan = Plan("endless", "", 1000.0, 0.0, 0.2, (), (flow,))

    def measure(self, **how: Callable[..., None]) -> object:
        return running.run(self.plan, Settings(output=self.folder), **how)

    def measures(self) -> bool:
        return any(self.folder.glob("*.recording/journal/values*"))

    def path(self) -> Path:
        [found] = self.folder.glob("*.recording")
        return found

    def check_nothing_runs(self) -> None:
        assert set(threading.enumerate()) <= self.threads
        assert not table_files.is_being_written(self.path())
        wait_until(lambda: not is_running(int((self.folder / "pid").read_text())), "the program to end")

    def check_what_was_measured(self, status: str) -> Recording:
        recording = Recording.open(self.path())
        assert recording.status == status
        assert recording.table("values")["value"].to_list() == [7.0]
        return recording


@pytest.fixture
def endless(tmp_path: Path) -> Endless:
    return Endless(tmp_path)


# What breaks while the flow is measured, and what breaks when it is over, as it is after something else broke.
MEANWHILE = [(CommandRunner, "drain"), (CounterSampler, "drain"), (Engine, "drain"), (RecordingWriter, "flush")]
IN_THE_END = [
    (CommandRunner, "finish"),
    (Engine, "finish"),
    (Engine, "far_ends"),
    (CounterSampler, "stop"),
    (Clocks, "corrected"),
]


@pytest.mark.parametrize(("owner", "name"), MEANWHILE, ids=lambda one: getattr(one, "__name__", one))
def test_whatever_breaks_while_it_is_measured_nothing_runs_on_and_what_was_measured_is_kept(
    endless: Endless, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    works = getattr(owner, name)

    def once(self: Any, *words: Any) -> Any:
        if not endless.measures() or broke:
            return works(self, *words)
        broke.append(True)
        raise Broken("in the works")

    broke: list[bool] = []
    monkeypatch.setattr(owner, name, once)
    with pytest.raises(Broken) as raised:
        endless.measure()
    endless.check_nothing_runs()
    recording = endless.check_what_was_measured("failed")
    assert raised.value.__notes__ == [f"what was measured until then is in {endless.path()}"]
    assert any("Broken('in the works')" in failure for failure in recording.metadata["failures"])
    assert not (endless.path() / "journal").exists()


@pytest.mark.parametrize(("owner", "name"), IN_THE_END, ids=lambda one: getattr(one, "__name__", one))
def test_whatever_breaks_when_it_is_over_nothing_runs_on_and_what_was_measured_is_kept(
    endless: Endless, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    works = getattr(owner, name)

    def once(self: Any, *words: Any) -> Any:
        if broke:
            return works(self, *words)
        broke.append(True)
        raise Broken("in the works")

    def tick(*_: object) -> None:
        if endless.measures():
            monkeypatch.setattr(owner, name, once)
            signal.raise_signal(signal.SIGINT)

    broke: list[bool] = []
    with pytest.raises(Broken):
        endless.measure(tick=tick)
    endless.check_nothing_runs()
    endless.check_what_was_measured("interrupted")


def test_a_recording_that_cannot_be_finished_is_left_to_its_journal_and_its_lock_released(
    endless: Endless, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tick(*_: object) -> None:
        if endless.measures():
            monkeypatch.setattr(RecordingWriter, "_write_table", breaks)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Broken) as raised:
        endless.measure(tick=tick)
    endless.check_nothing_runs()
    endless.check_what_was_measured("interrupted")
    assert raised.value.__notes__ == [f"what was measured until then is in {endless.path()}"]


def test_a_recording_that_cannot_be_begun_is_not_locked(endless: Endless, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "write", breaks)
    with pytest.raises(Broken):
        endless.measure()
    assert not table_files.is_being_written(endless.path())


def test_counters_that_cannot_be_sampled_leave_nothing_open(endless: Endless, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CounterSampler, "_sample", breaks)
    opened = []
    for _ in range(2):
        with pytest.raises(Broken):
            endless.measure()
        opened.append(len(list(Path("/proc/self/fd").iterdir())))
    # What the first one opened for good is open once.
    assert opened[0] == opened[1]
    assert set(threading.enumerate()) <= endless.threads
    assert {Recording.open(path).status for path in endless.folder.glob("*.recording")} == {"failed"}


def test_a_second_ctrl_c_leaves_the_rest_to_the_journal_and_nothing_runs_on(
    endless: Endless, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = CounterSampler.stop

    def interrupted(self: CounterSampler) -> None:
        monkeypatch.setattr(CounterSampler, "stop", works)
        signal.raise_signal(signal.SIGINT)

    def tick(*_: object) -> None:
        if endless.measures():
            monkeypatch.setattr(CounterSampler, "stop", interrupted)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as raised:
        endless.measure(tick=tick)
    endless.check_nothing_runs()
    endless.check_what_was_measured("interrupted")
    assert raised.value.__notes__ == [f"what was measured until then is in {endless.path()}"]


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_ends_the_run_and_what_was_measured_is_kept(
    endless: Endless, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    def tick(*_: object) -> None:
        if endless.measures():
            # A shell or a service manager repeats itself.
            for again in (number, signal.SIGTERM, signal.SIGHUP):
                os.kill(os.getpid(), again)

    with cancelling.signals_raised():
        endless.measure(tick=tick)
    assert cancelling.exit_status() == 128 + number
    endless.check_nothing_runs()
    endless.check_what_was_measured("interrupted")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_program_ends_with_the_status_of_the_signal(tmp_path: Path, number: signal.Signals) -> None:
    ends = f"echo power=7; kill -{number} $PPID; exec sleep 1000"
    (tmp_path / "ends.toml").write_text(f"""
title = "Is terminated"
[[flows]]
name = "Power"
kind = "value"
runner = "command"
units = "W"
options = {{ command = ["sh", "-c", "{ends}"], parser = {{ format = "key-value", value = "power" }} }}
""")
    words = [str(tmp_path / "ends.toml"), "--to", "127.0.0.1", "--output", str(tmp_path), "--no-plot", "--no-counters"]
    done = CliRunner().invoke(whydrop, ["run", *words])
    assert done.exit_code == 128 + number, done.output
    [path] = tmp_path.glob("*.recording")
    assert Recording.open(path).status == "interrupted"
    assert Recording.open(path).table("values")["value"].to_list() == [7.0]

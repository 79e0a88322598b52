"""Long calls, and Ctrl-C while somebody waits for them. The process's own handling of signals is never touched."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from store.test_writing_parts import rows
from whydrop.runtime import long_calls
from whydrop.store.store import Store


@pytest.fixture(autouse=True)
def _untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A library that handles signals itself would change how the program that uses it ends."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def refused(*_: object) -> None:
        raise AssertionError("a library has changed how this process handles signals")

    with monkeypatch.context() as patch:
        patch.setattr(signal, "signal", refused)
        yield
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def press() -> None:
    """Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)


class Endless:
    """Runs until it is asked to end, and takes its time for it. It forgets a request from before it runs."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.runs = threading.Event()
        self.was_asked = threading.Event()
        self.ends = 0

    def run(self) -> str:
        self.has_begun.set()
        time.sleep(0.05)
        self.was_asked.clear()
        self.runs.set()
        self.was_asked.wait()
        time.sleep(0.05)
        self.ends += 1
        return "ended"


def do(work: Callable[[], Any], interrupt: Callable[[], object] = lambda: None) -> Any:
    return long_calls.interruptible(work, interrupt, "the work")


def test_what_the_work_gives_or_raises_comes_back() -> None:
    assert [do(lambda number=number: number * 2) for number in range(3)] == [0, 2, 4]
    with pytest.raises(ZeroDivisionError):
        do(lambda: 1 // 0)
    assert do(threading.get_ident) != threading.get_ident()


@pytest.mark.parametrize("before_it_runs", [True, False])
def test_ctrl_c_is_heard_when_the_work_has_ended(before_it_runs: bool) -> None:
    endless = Endless()

    def presses() -> None:
        # What has not begun would never be done.
        (endless.has_begun if before_it_runs else endless.runs).wait()
        press()

    presser = threading.Thread(target=presses)

    def work() -> None:
        presser.start()
        do(endless.run, endless.was_asked.set)

    with pytest.raises(KeyboardInterrupt):
        work()
    presser.join()
    assert endless.ends == 1


def test_what_does_not_end_is_given_up_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_calls, "PATIENCE_S", 0.3)
    storage, told = threading.Event(), []

    def hangs() -> None:
        press()
        storage.wait()

    with pytest.raises(KeyboardInterrupt) as raised:
        do(hangs, lambda: told.append(1))
    storage.set()
    assert raised.value.__notes__ == ["the work did not end within 0.3 s and was abandoned"]
    assert 1 <= len(told) < 10


def test_what_has_not_begun_when_ctrl_c_comes_is_never_done(monkeypatch: pytest.MonkeyPatch) -> None:
    begin: list[Callable[[], None]] = []

    def start_late(run: Callable[[], None], _: object) -> None:
        begin.append(run)
        raise KeyboardInterrupt

    done: list[int] = []
    monkeypatch.setattr("_thread.start_new_thread", start_late)
    with pytest.raises(KeyboardInterrupt):
        do(lambda: done.append(1))
    begin[0]()
    assert done == []


def test_what_must_be_whole_is_done_before_ctrl_c_has_its_effect() -> None:
    written: list[str] = []

    def write() -> None:
        press()
        time.sleep(0.2)
        written.append("all")

    with pytest.raises(KeyboardInterrupt):
        long_calls.completed(write)
    assert written == ["all"]


def test_a_second_ctrl_c_waits_for_nothing() -> None:
    slow, written = threading.Event(), []

    def write() -> None:
        press()
        time.sleep(0.3)
        press()
        slow.wait()
        written.append("all")

    with pytest.raises(KeyboardInterrupt):
        long_calls.completed(write)
    assert written == []
    slow.set()


def test_a_failure_of_what_must_be_whole_is_reported() -> None:
    def write() -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        long_calls.completed(write)


def test_what_polars_ends_at_ctrl_c_by_itself_is_done_again() -> None:
    tries: list[int] = []

    def write() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise KeyboardInterrupt

    long_calls.completed(write)
    assert len(tries) == 2


def test_it_works_in_any_thread() -> None:
    done: list[int] = []

    def work() -> None:
        long_calls.completed(lambda: done.append(1))
        done.append(do(lambda: 2))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [1, 2]


@pytest.mark.parametrize("main", [True, False])
def test_no_library_that_writes_or_reads_a_store_handles_signals(tmp_path: Path, main: bool) -> None:
    from whydrop.explaining.many.explaining import explain_into
    from whydrop.explaining.many.workers import Outcome
    from whydrop.formats.archives.ingesting import ingest
    from whydrop.store.engines import open_backend

    failures: list[BaseException] = []

    def known() -> Iterator[Outcome]:
        yield Outcome(tmp_path / "x.pcap", "known")

    def everything() -> None:
        try:
            store = Store.create(tmp_path / "store")
            store.add("counters", rows(3))
            ingest(store, [tmp_path / "missing"])
            explain_into(store, [tmp_path / "x.pcap"], explain=lambda *_: known())
            with open_backend(tmp_path / "store") as backend:
                assert backend.run(backend.table("counters")).height == 3
        except BaseException as reason:
            failures.append(reason)

    if main:
        everything()
    else:
        thread = threading.Thread(target=everything)
        thread.start()
        thread.join()
    assert failures == []

"""Long calls, and Ctrl-C while somebody waits for them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from whydrop.record.reach import Worker


class Endless:
    """Runs until it is told to end, and takes its time for it. What it is told before it runs, it forgets."""

    def __init__(self) -> None:
        self.runs = threading.Event()
        self.was_told = threading.Event()
        self.ends = 0

    def run(self) -> str:
        time.sleep(0.05)
        self.was_told.clear()
        self.runs.set()
        self.was_told.wait()
        time.sleep(0.05)
        self.ends += 1
        return "ended"


@pytest.fixture
def endless() -> Endless:
    return Endless()


@pytest.fixture
def worker(endless: Endless) -> Iterator[Worker]:
    made = Worker(endless.was_told.set)
    yield made
    made.close()


def test_what_the_work_gives_or_raises_comes_back(worker: Worker) -> None:
    assert [worker.do(lambda number=number: number * 2) for number in range(3)] == [0, 2, 4]
    with pytest.raises(ZeroDivisionError):
        worker.do(lambda: 1 // 0)
    assert worker.do(threading.get_ident) != threading.get_ident()


@pytest.mark.parametrize("before_it_runs", [True, False])
def test_ctrl_c_is_heard_when_the_work_has_ended(worker: Worker, endless: Endless, before_it_runs: bool) -> None:
    def press() -> None:
        if not before_it_runs:
            endless.runs.wait()
        os.kill(os.getpid(), signal.SIGINT)

    presses = threading.Timer(0.01, press)

    def work() -> None:
        presses.start()
        worker.do(endless.run)

    with pytest.raises(KeyboardInterrupt):
        work()
    presses.join()
    assert endless.ends == 1
    assert worker.do(lambda: "the next") == "the next"


def test_a_worker_that_is_closed_leaves_no_thread() -> None:
    before = threading.active_count()
    Worker(lambda: None).close()
    until = time.monotonic() + 30
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.001)
    assert threading.active_count() <= before

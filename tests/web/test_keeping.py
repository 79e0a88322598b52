"""Tests of the library while it is kept up: its progress, and files that end the process that reads them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from web.test_library import recording
from whydrop.web import keeping
from whydrop.web.events import Events
from whydrop.web.keeping import Keeper
from whydrop.web.library.describing_pool import DescribingPool, describe_all
from whydrop.web.library.finding import Candidate
from whydrop.web.library.library import Library
from whydrop.web.workers import WorkerError


class Heard(Events):
    """Events that are kept as they are sent."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Any] = []

    def publish(self, topic: str, data: Any) -> None:
        self.heard.append(data)
        super().publish(topic, data)


class Stepwise(DescribingPool):
    """Describes ten files at a time, in this process, and waits after the first ten."""

    def __init__(self) -> None:
        super().__init__(1)
        self.may_go_on = threading.Event()

    def described(self, root: Path, new: Any) -> Iterator[Any]:
        listed: list[Candidate] = list(new)
        for at in range(0, len(listed), 10):
            yield describe_all(root, listed[at : at + 10])
            self.may_go_on.wait()


def test_the_first_look_says_how_far_it_is_and_what_it_has_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for number in range(30):
        recording(tmp_path, f"{number}.recording")
    monkeypatch.setattr(keeping, "_PROGRESS_S", 0.0)
    pool = Stepwise()
    monkeypatch.setattr(keeping, "DescribingPool", lambda _: pool)
    library, events = Library([tmp_path]), Heard()

    async def look() -> None:
        async with anyio.create_task_group() as tasks:
            keeper = Keeper(library, events)
            tasks.start_soon(keeper.run)
            while not any(status["done"] == 10 for status in events.heard):
                await anyio.sleep(0.01)
            assert library.search("rrul").count == 10
            assert not keeper.status()["has_looked"]
            pool.may_go_on.set()
            # The end of the look is reported after it is noted.
            while not any(status["done"] is None for status in events.heard):
                await anyio.sleep(0.01)
            assert keeper.status()["has_looked"]
            tasks.cancel_scope.cancel()

    anyio.run(look)
    progress = [(status["done"], status["of"]) for status in events.heard]
    assert progress[:5] == [(0, 30), (10, 30), (20, 30), (30, 30), (None, None)]


def test_a_look_that_fails_is_reported_and_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    recording(tmp_path, "a.recording")
    monkeypatch.setattr(keeping, "_REFRESH_S", 0.01)
    library, events = Library([tmp_path]), Heard()
    look_truly, failures = library.refresh, [OSError(28, "No space left on device")]

    def look(*given: Any) -> Any:
        if failures:
            raise failures.pop()
        return look_truly()

    monkeypatch.setattr(library, "refresh", look)

    async def twice() -> None:
        async with anyio.create_task_group() as tasks:
            keeper = Keeper(library, events)
            tasks.start_soon(keeper.run)
            while library.count() == 0:
                await anyio.sleep(0.01)
            while keeper.status()["problems"]:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    anyio.run(twice)
    assert "No space left on device" in events.heard[0]["problems"][0]


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_what_ends_the_process_that_reads_it_is_an_error_and_the_next_question_is_answered(tmp_path: Path):
    async def ask() -> None:
        keeper = Keeper(Library([tmp_path]), Events())
        with pytest.raises(WorkerError, match="ended its process"):
            await keeper.ask(_die)
        assert await keeper.ask(abs, -1) == 1
        keeper.close()

    anyio.run(ask)

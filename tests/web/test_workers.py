"""Tests of the processes that do heavy work: answers, errors in words, and their end."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from whydrop.web.workers import Worker, WorkerDefectError, WorkerError

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Example:
    """Work that does what a test asks for."""

    def __init__(self, emit: Callable[[Any], None], kept: Path) -> None:
        self._emit = emit
        self._kept = kept
        if kept.name == "refused":
            raise ValueError(f"{kept}: refused")

    def add(self, a: int, b: int) -> int:
        self._emit({"adding": [a, b]})
        return a + b

    def fail(self) -> None:
        raise ValueError("expected a number")

    def meet_a_defect(self) -> None:
        raise KeyError("secret")

    def end(self, code: int) -> None:
        if code < 0:
            os.kill(os.getpid(), -code)
        os._exit(code)

    def close(self) -> None:
        self._kept.write_text("kept")


@asynccontextmanager
async def working(kept: Path, events: list[Any] | None = None) -> AsyncIterator[Worker]:
    worker = Worker(Example, kept, on_event=(events if events is not None else []).append)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker.listen)
        yield worker
        worker.kill()


async def test_a_process_answers_and_says_what_goes_on(tmp_path: Path):
    events: list[Any] = []
    async with working(tmp_path / "kept", events) as worker:
        assert await worker.ask("add", a=1, b=2) == 3
        assert events == [{"adding": [1, 2]}]
        with pytest.raises(WorkerError, match="expected a number"):
            await worker.ask("fail")
        assert await worker.ask("add", a=3, b=4) == 7
        await worker.stop()
    assert (tmp_path / "kept").read_text() == "kept"


async def test_a_defect_in_a_process_is_in_the_log_under_a_reference(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    async with working(tmp_path / "kept") as worker:
        with pytest.raises(WorkerDefectError) as found:
            await worker.ask("meet_a_defect")
        assert await worker.ask("add", a=1, b=2) == 3
    assert "secret" not in str(found.value)
    log = capfd.readouterr().err
    assert f"Defect {str(found.value).rstrip('.').rpartition(' ')[2]}" in log
    assert "KeyError: 'secret'" in log


async def test_work_that_cannot_begin_says_why(tmp_path: Path):
    async with working(tmp_path / "refused") as worker:
        with pytest.raises(WorkerError, match="refused: refused"):
            await worker.ask("add", a=1, b=2)


@pytest.mark.parametrize(("code", "words"), [(3, "exit status 3"), (-signal.SIGKILL, "killed")])
async def test_a_process_that_dies_fails_its_question_only(tmp_path: Path, code: int, words: str):
    async with working(tmp_path / "one") as worker, working(tmp_path / "two") as other:
        with pytest.raises(WorkerError, match=words):
            await worker.ask("end", code=code)
        assert await other.ask("add", a=1, b=1) == 2


async def test_a_process_that_is_ended_answers_by_why(tmp_path: Path):
    async with working(tmp_path / "kept") as worker:
        assert await worker.ask("add", a=1, b=2) == 3
        worker.kill(why="parameters:7: no such day")
        with pytest.raises(WorkerError, match="no such day"):
            await worker.ask("add", a=1, b=2)

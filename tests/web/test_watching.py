"""Tests of the process that looks at connections: it comes with readers, goes after them, and its failure is said."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from patience import PATIENCE_S
from whydrop.web import watching
from whydrop.web.endpoints import RequestError
from whydrop.web.events import Events
from whydrop.web.watching import TOPIC, Watcher

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Refused:
    """A kernel that lists no sockets."""

    def __init__(self, emit: Callable[[Any], None]) -> None:
        raise ValueError("the kernel does not list its sockets: netlink sockets are forbidden here")

    def close(self) -> None:
        """Never made."""


class Example:
    """Work with one state, and its process."""

    def __init__(self, emit: Callable[[Any], None]) -> None:
        emit('{"state":1}')

    def state(self) -> int:
        return os.getpid()

    def close(self) -> None:
        """Nothing is kept."""


@asynccontextmanager
async def looking(monkeypatch: pytest.MonkeyPatch, work: type) -> AsyncIterator[tuple[Watcher, Events]]:
    monkeypatch.setattr(watching, "Watching", work)
    monkeypatch.setattr(watching, "_LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(watching, "_GRACE_S", 0.2)
    events = Events()
    watcher = Watcher(events)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watcher.run)
        with anyio.fail_after(PATIENCE_S):
            yield watcher, events
        tasks.cancel_scope.cancel()


async def until_it_looks(watcher: Watcher, wanted: bool) -> None:
    while watcher.is_looking is not wanted:
        await anyio.sleep(0.01)


async def next_data(reading: AsyncIterator[str]) -> str:
    while True:
        text = await anext(reading)
        if "data: {" in text:
            return text.partition("data: ")[2].strip()


async def test_the_process_comes_with_a_reader_and_goes_after_the_last_one(monkeypatch: pytest.MonkeyPatch):
    async with looking(monkeypatch, Example) as (watcher, events):
        assert not watcher.is_looking
        first, second = events.read([TOPIC]), events.read(["watch"])
        await anext(first)
        assert await next_data(first) == f'{{"topic":"{TOPIC}","data":{{"state":1}}}}'
        await until_it_looks(watcher, True)
        await anext(second)
        await first.aclose()
        await anyio.sleep(0.5)
        assert watcher.is_looking
        await second.aclose()
        await until_it_looks(watcher, False)
        # A question starts it, too, and does not keep it.
        assert await watcher.ask("state") > 0
        await until_it_looks(watcher, False)


async def test_why_connections_cannot_be_seen_is_said_to_readers_and_to_who_asks(monkeypatch: pytest.MonkeyPatch):
    async with looking(monkeypatch, Refused) as (watcher, events):
        reading = events.read([TOPIC])
        await anext(reading)
        assert "netlink sockets are forbidden" in await next_data(reading)
        with pytest.raises(RequestError, match="netlink sockets are forbidden") as raised:
            await watcher.ask("state")
        assert raised.value.status == 503
        await reading.aclose()


async def test_a_process_that_was_killed_is_started_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watching, "_RETRY_S", 0.2)
    async with looking(monkeypatch, Example) as (watcher, events):
        reading = events.read([TOPIC])
        await anext(reading)
        await next_data(reading)
        await until_it_looks(watcher, True)
        before = await watcher.ask("state")
        os.kill(before, signal.SIGKILL)
        assert "was killed" in await next_data(reading)
        assert '"state":1' in await next_data(reading)
        await until_it_looks(watcher, True)
        assert await watcher.ask("state") != before
        await reading.aclose()

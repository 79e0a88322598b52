"""Tests of connections that say nothing, or little: they are closed, and those that wait for an answer are not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn

from whydrop.web import connections

pytestmark = pytest.mark.anyio

HEAD_S = 0.2


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Refuses at once what has a body, else answers late."""
    if scope["method"] == "GET":
        await asyncio.sleep(4 * HEAD_S)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    monkeypatch.setattr(connections, "_HEAD_S", HEAD_S)
    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", log_level="error", **connections.limits()))
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await running


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Everything until the end; a server that closes before it has read everything may reset the connection."""
    with contextlib.suppress(ConnectionResetError):
        return await reader.read()
    return b""


async def test_a_connection_that_says_nothing_is_closed(port: int):
    reader, _ = await asyncio.open_connection("127.0.0.1", port)
    assert await reader.read() == b""


async def test_a_head_that_comes_in_drops_is_not_waited_for(port: int):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    ended = asyncio.create_task(rest(reader))
    for drop in b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 10_000:
        writer.write(bytes([drop]))
        await asyncio.sleep(HEAD_S / 10)
        if ended.done():
            break
    assert await ended == b""
    writer.close()


async def test_an_answer_that_takes_longer_is_waited_for(port: int):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).endswith(b"ok")


async def test_a_body_that_nobody_reads_is_not_received_for_ever(port: int):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
    ended = asyncio.create_task(rest(reader))
    for _ in range(10_000):
        writer.write(b"x")
        await asyncio.sleep(HEAD_S / 10)
        if ended.done():
            break
    # The reset of a connection may overtake the answer.
    assert (await ended)[-2:] in (b"ok", b"")
    writer.close()


async def test_a_second_request_on_a_connection_has_as_much_time(port: int):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(2):
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
    writer.write(b"GET / HT")
    assert await reader.read() == b""

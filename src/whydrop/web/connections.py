"""Connections that cost little: a request's head must come soon, and there is a most of connections."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

# Of a request line with all headers.
_LONGEST_HEAD = 64 * 1024
# A head fits few packets: one that takes longer is delayed on purpose, or its client has gone.
_HEAD_S = 20.0
_KEEP_ALIVE_S = 30
# Event streams of many pages stay open; beyond, requests are answered by 503.
_MOST_CONNECTIONS = 4000


class Protocol(H11Protocol):
    """HTTP/1.1 that closes a connection if its next request does not come, or comes in drops."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """As asyncio has it."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """As asyncio has it."""
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """As asyncio has it."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._expect_nothing()
        elif self._head_timer is None:
            # A part of the next head, or of a body that is not read: uvicorn has ended its own timer.
            self._expect_head()

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(_HEAD_S, self._head_is_late)

    def _expect_nothing(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def limits() -> dict[str, Any]:
    """The arguments of ``uvicorn.Config`` that bound what connections cost."""
    return {
        "http": Protocol, "ws": "none", "h11_max_incomplete_event_size": _LONGEST_HEAD,
        "timeout_keep_alive": _KEEP_ALIVE_S, "limit_concurrency": _MOST_CONNECTIONS, "backlog": 1024,
    }  # fmt: skip


def allow_files() -> None:
    """Let this process have as many files open as it may: each connection is one, and shells allow 1024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

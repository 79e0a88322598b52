"""Events of the server for any number of readers: server-sent events, which a reconnect continues."""

from __future__ import annotations

import json
import secrets
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any

import anyio

# A comment now and then keeps proxies from closing a silent connection, and shows a reader that has gone.
_HEARTBEAT_S = 15.0
# Kept for readers that come back: of a live test with twenty flows about ten minutes.
_KEPT = 20_000


class TooManyReadersError(Exception):
    """There are as many readers as the server serves."""


@dataclass(frozen=True)
class Event:
    """One event.

    Attributes:
        number: greater than that of all before it.
        topic: what it is about: ``library``, ``jobs/7``.
        data: values of JSON.
    """

    number: int
    topic: str
    data: Any


class Events:
    """All events of a server, the last ones of which are kept. It belongs to one event loop."""

    def __init__(self, most_readers: int = 2000) -> None:
        """No event yet."""
        # A restart begins the numbers again: a reader with those of before starts over.
        self._epoch = secrets.token_hex(4)
        self._kept: deque[Event] = deque(maxlen=_KEPT)
        self._number = 0
        self._changed = anyio.Event()
        self._readers = 0
        self._most_readers = most_readers

    @property
    def readers(self) -> int:
        """The readers at this moment."""
        return self._readers

    def publish(self, topic: str, data: Any) -> None:
        """Send an event to all who read its topic."""
        self._number += 1
        self._kept.append(Event(self._number, topic, data))
        self._changed.set()
        self._changed = anyio.Event()

    def mark(self) -> str:
        """The place behind the last event, from which to read on."""
        return f"{self._epoch}-{self._number}"

    async def read(self, topics: Iterable[str], after: str = "") -> AsyncIterator[str]:
        """Events of some topics in the format of server-sent events, without an end.

        Args:
            topics: each with all that is below it: ``jobs`` has those of ``jobs/7``.
            after: the identifier of the last event that the reader has; else events from now on. Where events were
                lost between, or the server was restarted, an event ``reset`` comes first: read the whole state.

        Raises:
            TooManyReadersError: nothing was sent.
        """
        if self._readers >= self._most_readers:
            raise TooManyReadersError
        wanted = tuple(topics)
        self._readers += 1
        try:
            number, is_whole = self._from(after)
            yield "retry: 1000\n\n" if is_whole else f"id: {self.mark()}\nevent: reset\ndata: {{}}\n\n"
            while True:
                changed = self._changed
                for event in self._since(number):
                    number = event.number
                    if _is_about(event.topic, wanted):
                        yield self._written(event)
                with anyio.move_on_after(_HEARTBEAT_S) as waited:
                    await changed.wait()
                if waited.cancelled_caught:
                    yield ": waiting\n\n"
        finally:
            self._readers -= 1

    def _from(self, after: str) -> tuple[int, bool]:
        """The number of the last event that a reader has, and whether none behind it was lost."""
        epoch, _, number = after.partition("-")
        if not after:
            return self._number, True
        if epoch != self._epoch or not number.isdecimal() or int(number) > self._number:
            return self._number, False
        first = self._kept[0].number if self._kept else self._number + 1
        return (int(number), True) if int(number) >= first - 1 else (self._number, False)

    def _since(self, number: int) -> list[Event]:
        """Events after one, oldest first."""
        count = min(self._number - number, len(self._kept))
        return [self._kept[at] for at in range(len(self._kept) - count, len(self._kept))]

    def _written(self, event: Event) -> str:
        data = json.dumps({"topic": event.topic, "data": event.data}, separators=(",", ":"), allow_nan=False)
        return f"id: {self._epoch}-{event.number}\ndata: {data}\n\n"


def _is_about(topic: str, wanted: tuple[str, ...]) -> bool:
    return any(topic == one or topic.startswith(f"{one}/") for one in wanted)

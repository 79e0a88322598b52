"""Events of the server for any number of readers: server-sent events, which a reconnect continues."""

from __future__ import annotations

import json
import math
import secrets
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from typing import Any

import anyio

# A comment now and then keeps proxies from closing a silent connection, and shows a reader that has gone.
_HEARTBEAT_S = 15.0
# Kept for readers that come back: of a live test with twenty flows about ten minutes.
_KEPT = 20_000
# Events of many connections are long: of two hundred, some twenty minutes.
_KEPT_CHARS = 64 << 20


class TooManyReadersError(Exception):
    """There are as many readers as the server serves."""


@dataclass(frozen=True)
class Event:
    """One event.

    Attributes:
        number: greater than that of all before it.
        topic: what it is about: ``library``, ``jobs/7``.
        text: as it is sent: encoded once, whatever the number of readers.
    """

    number: int
    topic: str
    text: str


class Events:
    """All events of a server, the last ones of which are kept. It belongs to one event loop."""

    def __init__(self, most_readers: int = 2000) -> None:
        """No event yet."""
        # A restart begins the numbers again: a reader with those of before starts over.
        self._epoch = secrets.token_hex(4)
        self._kept: deque[Event] = deque()
        self._kept_chars = 0
        self._number = 0
        self._changed = anyio.Event()
        self._moved = anyio.Event()
        self._readers = 0
        self._read: Counter[str] = Counter()
        self._most_readers = most_readers

    @property
    def readers(self) -> int:
        """The readers at this moment."""
        return self._readers

    def readers_of(self, topic: str) -> int:
        """The readers of a topic, by its name or by that of one above it."""
        return sum(count for wanted, count in self._read.items() if _is_about(topic, (wanted,)))

    async def moved(self) -> None:
        """Wait until a reader comes or goes, or :meth:`move` is called."""
        await self._moved.wait()

    def move(self) -> None:
        """Wake those who wait for readers."""
        self._moved.set()
        self._moved = anyio.Event()

    def publish(self, topic: str, data: Any) -> None:
        """Send an event to all who read its topic."""
        self.publish_text(topic, _encoded(data))

    def publish_text(self, topic: str, encoded: str) -> None:
        """Send an event with data that are JSON already."""
        self._number += 1
        text = f'id: {self._epoch}-{self._number}\ndata: {{"topic":{json.dumps(topic)},"data":{encoded}}}\n\n'
        self._kept.append(Event(self._number, topic, text))
        self._kept_chars += len(text)
        while len(self._kept) > _KEPT or (self._kept_chars > _KEPT_CHARS and len(self._kept) > 1):
            self._kept_chars -= len(self._kept.popleft().text)
        self._changed.set()
        self._changed = anyio.Event()

    def mark(self) -> str:
        """The place behind the last event, from which to read on."""
        return f"{self._epoch}-{self._number}"

    async def read(self, topics: Iterable[str], after: str = "") -> AsyncGenerator[str, None]:
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
        self._read.update(wanted)
        self.move()
        try:
            number, is_whole = self._from(after)
            yield "retry: 1000\n\n" if is_whole else f"id: {self.mark()}\nevent: reset\ndata: {{}}\n\n"
            while True:
                changed = self._changed
                for event in self._since(number):
                    number = event.number
                    if _is_about(event.topic, wanted):
                        yield event.text
                with anyio.move_on_after(_HEARTBEAT_S) as waited:
                    await changed.wait()
                if waited.cancelled_caught:
                    yield ": waiting\n\n"
        finally:
            self._readers -= 1
            self._read -= Counter(wanted)
            self.move()

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


def _encoded(data: Any) -> str:
    try:
        return json.dumps(data, separators=(",", ":"), allow_nan=False)
    except ValueError:
        # JSON has no number for it; what is not known is null.
        return json.dumps(_finite(data), separators=(",", ":"), allow_nan=False)


def _finite(data: Any) -> Any:
    match data:
        case float():
            return data if math.isfinite(data) else None
        case dict():
            return {name: _finite(value) for name, value in data.items()}
        case list() | tuple():
            return [_finite(value) for value in data]
    return data


def _is_about(topic: str, wanted: tuple[str, ...]) -> bool:
    return any(topic == one or topic.startswith(f"{one}/") for one in wanted)

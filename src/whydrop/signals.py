"""Ctrl-C, SIGTERM and SIGHUP while something is in hand that must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import FrameType
from typing import Any

# What people, service managers and terminals that go away send to end a program.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Let(Enum):
    """Which signals are let in: none, the first one, or a Ctrl-C that follows another."""

    NONE = 0
    FIRST = 1
    AGAIN = 2


class Held:
    """The signals that end the program, as long as they are held (:func:`held`).

    Attributes:
        came: whether one of them came.
    """

    def __init__(self) -> None:
        self.came = False
        self._let_in: _Let = _Let.NONE
        self._over = False
        self._reason: BaseException | None = None
        self._before: dict[int, Callable[[int, FrameType | None], Any]] = {}

    @contextmanager
    def let_in(self, *, again: bool = False) -> Iterator[None]:
        """In the meantime they have their effect: the first one is raised, at once where it came before.

        Once one was raised, whatever follows is held again: cleaning up is not interrupted by those that repeat it.

        Args:
            again: only a Ctrl-C that follows another signal has its effect: a person insists. Service managers and
                shells repeat SIGTERM and SIGHUP by themselves.
        """
        self._let_in = _Let.AGAIN if again else _Let.FIRST
        try:
            if self.came and not again:
                raise self._reason or KeyboardInterrupt
            yield
        finally:
            self._let_in = _Let.NONE

    def _begin(self) -> None:
        for number in ENDING:
            handler = signal.getsignal(number)
            # Neither what is ignored (as under nohup) nor what the system does by itself raises anything.
            if callable(handler):
                self._before[number] = handler
                signal.signal(number, self._handle)

    def _end(self) -> None:
        self._over = True
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        insisted = self.came and number == signal.SIGINT
        effective = self._let_in is _Let.FIRST or (self._let_in is _Let.AGAIN and insisted)
        self.came = True
        if effective:
            self._let_in = _Let.NONE
        if effective or self._over:
            self._before[number](number, frame)
        else:
            try:
                # It takes note of the signal too.
                self._before[number](number, frame)
            except BaseException as reason:
                self._reason = reason
        if effective:
            # Where that handler raised nothing, as one that holds signals in its turn.
            raise KeyboardInterrupt


@contextmanager
def held() -> Iterator[Held]:
    """Hold the signals that end the program: they are noted, and raised only within :meth:`Held.let_in`.

    An exception between any two instructions would lose a process just started, or leave a file half written. So they
    are let in where the program waits, and nowhere else. Whoever holds them asks :attr:`Held.came`, and says what came
    of it: a ``KeyboardInterrupt`` that was noted is not raised afterwards; what other handlers raise is.

    What is ignored stays ignored, and what ends the process at once does; in other threads than the main one, where
    signals are never handled, nothing changes.
    """
    found = Held()
    if threading.current_thread() is not threading.main_thread():
        yield found
        return
    try:
        found._begin()
        yield found
    finally:
        found._end()
    if found._reason is not None and not isinstance(found._reason, KeyboardInterrupt):
        raise found._reason

"""Ctrl-C, SIGTERM and SIGHUP while something is in hand that must not be left half done.

Only the command line handles signals: it hands each to :func:`deliver`. A library that is called without it changes
nobody's handlers, and Python's own ``KeyboardInterrupt`` comes wherever it does.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import NoReturn

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
        self._reason: BaseException | None = None

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

    def _handle(self, number: int, act: Callable[[], object]) -> None:
        insisted = self.came and number == signal.SIGINT
        effective = self._let_in is _Let.FIRST or (self._let_in is _Let.AGAIN and insisted)
        self.came = True
        if effective:
            self._let_in = _Let.NONE
        if effective:
            self._pass_on(number, act)
        else:
            try:
                # Whoever holds them around this takes note of the signal too.
                self._pass_on(number, act)
            except BaseException as reason:
                self._reason = reason
        if effective:
            # Where that raised nothing: it is held further out, too.
            raise KeyboardInterrupt

    def _pass_on(self, number: int, act: Callable[[], object]) -> None:
        outer = _holding.index(self) - 1
        if outer >= 0:
            _holding[outer]._handle(number, act)
        else:
            act()


# The innermost last. Only the main thread holds signals, as only there they are handled.
_holding: list[Held] = []


def deliver(number: int, act: Callable[[], NoReturn]) -> None:
    """Call ``act``, which raises, now or as soon as the signal is let in; handlers of signals call this."""
    if _holding:
        _holding[-1]._handle(number, act)
    else:
        act()


@contextmanager
def held() -> Iterator[Held]:
    """Hold the signals that end the program: they are noted, and raised only within :meth:`Held.let_in`.

    An exception between any two instructions would lose a process just started, or leave a file half written. So they
    are let in where the program waits, and nowhere else. Whoever holds them asks :attr:`Held.came`, and says what came
    of it: what was noted is not raised afterwards.

    In other threads than the main one, where signals are never handled, nothing changes.
    """
    found = Held()
    if threading.current_thread() is not threading.main_thread():
        yield found
        return
    _holding.append(found)
    try:
        yield found
    finally:
        _holding.remove(found)

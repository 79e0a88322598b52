"""Ctrl-C, SIGTERM and SIGHUP while something is written that must not be left in the middle."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from whydrop.signals import ENDING


@contextmanager
def put_off() -> Iterator[None]:
    """Let what is begun become whole before Ctrl-C, SIGTERM or SIGHUP has its effect; a second one interrupts it.

    An exception that comes between any two instructions can leave a lock held, at which whoever keeps what is left
    would wait for ever.
    """
    if threading.current_thread() is not threading.main_thread():
        # Signals are never handled here.
        yield
        return
    seen: list[int] = []

    def note(number: int, _frame: object) -> None:
        seen.append(number)
        if len(seen) > 1:
            raise KeyboardInterrupt

    before = {number: handler for number in ENDING if (handler := signal.getsignal(number)) is not None}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for came in seen:
        signal.raise_signal(came)


def heard_once() -> None:
    """Let Ctrl-C be heard by Python alone.

    Polars has a handler of its own, in front of Python's. In the midst of a query both raise a ``KeyboardInterrupt``:
    the second meets whoever handles the first.
    """
    import polars  # noqa: F401 (from now on its handler is there)

    if threading.current_thread() is threading.main_thread():
        handler = signal.getsignal(signal.SIGINT)
        if handler is not None:
            signal.signal(signal.SIGINT, handler)

"""Ctrl-C that comes where Python or a library would lose it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from whydrop.cli import terminating


@contextmanager
def deferred() -> Iterator[Callable[[], None]]:
    """As :func:`terminating.as_ctrl_c`; yields what raises `KeyboardInterrupt` if there was one."""
    with terminating.as_ctrl_c() as received:
        yield received.raise_if_received


def raised_once() -> None:
    """Let Ctrl-C be raised by Python alone.

    Polars has a handler of its own, in front of Python's. In the midst of a query both raise a ``KeyboardInterrupt``:
    the second meets whoever handles the first.
    """
    import polars  # noqa: F401 (from now on its handler is there)

    if threading.current_thread() is threading.main_thread():
        handler = signal.getsignal(signal.SIGINT)
        if handler is not None:
            signal.signal(signal.SIGINT, handler)

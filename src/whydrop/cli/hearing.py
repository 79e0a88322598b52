"""Ctrl-C that comes where Python or a library would lose it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# Long enough for what ignored the exception to be left.
_AGAIN_S = 0.01


@contextmanager
def ctrl_c() -> Iterator[Callable[[], None]]:
    """Let no Ctrl-C be lost in the meantime; yields what raises `KeyboardInterrupt` if there was one.

    Two things lose it. Python ignores what is raised in a finalizer or a callback of a weak reference, and complains
    about it: then it is raised once more, where it is heard. And a library may make an error of its own of it, which
    looks like a failed table: so whoever goes on after errors asks, before the next step, whether there was one.

    Where Ctrl-C is ignored (in the background of a script), or in another thread, nothing is changed.
    """
    heard = threading.Event()

    def raise_if_heard() -> None:
        if heard.is_set():
            raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or not _is_main_thread():
        yield raise_if_heard
        return

    def interrupted(number: int, frame: FrameType | None) -> None:
        heard.set()
        signal.default_int_handler(number, frame)

    def ignored(what: Any) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            # A signal of the system's, since only that ends what waits.
            threading.Timer(_AGAIN_S, signal.pthread_kill, (main, signal.SIGINT)).start()
        else:
            said(what)

    main, said = threading.get_ident(), sys.unraisablehook
    signal.signal(signal.SIGINT, interrupted)
    sys.unraisablehook = ignored
    try:
        yield raise_if_heard
    finally:
        sys.unraisablehook = said
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()

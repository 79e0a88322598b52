"""Ctrl-C that comes where Python or a library would lose it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from whydrop.cli import terminating


@contextmanager
def ctrl_c() -> Iterator[Callable[[], None]]:
    """As :func:`terminating.as_ctrl_c`; yields what raises `KeyboardInterrupt` if there was one."""
    with terminating.as_ctrl_c() as heard:
        yield heard.raise_if_heard

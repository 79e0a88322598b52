"""Ctrl-C while the analysis runs."""

from __future__ import annotations

import _thread
import sys
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Result = TypeVar("Result")


def run(work: Callable[[], Result], *, reads_pipe: bool) -> Result:
    """Do ``work`` in another thread, so that Ctrl-C is heard also while it waits for a silent pipe.

    In ``tcpdump -w - | whydrop explain -`` Ctrl-C reaches both programs: tcpdump ends, and with it the input. So where
    standard input is read (``reads_pipe``), the first Ctrl-C lets the rest of it be read and explained.

    Raises:
        KeyboardInterrupt: the work was not finished; its thread still runs, so the process must end by ``os._exit``.
    """
    # _thread and not threading, which takes several times as long to import as a small capture to explain.
    finished = _thread.allocate_lock()
    finished.acquire()
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            outcome.append(work())
        except BaseException as reason:
            failure.append(reason)
        finally:
            finished.release()

    _thread.start_new_thread(body, ())
    try:
        finished.acquire()
    except KeyboardInterrupt:
        if not reads_pipe:
            raise
        sys.stderr.write("\nwhydrop: explaining what has been captured; Ctrl-C once more stops\n")
        finished.acquire()
    if failure:
        raise failure[0]
    return outcome[0]

"""The guard: a process of its own that takes a change back when the run that tries it dies, or its time is over.

``python -m whydrop.act.guard INDEX``; it ends when the change is kept or gone. It imports little, as it is started
before each change.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from whydrop.act import reverting, state
from whydrop.act.state import Entry

_LOOK_S = 1.0


def start(index: int) -> None:
    """Start one for an interface, and wait until it watches.

    Raises:
        OSError: it did not start.
    """
    words = [sys.executable, "-m", "whydrop.act.guard", str(index)]
    # In a session of its own: what ends the terminal's programs does not end it.
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    assert process.stdout is not None
    with process.stdout:
        ready = process.stdout.readline()
    if ready != b"ready\n":
        raise OSError("cannot start the guard that rolls the change back if this run dies")
    # No process waits for it: it may outlive this one.
    process.returncode = 0


def main(index: int) -> None:
    """Watch over the entry of an interface."""
    with state.opened() as book:
        entry = _of(book, index)
    if entry is None:
        return
    with _watched(entry) as wait:
        with contextlib.suppress(OSError):  # (the run has ended)
            os.write(1, b"ready\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        while True:
            with state.opened() as book:
                entry = _of(book, index)
                if entry is None or entry.phase == "kept":
                    return
                if entry.is_due():
                    # Where it cannot be rolled back now (the state file cannot be written), try again later.
                    with contextlib.suppress(OSError, state.StateError):
                        try:
                            reverting.revert(book, entry)
                        except reverting.NotRevertedError:
                            return  # it is said at the next start
                    if _of(book, index) is None:
                        return
            wait()


def _of(book: state.Book, index: int) -> Entry | None:
    return next((one for one in book.ours() if one.snapshot["index"] == index), None)


@contextlib.contextmanager
def _watched(entry: Entry) -> Iterator[Callable[[], None]]:
    """Wait for a moment, or until the run has ended."""
    poll = select.poll()
    descriptor = None
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(entry.owner[0])
        poll.register(descriptor, select.POLLIN)
    ended = False

    def wait() -> None:
        nonlocal ended
        if ended:
            time.sleep(_LOOK_S)
        else:
            ended = bool(poll.poll(_LOOK_S * 1000))

    try:
        yield wait
    finally:
        if descriptor is not None:
            os.close(descriptor)


if __name__ == "__main__":
    main(int(sys.argv[1]))

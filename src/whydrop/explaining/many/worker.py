"""One process that explains captures, one after the other: if it dies of one, only that one is concerned.

What goes over the pipe, from here: ``("hashed", sha256)`` and ``("done", {table: Arrow stream})``; to here: a `Task`,
then, once it is known which capture it is, whether to go on. Nothing means that there is no more to do.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import resource
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whydrop.explaining.many.rows import Frames

_SET_PARENT_DEATH_SIGNAL = 1  # prctl(2)


@dataclass(frozen=True)
class Task:
    """A capture to explain, and how often it was tried before."""

    path: Path
    attempt: int = 0


def serve(pipe: Connection, memory_bytes: int | None, processor: int | None) -> None:
    """Explain captures until there are no more.

    Args:
        pipe: to the one who has the list.
        memory_bytes: most that an analysis may hold, beside the file itself.
        processor: the one to stay on, so that as many workers as there are processors do not each use all of them.
    """
    _be_a_worker(processor)
    try:
        while (task := pipe.recv()) is not None:
            _one(pipe, task, memory_bytes)
    except (EOFError, BrokenPipeError):
        return


def _be_a_worker(processor: int | None) -> None:
    # Ctrl-C, and the end of the terminal, reach every process of it; who has the list decides what it means.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Without its parent no process would read the results.
    ctypes.CDLL(None, use_errno=True).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A process without memory cannot find out where it failed, and may block for ever on its own lock.
    for name in ("RUST_BACKTRACE", "RUST_LIB_BACKTRACE"):
        os.environ.pop(name, None)
    # What an allocator or a panic says while the process dies is no line for the user: the parent says what happened.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    if processor is not None:
        os.sched_setaffinity(0, {processor})


@contextmanager
def _within(memory_bytes: int | None) -> Iterator[None]:
    """Let memory of this process grow by so much and no more: where it would, the analysis aborts the process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if memory_bytes is None:
        yield
        return
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    most = pages * resource.getpagesize() + memory_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _one(pipe: Connection, task: Task, memory_bytes: int | None) -> None:
    from whydrop._core import CaptureError, explain
    from whydrop.explaining import completing
    from whydrop.explaining.many import rows

    try:
        status = task.path.stat()
        if not stat.S_ISREG(status.st_mode):
            pipe.send(
                (
                    "unreadable",
                    f"{rows.printed(task.path)}: no regular file; captures in a store are known by their content",
                )
            )
            return
        digest = sha256(task.path)
    except OSError as reason:
        pipe.send(("unreadable", f"{rows.printed(task.path)}: {reason.strerror or reason}"))
        return
    pipe.send(("hashed", digest))
    if not pipe.recv():
        return
    file = rows.of_file(task.path, status, digest)
    try:
        with _within(memory_bytes):
            document = completing.document(explain([task.path], tables=False).document())
        frames = rows.of_document(file, document)
    except (CaptureError, OSError) as reason:
        frames = rows.of_failure(file, _one_line(reason))
    except BaseException as reason:  # a panic of the core is no Exception; nor may it end the run
        frames = rows.of_failure(file, _why_broken_off(reason))
    pipe.send(("done", packed(frames)))


def _why_broken_off(reason: BaseException) -> str:
    words = _one_line(reason)
    # A thread's stack is memory, too.
    if isinstance(reason, MemoryError) or "failed to spawn thread" in words:
        return f"out of its memory limit, or of threads: {words}"
    return f"the analysis broke off, which is a defect of whydrop: {words}"


def _one_line(reason: BaseException) -> str:
    return " ".join(str(reason).splitlines()) or type(reason).__name__


def sha256(path: Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def packed(frames: Frames) -> dict[str, bytes]:
    """Frames as Arrow streams, which cost little to hand on."""
    import io

    packets = {}
    for name, frame in frames.items():
        buffer = io.BytesIO()
        frame.write_ipc_stream(buffer)
        packets[name] = buffer.getvalue()
    return packets


def unpacked(packets: dict[str, bytes]) -> Frames:
    """The frames that :func:`packed` packed."""
    import polars as pl

    return {name: pl.read_ipc_stream(content) for name, content in packets.items()}

"""Reading many files at once: small ones by several processes, large ones piece by piece by this one."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection

from whydrop.formats.archives.chunks import Chunk, FileReport, Given, read_chunks
from whydrop.runtime.cancelling import ENDING
from whydrop.store.store import Store

# A process that reads sends all rows of a file at once: larger files are read here, where they need not be in memory.
MOST_BYTES_SENT = 8 << 20
# Processes begin with a second of importing; compressed files of less than this are read sooner without them.
LEAST_BYTES = 24 << 20
_AHEAD = 4  # files that each process may be ahead of the writing

# A fork may never end if other threads have locks, as polars' do.
_CONTEXT = multiprocessing.get_context("forkserver")

_Read = list[Chunk]


def read_all(
    store: Store, files: Sequence[Given], *, again: bool, processes: int | None = None
) -> Generator[tuple[Given, Chunk]]:
    """Contents of files, in their order."""
    if processes is None:
        small = sum(file.bytes for file in files if file.bytes <= MOST_BYTES_SENT)
        processes = len(os.sched_getaffinity(0)) if small >= LEAST_BYTES else 1
    if processes < 2 or len(files) < 2:
        for file in files:
            for chunk in read_chunks(store, file, again=again):
                yield file, chunk
        return
    yield from _read_by(processes, store, files, again=again)


def _read_by(processes: int, store: Store, files: Sequence[Given], *, again: bool) -> Iterator[tuple[Given, Chunk]]:
    pool = _Pool(processes, store.files.shown, again)
    ahead: deque[tuple[Given, Future[_Read] | None]] = deque()
    coming = iter(files)
    try:
        while True:
            while len(ahead) < processes * _AHEAD and (file := next(coming, None)) is not None:
                ahead.append((file, pool.begin(file) if file.bytes <= MOST_BYTES_SENT else None))
            if not ahead:
                return
            file, future = ahead.popleft()
            for chunk in read_chunks(store, file, again=again) if future is None else future.result():
                yield file, chunk
    finally:
        pool.stop()


class _Pool:
    """Processes that read, and for each a thread that speaks to it; a file that kills two is named.

    All that a process shares with this one is a pipe. The queues of a pool of processes hold semaphores, of which
    Python complains on stderr when their owner is ended by a signal.
    """

    def __init__(self, processes: int, where: str, again: bool) -> None:
        self._free: queue.SimpleQueue[_Reader] = queue.SimpleQueue()
        with _unsignalled():
            self._readers = [_Reader(where, again) for _ in range(processes)]
        for reader in self._readers:
            self._free.put(reader)
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="whydrop reading")

    def begin(self, file: Given) -> Future[_Read]:
        """Have a file read."""
        return self._threads.submit(self._read, file)

    def _read(self, file: Given) -> _Read:
        reader = self._free.get()  # never waits: there are as many of them as threads
        try:
            return reader.read(file)
        finally:
            self._free.put(reader)

    def stop(self) -> None:
        """End the processes, whatever they are at."""
        for reader in self._readers:
            reader.end()
        self._threads.shutdown(cancel_futures=True)
        for reader in self._readers:
            reader.close()


class _Reader:
    """A process that reads one file after the other; where it dies, another takes its place."""

    def __init__(self, where: str, again: bool) -> None:
        self._where, self._again = where, again
        self._ended = False
        self._changing = threading.Lock()
        self._spawn()

    def _spawn(self) -> None:
        self._pipe, theirs = _CONTEXT.Pipe()
        process = _CONTEXT.Process(target=_serve, args=(theirs, self._where, self._again), daemon=True)
        process.start()
        theirs.close()
        self._process = process

    def read(self, file: Given) -> _Read:
        """Contents of a file.

        A process may die for what another takes of the memory: the file is tried a second time.
        """
        for _ in range(2):
            try:
                self._pipe.send(file)
                answer = self._pipe.recv()
            except (EOFError, OSError):
                if not self._replaced():
                    return []
                continue
            if isinstance(answer, Exception):
                raise answer
            return list(answer)
        words = f"{file.path}: the process that read it died, perhaps because memory ran out"
        return [Chunk(FileReport(str(file.path), "unreadable", bytes=file.bytes, damage=[words]))]

    def _replaced(self) -> bool:
        """Replace the process that died, unless reading has ended."""
        with self._changing:
            if not self._ended:
                self._process.join()
                self._pipe.close()
                self._spawn()
            return not self._ended

    def end(self) -> None:
        """Kill the process, at which a thread that listens to it hears no more."""
        with self._changing:
            self._ended = True
            self._process.kill()

    def close(self) -> None:
        """Let go of the process, when no thread listens to it."""
        self._process.join()
        self._pipe.close()


@contextlib.contextmanager
def _unsignalled() -> Iterator[None]:
    """Let processes that are started meanwhile be deaf to Ctrl-C, SIGTERM and SIGHUP from their first moment on.

    A terminal and a service manager send these to all processes at once; the one that writes decides what comes of it.
    """
    # Started with the first process, it would end the blocking.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(employer: Connection, where: str, again: bool) -> None:
    """Read files until the one who writes is gone."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    files: queue.SimpleQueue[Given] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(employer, files), daemon=True).start()
    store: Store | None = None
    while True:
        file = files.get()
        answer: _Read | Exception
        try:
            store = store or Store.open(where)
            answer = list(read_chunks(store, file, again=again))
        except Exception as reason:
            answer = reason
        with contextlib.suppress(BrokenPipeError):
            employer.send(answer)


def _listen(employer: Connection, files: queue.SimpleQueue[Given]) -> None:
    """Take what is to be read; end the process with the one who writes, whatever it is reading then."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            files.put(employer.recv())
    os._exit(0)

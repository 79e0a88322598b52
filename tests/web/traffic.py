"""TCP connections of this host, made by tests: some with a reader that keeps up, some with one that is slow."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

_SLOW_BYTES = 2000


@contextlib.contextmanager
def connections(count: int, *, slow: bool = False, silent: bool = False) -> Iterator[list[str]]:
    """Connections on the loopback interface that carry data until the end; their local ends."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=max(count, 8))
    listening.settimeout(10)
    over = threading.Event()
    opened, threads = [], []
    for _ in range(count):
        sending = socket.create_connection(listening.getsockname())
        receiving, _place = listening.accept()
        opened += [sending, receiving]
        if not silent:
            threads += [
                threading.Thread(target=_send, args=(sending, over)),
                threading.Thread(target=_receive, args=(receiving, over, slow)),
            ]
    for thread in threads:
        thread.start()
    try:
        yield ["{}:{}".format(*one.getsockname()) for one in opened[::2]]
    finally:
        over.set()
        for one in opened:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        for one in (*opened, listening):
            one.close()


def _send(sending: socket.socket, over: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while not over.wait(0.002):
            sending.sendall(bytes(20_000))


def _receive(receiving: socket.socket, over: threading.Event, slow: bool) -> None:
    with contextlib.suppress(OSError):
        while not over.wait(0.05 if slow else 0):
            if not receiving.recv(_SLOW_BYTES if slow else 1 << 16):
                return

"""Connections of this process to itself, over loopback, and a watch beside them."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from patience import wait_until
from whydrop.recording.recording import Recording

WHYDROP = [sys.executable, "-m", "whydrop"]

# linux/tcp.h, struct tcp_info.
_U32 = {"pmtu": 60, "rtt": 68, "snd_cwnd": 80, "total_retrans": 100, "segs_out": 136, "data_segs_out": 156}
_U64 = {"bytes_acked": 120, "bytes_received": 128, "bytes_sent": 200}


def tcp_info(sock: socket.socket) -> dict[str, int]:
    """The kernel's ``tcp_info`` of a socket of ours, by getsockopt."""
    content = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
    found = {name: struct.unpack_from("=I", content, offset)[0] for name, offset in _U32.items()}
    return found | {name: struct.unpack_from("=Q", content, offset)[0] for name, offset in _U64.items()}


class Pair:
    """Both ends of a connection.

    Attributes:
        port: of the server.
        name: of the flow from the client to the server, as a recording has it.
    """

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.port = int(server.getsockname()[1])
        ends = (client.getsockname(), client.getpeername())
        self.name = " > ".join(f"[{end[0]}]:{end[1]}" if len(end) == 4 else f"{end[0]}:{end[1]}" for end in ends)

    def send(self, size: int) -> None:
        """Send so many bytes to the server, which reads them."""
        reader = threading.Thread(target=self._read, args=(size,))
        reader.start()
        self.client.sendall(bytes(size))
        reader.join()
        # Until all of it is acknowledged.
        wait_until(lambda: self.client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 28)[24:28] == bytes(4))

    def _read(self, size: int) -> None:
        while size > 0:
            size -= len(self.server.recv(min(size, 1 << 16)))


@contextmanager
def pair(address: str = "127.0.0.1", receive_buffer: int | None = None) -> Iterator[Pair]:
    """A connection."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(socket.socket(family))
        if receive_buffer is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        listener.bind((address, 0))
        listener.listen()
        client = opened.enter_context(socket.socket(family))
        client.connect(listener.getsockname())
        server = opened.enter_context(listener.accept()[0])
        yield Pair(client, server)


@dataclass
class Watching:
    """`whydrop watch` that runs."""

    process: subprocess.Popen[str]
    output: Path

    def has_polled(self) -> None:
        """Wait until something is written."""
        wait_until(lambda: self.process.poll() is not None or any(self.output.glob("*.recording/journal/polls*")))
        assert self.process.poll() is None, self.process.communicate()

    def stop(self, number: int) -> tuple[int, str, str]:
        """End it by a signal; its status and what it printed."""
        self.process.send_signal(number)
        out, err = self.process.communicate()
        return self.process.returncode, out, err

    @property
    def recording(self) -> Recording:
        """The recording that it has written."""
        (folder,) = self.output.glob("*.recording")
        return Recording.open(folder)


@contextmanager
def watch(output: Path, *arguments: Any, no_live: bool = True, before: Sequence[str] = ()) -> Iterator[Watching]:
    """`whydrop watch` with these arguments, from when it has polled for the first time."""
    words = [*before, *WHYDROP, "watch", "--output", output, *(["--quiet"] if no_live else []), *arguments]
    with subprocess.Popen(
        [str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        found = Watching(process, output)
        try:
            found.has_polled()
            yield found
        finally:
            if process.poll() is None:
                process.kill()


def flow(recording: Recording, name: str, direction: str = "up") -> dict[str, Any]:
    """The row of a flow: what the one end sends and what the other one receives have the same ends."""
    named = (pl.col("name") == name) | pl.col("name").str.starts_with(f"{name} #")
    (found,) = recording.table("flows").filter(named & (pl.col("direction") == direction)).to_dicts()
    return found


def rows(recording: Recording, table: str, name: str, direction: str = "up") -> pl.DataFrame:
    """The rows of a flow in a table."""
    return recording.table(table).filter(pl.col("flow") == flow(recording, name, direction)["flow"])

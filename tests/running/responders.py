"""A responder for tests: the program itself, on a port of its own."""

from __future__ import annotations

import contextlib
import functools
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

WHYDROP = [sys.executable, "-m", "whydrop"]
ROOT = Path(__file__).parents[2]
Program = tuple[str, ...]
"""The words that start a responder."""

HANGS_S = 300
"""Longer than anything takes here, on any machine."""


def free_port() -> int:
    """A port outside the ephemeral range: another program could get one of those before we use it."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for a condition, however busy the machine is."""
    give_up = time.monotonic() + HANGS_S
    while not holds():
        assert time.monotonic() < give_up, f"waited in vain for {HANGS_S} s"
        time.sleep(0.1)


def wait_for_rows(folder: Path, table: str) -> None:
    """Until a running test has written rows of a table."""
    wait_until(lambda: any(folder.glob(f"*.recording/journal/{table}*")))


@functools.cache
def static_program() -> Path:
    """The program ``whydrop-responder``, compiled as tests are; `tools/run-tests` has done most of it."""
    script = 'export PATH="$PATH:$HOME/.cargo/bin"; exec tools/build-responder dev'
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@dataclass
class Responder:
    """One that runs."""

    process: subprocess.Popen[str]
    port: int

    @property
    def place(self) -> str:
        """For ``--to``."""
        return f"127.0.0.1:{self.port}"

    def kill(self) -> None:
        """As the kernel does it when memory is short."""
        self.process.kill()
        self.process.wait()

    def ask_to_stop(self) -> str:
        """SIGTERM; returns what it said last."""
        self.process.send_signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=HANGS_S)
        return said


@contextmanager
def responder(
    *options: str,
    address: str = "127.0.0.1",
    prefix: tuple[str, ...] = (),
    program: Program = (*WHYDROP, "responder"),
) -> Iterator[Responder]:
    """A responder on a free port, gone at the end."""
    options = options or ("--open",)
    words = [*prefix, *program, *options, "--listen", address, "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"port (\d+)", line)
        assert found, f"the responder did not begin: {line!r}"
        yield Responder(process, int(found[1]))
    finally:
        process.kill()
        process.wait()


def ended(program: Program, *options: str) -> subprocess.CompletedProcess[str]:
    """A responder that ends immediately, with its output."""
    return subprocess.run([*program, *options], capture_output=True, text=True, timeout=HANGS_S, check=False)

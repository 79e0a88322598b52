"""A server of `whydrop web` as a process of its own, with some files to open."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

import whydrop
from patience import PATIENCE_S, wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes:
        address: with the token, which lets its holder in.
        folder: the files that it may open.
        process: to be ended.
        log: what it wrote.
    """

    address: str
    folder: Path
    process: subprocess.Popen[str]
    log: Path

    @property
    def root(self) -> str:
        """The address without the token and the last slash."""
        return self.address.partition("?")[0].rstrip("/")

    @property
    def token(self) -> str:
        return self.address.partition("token=")[2]


def has_looked(server: Server) -> bool:
    """True once the library lists everything that was there at the start."""
    headers = {"Authorization": f"Bearer {server.token}"}
    return bool(httpx.get(f"{server.root}/api/library/status", headers=headers, timeout=60).json()["has_looked"])


@contextmanager
def running(
    folder: Path,
    *arguments: str,
    program: Sequence[str | Path] = (sys.executable, "-m", "whydrop"),
    env: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """A server of a folder; ``arguments`` are further ones of the command."""
    log = folder.parent / f"{folder.name}.log"
    with log.open("w") as sink:
        process = subprocess.Popen(
            [*program, "web", str(folder), *arguments], stderr=sink, stdout=sink, text=True, env=env
        )
    try:
        wait_until(lambda: "token=" in log.read_text() or process.poll() is not None, "the server's start")
        found = re.search(r"https?://\S+", log.read_text())
        assert found, log.read_text()
        yield Server(found[0], folder, process, log)
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def started(folder: Path, *options: str) -> Iterator[Server]:
    """A server that lists everything in its folder; with further options of the command."""
    with running(folder, *options) as server:
        wait_until(lambda: has_looked(server), "the first look at the folder")
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests of a file."""
    folder = tmp_path_factory.mktemp("library")
    for name in ("policed-download.pcap.zst", "shallow-queue.pcap.zst", "shallow-queue-far.pcap.zst"):
        shutil.copy(EXAMPLES / name, folder)
    with running(folder) as started:
        yield started


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A server for one test, which may kill it."""
    folder = tmp_path / "library"
    folder.mkdir()
    with started(folder) as one:
        yield one


@pytest.fixture(scope="module")
def far() -> Iterator[str]:
    """A responder that is open, as HOST:PORT."""
    with whydrop.responder(open=True, addresses=["127.0.0.1"], port=0) as responder:
        yield f"127.0.0.1:{responder.port}"


def client_of(server: Server) -> httpx.Client:
    headers = {"Authorization": f"Bearer {server.token}"}
    return httpx.Client(base_url=server.root, headers=headers, timeout=PATIENCE_S)

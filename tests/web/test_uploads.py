"""Tests of files that pages send: their limits, their names, and what becomes of those that never end."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from web.hostile import hostile_names
from whydrop.web.endpoints import RequestError
from whydrop.web.uploads import Limits, Uploads

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def pieces(*content: bytes) -> AsyncIterator[bytes]:
    for piece in content:
        yield piece


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def refused(uploads: Uploads, *content: bytes, announced: int = 0) -> RequestError:
    with pytest.raises(RequestError) as found:
        await uploads.keep(pieces(*content), "a.pcap", announced)
    assert files(uploads.folder) == []
    assert list(uploads.folder.iterdir()) == []
    return found.value


async def test_a_file_is_kept_whole(tmp_path: Path):
    uploads = Uploads(tmp_path)
    kept = await uploads.keep(pieces(b"ab", b"c"), "a.pcap", 3)
    assert kept.read_bytes() == b"abc"
    assert kept.name == "a.pcap"
    assert uploads.received_bytes == 3


async def test_files_of_one_name_are_kept_beside_each_other(tmp_path: Path):
    uploads = Uploads(tmp_path)
    kept: list[Path] = []

    async def send(content: bytes) -> None:
        kept.append(await uploads.keep(pieces(content), "same.pcap"))

    async with anyio.create_task_group() as senders:
        for number in range(10):
            senders.start_soon(send, str(number).encode())
    assert sorted(path.read_bytes() for path in kept) == [str(number).encode() for number in range(10)]
    assert {path.name for path in kept} == {"same.pcap"}


async def test_five_hundred_hostile_names_stay_in_the_folder(tmp_path: Path):
    uploads = Uploads(tmp_path / "inner" / "uploads", Limits(total_bytes=1 << 30))
    for name in hostile_names(500):
        kept = await uploads.keep(pieces(b"x"), name)
        assert kept.parent.parent == uploads.folder
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", kept.name), name
    assert len(files(tmp_path)) == len(files(uploads.folder)) == 500


async def test_a_file_beyond_the_limit_is_refused_as_soon_as_it_is_announced(tmp_path: Path):
    async def never() -> AsyncIterator[bytes]:
        pytest.fail("it was read")
        yield b""

    with pytest.raises(RequestError, match="longer than") as found:
        await Uploads(tmp_path, Limits(file_bytes=10)).keep(never(), "x", 11)
    assert found.value.status == 413


async def test_a_file_that_is_longer_than_announced_is_refused_and_removed(tmp_path: Path):
    found = await refused(Uploads(tmp_path, Limits(file_bytes=10)), b"x" * 6, b"x" * 6, announced=3)
    assert found.status == 413


async def test_an_empty_file_is_refused(tmp_path: Path):
    assert "empty" in str(await refused(Uploads(tmp_path)))


async def test_all_files_together_have_a_limit(tmp_path: Path):
    uploads = Uploads(tmp_path, Limits(total_bytes=10))
    await uploads.keep(pieces(b"x" * 8), "a.pcap")
    with pytest.raises(RequestError, match="remove files from it") as found:
        await uploads.keep(pieces(b"x" * 3), "b.pcap")
    assert found.value.status == 507
    assert [path.name for path in files(tmp_path)] == ["a.pcap"]


async def test_files_that_are_coming_count_for_the_limit(tmp_path: Path):
    uploads = Uploads(tmp_path, Limits(total_bytes=10))
    begun = anyio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"x"
        begun.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as senders:
        senders.start_soon(uploads.keep, endless(), "a.pcap", 8)
        await begun.wait()
        with pytest.raises(RequestError, match="would hold more"):
            await uploads.keep(pieces(b"xxx"), "b.pcap", 3)
        senders.cancel_scope.cancel()
    assert files(tmp_path) == []


async def test_the_disk_is_not_filled(tmp_path: Path):
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    found = await refused(Uploads(tmp_path, Limits(free_bytes=free * 2)), b"x")
    assert found.status == 507
    assert "must stay free" in str(found)


async def test_no_more_files_than_allowed_are_received_at_once(tmp_path: Path):
    found = await refused(Uploads(tmp_path, Limits(at_once=0)), b"x")
    assert found.status == 503


async def test_a_sender_that_falls_silent_is_refused_and_its_file_removed(tmp_path: Path):
    async def silent() -> AsyncIterator[bytes]:
        yield b"x"
        await anyio.sleep_forever()

    with pytest.raises(RequestError, match="no bytes of the file came") as found:
        await Uploads(tmp_path, Limits(silence_s=0.01)).keep(silent(), "a.pcap", 100)
    assert found.value.status == 408
    assert list(tmp_path.iterdir()) == []


async def test_a_folder_that_cannot_be_written_is_an_error_in_words(tmp_path: Path):
    uploads = Uploads(tmp_path / "uploads")
    uploads.folder.rmdir()
    uploads.folder.write_text("no folder")
    with pytest.raises(RequestError, match="could not be kept"):
        await uploads.keep(pieces(b"x"), "a.pcap")


def leftover(folder: Path) -> Path:
    partial = folder / "0123456789abcdef" / ".a.pcap.part"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"half")
    return partial


def test_what_a_killed_server_left_is_removed_at_the_next_start(tmp_path: Path):
    partial = leftover(tmp_path)
    Uploads(tmp_path)
    assert not partial.parent.exists()


def test_what_another_server_is_writing_is_left(tmp_path: Path):
    partial = leftover(tmp_path)
    with partial.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        Uploads(tmp_path)
        assert partial.exists()


def test_nothing_but_partial_files_is_removed_and_no_link_followed(tmp_path: Path):
    elsewhere = leftover(tmp_path / "elsewhere")
    uploads = tmp_path / "uploads"
    (uploads / "recording").mkdir(parents=True)
    (uploads / "recording" / ".a.part").write_text("of a user")
    (uploads / "fedcba9876543210").symlink_to(elsewhere.parent)
    (uploads / "0000000000000000").mkdir()
    (uploads / "0000000000000000" / "whole.pcap").write_text("whole")
    (uploads / "1111111111111111").mkdir()
    (uploads / "1111111111111111" / ".x.part").symlink_to(elsewhere)
    Uploads(uploads)
    assert elsewhere.exists()
    assert (uploads / "recording" / ".a.part").exists()
    assert (uploads / "0000000000000000" / "whole.pcap").exists()
    assert (uploads / "1111111111111111" / ".x.part").is_symlink()

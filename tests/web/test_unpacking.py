"""Tests of ZIP archives that are sent: what is handed on comes back, and a hostile one leaves nothing."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from web.conftest import Server, client_of
from web.test_library import recording
from whydrop.web.library.bundling import archive
from whydrop.web.library.unpacking import ArchiveError, is_archive, unpack, unpacked_bytes

MOST = 1 << 20


def zipped(tmp_path: Path, fill: Callable[[zipfile.ZipFile], None]) -> Path:
    """An archive in a folder of its own."""
    folder = tmp_path / "sent"
    folder.mkdir()
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as made:
        fill(made)
    return folder / "a.zip"


def test_what_is_handed_on_comes_back(tmp_path: Path):
    (tmp_path / "from").mkdir()
    one = recording(tmp_path / "from", "one.recording", title="first")
    two = recording(tmp_path / "from", "two.recording", title="second")
    (one / "tables").mkdir()
    (one / "tables" / "x.parquet").write_bytes(b"rows")
    (one / "link").symlink_to("/etc/passwd")
    packed = tmp_path / "whydrop.zip"
    packed.write_bytes(b"".join(archive([("day/one.recording", one), ("two.recording", two)])))
    assert is_archive(packed)
    described = unpack(packed, tmp_path / "to", unpacked_bytes(packed))
    titles = {candidate.path: words.title for candidate, words in described if words}
    assert titles == {"day/one.recording": "first", "two.recording": "second"}
    assert (tmp_path / "to/day/one.recording/tables/x.parquet").read_bytes() == b"rows"
    assert not (tmp_path / "to/day/one.recording/link").exists()


def _traversal(made: zipfile.ZipFile) -> None:
    made.writestr("../../outside.txt", "x")


def _absolute(made: zipfile.ZipFile) -> None:
    made.writestr("/tmp/outside.txt", "x")


def _link(made: zipfile.ZipFile) -> None:
    about = zipfile.ZipInfo("link")
    about.external_attr = (stat.S_IFLNK | 0o777) << 16
    made.writestr(about, "/etc")
    made.writestr("link/passwd", "x")


def _twice(made: zipfile.ZipFile) -> None:
    made.writestr("a/b", "x")
    made.writestr("a", "x")


def _bomb(made: zipfile.ZipFile) -> None:
    made.writestr("a.recording/recording.json", b"0" * (MOST + 1))


def _deep(made: zipfile.ZipFile) -> None:
    made.writestr("a/" * 200 + "b", "x")


def _long(made: zipfile.ZipFile) -> None:
    made.writestr("n" * 300, "x")


def _nothing(made: zipfile.ZipFile) -> None:
    made.writestr("letter.txt", "dear all")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("fill", [_traversal, _absolute, _link, _twice, _bomb, _deep, _long, _nothing])
def test_a_hostile_archive_says_why_and_leaves_nothing(tmp_path: Path, fill: Callable[[zipfile.ZipFile], None]):
    sent = zipped(tmp_path, fill)
    with pytest.raises(ArchiveError, match="ZIP archive"):
        unpack(sent, sent.parent / "a", MOST)
    assert [one.name for one in sent.parent.iterdir()] == ["a.zip"]
    assert [one.name for one in tmp_path.iterdir()] == ["sent"]


@pytest.mark.parametrize("damage", ["content", "directory", "end"])
def test_a_damaged_archive_says_so_and_leaves_nothing(tmp_path: Path, damage: str):
    sent = zipped(tmp_path, lambda made: made.writestr("a.recording/recording.json", json.dumps({"schema": 1}) * 50))
    content = bytearray(sent.read_bytes())
    directory = content.index(b"PK\x01\x02")
    where = {"content": slice(60, directory - 4), "directory": slice(directory, directory + 8), "end": slice(-30, None)}
    content[where[damage]] = b"\xff" * len(content[where[damage]])
    sent.write_bytes(content)
    with pytest.raises(ArchiveError):
        unpack(sent, sent.parent / "a", unpacked_bytes(sent))
    assert [one.name for one in sent.parent.iterdir()] == ["a.zip"]


@pytest.mark.slow
def test_an_archive_that_is_sent_is_listed_as_what_it_holds(server: Server, tmp_path: Path):
    client = client_of(server)
    for name in ("one", "two"):
        recording(tmp_path, f"{name}.recording", title=f"sent {name}")
    packed = b"".join(archive([(f"{name}.recording", tmp_path / f"{name}.recording") for name in ("one", "two")]))
    ids = client.post("/api/uploads", params={"name": "both.zip"}, content=packed).raise_for_status().json()["ids"]
    titles = {client.get(f"/api/library/{own}").json()["title"] for own in ids}
    assert titles == {"sent one", "sent two"}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as wrong:
        wrong.writestr("../x.pcap", "x")
    answer = client.post("/api/uploads", params={"name": "wrong.zip"}, content=made.getvalue())
    assert answer.status_code == 415
    assert "wrong.zip: a ZIP archive with a link, or a path that leads out of it" in answer.json()["error"]
    left = [one for one in (server.folder / "uploads").rglob("*") if one.is_file() and "both" not in str(one)]
    assert left == []

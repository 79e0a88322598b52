"""Tests that temporary folders are never left for good, however the program ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from whydrop.runtime.temporary_folders import PREFIX, TemporaryFolder


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left_by_a_kill(place: Path) -> Path:
    """The folder left by a process that is killed while there is something in it."""
    before = set(place.iterdir())
    child = os.fork()
    if child == 0:
        try:
            folder = TemporaryFolder()
            (folder.path / "rows.tmp").write_text("rows")
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    [left] = set(place.iterdir()) - before
    assert (left / "rows.tmp").exists()
    return left


def test_a_folder_is_removed_with_what_is_in_it(place: Path) -> None:
    folder = TemporaryFolder()
    (folder.path / "rows.tmp").write_text("rows")
    folder.remove()
    assert list(place.iterdir()) == []


def test_a_folder_is_removed_at_the_end_of_its_block_and_of_its_process(place: Path) -> None:
    with TemporaryFolder() as path:
        assert path.is_dir()
    assert not path.exists()
    program = "from whydrop.runtime.temporary_folders import TemporaryFolder as T; a = T(); print(a.path.is_dir())"
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, "TMPDIR": str(place)})
    assert done.stdout == "True\n"
    assert list(place.iterdir()) == []


def test_what_a_kill_has_left_is_removed_by_the_next_start(place: Path) -> None:
    left = left_by_a_kill(place)
    folder = TemporaryFolder()
    assert not left.exists()
    folder.remove()


def test_folders_of_the_living_are_left_alone() -> None:
    ours = TemporaryFolder()
    theirs = TemporaryFolder()
    assert ours.path.is_dir()
    assert theirs.path.is_dir()
    ours.remove()
    theirs.remove()


def test_what_only_looks_like_one_is_left_alone(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    kept = tmp_path_factory.mktemp("kept")
    (kept / "photo.png").touch()
    (place / f"{PREFIX}link").symlink_to(kept)
    (place / f"{PREFIX}file").touch()
    TemporaryFolder().remove()
    assert (kept / "photo.png").exists()
    assert (place / f"{PREFIX}link").is_symlink()
    assert (place / f"{PREFIX}file").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_folders_of_other_users_are_left_alone(place: Path) -> None:
    left = left_by_a_kill(place)
    os.chown(left, 65534, 65534)
    TemporaryFolder().remove()
    assert left.is_dir()


def test_a_folder_that_another_took_for_one_that_was_left_is_recreated(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = tempfile.mkdtemp, []

    def taken(**named: str) -> str:
        made.append(make(**named))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", taken)
    folder = TemporaryFolder()
    assert folder.path == Path(made[1])
    assert folder.path.is_dir()
    folder.remove()
    assert list(place.iterdir()) == []

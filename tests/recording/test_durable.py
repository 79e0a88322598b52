"""Files that people asked for: there whole or not at all, in the place and with the mode of those before."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from synthetic_pair import paired_transfer
from whydrop import Plot
from whydrop.explaining.matching import Matching
from whydrop.runtime import durable
from whydrop.show.figure import Figure


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file that is to be replaced, in a folder of its own."""
    path = tmp_path / "folder" / "wanted.csv"
    path.parent.mkdir()
    path.write_text("old")
    return path


def killed_while(write: Callable[[], object]) -> int:
    """Which signal has ended another process that does this."""
    child = os.fork()
    if child == 0:
        try:
            write()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_who_is_killed_while_writing_leaves_the_old_file_and_no_other(old: Path) -> None:
    def write(temporary: Path) -> None:
        temporary.write_text("half of the ne")
        os.kill(os.getpid(), signal.SIGKILL)

    assert killed_while(lambda: durable.write_by(old, write)) == -signal.SIGKILL
    assert old.read_text() == "old"
    assert list(old.parent.iterdir()) == [old]


@pytest.mark.parametrize("nameless", [True, False])
def test_who_fails_while_writing_leaves_the_old_file_and_no_other(
    old: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool
) -> None:
    if not nameless:
        without_nameless_files(monkeypatch)

    def write(temporary: Path) -> None:
        temporary.write_text("half of the ne")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        durable.write_by(old, write)
    assert old.read_text() == "old"
    assert list(old.parent.iterdir()) == [old]


def without_nameless_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on NFS."""
    opened = os.open

    def refuses(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        return opened(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", refuses)


@pytest.mark.parametrize("nameless", [True, False])
def test_a_file_keeps_its_mode_and_a_new_one_has_that_of_any_new_file(
    old: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool
) -> None:
    if not nameless:
        without_nameless_files(monkeypatch)
    old.chmod(0o604)
    new, plain = old.with_name("new"), old.with_name("plain")
    plain.touch()
    for path in (old, new):
        durable.write_bytes(path, b"new")
        assert path.read_bytes() == b"new"
    assert old.stat().st_mode & 0o7777 == 0o604
    assert new.stat().st_mode == plain.stat().st_mode
    assert sorted(old.parent.iterdir()) == [new, plain, old]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_keeps_its_owner(old: Path) -> None:
    os.chown(old, 65534, 65534)
    durable.write_bytes(old, b"new")
    assert (old.stat().st_uid, old.stat().st_gid) == (65534, 65534)


def test_what_an_earlier_crash_left_hinders_no_write(old: Path) -> None:
    old.with_name(old.name + durable.TEMPORARY_SUFFIX).write_text("half")
    durable.write_bytes(old, b"new")
    assert old.read_bytes() == b"new"
    assert list(old.parent.iterdir()) == [old]


def test_behind_a_link_the_file_is_replaced_and_the_link_stays(old: Path, tmp_path: Path) -> None:
    (tmp_path / "second").symlink_to(Path("folder") / old.name)
    link = tmp_path / "first"
    link.symlink_to("second")
    durable.write_bytes(link, b"new")
    assert link.is_symlink()
    assert old.read_bytes() == b"new"
    assert list(old.parent.iterdir()) == [old]


def test_a_link_to_nothing_makes_the_file_that_it_names(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("made")
    durable.write_bytes(link, b"new")
    assert (tmp_path / "made").read_bytes() == b"new"
    assert link.is_symlink()


def test_links_in_a_circle_are_refused_by_name(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("link")
    with pytest.raises(OSError, match="link"):
        durable.write_bytes(link, b"new")
    assert list(tmp_path.iterdir()) == [link]


def test_a_pipe_gets_what_is_written_once_it_is_whole(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    durable.write_bytes(pipe, b"new")
    reader.join()
    assert got == [b"new"]
    assert pipe.is_fifo()


def test_a_descriptor_is_written_behind_what_is_there(old: Path) -> None:
    """As standard output is, when a shell leads it into a file: others go on writing there."""
    with old.open("ab") as stream:
        durable.write_bytes(Path(f"/dev/fd/{stream.fileno()}"), b" and new")
        stream.write(b", and more")
    assert old.read_text() == "old and new, and more"
    assert list(old.parent.iterdir()) == [old]


# --- everything that people name a file for ---


def _matching(path: Path) -> None:
    Matching(paired_transfer(packets=50)).write(path)


def _report(path: Path) -> None:
    from whydrop import Explanation

    Explanation.write_report(SimpleNamespace(recordings=()), path)  # type: ignore[arg-type]


def _chart(path: Path) -> None:
    from whydrop.show.vega import drawing

    drawn = SimpleNamespace(key=path.stem)
    drawing.write_all([drawn], path.parent, path.suffix.removeprefix("."))  # type: ignore[list-item]


def _grid(path: Path) -> None:
    Plot(Figure("key", "title", "", ())).write(path)


def _batch(path: Path) -> None:
    from whydrop.cli.commands import whydrop

    source = path.parent.parent / "flent.batch"
    source.write_text("[Batch::one]\ntest_name = rrul\nhosts = a\n")
    done = CliRunner().invoke(whydrop, ["batch", "convert", str(source), "-o", str(path)])
    if done.exit_code:
        raise OSError(done.stderr)


@pytest.mark.parametrize(
    ("write", "name"),
    [(_matching, "m.csv"), (_matching, "m.parquet"), (_matching, "m.arrow"), (_report, "r.html"), (_chart, "c.svg"),
     (_chart, "c.png"), (_chart, "c.pdf"), (_grid, "g.csv"), (_batch, "b.toml")],
)  # fmt: skip
def test_whatever_is_asked_for_replaces_a_file_only_when_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None], name: str
) -> None:
    monkeypatch.setattr("whydrop.show.report.of_explained", lambda *_, **__: "<p>new</p>")
    monkeypatch.setattr("whydrop.show.vega.drawing.rendered", lambda *_: b"new")
    monkeypatch.setattr("whydrop.show.figure_numbers.csv_text", lambda _: "new")
    path = tmp_path / "folder" / name
    path.parent.mkdir()
    path.write_text("old")

    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "sync", full)
        with pytest.raises(OSError, match="No space left"):
            write(path)
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_an_error_of_another_library_keeps_its_words(tmp_path: Path) -> None:
    def fail(_: Path) -> None:
        raise OSError("No space left on device (os error 28)")

    with pytest.raises(OSError, match="No space left") as raised:
        durable.write_by(tmp_path / "table.csv", fail)
    assert (raised.value.filename, raised.value.strerror) == (
        str(tmp_path / "table.csv"), "No space left on device (os error 28)"
    )  # fmt: skip

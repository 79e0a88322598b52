"""Files that are there whole or not at all, whatever happens while they are written.

The order that makes it so: write a file that has no name yet, ``fsync`` it, give it a name beside the old one, rename
it, ``fsync`` the folder (a rename is atomic by POSIX; that it lasts is the folder's own matter). A file without a name
is gone with the process that writes it (``O_TMPFILE``); where the file system has none, it has a name from the start.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

TEMPORARY_SUFFIX = ".part"

_DESCRIPTORS = "/proc/self/fd"
# Links that lead to each other in a circle are refused by the system with so many.
_MOST_LINKS = 40


def write_bytes(path: Path, content: bytes | memoryview) -> None:
    """Write a small file, whole or not at all; see :func:`write_by`."""

    def write(temporary: Path) -> None:
        temporary.write_bytes(content)

    write_by(path, write)


def write_by(path: Path, write: Callable[[Path], object]) -> None:
    """Have ``write`` fill a temporary file, and put it in the place of ``path`` when it is on the disk.

    Whatever fails, the temporary file is gone and what was at ``path`` before is still there. A file that is replaced
    keeps its mode and its owner. Where ``path`` is a link, what it leads to is replaced. Nothing can take the place of
    what is no regular file (a pipe, a terminal), nor of standard output, which others write to as well: they get what
    was written once it is whole.
    """
    try:
        target = _target(path)
        if target is None:
            _pass_on(path, write)
        else:
            _replace(target, write)
    except OSError as reason:
        # A full disk has no file name in the error, and the temporary name would not help.
        # That of another library may have words alone.
        reason.strerror = reason.strerror or str(reason) or "it cannot be written"
        reason.filename, reason.filename2 = str(path), None
        raise


def _target(path: Path) -> Path | None:
    """The file to replace; None where it cannot be replaced."""
    if path.exists() and not path.is_file():
        return None
    for _ in range(_MOST_LINKS):
        if not path.is_symlink():
            break
        folder = path.parent.resolve()
        if folder.parts[:2] == ("/", "proc"):
            # A descriptor of a process, as /dev/stdout and /dev/fd/3 lead to.
            return None
        path = folder / path.readlink()
    return path


def _pass_on(path: Path, write: Callable[[Path], object]) -> None:
    with tempfile.TemporaryDirectory(prefix="whydrop-") as folder:
        whole = Path(folder) / "whole"
        write(whole)
        # Behind what others have written, where it is a file after all.
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        with whole.open("rb") as source, os.fdopen(descriptor, "wb") as sink:
            shutil.copyfileobj(source, sink)


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with _nameless(path.parent) as descriptor:
            file = temporary if descriptor is None else Path(f"{_DESCRIPTORS}/{descriptor}")
            write(file)
            _be_like(path, file)
            sync(file)
            if descriptor is not None:
                _name(descriptor, temporary)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


@contextlib.contextmanager
def _nameless(folder: Path) -> Iterator[int | None]:
    """A new file of a folder, without a name; None where the file system has no such files."""
    try:
        descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError:
        # Also where the folder is missing, or cannot be written to: the other method reports the error.
        yield None
        return
    try:
        yield descriptor if Path(f"{_DESCRIPTORS}/{descriptor}").exists() else None
    finally:
        os.close(descriptor)


def _name(descriptor: int, path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        # What a crash has left, or another who writes the same file: its content is in place by then, or comes later.
        path.unlink()
    # With the descriptor of a folder, whichever, the system's call is the one that follows links.
    os.link(f"{_DESCRIPTORS}/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)


def _be_like(path: Path, file: Path) -> None:
    """Give a file the owner and the mode of the one that it replaces, as far as this is allowed."""
    try:
        old, new = path.stat(), file.stat()
    except FileNotFoundError:
        return
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with contextlib.suppress(OSError):
            os.chown(file, old.st_uid, old.st_gid)
    file.chmod(stat.S_IMODE(old.st_mode))


def sync(path: Path) -> None:
    """Wait until the contents of a file are on the disk."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk; some file systems (of networks) cannot, and are trusted."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Where a store's files are: a local folder, or a prefix of an object store.

A file is there whole or not at all. Locally that is a temporary name (hidden from every engine by its leading dot),
``fsync`` and a rename; an object store makes an object visible only when it has all of it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whydrop.runtime import extras
from whydrop.runtime.durable import sync, sync_folder
from whydrop.store.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

TEMPORARY_SUFFIX = ".part"
LOCK = ".lock"


@dataclass(frozen=True)
class Files:
    """The files below one place; names are relative to it, with ``/`` between folders."""

    filesystem: fs.FileSystem
    root: str
    local: Path | None  # the same place, where it is a folder of this machine
    shown: str  # as the user wrote it

    @classmethod
    def at(cls, where: str | os.PathLike[str]) -> Files:
        """A folder's path, or a URI such as ``s3://bucket/prefix``, ``gs://bucket/prefix`` or ``file:///folder``.

        Raises:
            StoreError: there is no such kind of place, or its URI cannot be understood.
            MissingExtraError: the packages of the extra ``store`` are not installed.
        """
        extras.need("store")
        from pyarrow import ArrowException, fs

        shown = os.fspath(where)
        if not shown:
            # As of a variable that is not set: it would be the current folder.
            raise StoreError("'': no place for a store. Expected a folder, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX")
        if "://" not in shown:
            path = Path(shown).absolute()
            _refuse_other_encodings(str(path))
            return cls(fs.LocalFileSystem(), str(path), path, shown)
        try:
            filesystem, root = fs.FileSystem.from_uri(shown)
            if not root.strip("/"):
                raise ValueError("it names no bucket")
        except (ArrowException, ValueError, OSError) as reason:
            raise StoreError(
                f"{shown}: no place for a store ({reason}). Expected a folder, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX"
            ) from None
        local = Path(root) if isinstance(filesystem, fs.LocalFileSystem) else None
        return cls(filesystem, root.rstrip("/"), local, shown)

    def path(self, name: str) -> str:
        """The name by which the file system knows a file."""
        return f"{self.root}/{name}" if name else self.root

    def show(self, name: str) -> str:
        """A file's name for the person who must find it."""
        # Behind the question mark are options of the client.
        place = self.shown if self.local is not None else self.shown.partition("?")[0]
        return f"{place.rstrip('/')}/{name}" if name else place

    def exists(self, name: str) -> bool:
        """True if the file exists."""
        from pyarrow import fs

        with self._named(name):
            return bool(self.filesystem.get_file_info(self.path(name)).type == fs.FileType.File)

    def sizes(self, folder: str, suffix: str) -> dict[str, int]:
        """The size in bytes of each file with a name that ends in ``suffix``, in a folder and the folders below it.

        Hidden ones are left out; a folder that is missing has none.
        """
        infos = self._infos(folder, recursive=True)
        sizes = {info.path[len(self.root) :].lstrip("/"): info.size for info in infos if info.is_file}
        return {name: sizes[name] for name in sorted(sizes) if name.endswith(suffix) and "/." not in f"/{name}"}

    def names(self, folder: str) -> list[str]:
        """The files and folders in a folder, hidden ones left out."""
        found = (info.base_name for info in self._infos(folder, recursive=False))
        return sorted(name for name in found if not name.startswith("."))

    def _infos(self, folder: str, *, recursive: bool) -> list[fs.FileInfo]:
        from pyarrow import fs

        selector = fs.FileSelector(self.path(folder), recursive=recursive, allow_not_found=True)
        with self._named(folder):
            found: list[fs.FileInfo] = self.filesystem.get_file_info(selector)
        return found

    def read(self, name: str) -> bytes:
        """A file's content.

        Raises:
            StoreError: it cannot be read.
        """
        with self._named(name), self.filesystem.open_input_file(self.path(name)) as file:
            content: bytes = file.read()
        return content

    def put(self, name: str, content: bytes | memoryview | pa.Buffer, *, lasting: bool = True) -> None:
        """Write a file, whole or not at all, in the place of one of that name.

        Args:
            name: of the file.
            content: of it.
            lasting: wait until it is on the disk; without that, a loss of power may leave an empty file, or none.

        Raises:
            StoreError: it cannot be written; whatever was there before still is.
        """
        with self._named(name):
            if self.local is not None:
                self._put_locally(self.local / name, content, lasting=lasting)
                return
            stream = self.filesystem.open_output_stream(self.path(name))
            stream.write(content)
            # An object comes into being here and not before.
            stream.close()

    def _put_locally(self, path: Path, content: bytes | memoryview | pa.Buffer, *, lasting: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}{TEMPORARY_SUFFIX}")
        try:
            with temporary.open("wb") as file:
                file.write(content)
            if lasting:
                sync(temporary)
            os.replace(temporary, path)  # noqa: PTH105 (the name under which tests make it fail)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        if lasting:
            sync_folder(path.parent)

    def remove(self, name: str) -> None:
        """Remove a file; one that is gone already is no error."""
        with self._named(name), contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_file(self.path(name))

    def move(self, name: str, to: str) -> None:
        """Give a file another name, in the place of one that has it."""
        with self._named(to):
            if self.local is None:
                self.filesystem.copy_file(self.path(name), self.path(to))
                self.filesystem.delete_file(self.path(name))
                return
            (self.local / to).parent.mkdir(parents=True, exist_ok=True)
            os.replace(self.local / name, self.local / to)  # noqa: PTH105 (as above)
            sync_folder((self.local / to).parent)

    def sweep(self, folder: str) -> None:
        """Remove what writers that were killed have left half-written in a folder. The caller holds its lock."""
        if self.local is not None and (self.local / folder).is_dir():
            for path in (self.local / folder).glob(f".*{TEMPORARY_SUFFIX}"):
                with contextlib.suppress(OSError):
                    path.unlink()

    @contextlib.contextmanager
    def locked(self, folder: str) -> Iterator[None]:
        """Hold a folder's lock, to change what is in it.

        The kernel lets go of it when its holder dies. Object stores have no locks: there one writer at a time is the
        operator's duty.
        """
        if self.local is None:
            yield
            return
        descriptor = self._lock_file(self.local / folder)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _lock_file(self, folder: Path) -> int:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as reason:
            raise StoreError(f"{folder / LOCK}: {reason.strerror}") from reason

    @contextlib.contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """Errors of the file system, with the name of the file."""
        from pyarrow import ArrowException

        try:
            yield
        except ArrowException as reason:
            raise StoreError(f"{self.show(name)}: {' '.join(str(reason).split())}") from reason
        except OSError as reason:
            words = reason.strerror or " ".join(str(reason).split())
            if reason.errno == errno.ENOSPC:
                words = f"{words}: nothing of it was written; make room and try again"
            raise StoreError(f"{self.show(name)}: {words}") from reason


def _refuse_other_encodings(path: str) -> None:
    """Arrow and polars know paths as UTF-8, and so do the engines that are to read the store."""
    try:
        path.encode()
    except UnicodeEncodeError:
        shown = path.encode(errors="backslashreplace").decode()
        raise StoreError(f"{shown}: no place for a store: its path is no UTF-8") from None

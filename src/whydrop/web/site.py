"""The state of a running server: its folders, its events, its jobs."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from whydrop.errors import Error
from whydrop.web.access import Access
from whydrop.web.endpoints import RequestError
from whydrop.web.events import Events
from whydrop.web.jobs import Jobs
from whydrop.web.keeping import Keeper
from whydrop.web.library.database import Entry
from whydrop.web.library.describing_pool import describe_one
from whydrop.web.library.library import Library, NotInLibraryError, Tagging
from whydrop.web.library.unpacking import is_archive, unpack, unpacked_bytes
from whydrop.web.rolling import RollingCapture
from whydrop.web.uploads import Uploads
from whydrop.web.watching import Watcher


@dataclass(frozen=True)
class Settings:
    """How a server is set up.

    Attributes:
        folders: their files may be opened.
        uploads: where files go that a page sends; below one of the folders.
        access: who is let in.
        allow_changes: pages may do what changes this host, or reads the traffic of its users.
    """

    folders: Sequence[Path]
    uploads: Path
    access: Access
    allow_changes: bool = False


class Site:
    """The state of a running server."""

    def __init__(self, settings: Settings, tasks: anyio.abc.TaskGroup) -> None:
        """Open the library; ``tasks`` runs what goes on between requests."""
        self.settings = settings
        self.uploads = Uploads(settings.uploads)
        self.library = Library(settings.folders)
        self.events = Events()
        self.keeper = Keeper(self.library, self.events)
        self.watcher = Watcher(self.events)
        self.jobs = Jobs(self.events, tasks, self.record)
        self.rolling = RollingCapture(self.events, tasks, self.enter)

    async def keep_up(self) -> None:
        """Look at the folders now and then."""
        await self.keeper.run()

    async def enter(self, path: Path) -> str:
        """List a new file or recording, and give its identifier."""
        own = self.library.identify(path)
        with contextlib.suppress(Error, OSError):
            await self._list(path)
        return own

    async def record(self, path: Path, tags: Sequence[str]) -> str:
        """List a new recording with some tags, and give its identifier."""
        own = await self.enter(path)
        if tags:
            with contextlib.suppress(Error):
                await anyio.to_thread.run_sync(self.library.tag, [own], Tagging(add=tuple(tags)))
        return own

    async def look_at(self, path: Path) -> str:
        """List a file that a user named, and give its identifier; it stays as it is.

        Raises:
            RequestError: it is nothing that can be opened.
        """
        try:
            problem = (await self._list(path)).problem
        except Error as reason:
            of_folder = " A folder can be searched in Browse." if path.is_dir() else ""
            problem = f"{reason}.{of_folder}"
        if problem:
            raise RequestError(f"{path.name}: {problem.removeprefix(f'{path.name}: ')}", 415)
        return self.library.identify(path)

    async def accept(self, path: Path) -> str:
        """List a file that was sent, and give its identifier.

        Raises:
            RequestError: it is nothing that can be opened; the file is removed.
        """
        own, problem = self.library.identify(path), ""
        try:
            problem = (await self._list(path)).problem
        except NotInLibraryError as reason:
            problem = str(reason)
        except Error:
            # Of the index, or of the disk: the file may be whole, and the next look lists it.
            return own
        if not problem:
            return own
        await anyio.to_thread.run_sync(self._remove, path)
        raise RequestError(f"{path.name}: {problem.removeprefix(f'{path.name}: ')}", 415)

    async def accept_all(self, path: Path) -> list[str]:
        """List a file that was sent, or everything in a ZIP archive, and give the identifiers.

        Raises:
            RequestError: it is nothing that can be opened; the file is removed.
        """
        if not await anyio.to_thread.run_sync(is_archive, path):
            return [await self.accept(path)]
        folder = path.with_name(path.stem or "archive")
        folder = folder if folder != path else path.with_name("archive")
        try:
            size = await self.keeper.ask(unpacked_bytes, path)
            await self.uploads.require_room(size)
            described = await self.keeper.ask(unpack, path, folder, size)
        except Error as reason:
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(path.parent, ignore_errors=True))
            status = reason.status if isinstance(reason, RequestError) else 415
            raise RequestError(f"{path.name}: {reason}", status) from reason
        await anyio.to_thread.run_sync(path.unlink)
        # Where the index cannot be written just now, the next look lists them.
        with contextlib.suppress(Error):
            await anyio.to_thread.run_sync(self.library.enter_all, folder, described)
            await self.keeper.tell_soon()
        return [self.library.identify(folder / one.path) for one, words in described if words and not words.problem]

    def _remove(self, path: Path) -> None:
        self.library.leave(path)
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            path.parent.rmdir()

    async def _list(self, path: Path) -> Entry:
        root = self.library.root_of(path)
        described = await self.keeper.ask(describe_one, root, path)
        entry = await anyio.to_thread.run_sync(self.library.enter, path, described)
        await self.keeper.tell_soon()
        return entry

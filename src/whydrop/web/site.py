"""The state of a running server: its folders, its events, its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from whydrop.web.access import Access
from whydrop.web.events import Events
from whydrop.web.jobs import Jobs
from whydrop.web.library.library import Library
from whydrop.web.workers import processors

# The folders are looked at as often: files come and go.
_REFRESH_S = 5.0


@dataclass(frozen=True)
class Settings:
    """How a server is set up.

    Attributes:
        folders: their files may be opened.
        uploads: where files go that a page sends; below one of the folders.
        access: who is let in.
    """

    folders: Sequence[Path]
    uploads: Path
    access: Access


class Site:
    """The state of a running server."""

    def __init__(self, settings: Settings, tasks: anyio.abc.TaskGroup) -> None:
        """Open the library; ``tasks`` runs what goes on between requests."""
        self.settings = settings
        self.library = Library(settings.folders)
        self.events = Events()
        self.jobs = Jobs(self.events, tasks, self.enter)

    async def keep_up(self) -> None:
        """Look at the folders now and then."""
        with ProcessPoolExecutor(processors()) as pool:
            while True:
                found = await anyio.to_thread.run_sync(lambda: self.library.refresh(pool, None))
                if found.added or found.changed or found.removed:
                    self.events.publish("library", {"count": self.library.count()})
                await anyio.sleep(_REFRESH_S)

    async def enter(self, path: Path) -> str:
        """List a new file or recording, and give its identifier."""
        await anyio.to_thread.run_sync(self.library.refresh)
        self.events.publish("library", {"count": self.library.count()})
        return self.library.identify(path)

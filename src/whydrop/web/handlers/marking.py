"""Requests about what users add to the library: tags, notes and saved views."""

from __future__ import annotations

from typing import Any

import anyio.to_thread
from pydantic import BaseModel, Field

from whydrop.web.endpoints import Endpoint, Nothing, RequestError
from whydrop.web.handlers.library import EntryAnswer
from whydrop.web.library.database import ChangedMeanwhileError
from whydrop.web.library.library import Tagging
from whydrop.web.site import Site


class Marks(BaseModel):
    """Tags and a note for an entry."""

    id: str
    tags: list[str] = Field(max_length=100)
    note: str = Field("", max_length=10_000)
    revision: int | None = Field(None, description="That was read; without it, whatever is there is replaced")


class MarksOfMany(BaseModel):
    """A change of the tags and notes of entries."""

    source: list[str] = Field(min_length=1, max_length=20_000)
    add: list[str] = Field(default_factory=list, max_length=100)
    remove: list[str] = Field(default_factory=list, max_length=100)
    note: str = Field("", max_length=10_000, description="A line that is added to each note")


class ChangedAnswer(BaseModel):
    """The number of entries that were changed."""

    changed: int


class View(BaseModel):
    """A saved view of the library."""

    q: str = Field("", max_length=2000)
    column: list[str] = Field(default_factory=list, max_length=40)
    sort: list[str] = Field(default_factory=list, max_length=8)


class NamedView(View):
    """A view with its name."""

    name: str = Field(min_length=1, max_length=100)


class OneView(BaseModel):
    """A view by its name."""

    name: str = Field(max_length=100)


class ViewsAnswer(BaseModel):
    """Saved views by name."""

    views: dict[str, View]


class MarkingHandlers:
    """Tags, notes and views."""

    def __init__(self, site: Site) -> None:
        """Of a running server."""
        self._site = site

    async def mark(self, given: Marks) -> EntryAnswer:
        """Set the tags and the note of an entry."""
        library = self._site.library
        try:
            entry = await anyio.to_thread.run_sync(library.mark, given.id, given.tags, given.note, given.revision)
        except ChangedMeanwhileError as reason:
            raise RequestError(str(reason), 409) from reason
        await self._site.keeper.tell_soon()
        return EntryAnswer.of(entry)

    async def tag(self, given: MarksOfMany) -> ChangedAnswer:
        """Change the tags and notes of entries."""
        tagging = Tagging(tuple(given.add), tuple(given.remove), given.note)
        changed = await anyio.to_thread.run_sync(self._site.library.tag, given.source, tagging)
        await self._site.keeper.tell_soon()
        return ChangedAnswer(changed=changed)

    async def views(self, _given: Nothing) -> ViewsAnswer:
        """Saved views."""
        found = await anyio.to_thread.run_sync(self._site.library.views)
        return ViewsAnswer(views={name: View(**state) for name, state in found.items()})

    async def keep(self, given: NamedView) -> ViewsAnswer:
        """Save a view."""
        state = given.model_dump(exclude={"name"})
        await anyio.to_thread.run_sync(self._site.library.keep_view, " ".join(given.name.split()), state)
        return await self.views(Nothing())

    async def forget(self, given: OneView) -> ViewsAnswer:
        """Remove a view."""
        await anyio.to_thread.run_sync(self._site.library.keep_view, given.name, None)
        return await self.views(Nothing())

    def endpoints(self) -> list[Endpoint[Any]]:
        """Those of the API."""
        return [
            Endpoint("PUT", "/api/library/{id}/marks", Marks, EntryAnswer, self.mark, "Set its tags and its note."),
            Endpoint("POST", "/api/library/marks", MarksOfMany, ChangedAnswer, self.tag, "Change tags of many."),
            Endpoint("GET", "/api/views", Nothing, ViewsAnswer, self.views, "List the saved views."),
            Endpoint("PUT", "/api/views", NamedView, ViewsAnswer, self.keep, "Save a view."),
            Endpoint("DELETE", "/api/views", OneView, ViewsAnswer, self.forget, "Remove a view."),
        ]

"""Requests about the library: entries, and their metadata, tags and notes."""

from __future__ import annotations

from typing import Any

import anyio.to_thread
from pydantic import BaseModel, Field

from whydrop.web.endpoints import Endpoint, Nothing
from whydrop.web.library.database import Entry
from whydrop.web.site import Site


class EntryAnswer(BaseModel):
    """An entry of the library."""

    id: str
    path: str
    kind: str
    size_bytes: int
    name: str
    title: str
    started_s: float | None
    duration_s: float | None
    status: str
    problem: str
    tags: list[str]
    note: str
    values: dict[str, str]

    @classmethod
    def of(cls, entry: Entry) -> EntryAnswer:
        """From the index."""
        return cls(
            id=entry.id, path=entry.path, kind=entry.kind, size_bytes=entry.size_bytes, name=entry.name,
            title=entry.title, started_s=None if entry.started_ns is None else entry.started_ns / 1e9,
            duration_s=entry.duration_s, status=entry.status, problem=entry.problem, tags=list(entry.tags),
            note=entry.note, values=dict(entry.values),
        )  # fmt: skip


class Search(BaseModel):
    """A search of the library."""

    q: str = Field("", description="Words and conditions: cc:cubic rtt>50 title~before (docs/web.md)")
    order: str = "started"
    descending: bool = True
    offset: int = Field(0, ge=0)
    limit: int = Field(100, ge=1, le=1000)
    column: list[str] = Field(default_factory=list, max_length=40)


class FoundAnswer(BaseModel):
    """Entries that a search found."""

    count: int
    entries: list[EntryAnswer]


class KeysAnswer(BaseModel):
    """Keys of the metadata with the number of entries that have them."""

    keys: dict[str, int]


class OneEntry(BaseModel):
    """An entry by its identifier."""

    id: str


class SomeEntries(BaseModel):
    """Entries by their identifiers."""

    source: list[str] = Field(min_length=2, max_length=50)


class DifferencesAnswer(BaseModel):
    """Keys of the metadata with different values, each with the value of every entry; null where it has none."""

    differences: list[tuple[str, list[str | None]]]


class Marks(OneEntry):
    """Tags and a note for an entry."""

    tags: list[str] = Field(max_length=100)
    note: str = Field("", max_length=10_000)


class LibraryHandlers:
    """Searches, entries and their marks."""

    def __init__(self, site: Site) -> None:
        """Of a running server."""
        self._site = site

    async def search(self, given: Search) -> FoundAnswer:
        """Entries of the library."""
        found = await anyio.to_thread.run_sync(
            lambda: self._site.library.search(
                given.q, order=given.order, descending=given.descending, offset=given.offset, limit=given.limit,
                columns=given.column,
            )
        )  # fmt: skip
        return FoundAnswer(count=found.count, entries=list(map(EntryAnswer.of, found.entries)))

    async def keys(self, _given: Nothing) -> KeysAnswer:
        """Keys of the metadata."""
        return KeysAnswer(keys=await anyio.to_thread.run_sync(self._site.library.keys))

    async def entry(self, given: OneEntry) -> EntryAnswer:
        """One entry."""
        return EntryAnswer.of(self._site.library.entry(given.id))

    async def differences(self, given: SomeEntries) -> DifferencesAnswer:
        """The metadata in which entries differ."""
        found = await anyio.to_thread.run_sync(self._site.library.differences, given.source)
        return DifferencesAnswer(differences=[(one.key, list(one.values)) for one in found])

    async def mark(self, given: Marks) -> EntryAnswer:
        """Set the tags and the note of an entry."""
        return EntryAnswer.of(self._site.library.mark(given.id, given.tags, given.note))

    def endpoints(self) -> list[Endpoint[Any]]:
        """Those of the API."""
        return [
            Endpoint("GET", "/api/library", Search, FoundAnswer, self.search, "Search the library."),
            Endpoint("GET", "/api/library/keys", Nothing, KeysAnswer, self.keys, "List the keys of the metadata."),
            Endpoint(
                "GET",
                "/api/library/differences",
                SomeEntries,
                DifferencesAnswer,
                self.differences,
                "Compare the metadata of entries.",
            ),
            Endpoint("GET", "/api/library/{id}", OneEntry, EntryAnswer, self.entry, "Describe one entry."),
            Endpoint("PUT", "/api/library/{id}/marks", Marks, EntryAnswer, self.mark, "Set its tags and its note."),
        ]

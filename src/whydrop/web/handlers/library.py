"""Requests about the library: searches, entries, and what their metadata differ in."""

from __future__ import annotations

from typing import Any

import anyio.to_thread
from pydantic import BaseModel, Field

from whydrop.web.endpoints import Endpoint, Nothing
from whydrop.web.library.database import Entry, Order
from whydrop.web.library.library import differences_of
from whydrop.web.library.suggesting import suggestions
from whydrop.web.site import Site

# More than that cannot be chosen at once.
_MOST_IDENTIFIERS = 20_000


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
    revision: int = Field(description="Of the tags and the note: send it along with changes of them")
    values: dict[str, str]

    @classmethod
    def of(cls, entry: Entry) -> EntryAnswer:
        """From the index."""
        return cls(
            id=entry.id, path=entry.path, kind=entry.kind, size_bytes=entry.size_bytes, name=entry.name,
            title=entry.title, started_s=None if entry.started_ns is None else entry.started_ns / 1e9,
            duration_s=entry.duration_s, status=entry.status, problem=entry.problem, tags=list(entry.tags),
            note=entry.note, revision=entry.revision, values=dict(entry.values),
        )  # fmt: skip


class Search(BaseModel):
    """A search of the library."""

    q: str = Field("", max_length=2000, description="Words and conditions: cc:cubic rtt>50 title~before (docs/web.md)")
    sort: list[str] = Field(
        default_factory=lambda: ["-started"], max_length=8, description="Keys of the order; - before one is descending"
    )
    offset: int = Field(0, ge=0, le=10_000_000)
    limit: int = Field(100, ge=1, le=1000)
    column: list[str] = Field(default_factory=list, max_length=40)


class FoundAnswer(BaseModel):
    """Entries that a search found."""

    count: int
    entries: list[EntryAnswer]
    unknown_keys: list[str] = Field(description="Keys of the search that no entry has")


class OnlySearch(BaseModel):
    """A search of the library."""

    q: str = Field("", max_length=2000)


class IdentifiersAnswer(BaseModel):
    """Identifiers of entries."""

    ids: list[str]


class KeysAnswer(BaseModel):
    """Keys of the metadata with the number of entries that have them."""

    keys: dict[str, int]


class Typed(BaseModel):
    """A search that is being typed."""

    q: str = Field("", max_length=2000)
    at: int = Field(ge=0, description="Characters before the cursor")


class Option(BaseModel):
    """A text that may be put into the search."""

    text: str
    count: int | None = Field(description="Of the entries that have it, where that is known")


class SuggestedAnswer(BaseModel):
    """Texts that may stand between two places of a search."""

    begin: int
    end: int
    options: list[Option]


class StatusAnswer(BaseModel):
    """The state of the library."""

    count: int
    others: int = Field(description="Files that are not listed, as they are of no known kind")
    has_looked: bool = Field(description="All folders were looked at since the server's start")
    done: int | None = Field(description="Files described so far, while the index is being made")
    of: int | None = Field(description="Files to describe")
    problems: list[str]


class OneEntry(BaseModel):
    """An entry by its identifier."""

    id: str
    column: list[str] = Field(default_factory=list, max_length=40)


class SomeEntries(BaseModel):
    """Entries by their identifiers."""

    source: list[str] = Field(min_length=2, max_length=50)


class DifferencesAnswer(BaseModel):
    """Keys of the metadata with different values, each with the value of every entry; null where it has none."""

    differences: list[tuple[str, list[str | None]]]


class LibraryHandlers:
    """Searches and entries."""

    def __init__(self, site: Site) -> None:
        """Of a running server."""
        self._site = site

    async def search(self, given: Search) -> FoundAnswer:
        """Entries of the library."""
        found = await anyio.to_thread.run_sync(
            lambda: self._site.library.search(
                given.q, order=list(map(Order.of, given.sort)), offset=given.offset, limit=given.limit,
                columns=given.column,
            )
        )  # fmt: skip
        return FoundAnswer(
            count=found.count, entries=list(map(EntryAnswer.of, found.entries)), unknown_keys=list(found.unknown_keys)
        )

    async def identifiers(self, given: OnlySearch) -> IdentifiersAnswer:
        """The identifiers of all entries that a search finds."""
        found = await anyio.to_thread.run_sync(self._site.library.identifiers, given.q, _MOST_IDENTIFIERS)
        return IdentifiersAnswer(ids=found)

    async def keys(self, _given: Nothing) -> KeysAnswer:
        """Keys of the metadata."""
        return KeysAnswer(keys=await anyio.to_thread.run_sync(self._site.library.keys))

    async def suggest(self, given: Typed) -> SuggestedAnswer:
        """Texts that may be typed next."""
        found = await anyio.to_thread.run_sync(suggestions, self._site.library, given.q, given.at)
        options = [Option(text=text, count=count) for text, count in found.options]
        return SuggestedAnswer(begin=found.begin, end=found.end, options=options)

    async def status(self, _given: Nothing) -> StatusAnswer:
        """The state of the library."""
        return StatusAnswer(**await anyio.to_thread.run_sync(self._site.keeper.status))

    async def entry(self, given: OneEntry) -> EntryAnswer:
        """One entry."""
        return EntryAnswer.of(await anyio.to_thread.run_sync(self._site.library.entry, given.id, given.column))

    async def differences(self, given: SomeEntries) -> DifferencesAnswer:
        """The metadata in which entries differ."""
        located = await anyio.to_thread.run_sync(self._site.library.located, given.source)
        found = await self._site.keeper.ask(differences_of, located)
        return DifferencesAnswer(differences=[(one.key, list(one.values)) for one in found])

    def endpoints(self) -> list[Endpoint[Any]]:
        """Those of the API."""
        root = "/api/library"
        return [
            Endpoint("GET", root, Search, FoundAnswer, self.search, "Search the library."),
            Endpoint("GET", f"{root}/ids", OnlySearch, IdentifiersAnswer, self.identifiers, "Name all that is found."),
            Endpoint("GET", f"{root}/keys", Nothing, KeysAnswer, self.keys, "List the keys of the metadata."),
            Endpoint("GET", f"{root}/suggestions", Typed, SuggestedAnswer, self.suggest, "Suggest what to type."),
            Endpoint("GET", f"{root}/status", Nothing, StatusAnswer, self.status, "Show how far the index is."),
            Endpoint(
                "GET", f"{root}/differences", SomeEntries, DifferencesAnswer, self.differences,
                "Compare the metadata of entries.",
            ),
            Endpoint("GET", f"{root}/{{id}}", OneEntry, EntryAnswer, self.entry, "Describe one entry."),
        ]  # fmt: skip

"""Requests about what is in entries: the metadata of one, the tables of a store, files to keep elsewhere."""

from __future__ import annotations

from typing import Any

import anyio.to_thread
from pydantic import BaseModel, Field
from starlette.responses import FileResponse, Response, StreamingResponse

from whydrop.errors import Error
from whydrop.web.endpoints import Endpoint
from whydrop.web.handlers.files import disposition
from whydrop.web.library import stores
from whydrop.web.library.bundling import archive
from whydrop.web.library.describing import metadata
from whydrop.web.site import Site
from whydrop.web.uploads import harmless


class OneOfThem(BaseModel):
    """An entry by its identifier."""

    id: str


class MetadataAnswer(BaseModel):
    """The metadata of an entry, as they are nested."""

    metadata: dict[str, Any]


class TableAnswer(BaseModel):
    """A table of a store."""

    table: str
    rows: int
    bytes: int
    parts: int
    days: int
    sites: list[str]
    first_s: float | None
    last_s: float | None


class ContentsAnswer(BaseModel):
    """The tables of a store."""

    tables: list[TableAnswer]


class RowsOf(OneOfThem):
    """Rows of a table of a store."""

    table: str = Field(pattern=r"^\w+$")
    offset: int = Field(0, ge=0, le=1_000_000_000)
    limit: int = Field(100, ge=1, le=1000)


class RowsAnswer(BaseModel):
    """Rows of a table as text; null where there is no value."""

    columns: list[str]
    rows: list[list[str | None]]


class Several(BaseModel):
    """Entries to hand on."""

    source: list[str] = Field(min_length=1, max_length=1000)


class ContentHandlers:
    """Metadata, tables and files."""

    def __init__(self, site: Site) -> None:
        """Of a running server."""
        self._site = site

    async def metadata(self, given: OneOfThem) -> MetadataAnswer:
        """The metadata of an entry."""
        (located,) = await anyio.to_thread.run_sync(self._site.library.located, [given.id])
        return MetadataAnswer(metadata=await self._site.keeper.ask(metadata, *located))

    async def contents(self, given: OneOfThem) -> ContentsAnswer:
        """The tables of a store."""
        found = await self._site.keeper.ask(stores.contents, self._store(given.id))
        return ContentsAnswer(tables=[TableAnswer(**one) for one in found])

    async def rows(self, given: RowsOf) -> RowsAnswer:
        """Rows of a table of a store."""
        path = self._store(given.id)
        return RowsAnswer(**await self._site.keeper.ask(stores.rows, path, given.table, given.offset, given.limit))

    def _store(self, own: str) -> Any:
        entry = self._site.library.entry(own)
        if entry.kind != "store":
            raise Error(f"{entry.path}: a {entry.kind} and no store: it has no tables to list")
        return self._site.library.path(own)

    async def download(self, given: Several) -> Response:
        """A file as it is; a folder, or several entries, as one ZIP archive."""
        library = self._site.library
        entries = [(library.entry(own), library.path(own)) for own in dict.fromkeys(given.source)]
        path = entries[0][1]
        if len(entries) == 1 and path.is_file():
            return FileResponse(path, filename=path.name, media_type="application/octet-stream")
        name = f"{harmless(path.name)}.zip" if len(entries) == 1 else "whydrop.zip"
        pieces = archive([(entry.path, path) for entry, path in entries])
        return StreamingResponse(pieces, media_type="application/zip", headers=disposition(name))

    def endpoints(self) -> list[Endpoint[Any]]:
        """Those of the API."""
        one = "/api/library/{id}"
        return [
            Endpoint(
                "GET", "/api/library/download", Several, bytes, self.download, "Hand on entries as one file.",
            ),
            Endpoint("GET", f"{one}/metadata", OneOfThem, MetadataAnswer, self.metadata, "Read all its metadata."),
            Endpoint("GET", f"{one}/tables", OneOfThem, ContentsAnswer, self.contents, "List the tables of a store."),
            Endpoint("GET", f"{one}/tables/{{table}}", RowsOf, RowsAnswer, self.rows, "Read rows of a store's table."),
        ]  # fmt: skip

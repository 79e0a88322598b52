"""Answers that a browser keeps as files."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

_MEDIA = {
    "png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf", "csv": "text/csv", "html": "text/html",
    "json": "application/json", "zip": "application/zip", "py": "text/x-python",
}  # fmt: skip


def as_file(content: bytes, name: str) -> Response:
    """A file to keep, never to show: a page or an SVG could run scripts in the name of this server."""
    return Response(content, media_type=_MEDIA[name.rpartition(".")[2]], headers=disposition(name))


def disposition(name: str) -> dict[str, str]:
    """The header by which a browser keeps an answer under a name (RFC 6266)."""
    quoted = quote(name)
    words = f'filename="{name}"' if quoted == name else f"filename*=UTF-8''{quoted}"
    return {"Content-Disposition": f"attachment; {words}"}

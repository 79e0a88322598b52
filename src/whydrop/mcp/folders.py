"""The folders in which files may be opened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from whydrop.errors import Error
from whydrop.web.library.finding import candidates
from whydrop.web.library.library import NotInLibraryError
from whydrop.web.library.typing_paths import typed


class OutsideError(Error):
    """A path that may not be opened, or does not exist."""


@dataclass(frozen=True)
class Listed:
    """Something that can be opened.

    Attributes:
        path: to give to the other tools.
        kind: ``capture``, ``recording``, ``store``, or ``file``: a test that another tool measured.
        size_bytes: of the file; of a folder that of its description.
    """

    path: str
    kind: str
    size_bytes: int


class Folders:
    """Folders; nothing outside them is opened, links out of them included."""

    def __init__(self, roots: Sequence[Path]) -> None:
        """Of folders that exist."""
        self._roots = [root.resolve(strict=True) for root in roots]

    def find(self, path: str) -> Path:
        """A file or folder by its path, which may be relative to one of the folders.

        Raises:
            OutsideError: it does not exist in any of the folders.
        """
        try:
            return typed(path, self._roots)
        except NotInLibraryError as reason:
            raise OutsideError(f"{reason}. The tool list_files shows what can be opened") from None

    def listed(self, containing: str = "") -> Iterator[Listed]:
        """Captures, recordings and stores with a text in their path; hidden folders are left out."""
        for root in self._roots:
            for one in candidates(root):
                path = str(root / one.path)
                if containing.casefold() in path.casefold():
                    yield Listed(path, one.kind, one.size_bytes)

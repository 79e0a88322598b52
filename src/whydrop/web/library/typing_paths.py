"""Paths that a user types: they lead to something below the folders of the library, or to words of what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from whydrop.web.library.library import NotInLibraryError


def typed(given: str, roots: Sequence[Path]) -> Path:
    """The file or folder of a path: an absolute one, or one that begins in one of the folders.

    Args:
        given: what was typed.
        roots: folders, as they are when links are followed.

    Raises:
        NotInLibraryError: there is nothing, or it is not below the folders.
    """
    path = _with_home(given)
    candidates = [path] if path.is_absolute() else [root / path for root in roots]
    folders = ", ".join(map(str, roots))
    # What lies elsewhere is not even looked at: the answer must not say what is there.
    inside = [one for one in map(_resolved, candidates) if any(one.is_relative_to(root) for root in roots)]
    if not inside:
        raise NotInLibraryError(
            f"{given}: not below the folders of this server ({folders}); name its folder when you start `whydrop web`"
        )
    found = next((one for one in inside if one.exists()), None)
    if found is None:
        raise NotInLibraryError(f"{given}: no such file below {folders}; a path begins in one of these, or with /")
    return found


def _with_home(given: str) -> Path:
    try:
        return Path(given).expanduser()
    except RuntimeError:
        # There is no such user.
        return Path(given)


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as reason:
        raise NotInLibraryError(f"{path}: no path ({reason})") from None

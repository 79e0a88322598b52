"""Tests of paths that a user types: only what is below the folders is found; of anything else nothing is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from whydrop.web.library.library import NotInLibraryError
from whydrop.web.library.typing_paths import typed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "captures"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.pcap").touch()
    (tmp_path / "secret").touch()
    (folder / "link").symlink_to(tmp_path / "secret")
    return folder


def test_a_path_begins_in_a_folder_or_at_the_root(root: Path):
    expected = root / "deep" / "a.pcap"
    for given in ("deep/a.pcap", "./deep/../deep/a.pcap", str(expected)):
        assert typed(given, [root]) == expected


@pytest.mark.parametrize("given", ["/etc/passwd", "../secret", "link", "~", "~no-such-user/x", "deep/../../secret"])
def test_what_is_not_below_the_folders_is_refused_whether_it_exists_or_not(root: Path, given: str):
    with pytest.raises(NotInLibraryError, match=r"not below the folders of this server|no such file"):
        typed(given, [root])
    if not given.startswith("~no"):
        with pytest.raises(NotInLibraryError, match="not below the folders"):
            typed(given, [root])


def test_a_file_that_is_not_there_says_where_paths_begin(root: Path):
    with pytest.raises(NotInLibraryError, match=r"no such file below .*captures; a path begins in one of these"):
        typed("deep/b.pcap", [root])

"""Tests of the library: found, searched, marked, kept up to date, and the limit of what may be opened."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whydrop.recording import document
from whydrop.web.library.database import Order
from whydrop.web.library.library import INDEX_FOLDER, Library, NotInLibraryError
from whydrop.web.library.query import SearchError, parsed, terms

CAPTURE = Path(__file__).parents[2] / "examples" / "policed-download.pcap.zst"


def recording(root: Path, path: str, **metadata: object) -> Path:
    folder = root / path
    folder.mkdir(parents=True)
    content = document.complete(
        {"name": "rrul", "status": "complete", "started_ns": 1_700_000_000_000_000_000, **metadata}
    )
    (folder / document.FILE_NAME).write_text(json.dumps(content))
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    recording(tmp_path, "a.recording", title="before the change", batch={"variables": {"cc": "cubic", "rtt": "50ms"}})
    recording(tmp_path, "day/b.recording", title="after", batch={"variables": {"cc": "bbr", "rtt": "100ms"}})
    recording(tmp_path, "day/c.recording", title="Third", name="tcp_download", status="failed")
    shutil.copy(CAPTURE, tmp_path / "day" / "policed.pcap.zst")
    (tmp_path / "notes.txt").write_text("cubic")
    return tmp_path


@pytest.fixture
def library(root: Path) -> Library:
    found = Library([root])
    found.refresh()
    return found


def paths(library: Library, search: str) -> list[str]:
    return sorted(Path(entry.path).name.split(".")[0] for entry in library.search(search).entries)


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("", ["a", "b", "c", "policed"]),
        ("before", ["a"]),
        ("BEFORE", ["a"]),
        ('"the change"', ["a"]),
        ("title~before", ["a"]),
        ("cc:cubic", ["a"]),
        ("cc=cub", []),
        ("-cc:cubic", ["b", "c", "policed"]),
        ("rtt>50", ["b"]),
        ("rtt>=50", ["a", "b"]),
        ("batch.variables.rtt<60", ["a"]),
        ("kind:capture", ["policed"]),
        ("status=failed", ["c"]),
        ("name:tcp -status:failed", []),
        ("day", ["b", "c", "policed"]),
        ("size>100000", ["policed"]),
        ("100%", []),
        ("no_such_key:x", []),
    ],
)
def test_a_search_finds_what_its_terms_say(library: Library, search: str, expected: list[str]):
    assert paths(library, search) == expected


@pytest.mark.parametrize("search", ["rtt>fast", "rtt>", "title="])
def test_a_search_that_cannot_be_understood_says_what_was_expected(search: str):
    with pytest.raises(SearchError, match="expected"):
        parsed(search)


@given(st.text(max_size=40))
def test_any_text_is_a_search_or_an_error_in_words(search: str):
    with contextlib.suppress(SearchError):
        assert all(term.text or term.operator in ("word", "has") for term in terms(parsed(search)))


def test_entries_are_ordered_by_any_key_with_those_without_it_last(library: Library):
    for descending, expected in ((True, ["b", "a"]), (False, ["a", "b"])):
        found = library.search("", order=[Order("rtt", descending)], columns=["rtt"])
        assert [Path(entry.path).name[0] for entry in found.entries[:2]] == expected
        assert {entry.values.get("rtt") for entry in found.entries[2:]} == {None}


def test_a_page_of_a_search_says_how_many_entries_there_are(library: Library):
    found = library.search("", offset=1, limit=2)
    assert (found.count, len(found.entries)) == (4, 2)


def test_what_changes_below_the_folder_is_seen(library: Library, root: Path):
    changed = recording(root, "new.recording", title="new")
    shutil.rmtree(root / "a.recording")
    seen = library.refresh()
    assert (seen.added, seen.changed, seen.removed) == (1, 0, 1)
    (changed / document.FILE_NAME).write_text(json.dumps(document.complete({"name": "rrul", "title": "renamed"})))
    assert library.refresh().changed == 1
    assert paths(library, "renamed") == ["new"]
    assert library.refresh() == type(seen)()


def test_tags_and_notes_are_kept_beside_and_outlive_the_index(library: Library, root: Path):
    before = (root / "a.recording" / document.FILE_NAME).read_bytes()
    (entry,) = library.search("cc:cubic").entries
    library.mark(entry.id, ["slow", " slow ", "wi-fi link"], "Ask Ada")
    assert paths(library, "tag:slow") == paths(library, "ada") == paths(library, 'tag:"wi-fi link"') == ["a"]
    assert (root / "a.recording" / document.FILE_NAME).read_bytes() == before
    library.close()
    (root / INDEX_FOLDER / "index.sqlite").write_bytes(b"damaged" * 100)
    again = Library([root])
    again.refresh()
    (entry,) = again.search("tag:slow").entries
    assert (entry.note, entry.tags) == ("Ask Ada", ("slow", "wi-fi link"))


def test_an_entry_that_cannot_be_read_says_why(root: Path):
    (root / "a.recording" / document.FILE_NAME).write_text('{"schema": 1, "name": [')
    library = Library([root])
    library.refresh()
    (entry,) = [one for one in library.search("").entries if one.path == "a.recording"]
    assert "recording.json" in entry.problem


def test_only_what_was_found_can_be_opened(library: Library, root: Path, tmp_path_factory: pytest.TempPathFactory):
    outside = tmp_path_factory.mktemp("outside") / "secret.pcap"
    shutil.copy(CAPTURE, outside)
    (root / "link.pcap").symlink_to(outside)
    library.refresh()
    for entry in library.search("link").entries:
        with pytest.raises(NotInLibraryError):
            library.path(entry.id)
    for wrong in ("", "../../etc/passwd", "0" * 16, "x" * 10_000, "'; DROP TABLE entries; --"):
        with pytest.raises(NotInLibraryError):
            library.path(wrong)


def test_several_folders_are_searched_as_one(root: Path, tmp_path_factory: pytest.TempPathFactory):
    other = tmp_path_factory.mktemp("other")
    recording(other, "z.recording", title="elsewhere", batch={"variables": {"rtt": "75ms"}})
    library = Library([root, other, root])
    library.refresh()
    found = library.search("", order=[Order("rtt")], limit=3)
    assert [Path(entry.path).name[0] for entry in found.entries] == ["a", "z", "b"]
    assert library.count() == 5

"""Tests of the index: kinds by content, marks that outlive damage, files that end their readers."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import signal
import sqlite3
import struct
import tarfile
from pathlib import Path

import pytest

import small_stores
from web.conftest import EXAMPLES
from web.test_library import recording
from whydrop.errors import Error
from whydrop.recording import document
from whydrop.web.library import describing, describing_pool, marks, stores
from whydrop.web.library.database import ChangedMeanwhileError, MarksError, Order
from whydrop.web.library.describing import Description
from whydrop.web.library.describing_pool import DescribingPool
from whydrop.web.library.finding import Candidate
from whydrop.web.library.library import INDEX_FOLDER, Library, Tagging, UnusableIndexError
from whydrop.web.library.suggesting import suggestions

CAPTURE = EXAMPLES / "shallow-queue.pcap.zst"
IPERF3 = Path(__file__).parents[1] / "runners" / "fixtures" / "iperf3-3.12-tcp-up.json"


def opened(*roots: Path) -> Library:
    """A library that has looked at its folders."""
    library = Library(roots)
    library.refresh()
    return library


def identity(library: Library, path: str) -> str:
    """The identifier of an entry."""
    (found,) = [entry.id for entry in library.search("", limit=1000).entries if entry.path == path]
    return found


def archive_of(file: Path) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.add(file, file.name)
    return made.getvalue()


# --- what is listed ---


def test_files_are_listed_by_what_they_hold(tmp_path: Path):
    shutil.copy(CAPTURE, tmp_path / "dump.bin")
    shutil.copy(IPERF3, tmp_path / "result.txt")
    (tmp_path / "zipped").write_bytes(gzip.compress(IPERF3.read_bytes()))
    recording(tmp_path, "test.recording")
    (tmp_path / "package.json").write_text('{"name": "left-pad", "version": "1"}')
    (tmp_path / "package.json.gz").write_bytes(gzip.compress(b'{"name": "left-pad"}'))
    (tmp_path / "letter.txt").write_text("dear all")
    (tmp_path / "sources.tar").write_bytes(archive_of(tmp_path / "letter.txt"))
    library = opened(tmp_path)
    found = library.search("").entries
    assert {entry.path: entry.kind for entry in found} == {
        "dump.bin": "capture", "result.txt": "file", "zipped": "file", "test.recording": "recording"
    }  # fmt: skip
    assert {entry.problem for entry in found} == {""}
    assert library.others() == 4
    assert library.search("kind:capture").entries[0].started_ns == 1_795_290_898_504_160_000


def test_what_is_called_as_captures_and_tests_are_says_why_it_is_none(tmp_path: Path):
    (tmp_path / "a.pcap").write_bytes(b"no capture at all")
    (tmp_path / "b.flent.gz").write_bytes(b"\x1f\x8b and no more")
    (tmp_path / "c.flent").write_text('{"metadata": {}}')
    (tmp_path / "d.recording").mkdir()
    (tmp_path / "d.recording" / document.FILE_NAME).write_text("[")
    library = opened(tmp_path)
    problems = {entry.path: entry.problem for entry in library.search("problem:").entries}
    assert sorted(problems) == ["a.pcap", "b.flent.gz", "c.flent", "d.recording"]
    assert not any(str(tmp_path) in words for words in problems.values())
    assert "no JSON" in problems["d.recording"]


def test_a_name_that_is_no_text_is_listed_and_stops_nothing(tmp_path: Path):
    folder = tmp_path / os.fsdecode(b"\xff\xfe")
    folder.mkdir()
    shutil.copy(CAPTURE, folder / os.fsdecode(b"\xff.pcap.zst"))
    library = opened(tmp_path)
    (entry,) = library.search("").entries
    assert "UTF-8" in entry.problem
    assert library.refresh().added == 0


def test_a_file_that_is_not_listed_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "package.json").write_text('{"name": "left-pad"}')
    library = opened(tmp_path)
    monkeypatch.setattr(describing_pool, "describe", lambda *_: pytest.fail("opened again"))
    assert library.refresh().added == 0
    assert library.others() == 1


@pytest.mark.parametrize(
    ("order", "magic", "fraction"), [("<", 0xA1B2C3D4, 500), (">", 0xA1B2C3D4, 500), (">", 0xA1B23C4D, 500_000)]
)
def test_a_large_capture_has_the_time_of_its_first_packet(
    tmp_path: Path, order: str, magic: int, fraction: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(describing, "_LARGEST_CAPTURE_BYTES", 10)
    head = struct.pack(f"{order}IHHiIIIII", magic, 2, 4, 0, 0, 65_535, 1, 1_700_000_000, fraction)
    (tmp_path / "large.pcap").write_bytes(head)
    assert opened(tmp_path).search("").entries[0].started_ns == 1_700_000_000_000_500_000


# --- files that end their readers ---


def test_metadata_that_are_nested_too_deep_are_one_entry_with_a_problem(tmp_path: Path):
    recording(tmp_path, "good.recording")
    deep = recording(tmp_path, "deep.recording")
    nested = '{"a": ' * 100_000 + "1" + "}" * 100_000
    (deep / document.FILE_NAME).write_text('{"schema": 1, "status": "complete", "hosts": ' + nested + "}")
    library = opened(tmp_path)
    assert [entry.path for entry in library.search("problem:").entries] == ["deep.recording"]
    assert [entry.path for entry in library.search("-problem:").entries] == ["good.recording"]


def test_a_defect_of_a_reader_is_the_problem_of_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class PanicError(BaseException):
        """As the core's panics are: no Exception."""

    def describe(root: Path, candidate: Candidate) -> Description:
        if candidate.path == "bad.recording":
            raise PanicError("index out of bounds")
        return Description(candidate.path)

    for name in ("bad", "good"):
        recording(tmp_path, f"{name}.recording")
    monkeypatch.setattr(describing_pool, "describe", describe)
    (entry,) = opened(tmp_path).search("problem:").entries
    assert "defect in whydrop: PanicError: index out of bounds" in entry.problem


def _describe_or_die(root: Path, candidate: Candidate) -> Description:
    if candidate.path == "deadly.pcap":
        os.kill(os.getpid(), signal.SIGKILL)
    return Description(candidate.path)


def _in_a_process(root: Path, batch: list[Candidate]) -> describing_pool.Described:
    return [(one, _describe_or_die(root, one)) for one in batch]


@pytest.mark.slow
def test_a_file_that_ends_the_process_of_its_reader_is_listed_and_the_others_are_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(describing_pool, "describe_all", _in_a_process)
    batch = [Candidate(name, "capture", 1, 1) for name in ("a.pcap", "deadly.pcap", "z.pcap")]
    pool = DescribingPool(1)
    described = [one for part in pool.described(tmp_path, batch) for one in part]
    pool.close()
    problems = {candidate.path: description.problem for candidate, description in described if description}
    assert problems["a.pcap"] == problems["z.pcap"] == ""
    assert "ended its process" in problems["deadly.pcap"]


# --- tags and notes ---


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        recording(tmp_path, f"{name}.recording", title=f"title {name}")
    return tmp_path


def test_the_second_of_two_writers_hears_of_the_first(root: Path):
    library = opened(root)
    own = identity(library, "a.recording")
    read = library.entry(own)
    library.mark(own, ["first"], "mine", read.revision)
    with pytest.raises(ChangedMeanwhileError, match=r"Tags are now: first. The note is now: mine"):
        library.mark(own, ["second"], "yours", read.revision)
    assert library.entry(own).tags == ("first",)
    # The same words once more are no loss, and who has read the first ones may replace them.
    library.mark(own, ["first"], "mine", read.revision)
    library.mark(own, ["second"], "yours", library.entry(own).revision)
    assert library.entry(own).note == "yours"


def test_changes_of_many_keep_what_each_has(root: Path):
    library = opened(root)
    both = [identity(library, f"{name}.recording") for name in ("a", "b")]
    library.mark(both[0], ["old"], "note")
    assert library.tag(both, Tagging(("new",), ("old", "other"), "seen")) == 2
    assert [(library.entry(own).tags, library.entry(own).note) for own in both] == [
        (("new",), "note\nseen"),
        (("new",), "seen"),
    ]
    assert library.tag(both, Tagging(("new",))) == 0


def test_marks_follow_a_recording_that_is_moved(root: Path):
    library = opened(root)
    library.mark(identity(library, "a.recording"), ["kept"], "")
    # Of two with the same size and time, neither could be distinguished.
    os.utime(root / "a.recording" / document.FILE_NAME, ns=(1, 1))
    library.refresh()
    (root / "day").mkdir()
    (root / "a.recording").rename(root / "day" / "renamed.recording")
    library.refresh()
    assert [entry.path for entry in library.search("tag:kept").entries] == ["day/renamed.recording"]


@pytest.mark.parametrize("damage", ["header", "page", "cut"])
def test_marks_are_read_from_a_damaged_file_and_from_its_copy(root: Path, damage: str):
    library = opened(root)
    library.mark(identity(library, "a.recording"), ["kept"], "in the copy")
    library.keep_view("mine", {"q": "cc:cubic"})
    library.close()
    # The copy is made at a start; what is written later is in the file alone.
    library = opened(root)
    library.mark(identity(library, "b.recording"), ["late"], "")
    library.close()
    file = root / INDEX_FOLDER / marks.FILE_NAME
    content = bytearray(file.read_bytes())
    where = {"header": slice(0, 100), "page": slice(4096 + 8, 8192), "cut": slice(len(content) // 2, None)}[damage]
    content[where] = b"" if damage == "cut" else b"\xaa" * (where.stop - where.start)
    file.write_bytes(content)
    library = opened(root)
    assert library.entry(identity(library, "a.recording")).note == "in the copy"
    assert list(library.views()) == ["mine"]
    (words,) = library.problems()
    assert "was damaged and is kept as marks.damaged-" in words
    assert len(list(file.parent.glob("marks.damaged-*.sqlite"))) == 1
    library.mark(identity(library, "a.recording"), ["again"], "")
    library.close()
    assert opened(root).problems() == []


def test_an_index_that_is_damaged_while_it_is_used_is_made_again(root: Path):
    library = opened(root)
    library.mark(identity(library, "a.recording"), ["kept"], "")
    index = root / INDEX_FOLDER / "index.sqlite"
    library._databases[0]._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(index.read_bytes())
    content[4096:] = b"\xaa" * (len(content) - 4096)
    index.write_bytes(content)
    library._databases[0]._database.execute("PRAGMA shrink_memory")
    with pytest.raises(UnusableIndexError, match="made again"):
        library.search("title")
    library.refresh()
    assert [entry.path for entry in library.search("tag:kept").entries] == ["a.recording"]


def test_an_index_of_an_older_version_is_made_again_and_its_marks_stay(root: Path):
    folder = root / INDEX_FOLDER
    folder.mkdir()
    with sqlite3.connect(folder / "index.sqlite") as database:
        database.execute("CREATE TABLE entries (id TEXT)")
        database.execute("PRAGMA user_version = 1")
    with sqlite3.connect(folder / marks.FILE_NAME) as database:
        database.execute("CREATE TABLE marks (path TEXT PRIMARY KEY, tags TEXT NOT NULL, note TEXT NOT NULL)")
        database.execute("INSERT INTO marks VALUES ('a.recording', 'old', 'from before')")
    library = opened(root)
    assert library.search("tag:old").entries[0].note == "from before"


def test_a_folder_that_cannot_be_written_is_searched_and_says_that_marks_cannot_be_kept(
    root: Path, tmp_path_factory: pytest.TempPathFactory
):
    (root / INDEX_FOLDER).write_text("a file where the folder would be")
    library = Library([root], elsewhere=lambda _: tmp_path_factory.mktemp("cache") / "index")
    library.refresh()
    assert library.search("title").count == 2
    assert "cannot be kept" in library.problems()[0]
    with pytest.raises(MarksError, match="Allow writing"):
        library.mark(identity(library, "a.recording"), ["new"], "")
    with pytest.raises(MarksError):
        library.keep_view("mine", {"q": ""})


def test_an_index_is_in_memory_where_no_folder_can_be_written(root: Path):
    for name in (INDEX_FOLDER, "cache"):
        (root / name).write_text("a file where the folder would be")
    library = Library([root], elsewhere=lambda _: root / "cache")
    library.refresh()
    assert library.search("kind:recording").count == 2


def test_the_marks_of_a_folder_that_cannot_be_written_are_shown(root: Path, monkeypatch: pytest.MonkeyPatch):
    library = opened(root)
    library.mark(identity(library, "a.recording"), ["kept"], "")
    library.close()

    def refused(folder: Path) -> str:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(marks, "prepare", refused)
    library = Library([root], elsewhere=lambda _: root / "elsewhere")
    library.refresh()
    assert "Permission denied" in library.problems()[0]
    assert [entry.path for entry in library.search("tag:kept").entries] == ["a.recording"]


def test_two_programs_use_one_folder(root: Path):
    one, other = opened(root), opened(root)
    one.mark(identity(one, "a.recording"), ["mine"], "")
    other.tag([identity(other, "a.recording")], Tagging(("yours",)))
    assert one.search("tag=mine tag=yours").count == other.search("tag=mine tag=yours").count == 1


def test_an_index_that_another_program_locks_says_so_and_is_not_removed(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(marks, "BUSY_S", 0.05)
    library = opened(root)
    with sqlite3.connect(root / INDEX_FOLDER / marks.FILE_NAME) as held:
        held.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UnusableIndexError, match="another program uses it"):
            library.mark(identity_without_marks(library), ["new"], "")
    assert library.search("title").count == 2


def identity_without_marks(library: Library) -> str:
    return library.identify(library.roots[0] / "a.recording")


# --- views, orders and suggestions ---


def test_views_are_kept_replaced_and_removed(root: Path):
    library = opened(root)
    library.keep_view("slow", {"q": "rtt>50"})
    library.keep_view("slow", {"q": "rtt>90"})
    library.close()
    library = opened(root)
    assert library.views() == {"slow": {"q": "rtt>90"}}
    library.keep_view("slow", None)
    assert library.views() == {}


def test_several_folders_are_ordered_by_several_keys_as_one(tmp_path: Path):
    roots = [tmp_path / name for name in ("one", "two")]
    for number in range(20):
        variables = {"rtt": f"{number % 3}ms"} if number % 4 else {}
        recording(roots[number % 2], f"{number:02}.recording", title=f"T{number % 5}", batch={"variables": variables})
    library = opened(*roots)
    order = [Order("rtt", descending=True), Order("title"), Order("path", descending=True)]
    found = [entry.path[:2] for entry in library.search("", order=order, limit=50).entries]
    numbers = sorted(range(20), reverse=True)
    numbers.sort(key=lambda number: number % 5)
    numbers.sort(key=lambda number: -(number % 3) if number % 4 else 9)
    assert found == [f"{number:02}" for number in numbers]


def test_a_folder_within_another_is_listed_once(root: Path):
    (root / "uploads").mkdir()
    shutil.copy(CAPTURE, root / "uploads")
    library = opened(root, root / "uploads")
    assert library.search("kind:capture").count == 1


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("tit", ("title:",)),
        ("queue:", ("cake", '"fair queue"')),
        ("queue:fa", ('"fair queue"',)),
        ('(status:complete or queue:"fa', ('"fair queue"',)),
        ("tag:", ("mine",)),
        ("time>", ()),
        ("time:y", ("yesterday",)),
        ("que", ("queue:",)),
        ("", ()),
        ("no such", ()),
    ],
)
def test_what_may_be_typed_is_suggested(tmp_path: Path, search: str, expected: tuple[str, ...]):
    recording(tmp_path, "a.recording", batch={"variables": {"queue": "cake"}})
    recording(tmp_path, "b.recording", batch={"variables": {"queue": "cake"}})
    recording(tmp_path, "c.recording", batch={"variables": {"queue": "fair queue"}})
    library = opened(tmp_path)
    library.mark(identity(library, "a.recording"), ["mine"], "")
    found = suggestions(library, search, len(search))
    assert tuple(text for text, _ in found.options) == expected
    for text, _ in found.options:
        library.search(search[: found.begin] + text + search[found.end :] + (")" if "(" in search else ""))


def test_a_suggestion_replaces_the_word_at_the_cursor(tmp_path: Path):
    recording(tmp_path, "a.recording", batch={"variables": {"queue": "cake"}})
    found = suggestions(opened(tmp_path), "rtt>5 queue:ca title:x", 14)
    assert (found.begin, found.end, found.options) == (12, 14, (("cake", 1),))


# --- stores ---


def test_a_store_has_its_tables_and_their_rows(tmp_path: Path):
    small_stores.write(tmp_path / "s", small_stores.series("octets.tx", [1.0, None, 3.0]))
    (table,) = stores.contents(tmp_path / "s")
    assert (table["table"], table["rows"], table["sites"]) == ("counters", 3, ["dfw01"])
    found = stores.rows(tmp_path / "s", "counters", 1, 1)
    assert found["rows"][0][found["columns"].index("value")] is None
    assert stores.rows(tmp_path / "s", "counters", 3, 10)["rows"] == []


def test_a_table_that_is_none_or_is_damaged_says_so(tmp_path: Path):
    small_stores.write(tmp_path / "s", small_stores.series("octets.tx", [1.0] * 500))
    with pytest.raises(Error, match="'no_table': no table of a store; expected counters"):
        stores.rows(tmp_path / "s", "no_table", 0, 1)
    (part,) = (tmp_path / "s").rglob("*.parquet")
    content = bytearray(part.read_bytes())
    content[4:400] = b"\xff" * 396
    part.write_bytes(content)
    with pytest.raises(Error, match="counters: cannot be read"):
        stores.rows(tmp_path / "s", "counters", 0, 500)

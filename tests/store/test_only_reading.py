"""Who only reads a store locks, writes and finishes nothing, and finds each row once whatever a compaction is at."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from store.s3_server import ObjectStore, object_store
from store.test_writing_parts import rows
from whydrop.store.engines import open_backend
from whydrop.store.files import Files
from whydrop.store.part_frames import Reader
from whydrop.store.store import Store

ENDS = sorted(rows(30)["end_ns"])
NOBODY = 65534

# What changes files. `locked` makes a file and waits for who writes.
_WRITING = ("put", "remove", "move", "sweep", "locked")

Step = Callable[[], object]


def filled(where: str | Path) -> Store:
    store = Store.create(where)
    for first in (1, 11, 21):
        store.add("counters", rows(10, first=first))
    return store


def steps(store: Store) -> list[Step]:
    """The steps of a compaction on the files of a local store, one after the other; none of it is done yet."""
    done: list[Step] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Files, "remove", lambda *given: done.append(lambda: remove(*given)))
        patch.setattr(Files, "move", lambda *given: done.append(lambda: move(*given)))
        store.compact()
    assert store.files.local is not None
    (staged,) = store.files.local.glob("compacting/*/*/*.parquet")
    aside = staged.rename(store.files.local / ".aside")
    return [lambda: aside.rename(staged), *done]


remove, move = Files.remove, Files.move


def ends(found: pl.DataFrame) -> list[int]:
    return sorted(found["end_ns"])


def found_by_all(where: str | Path) -> None:
    """Every reader finds each row once, and says nothing of damage."""
    store = Store.open(where)
    assert ends(store.scan("counters").collect()) == ENDS
    assert ends(store.read("counters", lambda every: every, ["2018-02-11"])) == ENDS
    (contents,) = store.contents()
    assert (contents.rows, contents.days, contents.sites) == (30, {"2018-02-11"}, {"dfw01"})
    with open_backend(where) as backend:
        found = backend.run(backend.table("counters", "2018-02-11", "2018-02-11").select("end_ns", "day"))
        assert ends(found) == ENDS
        assert set(found["day"]) == {"2018-02-11"}
        assert backend.rows_of_days("counters")["2018-02-11"] > 0
        assert (store.notes, backend.notes) == ([], [])


def files_below(root: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(root.rglob("*"))}


def test_wherever_a_compaction_was_cut_short_each_row_is_read_once_and_nothing_is_written(tmp_path: Path) -> None:
    todo = steps(filled(tmp_path))
    for step in [lambda: None, *todo]:
        step()
        before = files_below(tmp_path)
        with pytest.MonkeyPatch.context() as patch:
            for name in _WRITING:
                patch.setattr(Files, name, refused)
            found_by_all(tmp_path)
        assert files_below(tmp_path) == before
    assert len(todo) == 5, "a new part, three that it replaces, and its place"


def refused(*_: object, **__: object) -> None:
    raise AssertionError("who only reads has changed or locked something")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else for a while")
def test_who_may_not_write_reads_what_a_compaction_has_begun(tmp_path: Path) -> None:
    filled(tmp_path)
    found_by_all(tmp_path)  # what is imported late may be where only root can read
    root = Path(tempfile.mkdtemp())
    try:
        for step in steps(filled(root))[:3]:
            step()
        root.chmod(0o755)
        os.seteuid(NOBODY)
        try:
            with pytest.raises(PermissionError):
                (root / "counters" / ".lock").open("ab")
            found_by_all(root)
        finally:
            os.seteuid(0)
    finally:
        shutil.rmtree(root)


class Underway:
    """A compaction that begins before the ``first`` look of a reader with some steps at once, and then goes on."""

    def __init__(self, store: Store, first: int, at_once: int) -> None:
        self.todo, self.first, self.at_once, self.looks = steps(store), first, at_once, 0

    def go_on(self) -> None:
        self.looks += 1
        for _ in range(self.at_once if self.looks == self.first else self.looks > self.first):
            if self.todo:
                self.todo.pop(0)()

    def before(self, function: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            self.go_on()
            return function(*given, **named)

        return call


_LOOKS = ((Files, "sizes"), (Reader, "is_sound"), (Reader, "footer"), (Reader, "lazy"))


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 2, 4, 5])
@pytest.mark.parametrize("what", ["rows", "contents"])
def test_a_compaction_that_goes_on_while_it_is_read_shows_each_row_once(
    tmp_path: Path, what: str, at_once: int
) -> None:
    whole = tmp_path / "whole"
    filled(whole)
    for first in range(1, 100):
        root = tmp_path / str(first)
        shutil.copytree(whole, root)
        store = Store.open(root)
        compaction = Underway(store, first, at_once)
        with pytest.MonkeyPatch.context() as patch:
            for owner, name in _LOOKS:
                patch.setattr(owner, name, compaction.before(getattr(owner, name)))
            if what == "rows":
                # The query is made before the files are opened.
                assert ends(store.read("counters", compaction.before(lambda every: every))) == ENDS, first
            else:
                assert [of.rows for of in store.contents()] == [30], first
        assert store.notes == [], first
        if compaction.looks < first:
            return
    raise AssertionError("the reader never came to an end before the compaction began")


def test_an_engine_finds_each_row_once_when_day_after_day_is_compacted_under_it(tmp_path: Path) -> None:
    store = filled(tmp_path)
    for first in (8641, 8646):
        store.add("counters", rows(5, first=first))
    with open_backend(tmp_path) as backend:
        table = backend.table("counters")
        fetch, days = backend._fetch, ["2018-02-12", "2018-02-13"]  # type: ignore[attr-defined]

        def compacted_before(query: str) -> object:
            if days:
                store.compact("counters", before=days.pop(0))
            return fetch(query)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backend, "_fetch", compacted_before)
            assert backend.run(table.select("end_ns")).height == 40


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "anything")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with object_store() as server:
        yield server


class History(dict[str, bytes]):
    """Objects, and what was there after each change."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        super().__init__(objects)
        self.states = [dict(objects)]

    def __setitem__(self, key: str, content: bytes) -> None:
        super().__setitem__(key, content)
        self.states.append(dict(self))

    def pop(self, key: str, *default: Any) -> Any:
        found = super().pop(key, *default)
        self.states.append(dict(self))
        return found


@pytest.mark.slow
def test_in_an_object_store_too_each_row_is_read_once_and_no_reader_writes(server: ObjectStore) -> None:
    where = server.uri("telemetry")
    store = filled(where)
    server.objects = history = History(server.objects)
    store.compact()
    states = [state for state, before in zip(history.states, [{}, *history.states], strict=False) if state != before]
    # At first; the new part; three that it replaces; its copy in its place; without itself. And Arrow's own folders.
    assert len(states) >= 7
    for state in states:
        server.objects = dict(state)
        server.requests.clear()
        found_by_all(where)
        assert server.objects == state
        assert {request.partition(" ")[0] for request in server.requests} <= {"GET", "HEAD"}

"""A study into the folder of another leaves none of its files, and touches none that are not ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from studies.made_results import results
from whydrop.runtime import durable
from whydrop.studies.discards import document
from whydrop.studies.discards.results import TABLES
from whydrop.studies.discards.study import Results
from whydrop.studies.study_files import Folder


def only(*tables: str) -> Results:
    """Results of which these tables alone have rows."""
    return results(**{name: [] for name in TABLES if name not in tables})


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def written(folder: Path, *names: str) -> Folder:
    """A folder into which a study wrote these names, each with its own name as content."""
    into = Folder(folder)
    for name in names:
        into.write(name, lambda path, name=name: path.write_text(name))
    into.finish()
    return into


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures without an engine that draws them."""
    monkeypatch.setattr("whydrop.show.writing.rendered", lambda facets, kind: f"{facets.key}, {kind}".encode())


@pytest.mark.usefixtures("quick")
def test_a_study_in_other_formats_leaves_only_its_own_files(tmp_path: Path) -> None:
    document.write(only("contact_days"), tmp_path, ["svg", "csv"])
    second = Folder(tmp_path)
    made = document.write(only("contact_days"), second, ["parquet"])
    assert files(tmp_path) == {path.relative_to(tmp_path).as_posix() for path in made}
    assert not (tmp_path / "figures").exists()
    assert {"figures/contact_days.svg", "tables/plot.csv"} < set(second.removed)
    assert second.left == []


@pytest.mark.usefixtures("quick")
def test_a_figure_that_has_no_rows_any_more_is_not_there_any_more(tmp_path: Path) -> None:
    document.write(only("contact_days", "utilisation"), tmp_path, ["svg"])
    assert (tmp_path / "figures" / "utilisation.svg").exists()
    document.write(only("contact_days"), tmp_path, ["svg"])
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["contact_days.svg"]


def test_the_same_study_again_removes_nothing(tmp_path: Path) -> None:
    names = ("tables/plot.csv", "report.html")
    written(tmp_path, *names)
    again = written(tmp_path, *names)
    assert (again.removed, again.left, files(tmp_path)) == ([], [], {*names, "study.json"})


def test_files_of_others_are_never_touched(tmp_path: Path) -> None:
    written(tmp_path, "tables/plot.csv", "figures/overlay.svg", "report.html")
    changed, own, other = tmp_path / "figures/overlay.svg", tmp_path / "tables/contacts.csv", tmp_path / "notes.txt"
    for path in (changed, own, other):
        path.write_text("a person wrote this")
    again = written(tmp_path, "tables/plot.parquet")
    assert [path.read_text() for path in (changed, own, other)] == ["a person wrote this"] * 3
    assert again.removed == ["report.html", "tables/plot.csv"]
    # Files with names of the study are reported; others do not matter here.
    assert again.left == ["figures/overlay.svg", "tables/contacts.csv"]


def test_a_list_of_files_elsewhere_has_nothing_removed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "report", tmp_path / "outside.csv"
    written(folder, "tables/plot.csv")
    outside.write_text("tables/plot.csv")
    document = json.loads((folder / "study.json").read_text())
    digests = document["files"]["tables/plot.csv"]
    hostile = dict.fromkeys(("../outside.csv", str(outside), "tables/../../outside.csv"), digests)
    (folder / "study.json").write_text(json.dumps({"files": hostile}))
    assert written(folder, "report.html").removed == []
    assert outside.exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"files": 3}', '{"files": {"report.html": [1, null]}}', "[" * 100_000]
)
def test_without_a_list_that_can_be_read_files_are_named_and_kept(tmp_path: Path, text: str) -> None:
    written(tmp_path, "report.html")
    (tmp_path / "study.json").write_text(text)
    again = written(tmp_path, "tables/plot.csv")
    assert (again.removed, again.left) == ([], ["report.html"])
    assert (tmp_path / "report.html").exists()


def test_a_link_is_not_ours(tmp_path: Path) -> None:
    written(tmp_path, "tables/plot.csv")
    path = tmp_path / "tables" / "plot.csv"
    path.rename(tmp_path / "kept.csv")
    path.symlink_to(tmp_path / "kept.csv")
    assert written(tmp_path, "report.html").left == ["tables/plot.csv"]
    assert path.read_text() == "tables/plot.csv"


class Crash(BaseException):
    """Ends the process where it stands: nothing is tidied up."""


def crashing(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Let the ``at``-th step that changes what is on the disk, and all behind it, not happen."""
    steps = iter(range(1, 1000))

    def step(does: Callable[..., object]) -> Callable[..., object]:
        def done(*arguments: object, **more: object) -> object:
            if next(steps) >= at:
                raise Crash
            return does(*arguments, **more)

        return done

    for owner, name in ((durable, "sync"), (durable, "sync_folder"), (Path, "replace"), (Path, "unlink")):
        monkeypatch.setattr(owner, name, step(getattr(owner, name)))


@pytest.mark.slow
def test_whatever_a_crash_leaves_is_cleared_by_the_next_study(tmp_path: Path) -> None:
    crashed = 0
    for at in range(1, 100):
        folder = tmp_path / str(at)
        written(folder, "tables/plot.csv")
        (folder / "figures").mkdir()
        (folder / "figures" / "overlay.svg").write_text("a person drew this")
        with pytest.MonkeyPatch.context() as patched:
            crashing(patched, at)
            try:
                written(folder, "tables/contacts.csv", "report.html")
            except Crash:
                crashed += 1
            else:
                break
        written(folder, "tables/plot.parquet")
        assert files(folder) == {"study.json", "tables/plot.parquet", "figures/overlay.svg"}, at
    # Every step was tried, and the last of them is the end.
    assert 20 < crashed < 90


def test_a_study_that_was_not_finished_says_so(tmp_path: Path) -> None:
    into = Folder(tmp_path, {"parameters": {"title": "mine"}})
    into.write("tables/plot.csv", lambda path: path.write_text("x"))
    document = json.loads((tmp_path / "study.json").read_text())
    assert (document["finished"], document["parameters"]) == (False, {"title": "mine"})
    assert len(document["files"]["tables/plot.csv"]) == 1
    into.finish()
    assert json.loads((tmp_path / "study.json").read_text())["finished"] is True

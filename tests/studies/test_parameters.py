"""The study's parameters, as files and as settings on the command line."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whydrop.runtime.user_files.problems import FileError
from whydrop.studies.discards import parameters
from whydrop.studies.discards.parameters import Parameters


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(text)
    return path


def _mistakes(path: Path | None, settings: tuple[str, ...] = ()) -> list[str]:
    with pytest.raises(FileError) as found:
        parameters.read(path, settings)
    return str(found.value).splitlines()


def test_the_example_holds_the_defaults(tmp_path: Path) -> None:
    assert parameters.read(_file(tmp_path, parameters.example())) == Parameters()


def test_the_example_names_every_key(tmp_path: Path) -> None:
    def keys(model: type, lead: str = "") -> list[str]:
        found = []
        for name, field in model.model_fields.items():  # type: ignore[attr-defined]
            inner = [
                part
                for part in (field.annotation, *getattr(field.annotation, "__args__", ()))
                if hasattr(part, "model_fields")
            ]
            found += keys(inner[0], f"{lead}{name}.") if inner else [name]
        return found

    for key in keys(Parameters):
        assert key in parameters.example(), key


def test_a_file_says_what_it_changes_and_nothing_else(tmp_path: Path) -> None:
    found = parameters.read(_file(tmp_path, "metros = []\n[change]\nafter = {first = 2018-04-01, last = 2018-04-15}\n"))
    assert found.metros == ()
    assert found.change is not None
    assert found.change.after.first == date(2018, 4, 1)
    assert found.change.before == Parameters().change.before  # type: ignore[union-attr]


def test_as_published_means_the_published_limit_unless_the_file_says_another(tmp_path: Path) -> None:
    published = ('definitions="published"',)
    assert parameters.read(None, published).tests.most_duration_s == 600
    assert parameters.read(_file(tmp_path, parameters.example()), published).tests.most_duration_s == 600
    assert parameters.read(_file(tmp_path, "[tests]\nmost_duration_s = 60"), published).tests.most_duration_s == 60


def test_every_mistake_of_a_file_is_reported_with_its_line(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        'metros = "dfw"\n\n[change]\nsignificance = 2\nsignificanse = 0.01\n'
        "[change.before]\nfirst = 2018-03-01\nlast = 2018-02-01\n",
    )
    lines = _mistakes(path)
    assert lines[0].startswith(f"{path}:1: metros: 'dfw'")
    assert any(line.startswith(f"{path}:4: change.significance: 2") for line in lines)
    assert f"{path}:5: change.significanse: no such key; did you mean significance?" in lines
    assert any(line.startswith(f"{path}:6: change.before: last (2018-02-01) is before first") for line in lines)


def test_periods_that_overlap_are_refused(tmp_path: Path) -> None:
    (line,) = _mistakes(_file(tmp_path, "[change]\nafter = {first = 2018-02-20, last = 2018-04-15}\n"))
    assert ":1: change: after.first (2018-02-20) is not after before.last (2018-02-25)" in line


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("seed", "--set: 'seed': expected KEY=VALUE, such as change.significance=0.05"),
        ("sede=1", "--set: sede: no such key; did you mean seed?"),
        ("port.name=uplink", "--set: port: is 'uplink', which has no keys of its own"),
        ("change.significance=x", "--set: change.significance: 'x':"),
        ("metros=dfw", """--set: metros: 'dfw': expected a list, such as ["dfw", "lga"]"""),
        ("watch.window_s=inf", "--set: watch.window_s: inf:"),
        ("watch.window_s=1e300", "--set: watch.window_s: 1e+300:"),
        ("tests.most_duration_s=1e300", "--set: tests.most_duration_s: 1e+300:"),
        ("bin_s=100000000000000000000", "--set: bin_s: 100000000000000000000:"),
        ("seed=-1", "--set: seed: -1:"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_reported_as_such(setting: str, message: str, tmp_path: Path) -> None:
    (line,) = _mistakes(_file(tmp_path, 'port = "uplink"\n'), (setting,))
    assert line.startswith(message)


@pytest.mark.parametrize("end", ["days.last=9999-12-31", "change.before.first=0001-01-01", "days.first=1969-12-31"])
def test_days_that_no_store_can_hold_are_refused(end: str) -> None:
    with pytest.raises(FileError, match="expected days from 1970-01-01 to 2261-12-31"):
        parameters.read(None, (end,))


def test_settings_win_over_the_file(tmp_path: Path) -> None:
    path = _file(tmp_path, 'title = "file"\nseed = 3\n')
    found = parameters.read(path, ("title=Mine, with spaces", "days.last=2018-01-01", 'metros=["ams"]'))
    assert (found.title, found.seed, found.days.last, found.metros) == (
        "Mine, with spaces", 3, date(2018, 1, 1), ("ams",),
    )  # fmt: skip


def test_a_study_can_do_without_a_change(tmp_path: Path) -> None:
    assert parameters.read(_file(tmp_path, "change = false")).change is None
    assert parameters.read(None, ("change=false",)).change is None


def test_a_file_that_is_missing_or_no_toml_is_reported_in_one_line(tmp_path: Path) -> None:
    (missing,) = _mistakes(tmp_path / "none.toml")
    assert "No such file or directory; expected a file in TOML" in missing
    (line,) = _mistakes(_file(tmp_path, "seed = \n"))
    assert ":1: not TOML" in line


@given(st.text(max_size=60))
def test_no_setting_ends_in_anything_but_parameters_or_a_reported_mistake(setting: str) -> None:
    try:
        assert isinstance(parameters.read(None, (setting,)), Parameters)
    except FileError as reason:
        assert reason.problems  # noqa: PT017 (either end is right)

"""Output of the commands where a terminal, a locale or a disk is not as one would wish."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import recordings
from example_files import Run
from whydrop.runtime import durable
from whydrop.show import terminal
from whydrop.show.document import Column, Document, Table

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with markup in its title and in names of flows."""
    tables = recordings.tables()
    tables["flows"] = tables["flows"].with_columns(name=pl.col("name") + " [red]x[/blue] :smile:")
    folder = tmp_path_factory.mktemp("marked") / "a.recording"
    recordings.write(folder, tables, title="[/bold] :tada:")
    return folder


def test_names_that_look_like_markup_are_printed_as_they_are(run: Run, marked: Path, tmp_path: Path) -> None:
    second = tmp_path / "b.recording"
    recordings.rrul(second, title="[b]", scale=2.0)
    for command in (["show", marked], ["stats", marked, second], ["compare", marked, second]):
        done = run(*command)
        assert done.returncode == 0, done.stderr
        assert "[/bold] :tada:" in done.stdout
    assert "[red]x[/blue] :smile:" in run("stats", marked).stdout


def test_a_comparison_is_printed_where_the_locale_knows_ascii_only(marked: Path, tmp_path: Path) -> None:
    recordings.rrul(tmp_path / "b.recording", title="µ…", scale=2.0)
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "whydrop", "compare", str(marked), str(tmp_path / "b.recording")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Goodput" in done.stdout


@pytest.mark.parametrize(
    "command", [["--help"], ["--version"], ["tests"], ["show", "a"], ["stats", "a"], ["metadata", "a"]]
)
def test_a_full_disk_behind_standard_output_ends_in_one_line(command: list[str], tmp_path: Path) -> None:
    recordings.rrul(tmp_path / "a")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "whydrop", *command],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "whydrop: the output cannot be written: No space left on device\n"


def test_a_picture_that_cannot_be_written_leaves_what_was_there_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    place = tmp_path / "a.png"
    place.write_bytes(b"before")
    monkeypatch.setattr(durable, "sync", full)
    with pytest.raises(OSError, match="No space left") as reason:
        durable.write_bytes(place, b"half of the picture")
    assert reason.value.filename == str(place)
    assert place.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [place]


def test_a_narrow_terminal_has_fewer_columns_and_cuts_no_word() -> None:
    columns = (Column("Measured"), Column("Effect", rank=1), Column("Value", number=True))
    rows = (("Goodput, sum of downloads", "large (δ -0.77)", "123456789"), ("Latency", "small", "0.0000123"))
    for width in (30, 40, 60, 200):
        printed = io.StringIO()
        terminal.print_document(Document("", (Table("", columns, rows),)), terminal.Output(file=printed, width=width))
        text = printed.getvalue()
        assert all(word in text for row in rows for word in (*row[0].split(), row[2]))
        assert ("Columns left out" in " ".join(text.split())) == ("large" not in text) == (width < 60)
        assert max(map(len, text.splitlines())) <= width

"""Mistakes of users, and their haste, in every command: one clear line and the right exit status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import recordings
from example_files import POLICED, ROOT, Run
from whydrop.cli.commands import COMMANDS
from whydrop.formats import files
from whydrop.recording.errors import RecordingError


@pytest.fixture
def run(run_here: Run) -> Run:
    """The program within this process."""
    return run_here


@pytest.fixture(scope="module")
def rrul(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rrul") / "rrul.recording"
    recordings.rrul(folder)
    return folder


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize("command", ["show", "plot", "stats", "metadata", "import"])
def test_a_capture_given_for_a_recording_is_called_one_and_explain_named(run: Run, command: str) -> None:
    assert one_line(run(command, POLICED)) == (
        f"whydrop: {POLICED}: a capture of packets, no recording: try `whydrop explain`\n"
    )


@pytest.mark.parametrize(
    "head", ["a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "a1b2cd34", "34cdb2a1", "0a0d0d0a", "28b52ffd", "04224d18"]
)
def test_captures_are_known_by_their_first_bytes(tmp_path: Path, head: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes.fromhex(head) + bytes(24))
    with pytest.raises(RecordingError, match="a capture of packets, no recording: try `whydrop explain`"):
        files.parsed(files.read(path), path)


@pytest.mark.parametrize("arguments", [["explain"], ["explain", "--json"], ["match", POLICED]])
def test_a_recording_given_for_a_capture_is_called_one_and_show_named(
    run: Run, rrul: Path, arguments: list[str | Path]
) -> None:
    # A whole recording is explained; matched are only captures.
    whole = (rrul, rrul / "recording.json") if arguments[0] == "match" else ()
    for path in (*whole, rrul / "flows.parquet"):
        said = one_line(run(*arguments, path))
        assert said == f"whydrop: {path}: a recording of a test, not a capture of packets: try `whydrop show`\n"


def test_a_test_without_hosts_says_how_to_name_one(run: Run) -> None:
    done = run("run", "rrul")
    assert done.returncode == 2
    assert "name each with --to, such as --to server.example" in done.stderr


@pytest.mark.parametrize("command", ["compare", "stats", "plot", "tests"])
def test_ctrl_c_ends_any_command_with_the_status_of_a_signal_from_its_first_moment_on(rrul: Path, command: str) -> None:
    # A module that takes long to be imported, as from a slow disk.
    script = "import time; from whydrop.cli import commands; "
    script += "commands.import_module = lambda name: (print('importing', flush=True), time.sleep(600)); "
    script += f"commands.whydrop([{command!r}, {str(rrul)!r}])"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert (process.returncode, said) == (130, "whydrop: stopped\n")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["show --all", "stats", "compare {0}", "metadata", "plot --format csv --output -"])
def test_a_reader_that_stops_early_is_no_mistake_of_any_command(rrul: Path, command: str) -> None:
    whole = f"{sys.executable} -m whydrop {command.format(rrul)} {rrul} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", whole], capture_output=True, text=True, cwd=ROOT, timeout=600, check=False)
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr
    assert done.returncode == 0


def help_of(command: str, columns: int) -> str:
    """The output of `--help` on a terminal so wide, made within this process."""
    from whydrop.cli.commands import whydrop

    # Click leaves two columns free, but not of a width that it is given.
    words = [*command.split(), "--help"]
    done = CliRunner().invoke(whydrop, words, prog_name="whydrop", terminal_width=columns - 2)
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_the_terminal_and_has_examples_that_fit_80_columns(command: str, columns: int) -> None:
    text, examples, lines = help_of(command, columns).partition("Example")
    assert examples
    assert {line for line in text.splitlines() if len(line) > columns} == set()
    assert {line for line in lines.splitlines() if len(line) > 80} == set()


@pytest.mark.parametrize("columns", [60, 80])
def test_help_is_as_wide_as_the_terminal_is(columns: int) -> None:
    words = [sys.executable, "-m", "whydrop", "run", "--help"]
    environment = {**os.environ, "COLUMNS": str(columns)}
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.stdout == help_of("run", columns)


@pytest.mark.parametrize("command", ["show", "stats", "plot"])
def test_a_recording_that_was_not_copied_whole_is_not_taken_for_one_that_measured_nothing(
    run: Run, tmp_path: Path, command: str
) -> None:
    recordings.rrul(tmp_path / "a.recording")
    (tmp_path / "a.recording" / "flows.parquet").unlink()
    assert "flows.parquet is missing; according to recording.json it has" in one_line(
        run(command, tmp_path / "a.recording")
    )


@pytest.mark.slow
def test_a_picture_of_an_unknown_kind_is_refused_rather_than_called_what_it_is_not(
    run: Run, rrul: Path, tmp_path: Path
) -> None:
    done = run("plot", rrul, "--output", tmp_path / "x.gif")
    assert done.returncode == 2
    assert "expected .png, .svg" in " ".join(done.stderr.split())
    assert not (tmp_path / "x.gif").exists()
    assert run("plot", rrul, "--output", tmp_path / "x.gif", "--format", "png").returncode == 0


def test_a_name_that_is_like_no_test_is_answered_in_whole_sentences(run: Run) -> None:
    done = run("tests", "zzzzzzzz")
    assert done.returncode == 2
    assert "`whydrop tests` lists them. If you mean a file, give its path" in done.stderr


@pytest.mark.slow
def test_charts_are_written_though_the_text_goes_to_a_program_that_reads_one_line(tmp_path: Path):
    folder = tmp_path / "charts"
    line = f"{sys.executable} -m whydrop explain {POLICED} --charts {folder} -f svg | head -1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.startswith("A policer at")
    assert len(list(folder.glob("*.svg"))) > 8

"""``whydrop plot`` as a user runs it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import recordings

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plots")
    recordings.rrul(folder / "a.recording", title="first")
    recordings.rrul(folder / "b.recording", title="second", scale=2.0)
    return folder


@pytest.mark.slow
def test_without_arguments_the_default_plot_is_drawn_and_it_is_said_where(
    folder: Path, run: Run, tmp_path: Path
) -> None:
    done = run("plot", folder / "a.recording", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Goodput and latency: a.html\n"
    assert "Drawn: " in done.stderr
    assert "<script" in (tmp_path / "a.html").read_text()


def test_numbers_go_to_standard_output(folder: Path, run_here: Run) -> None:
    done = run_here("plot", folder / "a.recording", "--plot", "ping_cdf", "--format", "json", "--output", "-")
    assert json.loads(done.stdout)["plot"] == "ping_cdf"


def test_the_list_has_the_plots_that_apply(folder: Path, run_here: Run) -> None:
    done = run_here("plot", "list", folder / "a.recording")
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert names[:2] == ["all", "all_scaled"]
    assert "ping_cdf" in names
    assert "http_delay" not in names


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["missing.recording"], 1, "missing.recording: there is no such file"),
        (["a.recording", "--plot", "pingcdf"], 2, "did you mean 'ping_cdf'"),
        (["a.recording", "--plot", "http_delay"], 1, "nothing to draw for http_delay"),
        (["a.recording", "--plot", "none.toml"], 1, "none.toml: No such file"),
        (["a.recording", "--reduce", "meen"], 2, "did you mean 'mean'"),
        (["a.recording", "--size", "big"], 2, "such as 1200x800"),
        (["a.recording", "--zoom", "95:5"], 2, "such as 5:95"),
        (["a.recording", "--output", "no/such/x.png"], 2, "there is no folder"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    folder: Path, run_here: Run, arguments: list[str], status: int, said: str
) -> None:
    done = run_here("plot", *arguments, cwd=folder)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_users_file_draws_all_of_its_plots(folder: Path, run_here: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[one]\nparent = "ping"\n[two]\nparent = "ping_cdf"\n')
    done = run_here(
        "plot", folder / "a.recording", folder / "b.recording", "-p", "./mine.toml", "--format", "csv", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.glob("*.csv")} == {"a-and-1-more-one.csv", "a-and-1-more-two.csv"}

"""docs/python.md: its examples run, and its table has a function for each command."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import get_args

import pytest

import whydrop
from whydrop.cli.commands import COMMANDS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "python.md"
# Completion is for a shell, the page for a browser.
NOT_FOR_PYTHON = {"completion", "mcp", "web"}


@pytest.mark.slow
def test_the_examples_of_the_page_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, tried = doctest.testfile(
        str(PAGE),
        module_relative=False,
        globs={"folder": tmp_path},
        optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL,
        parser=_Fenced(),
    )
    assert failed == 0
    assert tried > 20


class _Fenced(doctest.DocTestParser):
    """Examples in Markdown end with the fence, not with an empty line."""

    def parse(self, string: str, name: str = "<string>") -> list[str | doctest.Example]:
        return super().parse(string.replace("\n```", "\n\n"), name)


def test_every_command_has_a_function():
    rows = dict(re.findall(r"^\| `([a-z]+)` \| (.*?) \|", PAGE.read_text("utf-8"), re.M))
    assert [name for name in COMMANDS if name not in {*rows, *NOT_FOR_PYTHON}] == []
    for command, functions in rows.items():
        named = re.findall(r"whydrop\.(\w+)\(", functions)
        assert named, command
        assert [name for name in named if not callable(getattr(whydrop, name, None))] == []


def test_every_public_name_is_on_the_page_or_belongs_to_what_is_returned():
    page = PAGE.read_text("utf-8")
    functions = [name for name in whydrop.__all__ if name.islower() and not name.startswith("_")]
    assert [name for name in functions if f"whydrop.{name}(" not in page] == []


def test_the_causes_are_those_of_the_engine():
    engine = re.findall(r'^\s+\w+ = "([a-z-]+)",$', (ROOT / "crates/verdict/src/cause.rs").read_text("utf-8"), re.M)
    assert len(engine) > 20
    assert set(get_args(whydrop.Cause)) == set(engine)


def test_every_public_name_can_be_loaded():
    assert [name for name in whydrop.__all__ if getattr(whydrop, name, None) is None] == []

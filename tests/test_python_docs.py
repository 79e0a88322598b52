"""docs/python.md says what is so: its examples are run, against a responder on this machine."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import get_args

import pytest

import whydrop
from running.responders import responder

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_examples_of_the_page_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with responder() as far:
        failed, tried = doctest.testfile(
            str(ROOT / "docs" / "python.md"),
            module_relative=False,
            globs={"port": far.port, "folder": tmp_path},
            optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL,
            parser=_Fenced(),
        )
    assert failed == 0
    assert tried > 20


class _Fenced(doctest.DocTestParser):
    """Examples in Markdown end with the fence, not with an empty line."""

    def parse(self, string: str, name: str = "<string>") -> list[str | doctest.Example]:
        return super().parse(string.replace("\n```", "\n\n"), name)


def test_every_public_name_is_on_the_page_or_belongs_to_what_is_returned():
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    functions = [name for name in whydrop.__all__ if name.islower() and not name.startswith("_")]
    assert [name for name in functions if f"whydrop.{name}(" not in page] == []


def test_the_causes_are_those_of_the_engine():
    engine = re.findall(r'^\s+\w+ = "([a-z-]+)",$', (ROOT / "crates/verdict/src/cause.rs").read_text("utf-8"), re.M)
    assert len(engine) > 20
    assert set(get_args(whydrop.Cause)) == set(engine)


def test_every_public_name_can_be_loaded():
    assert [name for name in whydrop.__all__ if getattr(whydrop, name, None) is None] == []

"""The documents of tests and batches say what the schemas say, and their examples work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from catalogue_tables import DOCS, filled, sections

from whydrop.measure.batch.batch_file import read
from whydrop.measure.batch.expanding import Wanted, expand_runs
from whydrop.measure.batch.one_run import times_s
from whydrop.measure.tests import check


@pytest.mark.parametrize("name", ["writing-tests.md", "batches.md"])
def test_the_tables_are_those_of_the_schemas(name: str) -> None:
    text = (DOCS / name).read_text()
    assert filled(text) == text, "write them again: .venv/bin/python tests/catalogue/catalogue_tables.py"


def test_every_part_of_the_schemas_is_in_a_document() -> None:
    text = "".join((DOCS / name).read_text() for name in ("writing-tests.md", "batches.md"))
    assert all(f"<!-- generated: {part} -->" in text for part in sections())


def example(name: str, first_line: str) -> str:
    """The indented block that begins with a line, up to the commands."""
    text = (DOCS / name).read_text()
    block = re.search(rf"^    {re.escape(first_line)}\n((?:    .*\n|\n)*?)(?=    \$ )", text, re.MULTILINE)
    assert block is not None
    return re.sub(r"^    ", "", block[0], flags=re.MULTILINE)


def test_the_example_of_a_test_is_well_formed(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(example("writing-tests.md", "# mine.toml"))
    assert check(path) == []


def test_the_example_of_a_batch_can_be_planned(tmp_path: Path) -> None:
    path = tmp_path / "queues.toml"
    path.write_text(example("batches.md", "# queues.toml"))
    runs = expand_runs(read([path]), Wanted(time="T"))
    assert len(runs) == 2 * 2 * 5
    assert set(times_s(runs).values()) == {73.0}

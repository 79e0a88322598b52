"""docs/flent-parity.md names tests as proof, and they are there."""

from __future__ import annotations

import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
DOCUMENT = (TOP / "docs" / "flent-parity.md").read_text("utf-8")


def test_every_test_of_ours_that_proves_a_row_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.py)::(test_\w+)`", DOCUMENT))
    assert len(named) > 100
    for file, name in sorted(named):
        assert f"\ndef {name}(" in (TOP / "tests" / file).read_text("utf-8"), f"{file}::{name}"


def test_every_test_of_the_engine_that_proves_a_row_exists() -> None:
    named = set(re.findall(r"`(traffic|sockets|host)::(\w+)`", DOCUMENT))
    for crate in ("traffic", "sockets", "host"):
        written = "".join(path.read_text("utf-8") for path in sorted((TOP / "crates" / crate).rglob("*.rs")))
        ours = {name for where, name in named if where == crate}
        assert ours
        assert {name for name in ours if f"fn {name}(" not in written} == set()


def test_no_test_is_named_without_its_file() -> None:
    assert re.findall(r"`test_\w+`", DOCUMENT) == []


def test_every_row_has_as_many_cells_as_its_heading() -> None:
    columns = 0
    for line in DOCUMENT.splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line))
        if line.startswith("|"):
            assert cells == (columns or cells), line
        columns = cells if line.startswith("|") else 0

"""The example captures yield the documents and texts that are kept."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import pytest

import golden
import snapshots


@pytest.mark.parametrize("example", golden.EXAMPLES, ids=golden.name_of)
def test_an_example_yields_its_golden_document(example: tuple[Path, ...]):
    wanted = json.loads(golden.path_of(example).read_text(encoding="utf-8"))
    found = list(golden.differences(wanted, golden.document_of(example)))
    assert not found, "\n".join(
        [f"{golden.path_of(example).name} differs. If the change is wanted: make golden, and read the diff.", *found]
    )


def test_a_difference_is_named_with_its_place():
    wanted = {"a": [1.0, {"b": "x"}], "c": 1}
    assert list(golden.differences(wanted, {"a": [1.0 + 1e-9, {"b": "y"}], "d": 2})) == [
        "document.a[1].b: 'x' wanted, 'y' found",
        "document.c: missing",
        "document.d: new",
    ]


@pytest.mark.slow
def test_help_output_errors_and_public_names_are_as_in_their_snapshots():
    kept = {
        path.relative_to(golden.FOLDER).as_posix(): path.read_text(encoding="utf-8")
        for path in golden.FOLDER.glob("*/*.txt")
    }
    found = snapshots.all_snapshots()
    changed = [
        "".join(difflib.unified_diff(*(_lines(texts, name) for texts in (kept, found)), name, name))
        for name in sorted({*kept, *found})
    ]
    advice = "The text differs from its snapshot. If the change is wanted: make golden, and read the diff.\n"
    assert kept == found, advice + "".join(changed)


def _lines(texts: dict[str, str], name: str) -> list[str]:
    return texts.get(name, "").splitlines(keepends=True)

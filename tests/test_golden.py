"""The example captures yield the documents that are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import golden


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

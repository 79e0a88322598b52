"""Each document that a test makes is checked for what cannot be, whatever the test is about.

Taken are those made in this process, and those that the program of the fixture ``run`` prints. A test with documents
written by hand says ``@pytest.mark.made_up``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from lab.batch import INSIDE
from plausibility import absurdities

_taken: list[dict[str, Any]] = []


def pytest_configure() -> None:
    """Take each document as it is completed; in the virtual machine, where importing takes long, none."""
    if INSIDE in os.environ:
        return
    from whydrop.explaining import completing

    complete = completing.document

    def document(found: Mapping[str, Any]) -> dict[str, Any]:
        completed = complete(found)
        # Where the words are there already, a test has made the document up.
        if not any("sentence" in verdict for verdict in found["verdicts"]):
            _taken.append(completed)
        return completed

    completing.document = document


def take_output(text: str | bytes | None) -> None:
    """Take the document that a program has printed, if it is one."""
    try:
        printed = json.loads(text or "")
    except ValueError:
        return
    if isinstance(printed, dict) and {"captures", "flows", "transfers", "verdicts"} <= printed.keys():
        _taken.append(printed)


@pytest.fixture(autouse=True)
def plausible(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that has made a document of what cannot be."""
    yield
    taken = _taken.copy()
    _taken.clear()
    if request.node.get_closest_marker("made_up") is None:
        found = [one for document in taken for one in absurdities(document)]
        assert not found, "\n".join(["This cannot be:", *found])

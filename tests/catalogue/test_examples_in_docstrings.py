"""The examples in the docstrings of tests and batches run."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = (
    "whydrop.cli.aligned",
    "whydrop.sources.batch.expanding",
    "whydrop.sources.places",
    "whydrop.sources.batch.toml_writing",
    "whydrop.sources.batch.variables",
    "whydrop.sources.tests",
    "whydrop.sources.tests.expressions",
    "whydrop.sources.tests.lines",
    "whydrop.sources.tests.problems",
    "whydrop.sources.tests.quantities",
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_run(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.failed == 0
    assert outcome.attempted > 0

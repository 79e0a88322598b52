"""The examples in the docstrings of tests and batches run."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = (
    "whydrop.show.document",
    "whydrop.show.text_layout",
    "whydrop.measure.batch.expanding",
    "whydrop.measure.far_hosts",
    "whydrop.measure.batch.toml_writing",
    "whydrop.measure.batch.variables",
    "whydrop.measure.tests",
    "whydrop.measure.tests.expressions",
    "whydrop.runtime.user_files.lines",
    "whydrop.runtime.user_files.problems",
    "whydrop.runtime.user_files.quantities",
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_run(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.failed == 0
    assert outcome.attempted > 0

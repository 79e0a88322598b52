"""The examples in the documentation of functions are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import whydrop.formats
import whydrop.recording

MODULES = [
    module.name
    for package in (whydrop.recording, whydrop.formats)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0

"""The two programs that answer tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from running.responders import WHYDROP, Program, static_program

needs_cargo = pytest.mark.needs_program("cargo", str(Path.home() / ".cargo/bin/cargo"))


@pytest.fixture(params=["whydrop responder", pytest.param("whydrop-responder", marks=[needs_cargo, pytest.mark.slow])])
def program(request: pytest.FixtureRequest) -> Program:
    """The words that start a responder, of each program that is one."""
    if request.param == "whydrop-responder":
        return (str(static_program()),)
    return (*WHYDROP, "responder")

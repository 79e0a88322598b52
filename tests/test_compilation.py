"""Crates that are compiled once: for the extension and for the Rust tests (tools/setup)."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from example_files import ROOT

CARGO = Path.home() / ".cargo/bin"
pytestmark = pytest.mark.needs_program("cargo", str(CARGO / "cargo"))


def crates(*selected: str) -> set[str]:
    """Each crate that these are made of, with the features that it is compiled with."""
    words = ["cargo", "tree", "--quiet", "--locked", *selected, "--prefix", "none", "--format", "{p} {f}"]
    path = f"{os.environ['PATH']}:{CARGO}"
    done = subprocess.run(words, cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True)
    return {re.sub(r" \(.*?\)", "", line) for line in done.stdout.splitlines() if line.strip()}


def test_the_extension_and_the_rust_tests_are_made_of_the_same_crates_with_the_same_features() -> None:
    """A feature that a single crate adds belongs to Cargo.toml's [workspace.dependencies]."""
    extension = crates("--package", "whydrop-python", "--edges", "normal,build")
    tests = crates("--workspace", "--edges", "normal,build,dev")
    assert sorted(extension - tests) == []
    assert len(extension) > 50

"""Tests of what calls import, which decides how fast they start: times depend on the machine, imports do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ("polars", "altair", "vl_convert", "rich", "narwhals", "jinja2")

# Runs the program with these arguments, then names on stderr which of the modules were imported.
PROBE = """
import sys
from whydrop.__main__ import main
sys.argv = ["whydrop", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
sys.stderr.write("IMPORTED " + " ".join(sys.modules))
"""


def imported_by(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
    )
    return set(done.stderr.rpartition("IMPORTED ")[2].split())


def test_importing_the_package_imports_no_heavy_module():
    imported = imported_by("--version")
    assert "whydrop" in imported
    assert imported.isdisjoint(HEAVY)


@pytest.mark.parametrize("arguments", [["--help"], ["explain", "--help"], ["match", "--help"], ["--version"]])
def test_help_and_version_import_no_heavy_module(arguments: list[str]):
    assert imported_by(*arguments).isdisjoint(HEAVY)


def test_help_of_the_program_imports_no_command():
    assert "whydrop.cli.explain" not in imported_by("--help")


def test_json_of_one_capture_imports_neither_heavy_modules_nor_the_option_parser():
    imported = imported_by("explain", "examples/policed-download.pcap.zst", "--json")
    assert "whydrop._core" in imported
    assert imported.isdisjoint({*HEAVY, "click", "dataclasses", "inspect", "json", "re", "typing"})


def test_json_with_more_options_imports_the_option_parser_but_no_heavy_module():
    imported = imported_by("explain", "examples/policed-download.pcap.zst", "--json", "--flow", ":5201")
    assert "click" in imported
    assert imported.isdisjoint(HEAVY)


def test_an_explanation_for_a_person_imports_neither_tables_nor_charts():
    imported = imported_by("explain", "examples/policed-download.pcap.zst")
    assert "whydrop.show.terminal" in imported
    assert imported.isdisjoint({"polars", "altair", "vl_convert", "numpy", "pyarrow"})

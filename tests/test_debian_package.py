"""The control files of the Debian package, and where its files go; `tests/test_dist.py` installs the package."""

from __future__ import annotations

import importlib.util
import re
from email.parser import Parser
from types import ModuleType

import pytest

from example_files import ROOT


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


debian = tool("debian_package")


@pytest.mark.parametrize(("release", "python", "below"), [("deb12", "3.11", "3.12"), ("deb13", "3.13", "3.14")])
def test_a_package_depends_on_the_python_of_its_release(release: str, python: str, below: str) -> None:
    fields = Parser().parsestr(debian.control(release, "x86_64", 307_000_001))
    assert fields["Package"] == "whydrop"
    assert re.fullmatch(rf"\d+\.\d+\.\d+-1~{release}", fields["Version"])
    assert (fields["Architecture"], fields["Installed-Size"]) == ("amd64", "299805")
    depends = fields["Depends"].split(", ")
    assert {f"python3 (>= {python})", f"python3 (<< {below})", "libc6 (>= 2.28)"} <= set(depends)
    assert not fields.defects


def test_the_description_has_a_short_line_and_folded_lines() -> None:
    short, *long = Parser().parsestr(debian.control("deb12", "x86_64", 1))["Description"].splitlines()
    assert len(short) < 80
    assert long
    assert all(line.startswith(" ") and len(line) <= 80 for line in long)


def test_the_changelog_has_the_shape_that_dpkg_reads() -> None:
    first, _, change, _, last = debian.changelog("deb12", 1_700_000_000).splitlines()
    assert re.fullmatch(r"whydrop \(\S+~deb12\) unstable; urgency=medium", first)
    assert change.startswith("  * ")
    assert re.fullmatch(r" -- .+ <\S+@\S+>  \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d -0000", last)


def test_every_completion_has_a_place() -> None:
    written = {f"{shell}/{name}" for shell, name in tool("manual_pages").COMPLETIONS.items()}
    assert set(debian.COMPLETIONS) == written


def test_the_c_library_of_the_packages_is_the_one_that_the_wheel_is_linked_with() -> None:
    assert f"--compatibility manylinux_{debian.C_LIBRARY.replace('.', '_')}" in (ROOT / "tools" / "dist").read_text()

"""Lists of the packages that a release contains, from the lock files (`tools/dist lists`)."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from example_files import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.needs_program("npm")]


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lists")
    subprocess.run([ROOT / "tools" / "dist", "lists", folder / "whydrop"], check=True)
    return folder / "whydrop"


def components(path: Path) -> dict[str, dict]:
    """The packages of a list, by their names."""
    listed = json.loads(path.read_text())
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.5")
    return {one["name"]: one for one in listed["components"]}


def test_the_list_of_python_packages_has_the_base_with_versions_and_no_extras(prefix: Path) -> None:
    listed = components(Path(f"{prefix}-python.cdx.json"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {requirement.split(">")[0] for requirement in project["dependencies"]}
    assert wanted <= set(listed)
    assert not {"pyarrow", "scipy", "pytest", "maturin"} & set(listed)
    assert all(one["purl"] == f"pkg:pypi/{name}@{one['version']}" for name, one in listed.items())


def test_the_list_of_scripts_has_what_pages_contain(prefix: Path) -> None:
    listed = components(Path(f"{prefix}-pages.cdx.json"))
    wanted = json.loads((ROOT / "frontend" / "package.json").read_text())["dependencies"]
    assert set(wanted) <= set(listed)
    assert not {"vite", "typescript"} & set(listed)

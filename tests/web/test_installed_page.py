"""The page in an installed whydrop: its script and sheet are built, and go into the wheel."""

from __future__ import annotations

import fnmatch
import tomllib
from importlib import resources
from pathlib import Path

from whydrop.web import pages

ROOT = Path(__file__).parents[2]


def test_what_the_page_loads_is_in_the_wheel():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["maturin"]
    patterns = [one["path"] for one in settings["include"] if "wheel" in one["format"]]
    assert settings["python-source"] == "src"
    for name in pages._ASSETS:
        path = f"src/whydrop/show/assets/{name}"
        assert (ROOT / path).stat().st_size > 1000, f"{path} is not built: tools/setup"
        # Git ignores what is built, and so does maturin, but for these patterns.
        assert any(fnmatch.fnmatch(path, pattern.replace("/**/", "/")) for pattern in patterns), path


def test_the_page_reads_its_assets_as_an_installed_package_has_them():
    for name, media in pages._ASSETS.items():
        answer = pages.asset(name)
        assert answer.status_code == 200
        assert answer.media_type == media
        assert answer.body == resources.files("whydrop.show").joinpath("assets", name).read_bytes()


def test_a_page_loads_nothing_that_is_not_an_asset():
    for view in pages.VIEWS:
        text = pages.view(view)
        assert {part.partition('"')[0] for part in text.split('"/assets/')[1:]} <= pages._ASSETS.keys()
        assert "http:" not in text
        assert "https:" not in text

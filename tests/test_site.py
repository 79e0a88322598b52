"""The site of the documents: its links lead somewhere, and a browser loads nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from example_files import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

# Elements that load what they name, and addresses in style sheets.
LOADED = re.compile(r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^>]*>")
LINKED = re.compile(r"<link\b(?![^>]*\brel=[\"']?canonical)[^>]*\bhref=[\"']?(?:https?:)?//[^>]*>")
STYLED = re.compile(r"(?:url\(|@import )[\"']?(?:https?:)?//[^)]*")


@pytest.fixture(scope="module")
def site() -> Path:
    """The site, built once."""
    done = subprocess.run([ROOT / "tools" / "site"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return ROOT / "build" / "site"


def test_the_site_is_built_without_a_warning_and_has_every_document(site: Path) -> None:
    pages = {path.stem for path in (site / "docs").glob("*.html")}
    assert pages == {path.stem for path in (ROOT / "docs").glob("*.md")}


def test_a_browser_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = "\n".join(path.read_text("utf-8") for path in site.rglob("*.html"))
    styles = pages + "\n".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert LOADED.findall(pages) + LINKED.findall(pages) + STYLED.findall(styles) == []
    # For diagrams, the script of the theme would load a program from elsewhere.
    assert 'class="mermaid"' not in pages


@pytest.mark.needs_browser
def test_pages_open_from_a_folder_load_only_their_files_and_fit_a_narrow_screen(site: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 400, "height": 900})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for name in ("index", "docs/causes", "docs/plots"):
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
        assert page.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth > 0)"), name
    assert [address for address in asked if not address.startswith(("file:", "data:", "blob:"))] == []


def test_links_to_files_of_the_repository_stay_in_the_site(site: Path) -> None:
    assert (site / "packaging" / "nginx-responsiveness.conf").is_file()
    assert (site / "src" / "whydrop" / "store" / "tables.py").is_file()

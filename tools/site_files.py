"""The source of the documentation's site: copies of files of the repository, in a folder that Zensical reads.

The documents link to each other and to source files by their paths in the repository. The site has the same paths: the
pages of its navigation (``zensical.toml``), and each file that a link of such a page leads to.
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
CONFIGURATION = ROOT / "zensical.toml"
# A fenced block shows Markdown, and an address has a scheme.
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s#]+)(?:#[^)\s]*)?\)")


def pages(navigation: Any) -> Iterator[str]:
    """The paths of a navigation's pages, in its order."""
    if isinstance(navigation, str):
        yield navigation
        return
    for entry in navigation.values() if isinstance(navigation, dict) else navigation:
        yield from pages(entry)


def linked(page: str) -> Iterator[str]:
    """The paths, relative to the repository, of the files that a page links to."""
    for link in LINK.findall(FENCED.sub("", (ROOT / page).read_text("utf-8"))):
        yield os.path.normpath(Path(page).parent / link)


def site_paths(navigation: Any) -> list[str]:
    """The paths of all files of the site: pages, then what they link to, and what that links to."""
    found = list(pages(navigation))
    for path in found:  # grows meanwhile
        if path.endswith(".md"):
            found += [target for target in dict.fromkeys(linked(path)) if is_file(target, path) and target not in found]
    return found


def is_file(target: str, page: str) -> bool:
    """True if a page's link leads to a file, false if to a folder. A link that leads nowhere ends the program."""
    if not (ROOT / target).exists():
        raise SystemExit(f"{page} links to {target}, which does not exist")
    return (ROOT / target).is_file()


def main() -> None:
    """Copy the files of the site into the folder that the configuration names."""
    project = tomllib.loads(CONFIGURATION.read_text("utf-8"))["project"]
    folder = ROOT / project["docs_dir"]
    shutil.rmtree(folder, ignore_errors=True)
    for path in site_paths(project["nav"]):
        copy = folder / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, copy)


if __name__ == "__main__":
    main()

"""Nothing is said of other people's captures that cannot be, whatever they hold."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

import whydrop
from example_files import ROOT
from plausibility import absurdities
from whydrop.show import explanation
from whydrop.show.terminal import print_document

pytestmark = pytest.mark.slow

DATA = ROOT.parent / "shared" / "data"
FOLDERS = ("wild", "reported", "odd-captures", "pairs", "policing")
NAMES = (".pcap", ".cap", ".dmp", ".trace")
# What a sample is made of is small, and one in so many.
SMALL_BYTES = 200_000
EVERY = 15


def captures() -> Iterator[tuple[Path, ...]]:
    """Each capture by itself, and the pairs of one path."""
    for folder in FOLDERS:
        paths = sorted(path for path in (DATA / folder).rglob("*") if path.is_file())
        yield from ((path,) for path in paths if any(name in path.name for name in NAMES))
    for path in sorted((DATA / "pairs").glob("*/b.pcap.zst")):
        yield path, path.with_name("y.pcap.zst")


def chosen() -> Iterator[object]:
    small = 0
    for paths in captures():
        small += (is_small := sum(path.stat().st_size for path in paths) < SMALL_BYTES)
        marks = [] if is_small and small % EVERY == 0 else [pytest.mark.exhaustive]
        yield pytest.param(paths, marks=marks, id="+".join(path.relative_to(DATA).as_posix() for path in paths))


@pytest.mark.parametrize("paths", list(chosen()))
def test_nothing_is_said_that_cannot_be(paths: tuple[Path, ...]) -> None:
    try:
        found = whydrop.explain(*paths)
    except whydrop.CaptureError:
        return  # not every capture can be read
    text = io.StringIO()
    print_document(explanation.document(found), Console(file=text, width=200))
    # The document is checked as that of any test; here the tables of the text are, too.
    assert absurdities(found.document, text.getvalue()) == []

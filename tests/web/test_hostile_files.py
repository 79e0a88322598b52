"""Files with names and contents that somebody chose to attack the page: nothing runs, nothing outside is shown."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from patience import PATIENCE_S, wait_until
from recordings import rrul
from web.conftest import EXAMPLES, Server, running
from web.hostile import hostile_names
from whydrop.web.library.library import Library, NotInLibraryError

CAPTURE = EXAMPLES / "policed-download.pcap.zst"


def hostile_folder(folder: Path, count: int) -> int:
    """Make captures and recordings with hostile names; the number of them."""
    folder.mkdir()
    made = 0
    for number, name in enumerate(hostile_names(count)):
        fitting = name.replace("/", "∕").replace("\0", "")
        raw = f"{number}-{fitting}".encode()[:200] + (b"\xff\xfe" if number % 25 == 0 else b"") + b".pcap.zst"
        with contextlib.suppress(OSError):
            os.link(CAPTURE, os.path.join(os.fsencode(folder), raw))  # noqa: PTH118 (of bytes)
            made += 1
    for number, name in enumerate(hostile_names(20)):
        text = name.replace("\0", "\\0")
        rrul(folder / f"recording-{number}", title=f"{text} title", name=text or "x", note=f"{text} note")
    return made + 20


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hostile") / "library"
    count = hostile_folder(folder, 500)
    with running(folder) as server:

        def indexed() -> bool:
            found = httpx.get(f"{server.root}/api/library", headers={"Authorization": f"Bearer {server.token}"}).json()
            return bool(found["count"] == count)

        wait_until(indexed, "the index of the folder")
        yield server


FOREIGN = (
    "#view script, #view iframe, #view object, #view embed, #view img, #view a[href^='javascript'], #view [onerror]"
)


class Looked:
    """A page in a browser that fails by anything that ran, or asked elsewhere."""

    def __init__(self, browser: Any, server: Server) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 900})
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_S * 1e3)
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.on(
            "request",
            lambda request: (
                request.url.startswith((server.root, "data:", "blob:")) or self.complaints.append(request.url)
            ),
        )
        self.page.goto(server.address)

    def check(self) -> None:
        assert self.complaints == []
        assert self.page.locator(FOREIGN).count() == 0


@pytest.mark.slow
@pytest.mark.needs_browser
def test_five_hundred_hostile_names_are_shown_as_text(browser: Any, hostile: Server):
    looked = Looked(browser, hostile)
    shown = ""
    for page in range(6):
        looked.page.goto(f"{hostile.root}/browse?order=name&page={page}")
        looked.page.wait_for_selector("tbody tr")
        shown += looked.page.inner_text("tbody")
        looked.check()
        assert looked.page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert "<img src=x onerror=alert(1)>" in shown
    # What would turn the direction of text is written as digits.
    assert "\\u202e" in shown
    assert "\u202e" not in shown
    looked.context.close()


@pytest.mark.slow
@pytest.mark.needs_browser
def test_hostile_words_of_recordings_and_captures_are_shown_as_text(browser: Any, hostile: Server):
    looked = Looked(browser, hostile)
    looked.page.wait_for_selector("tbody tr")
    found = httpx.get(
        f"{hostile.root}/api/library", params={"limit": 1000},
        headers={"Authorization": f"Bearer {hostile.token}"},
    ).json()["entries"]  # fmt: skip
    by_kind = {
        kind: [one for one in found if one["kind"] == kind and "<" in one["title"] + one["name"]]
        for kind in ("recording", "capture")
    }
    recordings = by_kind["recording"][:2]
    assert len(recordings) == 2
    looked.page.goto(f"{hostile.root}/compare?source={recordings[0]['id']}&source={recordings[1]['id']}")
    looked.page.wait_for_selector("#view canvas")
    looked.check()
    assert "<" in looked.page.inner_text("#view")
    looked.page.goto(f"{hostile.root}/open?source={by_kind['capture'][0]['id']}")
    looked.page.wait_for_selector("#verdict h1")
    looked.check()
    looked.context.close()


# --- links ---


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A capture, a recording and a file that are outside of the library."""
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.copy(CAPTURE, outside / "secret.pcap.zst")
    rrul(outside / "recorded", title="secret")
    (outside / "secret.json").write_text(json.dumps({"secret": "secret"}))
    return outside


def paths(library: Library) -> set[str]:
    library.refresh()
    return {entry.path for entry in library.search(limit=1000).entries}


def test_links_out_of_a_folder_are_not_listed(tmp_path: Path, secret: Path):
    root = tmp_path / "library"
    (root / "stolen").mkdir(parents=True)
    (root / "link.pcap.zst").symlink_to(secret / "secret.pcap.zst")
    (root / "folder").symlink_to(secret)
    (root / "relative.pcap.zst").symlink_to("../outside/secret.pcap.zst")
    (root / "twice.pcap.zst").symlink_to("link.pcap.zst")
    (root / "circle.pcap").symlink_to("circle.pcap")
    (root / "stolen" / "recording.json").symlink_to(secret / "recorded" / "recording.json")
    shutil.copy(CAPTURE, root / "own.pcap.zst")
    (root / "inner.pcap.zst").symlink_to("own.pcap.zst")
    library = Library([root])
    assert paths(library) == {"own.pcap.zst", "inner.pcap.zst"}
    library.close()


def test_an_entry_that_becomes_a_link_is_not_opened(tmp_path: Path, secret: Path):
    root = tmp_path / "library"
    root.mkdir()
    shutil.copy(CAPTURE, root / "own.pcap.zst")
    library = Library([root])
    assert paths(library) == {"own.pcap.zst"}
    (root / "own.pcap.zst").unlink()
    (root / "own.pcap.zst").symlink_to(secret / "secret.pcap.zst")
    own = library.search().entries[0].id
    with pytest.raises(NotInLibraryError, match="no longer in"):
        library.path(own)
    library.close()


def test_a_recording_with_a_link_out_of_the_folder_in_it_is_not_opened(tmp_path: Path, secret: Path):
    root = tmp_path / "library"
    root.mkdir()
    rrul(root / "recorded")
    library = Library([root])
    assert paths(library) == {"recorded"}
    own = library.search().entries[0].id
    assert library.path(own) == root / "recorded"
    (root / "recorded" / "client.pcap").symlink_to(secret / "secret.pcap.zst")
    with pytest.raises(NotInLibraryError, match="link out of"):
        library.path(own)
    library.close()

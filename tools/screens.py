"""Takes the pictures of the page in a browser for docs/web.md (``make images``): each view, wide or as on a phone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx

import whydrop

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "images"
BROWSERS = ("chromium", "google-chrome", "chromium-headless-shell")
WIDE, NARROW = (1280, 900), (390, 844)
# Of a fleet of switches, for the view of studies.
FLEET = "--sites dfw01,dfw02,lga01 --days 12 --change-day 2018-02-07 --seed 3"
PARAMETERS = "metros = []\nchange = false\n\n[days]\nfirst = 2018-02-01\nlast = 2018-02-12\n"
PATIENCE_S = 60.0


def main() -> None:
    """Fill a folder with captures, recordings and a store, serve it, and take the pictures."""
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "library")
        folder.mkdir()
        for capture in Path("examples").glob("*.pcap.zst"):
            shutil.copy(capture, folder)
        command = [sys.executable, "-m", "bench.fleet", "--out", str(folder / "fleet.store"), *FLEET.split()]
        subprocess.run(command, check=True)
        responder = whydrop.responder(open=True, addresses=["127.0.0.1"], port=0)
        to = f"127.0.0.1:{responder.port}"
        for title in ("before", "after"):
            whydrop.run("rrul", to, duration_s=8, parameters={"delay_s": 1}, title=title, output=folder)
        with served(folder) as (address, token):
            Photographer(address, token, to).take_all()


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str]]:
    """A server of a folder: its address without a slash, and its token."""
    with Path(folder.parent, "log").open("w+") as log:
        process = subprocess.Popen([sys.executable, "-m", "whydrop", "web", str(folder)], stderr=log)
        try:
            deadline_s = time.monotonic() + PATIENCE_S
            while not (found := re.search(r"(http://\S+)/\?token=(\S+)", Path(log.name).read_text())):
                if time.monotonic() > deadline_s:
                    raise SystemExit("the server did not start")
                time.sleep(0.1)
            yield found[1], found[2]
        finally:
            process.terminate()
            process.wait()


class Photographer:
    """Pictures of the views of one server."""

    def __init__(self, address: str, token: str, to: str) -> None:
        """Of a server, and the far end of a test that is shown while it runs."""
        self._address, self._token, self._to = address, token, to
        self._api = httpx.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S)

    def take_all(self) -> None:
        """Take a picture of each view."""
        from playwright.sync_api import sync_playwright

        captures, (store,) = self._entries("capture"), self._entries("store").values()
        asked = {"test": "rrul", "to": [self._to], "duration_s": 12, "parameters": {"delay_s": 1}}
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=next(filter(None, map(shutil.which, BROWSERS)), None),
                args=["--no-sandbox", "--disable-gpu"],
            )
            self._take(browser, "browse", "/browse", "tbody tr")
            self._take(browser, "open", f"/open?source={captures['policed-download.pcap.zst']}", "#verdict h1")
            pair = [captures["shallow-queue.pcap.zst"], captures["shallow-queue-far.pcap.zst"]]
            self._take(browser, "open-narrow", f"/open?{urlencode({'source': pair}, doseq=True)}", "#pair", size=NARROW)
            own = [captures["policed-download.pcap.zst"], captures["policed-download-far.pcap.zst"]]
            self._take_model(browser, own)
            study = urlencode({"store": store, "question": "discards", "parameters": PARAMETERS})
            self._take(browser, "study", f"/study?{study}", "#figures", show="#figures .figure >> nth=2")
            run = self._api.post("/api/runs", json=asked).raise_for_status().json()["id"]
            self._take(browser, "run", f"/run?id={run}", "canvas", wait_s=9)
            self._take(browser, "watch", "/watch", "tbody tr", wait_s=4)
            browser.close()

    def _take_model(self, browser: Any, sources: list[str]) -> None:
        """Take a picture of a reader's own model beside the fitted one."""
        link = urlencode({"source": sources, "model": "0:policer:rate=20M,burst=40kB"}, doseq=True)
        self._take(browser, "model", f"/open?{link}", "#model-0 .figure canvas", part="#model-0")

    def _entries(self, kind: str) -> dict[str, str]:
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            found = self._api.get("/api/library", params={"q": f"kind={kind}"}).raise_for_status().json()["entries"]
            if found:
                return {one["path"]: one["id"] for one in found}
            time.sleep(0.2)
        raise SystemExit(f"no {kind} is listed")

    def _take(
        self, browser: Any, name: str, path: str, wanted: str,
        *, size: tuple[int, int] = WIDE, show: str = "", wait_s: float = 1.5, part: str = "",
    ) -> None:  # fmt: skip
        context = browser.new_context(viewport={"width": size[0], "height": size[1]})
        page = context.new_page()
        page.set_default_timeout(PATIENCE_S * 1e3)
        page.goto(f"{self._address}/?token={self._token}")
        page.goto(self._address + path)
        page.wait_for_selector(wanted)
        if show:
            page.locator(show).scroll_into_view_if_needed()
        page.wait_for_timeout(wait_s * 1e3)
        (page.locator(part) if part else page).screenshot(path=FOLDER / f"web-{name}.png")
        context.close()


if __name__ == "__main__":
    main()

"""Opens every view where there is no network but this host; prints the heading of each as JSON."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx
from playwright.sync_api import sync_playwright

from patience import PATIENCE_S, wait_until
from web.conftest import Server, running
from whydrop.web.pages import VIEWS

READY = {"browse": "tbody tr", "open": "#verdict h1", "compare": "#view canvas"}


def sources(server: Server, view: str) -> str:
    """The query of a view with what it can show."""
    headers = {"Authorization": f"Bearer {server.token}"}
    kind = {"open": "capture", "compare": "recording"}.get(view, "")
    found = httpx.get(f"{server.root}/api/library", headers=headers, timeout=60).json()["entries"]
    return "&".join(f"source={one['id']}" for one in found if one["kind"] == kind)


def main(folder: Path, browser_path: str) -> None:
    shown: dict[str, object] = {"network": [name for _, name in socket.if_nameindex()]}
    with running(folder) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_S * 1e3)
        page.goto(server.address)
        wait_until(lambda: sources(server, "open") and sources(server, "compare"), "the index")
        for view in VIEWS:
            page.goto(f"{server.root}/{view}?{sources(server, view)}")
            page.wait_for_selector(READY.get(view, "h1"))
            shown[view] = page.inner_text("h1")
        browser.close()
    print(json.dumps(shown))


main(Path(sys.argv[1]), sys.argv[2])

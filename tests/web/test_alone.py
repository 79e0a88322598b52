"""The page without any other server: nothing is fetched from elsewhere, nothing breaks its policy, and it is light."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from patience import PATIENCE_S, wait_until
from recordings import rrul
from web.conftest import EXAMPLES, Server, running
from whydrop.web.pages import VIEWS

pytestmark = [pytest.mark.slow, pytest.mark.needs_browser]

# The least that shows that a view has its data, with the sources that it is given.
SHOWS = {"browse": "tbody tr", "open": "#verdict h1", "compare": "#view canvas"}

# Violations of the policy, and what the page asks for without a request of its own (as for names of hosts).
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
});
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("alone") / "library"
    folder.mkdir()
    shutil.copy(EXAMPLES / "policed-download.pcap.zst", folder)
    for name in ("before", "after"):
        rrul(folder / name, title=name)
    with running(folder) as started:
        wait_until(lambda: len(entries(started)) == 3, "the index")
        yield started


def entries(server: Server) -> list[dict[str, Any]]:
    headers = {"Authorization": f"Bearer {server.token}"}
    found = httpx.get(f"{server.root}/api/library", headers=headers, timeout=60).json()["entries"]
    return list(found)


def address(server: Server, view: str) -> str:
    kind = {"open": "capture", "compare": "recording"}.get(view, "")
    sources = [f"source={one['id']}" for one in entries(server) if one["kind"] == kind]
    return f"{server.root}/{view}?{'&'.join(sources)}"


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_asks_its_own_server_only_keeps_its_policy_and_is_light(browser: Any, server: Server, view: str):
    context = browser.new_context()
    weights: dict[str, int] = {}
    elsewhere: list[str] = []

    def ask(route: Any) -> None:
        if not route.request.url.startswith(f"{server.root}/"):
            elsewhere.append(route.request.url)
            route.abort()
            return
        route.continue_()

    def weigh(response: Any) -> None:
        if "/api/" not in response.url and response.status == 200 and response.url.startswith("http"):
            weights[response.url] = len(response.body())

    context.route("**/*", ask)
    context.add_init_script(WATCH)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_S * 1e3)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(server.address)
    page.on("response", weigh)
    page.goto(address(server, view))
    page.wait_for_selector(SHOWS.get(view, "h1"))
    page.evaluate("document.querySelectorAll('section, canvas').forEach((one) => one.scrollIntoView())")
    page.wait_for_load_state()
    assert page.evaluate("window.violations") == []
    assert complaints == []
    assert elsewhere == []
    assert 10_000 < sum(weights.values()) < 300_000, weights
    context.close()


def test_the_cookie_is_kept_from_scripts_and_other_sites(browser: Any, server: Server):
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.address)
    (cookie,) = context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert page.evaluate("document.cookie") == ""
    assert "token" not in page.url
    assert server.token not in cookie["value"]
    context.close()


def cut_off() -> bool:
    """True if a process can be started on a network with nothing but itself."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "--net", "true"], check=False).returncode == 0


@pytest.mark.needs_root
@pytest.mark.needs_program("unshare")
def test_every_view_works_with_the_network_cut(browser_path: str, tmp_path: Path):
    if not cut_off():
        pytest.skip("no network can be cut off here")
    folder = tmp_path / "library"
    folder.mkdir()
    shutil.copy(EXAMPLES / "policed-download.pcap.zst", folder)
    rrul(folder / "recorded")
    words = [sys.executable, str(Path(__file__).with_name("cut_off.py")), str(folder), browser_path]
    script = f"ip link set lo up && exec {shlex.join(words)}"
    found = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    shown = json.loads(found.stdout)
    assert shown.keys() == VIEWS.keys() | {"network"}
    assert shown.pop("network") == ["lo"]
    assert all(shown.values()), shown

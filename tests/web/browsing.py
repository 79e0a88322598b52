"""A page of the server in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from patience import PATIENCE_S
from web.conftest import Server

AXE = Path(__file__).parents[2] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"


class Page:
    """A page with the server's token, and the complaints of its console."""

    def __init__(self, browser: Any, server: Server, width: int = 1280) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900})
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_S * 1e3)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(server.address)

    def text(self, selector: str = "#view") -> str:
        return str(self.page.inner_text(selector))

    def wait_for_rows(self, count: int) -> None:
        """Wait until the table has so many rows."""
        # The policy of the page forbids what evaluates text, as Playwright's wait_for_function does.
        self.page.wait_for_selector(f"tbody:not(:has(tr:nth-child({count + 1}))) tr:nth-child({count})")

    def serious(self) -> list[str]:
        """Findings of axe-core that are serious or critical."""
        # The policy of the page lets no other script in: it is added to the page by the browser itself.
        # What passes is no answer: of a page with a long table it is longer than the page.
        run = "(await axe.run(document, { resultTypes: ['violations'] })).violations"
        found = self.page.evaluate(f"async () => {{ {AXE.read_text()}; return {run}; }}")
        return [
            f"{one['id']}: {one['nodes'][0]['html']} {one['nodes'][0].get('failureSummary')}"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]

"""The pages as they are before their scripts run: a title, links to all views, and the place of the view."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib import resources

from starlette.responses import PlainTextResponse, Response

# Each with its title and what is done there.
VIEWS = {
    "browse": ("Browse", "Recordings, captures and stores of this host"),
    "open": ("Open", "The verdict on captures and recordings"),
    "compare": ("Compare", "Plots of recordings, and what differs between them"),
    "run": ("Run", "Start a test and watch it"),
    "watch": ("Watch", "Connections of this host and ports of switches, as they are now"),
    "study": ("Study", "Questions to a store of switch counters and tests"),
}

_ASSETS = {"app.js": "text/javascript", "app.css": "text/css"}


def view(name: str) -> str:
    """The page of a view."""
    title, description = VIEWS[name]
    links = "".join(
        f'<li><a href="/{one}"{" aria-current=page" if one == name else ""}>{escape(words)}</a></li>'
        for one, (words, _) in VIEWS.items()
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="{escape(description)}">
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/assets/app.css">
<title>{escape(title)} – whydrop</title>
<script src="/assets/app.js" defer></script>
</head>
<body data-view="{name}">
<a class="skip" href="#view">Skip to the content</a>
<header class="site"><p class="brand">whydrop</p><nav aria-label="Views"><ul>{links}</ul></nav></header>
<main id="view"><noscript><p class="note">This page needs JavaScript; reports do not.</p></noscript></main>
</body>
</html>
"""


@cache
def _content(name: str) -> bytes:
    return resources.files("whydrop.show").joinpath("assets", name).read_bytes()


def asset(name: str) -> Response:
    """A script or a sheet."""
    if name not in _ASSETS:
        return PlainTextResponse("no such file\n", 404)
    return Response(_content(name), media_type=_ASSETS[name], headers={"Cache-Control": "no-cache"})

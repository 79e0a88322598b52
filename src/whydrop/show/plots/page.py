"""A picture as one HTML page that needs no network: the libraries that draw it are in the page."""

from __future__ import annotations

import html
import json
from typing import Any

import altair as alt
import vl_convert

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="UTF-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>body {{ margin: 12px; background: white; }}</style>
<script>{libraries}</script>
</head>
<body>
<div id="picture"></div>
<script>
vegaEmbed("#picture", {specification}, {options}).catch(function (reason) {{
  document.getElementById("picture").textContent = String(reason);
}});
</script>
</body>
</html>
"""

# The editor would send what is drawn to another site.
_OPTIONS = {"mode": "vega-lite", "renderer": "canvas", "actions": {"export": True, "source": False, "editor": False}}


def page(chart: alt.VConcatChart, title: str) -> str:
    """The page, with the chart's specification and data in it."""
    version = ".".join(alt.VEGALITE_VERSION.split(".")[:2])
    return _PAGE.format(
        title=html.escape(title),
        libraries=vl_convert.javascript_bundle(vl_version=version),  # type: ignore[call-arg]  # its stub has no default
        specification=_in_script(chart.to_dict()),
        options=_in_script(_OPTIONS),
    )


def _in_script(value: Any) -> str:
    """JSON inside of a script: names of flows and hosts must not end it (`</script>`, `<!--`)."""
    return json.dumps(value).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")

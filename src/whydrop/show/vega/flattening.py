"""Pictures of several panels as PDF: the writer refuses the deep nesting of groups that Vega gives its SVG.

Most groups mean nothing to a picture: they carry names for scripts and screen readers. Those are dissolved.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

_SVG = "http://www.w3.org/2000/svg"
_GROUP = f"{{{_SVG}}}g"
# Attributes that change what a group shows; all others can go.
_SHOWN = {"transform", "clip-path", "fill", "stroke", "stroke-miterlimit", "opacity"}


def flattened(svg: str) -> str:
    """The same picture without groups that show nothing by themselves.

    >>> flattened('<svg xmlns="http://www.w3.org/2000/svg"><g class="x"><g><path d="M0,0" /></g></g></svg>')
    '<svg xmlns="http://www.w3.org/2000/svg"><path d="M0,0" /></svg>'
    """
    ET.register_namespace("", _SVG)
    root = ET.fromstring(svg)
    _dissolve(root)
    return ET.tostring(root, encoding="unicode")


def _dissolve(element: ET.Element) -> None:
    kept: list[ET.Element] = []
    for child in list(element):
        _dissolve(child)
        kept.extend(list(child) if child.tag == _GROUP and _SHOWN.isdisjoint(child.attrib) else [child])
        element.remove(child)
    element.extend(kept)

"""Pictures inside of a page: SVG that needs no script, is small, and follows the page's light or dark ground.

Vega writes some 170 bytes for each point. Here the points of one look are one path that repeats a marker: ten bytes
each, so that a page of a hundred thousand points stays a page.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from xml.sax.saxutils import quoteattr

from whydrop.show.flattening import flattened

_SVG = "{http://www.w3.org/2000/svg}"
_PLACE = re.compile(r"translate\((-?[\d.e-]+), ?(-?[\d.e-]+)\)")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")
_LOOK = ("d", "fill", "stroke", "stroke-width", "opacity", "fill-opacity", "stroke-opacity")
_LEFT_BEHIND = ("aria-hidden", "aria-label", "aria-roledescription", "role", "class", "pointer-events", "version")


def inline(svg: str, name: str, label: str) -> str:
    """A picture as an element of a page.

    Args:
        svg: as Vega wrote it.
        name: of letters, digits and hyphens, once in the page: identifiers in the picture begin with it.
        label: what is seen, for who does not see it.
    """
    root = ET.fromstring(flattened(svg))
    width, height = root.attrib.pop("width"), root.attrib.pop("height")
    _drop_ground(root)
    looks: dict[tuple[str | None, ...], str] = {}
    _merge_points(root, looks, name)
    for element in root.iter():
        for attribute in _LEFT_BEHIND:
            element.attrib.pop(attribute, None)
        if element is not root:
            _prefix(element, name)
    _round(root)
    if looks:
        root.insert(0, _markers(looks))
    root.set("width", width)
    root.set("height", height)
    root.set("role", "img")
    text = ET.tostring(root, encoding="unicode")
    # Inside of HTML the name space goes without saying, and ElementTree would escape the label for XML only.
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text, count=2)
    return text.replace("<svg", f"<svg aria-label={quoteattr(label)}", 1)


def _drop_ground(root: ET.Element) -> None:
    """The page has a ground of its own, light or dark."""
    for child in list(root):
        if child.tag == f"{_SVG}rect" and child.get("fill") == "white":
            root.remove(child)
            return


def _merge_points(element: ET.Element, looks: dict[tuple[str | None, ...], str], name: str) -> None:
    """Runs of points of one look become one path with a marker at each of its corners."""
    made: list[ET.Element] = []
    run: list[tuple[str, str]] = []
    alone: list[ET.Element] = []
    look: tuple[str | None, ...] = ()

    def close() -> None:
        if not run:
            return
        if len(run) == 1:
            # Browsers draw no marker at a path of one corner.
            made.append(alone[0])
        else:
            marker = f"url(#{looks.setdefault(look, f'{name}-m{len(looks)}')})"
            corners = "L".join(f"{x} {y}" for x, y in run)
            at = {"marker-start": marker, "marker-mid": marker, "marker-end": marker}
            made.append(ET.Element(f"{_SVG}path", {"d": f"M{corners}", "fill": "none", **at}))
        run.clear()

    for child in list(element):
        place = _PLACE.fullmatch(child.get("transform", ""))
        if child.tag == f"{_SVG}path" and place is not None and set(child.attrib) <= {"transform", *_LOOK}:
            own = tuple(child.get(attribute) for attribute in _LOOK)
            if own != look:
                close()
                look = own
            if not run:
                alone[:] = [child]
            run.append((_short(place[1]), _short(place[2])))
        else:
            close()
            _merge_points(child, looks, name)
            made.append(child)
        element.remove(child)
    close()
    element.extend(made)


def _markers(looks: dict[tuple[str | None, ...], str]) -> ET.Element:
    defs = ET.Element(f"{_SVG}defs")
    for look, name in looks.items():
        marker = ET.SubElement(
            defs, f"{_SVG}marker", {"id": name, "markerUnits": "userSpaceOnUse", "overflow": "visible"}
        )
        known = {attribute: value for attribute, value in zip(_LOOK, look, strict=True) if value is not None}
        # Not drawn in Vega's SVG because of a group around it; a marker inherits from its own parents.
        known.setdefault("fill", "none")
        known["d"] = _LONG_NUMBER.sub(lambda found: _short(found[0]), known["d"])
        ET.SubElement(marker, f"{_SVG}path", known)
    return defs


def _prefix(element: ET.Element, name: str) -> None:
    if "id" in element.attrib:
        element.set("id", f"{name}-{element.get('id')}")
    clip = element.get("clip-path")
    if clip is not None:
        element.set("clip-path", clip.replace("url(#", f"url(#{name}-"))


def _round(root: ET.Element) -> None:
    for element in root.iter():
        for attribute in ("d", "transform", "x2", "y2"):
            value = element.get(attribute)
            if value is not None:
                element.set(attribute, _LONG_NUMBER.sub(lambda found: _short(found[0]), value))


def _short(number: str) -> str:
    """A tenth of a pixel is not seen."""
    return f"{float(number):.1f}".removesuffix(".0")

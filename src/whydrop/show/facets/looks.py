"""How groups look: colour and shape together, so that neither colour-blindness nor a copier merges them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from whydrop.show.facets.schema import FacetSpec
from whydrop.show.theme import COLOURS, CYCLE, DASHES, Shape, Style, cycled

_SHAPES: tuple[Shape, ...] = ("dot", "square", "triangle-up", "diamond", "triangle-down", "plus")
# With colours for sites, what is measured has shapes of its own, filled or hollow.
_BY_PART: tuple[tuple[Shape, bool], ...] = (
    ("dot", True), ("triangle-up", False), ("square", True), ("diamond", False), ("triangle-down", True),
)  # fmt: skip


def most(spec: FacetSpec) -> int:
    """How many groups of one panel an eye can distinguish; of two parts, how many first parts."""
    return 12 if spec.look == "group" and spec.kind == "points" else len(CYCLE)


def parts(group: str) -> tuple[str, str]:
    """The last word of a group's name, and what is before it.

    >>> parts("dfw01 discards"), parts("dfw01")
    (('dfw01', 'discards'), ('dfw01', ''))
    """
    first, _, last = group.rpartition(" ")
    return (first, last) if first else (last, "")


def looks(spec: FacetSpec, groups: Sequence[str]) -> dict[str, Style]:
    """A look for each group: what the catalogue fixed, and the next of the palette for the others."""
    fixed = {group.name: group for group in spec.groups}
    free = [name for name in groups if name not in fixed or fixed[name].colour is None]
    first = list(dict.fromkeys(parts(name)[0] for name in free))
    last = list(dict.fromkeys(parts(name)[1] for name in groups))
    found = {}
    for name in groups:
        number = free.index(name) if name in free else 0
        match spec.look:
            case "parts":
                shape, filled = _BY_PART[last.index(parts(name)[1]) % len(_BY_PART)]
                look = _cycled(first.index(parts(name)[0]) if name in free else 0, shape, filled)
            case "overlay":
                look = _cycled(first.index(parts(name)[0]) if name in free else 0, "dot")
            case _:
                look = _cycled(number, _SHAPES[number % len(_SHAPES)])
        own = fixed.get(name)
        if own is not None:
            light, dark = COLOURS[own.colour] if own.colour else (look.light, look.dark)
            dash = DASHES[list(fixed).index(name) % len(DASHES)]
            shape = own.shape or look.shape
            look = replace(look, light=light, dark=dark, shape=shape, dash=dash)
        found[name] = look
    return found


def _cycled(number: int, shape: Shape, filled: bool = True) -> Style:
    light, dark = cycled(number)
    return Style(light, dark, shape, dash=DASHES[number % len(DASHES)], filled=filled)


def of_panels(spec: FacetSpec, groups: Mapping[str, Sequence[str]]) -> tuple[dict[str, dict[str, Style]], bool]:
    """Looks by panel and group, and whether one legend serves all panels.

    Where panels have groups of their own (the sites of a metro), each panel begins the palette again; where they share
    groups, a group looks the same in all.
    """
    every = list(dict.fromkeys(group for own in groups.values() for group in own))
    shared = len(every) < sum(map(len, groups.values()))
    if not shared:
        return {panel: looks(spec, own) for panel, own in groups.items()}, False
    of_all = looks(spec, every)
    return {panel: {group: of_all[group] for group in own} for panel, own in groups.items()}, True

"""How groups look: colour and shape together, so that neither colour-blindness nor a copier merges them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from whydrop.show.charts.theme import BLUE, GREEN, INK, ORANGE, PURPLE, SKY, VERMILLION
from whydrop.show.facets.schema import FacetSpec

GREY = "#6b7280"
# Okabe and Ito without the yellow, which is too pale on white, in the order of the other plots.
COLOURS = {
    "blue": BLUE, "orange": ORANGE, "green": GREEN, "purple": PURPLE, "sky": SKY, "grey": GREY,
    "vermillion": VERMILLION, "ink": INK,
}  # fmt: skip
_CYCLE = ("blue", "orange", "green", "purple", "sky", "grey", "vermillion")
_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
# With colours for sites, what is measured has shapes of its own, filled or hollow.
_BY_PART = (("circle", True), ("triangle-up", False), ("square", True), ("diamond", False), ("triangle-down", True))
DASHES: tuple[tuple[int, ...], ...] = ((), (6, 3), (2, 2), (9, 3, 2, 3), (12, 4))


@dataclass(frozen=True)
class Look:
    """A colour (#rrggbb), a shape of Vega's, whether it is filled, and the dashes of lines (pixels)."""

    colour: str
    shape: str = "circle"
    filled: bool = True
    dash: tuple[int, ...] = ()


def most(spec: FacetSpec) -> int:
    """How many groups of one panel an eye can tell apart; of two parts, how many first parts."""
    return 12 if spec.look == "group" and spec.kind == "points" else len(_CYCLE)


def parts(group: str) -> tuple[str, str]:
    """The last word of a group's name, and what is before it.

    >>> parts("dfw01 discards"), parts("dfw01")
    (('dfw01', 'discards'), ('dfw01', ''))
    """
    first, _, last = group.rpartition(" ")
    return (first, last) if first else (last, "")


def looks(spec: FacetSpec, groups: Sequence[str]) -> dict[str, Look]:
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
                look = _cycled(first.index(parts(name)[0]) if name in free else 0, "circle")
            case _:
                look = _cycled(number, _SHAPES[number % len(_SHAPES)])
        own = fixed.get(name)
        if own is not None:
            colour = COLOURS[own.colour] if own.colour else look.colour
            dash = DASHES[list(fixed).index(name) % len(DASHES)]
            look = Look(colour, own.shape or look.shape, look.filled, dash)
        found[name] = look
    return found


def _cycled(number: int, shape: str, filled: bool = True) -> Look:
    return Look(COLOURS[_CYCLE[number % len(_CYCLE)]], shape, filled, DASHES[number % len(DASHES)])


def of_panels(spec: FacetSpec, groups: Mapping[str, Sequence[str]]) -> tuple[dict[str, dict[str, Look]], bool]:
    """Looks by panel and group, and whether one legend serves all panels.

    Where panels have groups of their own (the sites of a metro), each panel begins the palette anew; where they share
    groups, a group looks the same in all.
    """
    every = list(dict.fromkeys(group for own in groups.values() for group in own))
    shared = len(every) < sum(map(len, groups.values()))
    if not shared:
        return {panel: looks(spec, own) for panel, own in groups.items()}, False
    of_all = looks(spec, every)
    return {panel: {group: of_all[group] for group in own} for panel, own in groups.items()}, True

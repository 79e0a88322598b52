"""The schema of a catalogue of faceted pictures, and the catalogue read from TOML."""

from __future__ import annotations

from functools import reduce
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from whydrop.show.plots.catalogue import PlotError, parsed, problems

Kind = Literal["points", "line", "density", "bars"]
Shape = Literal["circle", "square", "triangle-up", "triangle-down", "diamond", "cross"]
Colour = Literal["blue", "orange", "green", "purple", "sky", "grey", "vermillion", "ink"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Axis(_Strict):
    """One axis of every panel of a picture."""

    title: str = Field(default="", description="label; the unit is added")
    unit: str = Field(default="", description="unit of the numbers in the frame")
    scale: Literal["linear", "log", "time"] = Field(
        default="linear", description="linear, log, or time (seconds since the Unix epoch, shown as UTC)"
    )
    limits: tuple[float, float] | None = Field(default=None, description="fixed ends; rows beyond them are counted")
    cover: tuple[float, float] | None = Field(default=None, description="range that the axis includes at least")

    @model_validator(mode="after")
    def _in_order(self) -> Axis:
        for name, ends in (("limits", self.limits), ("cover", self.cover)):
            if ends is not None and not ends[0] < ends[1]:
                raise ValueError(f"{name}: {ends[0]:g} is not below {ends[1]:g}")
            if ends is not None and self.scale == "log" and ends[0] <= 0:
                raise ValueError(f"{name}: {ends[0]:g} is not above 0, as a logarithmic axis must be")
        return self


class Group(_Strict):
    """A group with a fixed look and fixed words; others take the next free ones."""

    name: str = Field(..., description="name of the group in the frame")
    label: str = Field(default="", description="label in the legend; default: the name")
    colour: Colour | None = Field(default=None, description="colour of the palette")
    shape: Shape | None = Field(default=None, description="shape of its points")
    front: bool = Field(default=False, description="draw on top of the others and never thin, for rare events")


class Rows(_Strict):
    """Rows of a table that become rows of the frame. Texts in braces name columns: ``{site} discards``."""

    table: str = Field(..., description="table of the store")
    x: str = Field(..., description="column of x; days as text become seconds since the Unix epoch")
    y: str = Field(default="", description="column of y; none for a density")
    panel: str = Field(..., description="panel, with columns in braces")
    group: str = Field(..., description="group, with columns in braces")
    x_factor: float = Field(default=1.0, description="factor from the unit of the column to the unit of the axis")
    y_factor: float = Field(default=1.0, description="factor from the unit of the column to the unit of the axis")
    density: Literal["left-edges", "centres"] | None = Field(
        default=None, description="density of the logarithm of x: position of the values in their bins"
    )


class FacetSpec(_Strict):
    """One picture, with everything that it inherits filled in."""

    title: str = Field(..., min_length=1, description="title of the picture")
    caption: str = Field(default="", description="definition of the values shown, in sentences")
    parent: str | None = Field(default=None, description="picture that provides the missing keys")
    kind: Kind = Field(default="points", description="points, line, density (steps) or bars")
    x: Axis = Field(default=Axis(), description="the horizontal axis")
    y: Axis = Field(default=Axis(), description="the vertical axis")
    share: Literal["both", "x", "y", "none"] = Field(default="both", description="axes that all panels share")
    wide: bool = Field(default=False, description="stack up to four panels, for series over time")
    breaks: bool = Field(default=False, description="break lines at gaps of more than five steps")
    columns: int | None = Field(default=None, ge=1, le=8, description="number of panels side by side")
    look: Literal["group", "parts", "overlay"] = Field(
        default="group",
        description="colour and shape by group; parts: shape by its last word, colour by the rest; overlay: no shapes",
    )
    groups: tuple[Group, ...] = Field(default=(), description="groups with a fixed look, in the order of the legend")
    rows: tuple[Rows, ...] = Field(default=(), description="source of the frame; none if it is made elsewhere")
    missing: str = Field(
        default="without a value", description="reason for rows without y, for the text below the picture"
    )

    @model_validator(mode="after")
    def _densities_have_no_y(self) -> FacetSpec:
        for row in self.rows:
            if bool(row.y) == (row.density is not None):
                raise ValueError(f"rows of {row.table}: expected either y or density")
        return self


def read(text: str, where: str) -> dict[str, FacetSpec]:
    """The pictures of a catalogue by name.

    Args:
        text: TOML, a table for each picture; tables in it are merged with those of its ``parent``.
        where: the file's name, for messages.

    Raises:
        PlotError: the text is wrong; the message names the file and the key.
    """
    tables = parsed(text, where)
    found = {}
    for name in tables:
        try:
            found[name] = FacetSpec.model_validate(_inherited(name, tables, where))
        except ValidationError as reason:
            fields = [*FacetSpec.model_fields, *Axis.model_fields, *Group.model_fields, *Rows.model_fields]
            raise PlotError(problems(reason, where, name, fields)) from None
    return found


def _inherited(name: str, tables: dict[str, Any], where: str) -> dict[str, Any]:
    """The table of a picture over those of its parents."""
    line = [name]
    while (parent := tables[line[-1]].get("parent")) is not None:
        if not isinstance(parent, str) or not isinstance(tables.get(parent), dict):
            raise PlotError(
                f"{where}: {line[-1]}.parent: there is no picture {parent!r}; there are {', '.join(tables)}"
            )
        if parent in line:
            raise PlotError(f"{where}: {name}.parent: {' < '.join((*line, parent))} is a circle")
        line.append(parent)
    return reduce(_merged, (tables[one] for one in reversed(line)))


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``over`` on ``under``, tables within tables too: an heir may change one limit of an axis and keep its title."""
    made = dict(under)
    for key, value in over.items():
        below = made.get(key)
        made[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    for fixed, loose in (("limits", "cover"), ("cover", "limits")):
        if fixed in over and loose not in over:
            made.pop(loose, None)
    return made

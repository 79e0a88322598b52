"""The study of discards, from a store's tables to its conclusions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.studies.discards import diagnosis, results
from whydrop.text.phrases import capital

if TYPE_CHECKING:
    from whydrop.store.engines import Backend
    from whydrop.studies.discards.changes_file import Noted
    from whydrop.studies.discards.parameters import Change, Parameters

# What is being done, how many steps are done (with the part of this one), and how many there are.
Progress = Callable[[str, float, int], None]
# A table's name and the table, as soon as it is there.
Keep = Callable[[str, pl.DataFrame], None]

# In the order of the figures: what the engine computes, and what a person calls it.
COMPUTED = {
    "utilisation": "figure 1, utilisation",
    "download_speed": "figure 2, download speed",
    "discard_ratio": "figure 3, discards",
    "retransmission_ratio": "figure 4, retransmissions",
    "client_speeds": "figure 6, speeds before and after",
    "contacts": "the tests exposed to discards",
    "contact_days": "figure 7, tests exposed to discards",
    "discard_bin_days": "figure 8, time bins with discards",
}
_PLACEBO = "the placebos of figure 6"
_PLACEBOS = 3


@dataclass(frozen=True)
class Results:
    """Results of the study.

    Attributes:
        parameters: what was chosen.
        tables: by their names in `results.TABLES`, conforming to their schemas. A table that could not be made is
            empty, and a note says why.
        notes: what could not be made, or is to be known about it: sentences, in the order of the figures.
        facts: of the study itself: ``missing`` (table's name: why it is empty), ``failed`` (table's name: the error),
            ``backend`` (the engine's name).
        noted: changes that figures over time show.
    """

    parameters: Parameters
    tables: dict[str, pl.DataFrame]
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    noted: tuple[Noted, ...] = ()


def run(
    backend: Backend,
    parameters: Parameters,
    progress: Progress | None = None,
    keep: Keep | None = None,
    only: tuple[str, ...] | None = None,
) -> Results:
    """Compute every table and draw the conclusions.

    A table that fails keeps no other from being made: its error is a note, and a fact (``failed``).

    Args:
        backend: an open store.
        parameters: what is asked.
        progress: called before each step.
        keep: given each table as soon as it is there, so that an interruption loses none.
        only: names of tables; all by default.
    """
    parameters, scope = diagnosis.fitted(backend, parameters)
    work = _Work(backend, parameters, progress, keep)
    work.notes += scope
    wanted = [name for name in COMPUTED if only is None or name in only]
    earlier = placebos(parameters) if "client_speeds" in wanted else []
    work.steps = len(wanted) + bool(earlier)
    for name in wanted:
        if name == "client_speeds" and parameters.change is None:
            work.step()
            work.missing[name] = "the parameters name no change of configuration"
            continue
        work.compute(name)
    if earlier:
        work.compare_placebos(earlier)
    work.conclude()
    work.look_for_machines()
    return work.finished()


def placebos(parameters: Parameters) -> list[Parameters]:
    """The same study of earlier pairs of periods, as long and as far apart, up to the one before the change."""
    change = parameters.change
    if change is None or parameters.is_published:
        return []
    apart: timedelta = change.after.first - change.before.first
    found = []
    for number in range(_PLACEBOS):
        before, after = (
            change.before.model_copy(
                update={"first": change.before.first - back * apart, "last": change.before.last - back * apart}
            )
            for back in (number + 1, number)
        )
        shifted: Change = change.model_copy(update={"before": before, "after": after})
        found.append(parameters.model_copy(update={"change": shifted}))
    return found


def placebo_comparisons(
    earlier: list[Parameters], speeds_of: Callable[[Parameters], pl.DataFrame | None]
) -> pl.DataFrame | None:
    """Comparisons of clients' speeds where nothing was changed, up to where the history ends; ``None``: there is none.

    Args:
        earlier: of :func:`placebos`.
        speeds_of: rows of `results.CLIENT_SPEEDS` by the parameters.
    """
    from whydrop.studies.discards import inference

    found = []
    for shifted in earlier:
        assert shifted.change is not None
        speeds = speeds_of(shifted)
        if speeds is None or speeds.is_empty():
            break
        before, after = (pl.lit(str(days.first)) for days in (shifted.change.before, shifted.change.after))
        compared = inference.comparisons(speeds, shifted)
        found.append(compared.select(before.alias("before_first"), after.alias("after_first"), pl.all()))
    return pl.concat(found) if found else None


class _Work:
    """The tables computed so far."""

    def __init__(self, backend: Backend, parameters: Parameters, progress: Progress | None, keep: Keep | None) -> None:
        self.backend, self.parameters = backend, parameters
        self._progress, self._keep = progress, keep
        self.tables: dict[str, pl.DataFrame] = {}
        self.missing: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.notes: list[str] = []
        self.steps = self._done = 0

    def step(self, what: str = "") -> None:
        """Say that the next step begins."""
        if self._progress is not None and what:
            self._progress(what, self._done, self.steps)
        self._done += 1

    def _within_step(self, name: str, done: int, of: int) -> None:
        if self._progress is not None and of:
            self._progress(COMPUTED[name], self._done - 1 + done / of, self.steps)

    def put(self, name: str, frame: pl.DataFrame) -> None:
        """Keep a table."""
        self.tables[name] = frame
        if self._keep is not None:
            self._keep(name, frame)

    def compute(self, name: str) -> None:
        """Compute one of the engine's tables."""
        self.step(COMPUTED[name])
        frame = self._computed(name, self.parameters, name)
        if frame is None:
            return
        self.put(name, frame)
        if frame.is_empty():
            self.missing[name] = self._why_empty(name)

    def compare_placebos(self, earlier: list[Parameters]) -> None:
        """Compare speeds where nothing was changed; ends where the history does."""
        self.step(_PLACEBO)
        found = placebo_comparisons(
            earlier, lambda shifted: self._computed("client_speeds", shifted, "placebo_comparisons")
        )
        if found is not None:
            self.put("placebo_comparisons", found)

    def _computed(self, name: str, parameters: Parameters, kept_as: str) -> pl.DataFrame | None:
        """A table by the engine; ``None`` if it fails, which the table ``kept_as`` then has as its reason."""
        from whydrop.studies.discards import queries

        progress = self._within_step if name == kept_as else None
        try:
            return queries.compute(self.backend, parameters, progress, only=(name,))[name]
        except Exception as reason:
            self.failed[kept_as] = _one_line(reason)
            return None

    def look_for_machines(self) -> None:
        """Say which sites the published definitions leave out."""
        try:
            self.notes += diagnosis.of_other_machines(self.backend, self.parameters)
        except Exception as reason:  # the tables are computed, and must not be lost by this
            self.notes.append(f"Whether sites lack the published machine could not be found: {_one_line(reason)}.")

    def conclude(self) -> None:
        """Draw the conclusions from the tables."""
        from whydrop.studies.discards import bins, changes, inference, spread

        if "client_speeds" in self.tables:
            speeds, placebos = self.tables["client_speeds"], self.tables.get("placebo_comparisons")
            self.put("client_spread", spread.client_spread(speeds))
            self.put("comparisons", inference.comparisons(speeds, self.parameters, placebos))
        if "discard_ratio" in self.tables:
            self.put("discard_changes", changes.discard_changes(self.tables["discard_ratio"], self.parameters))
        if "discard_bin_days" in self.tables:
            self.put("discard_bins", bins.discard_bins(self.tables["discard_bin_days"]))

    def finished(self) -> Results:
        """All tables, those that could not be made empty."""
        tables = {name: self.tables.get(name, pl.DataFrame(schema=schema)) for name, schema in results.TABLES.items()}
        names = {**COMPUTED, "placebo_comparisons": _PLACEBO}
        notes = [f"{capital(names[name])} could not be computed: {why}." for name, why in self.failed.items()]
        for name, why in self.missing.items():
            # Both tables of figure 7 are empty for the same reason.
            if name != "contacts" or "contact_days" not in self.missing:
                notes.append(f"{capital(names[name])}: nothing to show: {why}.")
        notes += self.notes
        notes += self.backend.notes
        facts = {"missing": self.missing, "failed": self.failed, "backend": self.backend.name}
        return Results(self.parameters, tables, notes, facts)

    def _why_empty(self, name: str) -> str:
        """Why a table has no rows: the first thing that the store lacks of what it is made of."""
        try:
            return diagnosis.why_empty(self.backend, self.parameters, name)
        except Exception as reason:  # it says why; it must not be why
            return f"the reason could not be found: {_one_line(reason)}"


def _one_line(reason: Exception) -> str:
    text = " ".join(str(reason).split()) or type(reason).__name__
    return text if len(text) <= 300 else f"{text[:300]} ..."

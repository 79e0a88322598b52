"""The days and metros of a study of which the parameters name none: the report's, or the store's own."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from whydrop.studies.discards.parameters import Days, Exposure, Parameters

if TYPE_CHECKING:
    from whydrop.store.engines import Backend

_TABLES = ("counters", "ndt")


def fitted(backend: Backend, parameters: Parameters) -> tuple[Parameters, list[str]]:
    """``parameters``, with the store's own days and metros if it has no rows of the report's, and a note that says so.

    Parameters that were chosen stay as they are. Without the report's days or metros its change of configuration means
    nothing: no periods are compared.
    """
    chosen = parameters.model_fields_set
    days = None if "days" in chosen else _own_days(backend, parameters.days)
    all_metros = "metros" not in chosen and not _any_of(backend, parameters.metros)
    if days is None and not all_metros:
        return parameters, []
    own = parameters.model_copy(
        update={
            **({} if days is None else {"days": days}),
            **({"metros": ()} if all_metros else {}),
            **({} if "change" in chosen else {"change": None}),
            **({} if "metros" in parameters.contact.model_fields_set else {"contact": _of_all(parameters.contact)}),
        }
    )
    where = f"at {', '.join(own.metros)}" if own.metros else "at all sites"
    note = (
        "The store has no data of the published report's days and metros "
        f"({parameters.days.first} to {parameters.days.last}; {', '.join(parameters.metros)}). "
        f"The study takes the store's own: {own.days.first} to {own.days.last}, {where}. "
        "Choose others in a parameter file: `whydrop study discards example` prints one."
    )
    return own, [note]


def _own_days(backend: Backend, days: Days) -> Days | None:
    """The days of the store's rows; ``None`` if there are rows of ``days``, or none at all."""
    ends: list[str] = []
    for name in _TABLES:
        table = backend.table(name)
        found = backend.run(table.aggregate(first=table.day.min(), last=table.day.max()))
        ends += [str(day) for day in found.row(0) if day is not None]
    if not ends:
        return None
    own = Days(first=date.fromisoformat(min(ends)), last=date.fromisoformat(max(ends)))
    return own if own.last < days.first or own.first > days.last else None


def _any_of(backend: Backend, metros: tuple[str, ...]) -> bool:
    """True if the store has rows of any of the metros, or no rows at all."""
    own: set[str] = set()
    for name in _TABLES:
        table = backend.table(name)
        own |= set(backend.run(table.select("metro").distinct())["metro"].drop_nulls())
    return not own or bool(own.intersection(metros))


def _of_all(contact: Exposure) -> Exposure:
    return contact.model_copy(update={"metros": ()})

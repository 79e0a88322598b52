"""The parts that hold each row of a table once, for who only reads: nothing is locked, written or waited for.

A compaction may be going on meanwhile, or may have been cut short: then its new part, still in ``compacting/``, stands
for the parts that it replaces, of which some may be gone (`compacting`). To finish it is for those who write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import polars as pl

from whydrop.store import compacting, parts
from whydrop.store.errors import DamagedPartError, PartGoneError
from whydrop.store.files import Files
from whydrop.store.part_frames import Reader, first_line

T = TypeVar("T")

_Sizes = dict[str, int]


def sound(
    reader: Reader, table: str, days: Iterable[str] | None = None, wanted: Callable[[str], bool] | None = None
) -> _Sizes:
    """The parts that hold each row of a table once, or of some of its days, by name: their bytes.

    Those that are damaged are left out and noted.

    Args:
        reader: of the store.
        table: a name in `tables.TABLES`.
        days: only these are looked for.
        wanted: chooses among the days that are found.
    """
    asked = None if days is None else sorted(set(days))
    while True:
        there = listed(reader, table, asked).items()
        chosen = [(name, size) for name, size in there if wanted is None or wanted(parts.day_of(name))]
        try:
            return {name: size for name, size in chosen if reader.is_sound(table, name, size)}
        except PartGoneError:
            continue


def listed(reader: Reader, table: str, days: Iterable[str] | None = None) -> _Sizes:
    """As :func:`sound`, without looking into the parts themselves."""
    while True:
        there, staged = _steady(reader.files, table, days)
        try:
            for name, size in staged.items():
                _put_in_place(reader, there, name, size)
        except PartGoneError:
            continue
        return dict(sorted(there.items()))


def _put_in_place(reader: Reader, there: _Sizes, staged: str, size: int) -> None:
    """Have a staged part stand for those that it replaces.

    Raises:
        PartGoneError: it is in its place now.
    """
    if compacting.place_of(staged) in there:
        # An object store copies it there before it removes the staged one.
        return
    try:
        replaced = compacting.replaced_by(reader, staged)
    except PartGoneError:
        raise
    except DamagedPartError as reason:
        reader.damaged(staged, f"{compacting.UNREADABLE}: {reason.damage}")
        return
    for name in replaced:
        there.pop(name, None)
    there[staged] = size


def _steady(files: Files, table: str, days: Iterable[str] | None) -> tuple[_Sizes, _Sizes]:
    """The parts in their places and the staged ones, as they were at one moment.

    A listing takes time. A row may move between two parts meanwhile: into a staged one in a folder that was listed
    before, or out of it into a folder that was. Then a part is gone, or a compacted one new, in the next listing.
    """
    before = _listing(files, table, days)
    while True:
        found = _listing(files, table, days)
        (there, staged), (was_there, was_staged) = found, before
        new = there.keys() - was_there.keys()
        if staged == was_staged and was_there.keys() <= there.keys() and not any(map(parts.is_compacted, new)):
            return found
        before = found


def _listing(files: Files, table: str, days: Iterable[str] | None) -> tuple[_Sizes, _Sizes]:
    folders = [table] if days is None else [parts.folder(table, day) for day in days]
    there: _Sizes = {}
    staged: _Sizes = {}
    for folder in folders:
        there |= files.sizes(folder, ".parquet")
    for folder in folders:
        staged |= files.sizes(f"{compacting.STAGING}/{folder}", ".parquet")
    return there, staged


def by_day(reader: Reader, table: str, work: Callable[[_Sizes], T], days: Iterable[str] | None = None) -> list[T]:
    """Apply ``work`` to the parts of each day; to a day that is compacted meanwhile once more.

    Args:
        reader: of the store.
        table: a name in `tables.TABLES`.
        work: is given parts by name, with their bytes; raises :class:`PartGoneError` where one is gone.
        days: only these.
    """
    of_days: dict[str, _Sizes] = {}
    for name, size in sound(reader, table, days).items():
        of_days.setdefault(parts.day_of(name), {})[name] = size
    found = []
    for day, listed_parts in of_days.items():
        there = listed_parts
        while True:
            try:
                found.append(work(there))
                break
            except PartGoneError:
                there = sound(reader, table, [day])
    return found


def collected(
    reader: Reader, table: str, query: Callable[[pl.LazyFrame], pl.LazyFrame], days: Iterable[str] | None = None
) -> pl.DataFrame:
    """Run a query that looks at each row by itself on a table, or on some of its days."""
    asked = None if days is None else set(days)
    there = sound(reader, table, asked)
    try:
        return query(reader.lazy(table, there)).collect()
    except (pl.exceptions.PolarsError, OSError):
        # A part is damaged inside, or gone: what is in the others is known day by day.
        empty = query(reader.lazy(table, [])).collect()

    def of_day(there: _Sizes) -> pl.DataFrame:
        failed: dict[str, Exception] = {}
        found = [empty]
        for name in there:
            try:
                found.append(query(reader.lazy(table, [name])).collect())
            except (pl.exceptions.PolarsError, OSError) as reason:
                failed[name] = reason
        for name in failed:
            if not reader.files.exists(name):
                raise PartGoneError(reader.files.show(name))
        for name, why in failed.items():
            reader.damaged(name, f"damaged: {first_line(why)}")
        return pl.concat(found)

    return pl.concat([empty, *by_day(reader, table, of_day, asked)])

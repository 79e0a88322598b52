"""Parts of a store as frames. A part that is damaged is left out and named; it hides none of the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.store import capture_tables, parts, tables
from whydrop.store.errors import DamagedPartError, PartGoneError, StoreError
from whydrop.store.files import Files

if TYPE_CHECKING:
    from pyarrow import NativeFile, parquet


@dataclass
class Reader:
    """Reads parts, and keeps note of those that it could not read."""

    files: Files
    notes: list[str] = field(default_factory=list)  # sentences, one for each part

    def parts(self, table: str, day: str, *, to_compare: bool = False) -> dict[str, int]:
        """The sound parts of a day of a table, by name: their bytes. For who changes it, and holds its lock.

        Raises:
            StoreError: one is there and cannot be opened, and rows are to be compared with its own (``to_compare``):
                left out because a permission or the network is missing, they would be added a second time.
        """
        found = self.files.sizes(parts.folder(table, day), ".parquet")
        return {name: size for name, size in found.items() if self.is_sound(table, name, size, to_compare=to_compare)}

    def is_sound(self, table: str, name: str, size: int, *, to_compare: bool = False) -> bool:
        """True if both ends of a part can be read; a part that cannot is noted.

        Raises:
            PartGoneError: it is not there any more.
            StoreError: as :meth:`parts` has it.
        """
        try:
            with self.files.filesystem.open_input_file(self.files.path(name)) as content:
                damage = parts.damage(size, content) or _foreign(table, content)
        except FileNotFoundError:
            raise PartGoneError(self.files.show(name)) from None
        except OSError as reason:
            damage = reason.strerror or " ".join(str(reason).split())
            if to_compare:
                words = "new rows of this day cannot be compared with those in it, and are not written"
                raise StoreError(f"{self.files.show(name)}: {damage}: {words}") from reason
        if damage is not None:
            self.damaged(name, damage)
        return damage is None

    def damaged(self, name: str, damage: str) -> None:
        """Take note of a part that cannot be read; of what is found first, where several readers find something."""
        shown = self.files.show(name)
        if any(note.startswith(f"{shown}: ") for note in self.notes):
            return
        if name.partition("/")[0] in capture_tables.TABLES:
            again = "explain the captures that its rows came from into a new store"
        else:
            again = "read the files that its rows came from with `whydrop store import --again`"
        self.notes.append(f"{shown}: {damage}. This part is left out: move it out of the store, and {again}")

    def footer(self, name: str) -> parquet.FileMetaData:
        """Read a part's footer.

        Raises:
            PartGoneError: it is not there any more.
            DamagedPartError: it cannot be read.
        """
        from pyarrow import ArrowException, parquet

        try:
            return parquet.read_metadata(self.files.path(name), filesystem=self.files.filesystem)
        except FileNotFoundError:
            raise PartGoneError(self.files.show(name)) from None
        except (ArrowException, OSError) as reason:
            raise DamagedPartError(self.files.show(name), f"damaged: {' '.join(str(reason).split())}") from None

    def lazy(self, table: str, names: Iterable[str]) -> pl.LazyFrame:
        """Rows of some parts, with the column ``day``; read when they are collected.

        A part of an older version may lack columns, which are null then; one of a newer may have more.
        """
        names = list(names)
        schema = {**tables.TABLES[table], "day": pl.String()}
        if not names:
            return pl.LazyFrame(schema=schema)
        if self.files.local is not None:
            return pl.concat([self._of_day(table, day, of) for day, of in _by_day(names).items()])
        return pl.scan_pyarrow_dataset(self.dataset(table, names))

    def dataset(self, table: str, names: Iterable[str]) -> Any:
        """Some parts as an Arrow data set, with the column ``day``."""
        import pyarrow as pa
        from pyarrow import dataset

        return dataset.dataset(
            [self.files.path(name) for name in names],
            schema=pl.DataFrame(schema={**tables.TABLES[table], "day": pl.String()}).to_arrow().schema,
            filesystem=self.files.filesystem,
            format="parquet",
            partitioning=dataset.HivePartitioning(pa.schema([("day", pa.string())])),
            # Of the store: a part that is being put in its place is not below its table yet.
            partition_base_dir=self.files.path(""),
        )

    def _of_day(self, table: str, day: str, names: Sequence[str]) -> pl.LazyFrame:
        rows = pl.scan_parquet(
            [self.files.path(name) for name in names],
            glob=False,
            schema=tables.TABLES[table],
            missing_columns="insert",
            extra_columns="ignore",
            # It would take every KEY=VALUE of the path for a column, also of the folders that the store is in.
            hive_partitioning=False,
        )
        return rows.with_columns(pl.lit(None if day == parts.NO_DAY else day, dtype=pl.String()).alias("day"))

    def like(self, table: str, names: Iterable[str], rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of some parts that have the key of one of ``rows``."""
        time, keys = tables.TIME[table], list(tables.KEYS[table])
        times = rows[time]
        wanted = pl.col(time).is_null()
        if times.len() > times.null_count():
            wanted |= pl.col(time).is_between(times.min(), times.max())
        found = [pl.DataFrame(schema=tables.TABLES[table])]
        for name in names:
            # One by one: what is wanted of a part is little, and all of a day may be much.
            try:
                read = self.lazy(table, [name]).filter(wanted).drop("day").collect()
            except (pl.exceptions.PolarsError, OSError) as reason:
                self.damaged(name, f"damaged: {first_line(reason)}")
                continue
            found.append(tables.conform(table, read).join(rows.select(keys), on=keys, how="semi", nulls_equal=True))
        return pl.concat(found)


def _by_day(names: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(parts.day_of(name), []).append(name)
    return found


def _foreign(table: str, content: NativeFile) -> str | None:
    """Say why a Parquet file holds no rows of ``table``: other columns may be missing, those of its key not."""
    from pyarrow import ArrowException, parquet

    try:
        columns = parquet.read_metadata(content).schema.names
    except (ArrowException, OSError) as reason:
        # Arrow calls a footer that cannot be understood an error of the system, too: its two ends could be read.
        return f"damaged: {' '.join(str(reason).split())}"
    missing = [name for name in (tables.TIME[table], *tables.KEYS[table]) if name not in columns]
    return f"no part of the table {table}: it has no {missing[0]}" if missing else None


def first_line(reason: Exception) -> str:
    """The problem, without the query plan that polars appends."""
    return str(reason).strip().partition("\n")[0]

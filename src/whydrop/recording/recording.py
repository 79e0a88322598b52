"""Reading a recording: its metadata, its tables, and its series, which is what plots and statistics work on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.recording import document, table_files, tables
from whydrop.recording.errors import RecordingError
from whydrop.recording.grid import Grid, computed_plans, computed_series, steps
from whydrop.recording.series import Series, Sources, Tables, sources
from whydrop.recording.writer import RecordingWriter, latest_flows

if TYPE_CHECKING:
    from whydrop import Explanation, Plot

__all__ = ["Recording", "RecordingError", "Series"]

# The step of recordings without one; Flent's.
_DEFAULT_STEP_S = 0.2

# A step of more than a month is none; nanoseconds of it must fit into 64 bits.
_LONGEST_STEP_S = 31 * 86400.0

_NS_PER_S = 1_000_000_000

# Columns of time by table; what a recording spans is found from them.
_TIMES = {
    "intervals": ("start_ns", "end_ns"),
    "tcp_info": ("time_ns",),
    "probes": ("scheduled_ns", "sent_ns", "received_ns"),
    "bursts": ("sent_ns", "received_ns"),
    "fetches": ("start_ns",),
    "counters": ("time_ns",),
    "values": ("time_ns",),
    "drops": ("start_ns", "end_ns"),
}


class Recording:
    """A recording on disk, complete or interrupted; or what was imported from another tool's file.

    Attributes:
        path: its folder, or the file that it was imported from.
        metadata: the contents of ``recording.json``.
        notes: what a reader should know about its state: interrupted, damaged parts, ...
    """

    path: Path
    metadata: dict[str, Any]
    notes: list[str]

    def __init__(
        self,
        path: str | PathLike[str],
        metadata: dict[str, Any],
        in_memory: Mapping[str, pl.DataFrame] | None = None,
        notes: list[str] | None = None,
    ) -> None:
        """A recording with its tables ``in_memory``, or else in files in the folder ``path``."""
        self.path = Path(path)
        self.metadata = document.check({"schema": document.SCHEMA, **metadata}, str(path))
        self.notes = list(notes or ())
        self._on_disk = in_memory is None
        self._unfinished = False
        self._tables = {
            name: latest_flows(name, tables.conform(name, frame)) for name, frame in (in_memory or {}).items()
        }
        self._columns: dict[str, pl.DataFrame] = {}
        self._sources: Sources | None = None
        self._series: list[Series] | None = None
        self._by_flow = Tables(self.table, self.columns, self._nulls)
        self._footers: dict[str, dict[str, tuple[int, int]]] = {}
        self._grids: dict[tuple[float, tuple[int, ...]], Grid] = {}
        self._imported: dict[str, pl.DataFrame] | None = None
        self._span: tuple[int, int] | None = None

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Recording:
        """Open the folder of a recording; :func:`whydrop.open` reads files of other tools, too.

        Raises:
            RecordingError: not a recording; the message names the file and what was expected.
        """
        path = Path(path)
        if path.name == document.FILE_NAME:
            path = path.parent
        found = cls(path, document.read(path))
        found._note_if_unfinished()
        return found

    def _repr_html_(self) -> str:
        shown = [("test", self.metadata["name"]), ("title", self.metadata["title"]), ("status", self.status)]
        rows = [*shown, ("series", len(self.series())), *(("note", note) for note in self.notes)]
        cells = (f"<tr><th>{name}</th><td>{escape(str(value))}</td></tr>" for name, value in rows if value)
        return f"<table><caption>{escape(str(self.path))}</caption>{''.join(cells)}</table>"

    @property
    def status(self) -> str:
        """``running``, ``complete``, ``interrupted`` or ``failed``."""
        return str(self.metadata["status"])

    @property
    def step_s(self) -> float:
        """From one step of the grid to the next."""
        step_s = self.metadata["test"].get("step_s")
        usable = isinstance(step_s, (int, float)) and not isinstance(step_s, bool) and 0 < step_s < _LONGEST_STEP_S
        return float(step_s) if usable else _DEFAULT_STEP_S

    @property
    def started_ns(self) -> int:
        """The start of the test and of the grid; if unknown, the first sample."""
        told = self.metadata["started_ns"]
        return told if isinstance(told, int) else self._first_and_last()[0]

    def table(self, name: str) -> pl.DataFrame:
        """A table by name; empty where the recording has none.

        Raises:
            RecordingError: its file cannot be read.
        """
        if name not in self._tables:
            if name not in tables.TABLES:
                raise RecordingError(f"no table is called {name!r}; there are {', '.join(tables.TABLES)}")
            self._tables[name] = latest_flows(name, self._read(name))
            self._columns.pop(name, None)
        return self._tables[name]

    def columns(self, name: str, *wanted: str) -> pl.DataFrame:
        """Columns of a table, in the order in which they are named; the others are not read for it.

        Raises:
            RecordingError: its file cannot be read.
        """
        if name in self._tables or name not in tables.TABLES or name == "flows" or not self._has_file(name):
            return self.table(name).select(wanted)
        known = self._columns.get(name)
        lacking = [column for column in wanted if known is None or column not in known.columns]
        if lacking:
            read = table_files.from_parquet(self.path, name, self.notes, lacking)
            self._columns[name] = read if known is None else known.hstack(read)
        return self._columns[name].select(wanted)

    def of_flow(self, name: str, flow: int, *wanted: str) -> pl.DataFrame:
        """Columns of the rows of a flow in a table; none named: all.

        Raises:
            RecordingError: its file cannot be read.
        """
        return self._by_flow.of_flow(name, flow, wanted or tables.TABLES[name])

    def series(self, *patterns: str) -> list[Series]:
        """The series with names that match any pattern, in order of the test; no pattern: all.

        Patterns are those of ``fnmatch``, with case. Without ``::`` they mean flows' own series and computed ones;
        further quantities of a flow and counters need it: "TCP upload*::tcp_cwnd".
        """
        if patterns:
            return self._all_series(
                self._measured().matching(patterns), lambda series: any(map(series.matches, patterns))
            )
        if self._series is None:
            self._series = self._all_series([one.series for one in self._measured().values()], lambda _: True)
        return list(self._series)

    def samples(self, name: str) -> pl.DataFrame:
        """The raw values of a series: ``time_ns``, ``value`` (null: measured but no value, such as a lost probe).

        Of computed series, and of those that another tool's file has only on a grid: the values on the grid.

        Raises:
            RecordingError: there is no such series.
        """
        source = self._measured().get(name)
        samples = source.samples() if source is not None else None
        if samples is not None and (samples.height or name not in self._imported_grid()):
            return samples
        on_grid = self.grid(name)
        since_start = (pl.col("time_s") * _NS_PER_S).round().cast(pl.Int64)
        return on_grid.select(time_ns=self.started_ns + since_start, value=pl.col(name)).drop_nulls("value")

    def grid(self, *names: str, step_s: float | None = None, edges_ns: Sequence[int] = ()) -> pl.DataFrame:
        """Series on one grid of steps from the start: ``time_s`` and one column a name, null in gaps.

        Interpolated linearly between samples of which the later is no more than five steps away, as Flent does, so
        that figures agree; loss of probes is the mean of each step. See `recording.gridding`.

        Args:
            names: of series; none: all of them.
            step_s: that of the test where it is left out.
            edges_ns: times across which nothing is interpolated, in order, such as the start and the end of the load.

        Raises:
            RecordingError: there is no such series, or the step is too short for the time that the samples span.
        """
        grid = self._grid(self.step_s if step_s is None else step_s, tuple(edges_ns))
        columns = {}
        for name in names or tuple(series.name for series in self.series()):
            try:
                columns[name] = grid.column(name)
            except KeyError:
                raise RecordingError(f"{self.path}: no series is called {name!r}{self._like(name)}") from None
        return pl.DataFrame({"time_s": grid.time_s, **columns}).with_columns(pl.all().exclude("time_s").fill_nan(None))

    def flows_without_data(self) -> list[str]:
        """The names of flows that yielded nothing."""
        names = [name for name in _TIMES if "flow" in tables.TABLES[name]]
        on_grid = {name for name, frame in self._imported_grid().items() if frame["value"].is_not_null().any()}
        return [
            row["name"]
            for row in self._by_flow.flows()
            if row["name"] is not None
            and row["name"] not in on_grid
            and not any(self._by_flow.has_rows(name, row["flow"]) for name in names)
        ]

    def summary(self) -> dict[str, Any]:
        """The figures of the recording: what ``whydrop show --json`` prints (docs/recordings.md).

        >>> import whydrop
        >>> whydrop.open("rrul.recording").summary()["induced_latency"]  # doctest: +SKIP
        """
        import whydrop

        return whydrop.summary(self)

    def plot(self, name: str | None = None, **options: Any) -> Plot:
        """Draw a plot of the catalogue, by default that of the test; the options are those of :func:`whydrop.plot`.

        >>> import whydrop
        >>> whydrop.open("rrul.recording").plot("all").write("rrul.png")  # doctest: +SKIP
        """
        import whydrop

        return whydrop.plot(self, name=name, **options)[0]

    def explain(self, *captures: str | PathLike[str], sequence: bool = False) -> Explanation:
        """Explain why packets were lost or delayed, with captures of the same test where there are any.

        :func:`whydrop.explain` says more.
        """
        import whydrop

        return whydrop.explain(self, *captures, sequence=sequence)

    def __repr__(self) -> str:
        title = f" {self.metadata['title']!r}" if self.metadata["title"] else ""
        return f"<whydrop.Recording {self.metadata['name']}{title}: {self.status}, {self.path}>"

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write a copy of it, with all its tables, into a new folder; returns the folder.

        Raises:
            RecordingError: the folder cannot be written.
        """
        status = self.status
        writer = RecordingWriter(folder, self.metadata)
        for name in tables.TABLES:
            writer.append(name, self.table(name))
        return writer.finish("interrupted" if status == "running" else status)

    # How it is read.

    def _note_if_unfinished(self) -> None:
        if self.status != "running":
            return
        self._unfinished = (self.path / table_files.FOLDER_NAME).is_dir()
        if not self._unfinished:
            # It may have been finished since its metadata were read.
            self.metadata = document.read(self.path)
            if self.status != "running":
                return
        if table_files.is_being_written(self.path):
            self.notes.append("it is being measured at this moment: what follows is what it has so far")
            return
        self.metadata["status"] = "interrupted"
        self.notes.append("interrupted: the test was killed while it ran; everything up to the last flush is here")

    def _read(self, name: str) -> pl.DataFrame:
        if not self._on_disk:
            return tables.empty(name)
        if self._unfinished:
            frame = table_files.from_stream(self.path, name, self.notes)
            if frame is not None:
                return frame
            self._unfinished = False
            self.metadata = document.read(self.path)
        counts = self.metadata.get("tables")
        rows = counts.get(name) if isinstance(counts, dict) else None
        if rows and not table_files.has_parquet(self.path, name):
            raise RecordingError(
                f"{self.path}: {name}.parquet is missing; according to {document.FILE_NAME} it has {rows} rows: "
                "the recording was not copied whole"
            )
        return table_files.from_parquet(self.path, name, self.notes)

    def _nulls(self, name: str, column: str) -> tuple[int, int] | None:
        """The nulls and the rows of a column, if the end of its file has them."""
        if name in self._tables or not self._has_file(name):
            return None
        if name not in self._footers:
            self._footers[name] = table_files.nulls_of(self.path, name)
        return self._footers[name].get(column)

    def _has_file(self, name: str) -> bool:
        return self._on_disk and not self._unfinished and table_files.has_parquet(self.path, name)

    def _measured(self) -> Sources:
        if self._sources is None:
            self._sources = sources(self._by_flow)
        return self._sources

    def _all_series(self, found: list[Series], wanted: Callable[[Series], bool]) -> list[Series]:
        """Those found of flows, wanted computed ones and those on the grid of an imported file alone, and counters."""
        measured = self._measured()
        flows = [series for series in found if series.kind != "counter"]
        counters = [series for series in found if series.kind == "counter"]
        plans = computed_plans(self.metadata["test"]).values()
        computed = [computed_series(plan) for plan in plans if plan["name"] not in measured]
        known = {series.name for series in computed}
        on_grid = [name for name in self._imported_grid() if name not in measured and name not in known]
        other = [Series(name, None, "computed", "value", "") for name in on_grid]
        return [*flows, *filter(wanted, computed), *filter(wanted, other), *counters]

    def _imported_grid(self) -> dict[str, pl.DataFrame]:
        if self._imported is None:
            frame = self.table("grids")
            parts = frame.partition_by("name", as_dict=True, maintain_order=True) if frame.height else {}
            self._imported = {str(key[0]): part for key, part in parts.items()}
        return self._imported

    def _grid(self, step_s: float, edges_ns: tuple[int, ...]) -> Grid:
        if (step_s, edges_ns) not in self._grids:
            self._grids[step_s, edges_ns] = Grid(
                step_s,
                self._steps(step_s),
                self.started_ns,
                self._measured(),
                self.metadata["test"],
                self._imported_grid(),
                frozenset(self.flows_without_data()),
                tuple((edge_ns - self.started_ns) / _NS_PER_S for edge_ns in edges_ns),
            )
        return self._grids[step_s, edges_ns]

    def _steps(self, step_s: float) -> int:
        """How many steps the grid has: those of another tool's file, or what the samples span."""
        imported = next(iter(self._imported_grid().values()), None)
        if imported is not None and step_s == self.step_s:
            return imported.height
        span_s = (self._first_and_last()[1] - self.started_ns) / _NS_PER_S
        if imported is not None and imported.height:
            span_s = max(span_s, float(imported["time_s"][-1]) + self.step_s)
        try:
            return steps(max(0.0, span_s), step_s)
        except ValueError as reason:
            raise RecordingError(f"{self.path}: {reason}") from None

    def _first_and_last(self) -> tuple[int, int]:
        if self._span is None:
            columns = [column for name, of_table in _TIMES.items() for column in self.columns(name, *of_table)]
            lows = [low for low in (column.min() for column in columns) if isinstance(low, int)]
            highs = [high for high in (column.max() for column in columns) if isinstance(high, int)]
            told = self.metadata["started_ns"] or 0
            self._span = (min(lows, default=told), max(highs, default=told))
        return self._span

    def _like(self, name: str) -> str:
        import difflib

        # Of a damaged table flows may have no name.
        names = [series.name for series in self.series() if isinstance(series.name, str)]
        near = difflib.get_close_matches(name, names, 1) if isinstance(name, str) else ()
        return f"; did you mean {near[0]!r}?" if near else ""

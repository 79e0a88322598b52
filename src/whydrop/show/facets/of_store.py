"""Faceted pictures of a store's tables: an engine thins the rows to what pixels show, however many there are."""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from whydrop.show import labels
from whydrop.show.facets import building
from whydrop.show.facets.building import Words
from whydrop.show.facets.distributions import KINDS, Distributions
from whydrop.show.facets.schema import Axis, FacetSpec
from whydrop.show.figure import Counts, Figure, NothingToDraw
from whydrop.show.plots.catalogue import PlotError
from whydrop.store.tables import TABLES

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from whydrop.store.engines import Backend

# More pictures are a mistake: a filter or another column is meant.
_MOST_FIGURES, _MOST_PANELS, _MOST_GROUPS = 20, 120, 60
# The cells of a whole picture, twice as fine as it is drawn by default.
_COLUMNS, _ROWS = 1800, 800

_FILTER = re.compile(r"(\w+)\s*(!=|<=|>=|=|<|>)\s*(.*)", re.DOTALL)
# Nanoseconds since the Unix epoch; other columns in nanoseconds are durations.
_INSTANTS = {"end_ns", "start_ns", "time_ns", "due_ns", "poll_start_ns", "poll_end_ns"}
_UNITS = (("_ns", "s", 1e-9), ("_bps", "bit/s", 1.0), ("_bytes", "bytes", 1.0), ("_segments", "segments", 1.0))

# What is not in the table, but of it: growth over the time in which it grew; octets as bit/s.
RATE = "rate"

_KEYS = ("figure", "panel", "group")


@dataclass(frozen=True)
class Options:
    """The options of a figure from a store.

    Attributes:
        table: one of the store's.
        x: a column of numbers, by default the table's time; none of a distribution.
        y: a column of numbers, by default ``value`` where the table has one.
        figure_by: columns with values that make pictures, ``panel_by`` panels, ``group_by`` styles.
        filters: conditions, such as ``site=dfw*`` or ``value>0``; all must hold.
        kind: points, lines through the samples of a group, or the distribution of y in each group.
        log: whether the axis of the values of y is logarithmic.
    """

    table: str
    y: str | None = None
    x: str | None = None
    figure_by: Sequence[str] = ()
    panel_by: Sequence[str] = ()
    group_by: Sequence[str] = ()
    filters: Sequence[str] = ()
    kind: Literal["points", "line", "cdf", "histogram"] = "points"
    log: bool = False


def facets(backend: Backend, options: Options) -> list[Figure]:
    """The pictures that the options ask for, in order.

    Raises:
        PlotError: the options name what a store has not; the message says what it has.
        NothingToDraw: no row fits, or far too many pictures or panels would be needed.
        BackendError: the engine failed.
    """
    x, y = _checked(options)
    found = _Query(backend, options, x, y)
    spec = _spec(options, x, y)
    overview = found.overview()
    if not overview.height or not overview["rows"].sum():
        raise NothingToDraw(f"table {options.table}: no rows{_why(options)}")
    if not (overview["rows"] - overview["missing"] - overview["negative"]).sum():
        counts = Counts(int(overview["rows"].sum()), negative=int(overview["negative"].sum()),
                        missing=int(overview["missing"].sum()), because=spec.missing, what="rows")  # fmt: skip
        raise NothingToDraw(f"table {options.table}: {counts.words()}")
    _bearable(overview, options)
    if options.kind in KINDS:
        return _distributions(found, spec, overview, options)
    thinned = found.thinned(overview, options.kind)
    made = []
    for name in sorted(overview["figure"].unique().to_list(), key=labels.natural):
        own = overview.filter(pl.col("figure") == name)
        counts = Counts(
            rows=int(own["rows"].sum()), zeros=int(own["zeros"].sum()), negative=int(own["negative"].sum()),
            missing=int(own["missing"].sum()), because=spec.missing,
        )  # fmt: skip
        frame = thinned.filter(pl.col("figure") == name)
        title = spec.model_copy(update={"title": f"{spec.title}: {name}"}) if name else spec
        notes = [] if frame.height == counts.rows - counts.missing - counts.negative else [_THINNED]
        laid_out = building.build(
            name or options.table, title, frame, Words(_subtitle(options), notes=notes, counts=counts)
        )
        made.append(laid_out)
    return made


def _distributions(found: _Query, spec: FacetSpec, overview: pl.DataFrame, options: Options) -> list[Figure]:
    """The pictures of distributions, each with how many rows it is of."""
    if not overview["y_low"].count():
        raise NothingToDraw(f"table {options.table}: no row has {options.y or 'a value'} above 0, which --log needs")
    over = ("figure", "panel") if "counter" in options.panel_by else ("figure",)
    made = []
    for name in sorted(overview["figure"].unique().to_list(), key=labels.natural):
        own = overview.filter(pl.col("figure") == name)
        asked = Distributions(found.backend, found.of_figure(name), own, options.log, over)
        missing, because = int(own["missing"].sum()), spec.missing
        if options.kind == "histogram" and asked.below:
            missing += asked.below
            because += ", or 0 or below, where a logarithmic axis has no place"
        counts = Counts(int(own["rows"].sum()), missing=missing, because=because, what="rows")
        title = spec.model_copy(update={"title": f"{spec.title}: {name}"}) if name else spec
        words = Words(_subtitle(options), notes=asked.words(options.kind), counts=counts)
        made.append(building.build(name or options.table, title, asked.frame(options.kind), words))
    return made


_THINNED = "Rows that would fall on the same pixels are drawn once."


def _checked(options: Options) -> tuple[str, str]:
    """The columns of x and y, once all columns are known to be there."""
    if options.table not in TABLES:
        raise PlotError(f"--table: a store has no table {options.table!r}; it has {', '.join(TABLES)}")
    schema = TABLES[options.table]
    y = options.y or ("value" if "value" in schema else "")
    if not y:
        raise PlotError(f"--y: which column of {options.table}? It has {', '.join(schema)}.")
    if options.kind in KINDS and options.x:
        raise PlotError(f"--x: a {options.kind} has the values of --y on its horizontal axis, and no other column")
    x = y if options.kind in KINDS else options.x or next(column for column in schema if column in _INSTANTS)
    named = {"--y": (y,), "--x": (x,), "--figure-by": options.figure_by, "--panel-by": options.panel_by,
             "--group-by": options.group_by}  # fmt: skip
    for option, columns in named.items():
        for column in columns:
            _column(option, options.table, column)
            if option in ("--x", "--y") and schema.get(column) == pl.String():
                raise PlotError(f"{option}: {column} is text; expected a column of numbers, such as {_numbers(schema)}")
    return x, y


def _column(option: str, table: str, column: str) -> None:
    known = [*TABLES[table], "day"]
    if (table, column) == ("counters", RATE) and option in ("--x", "--y"):
        return
    if column not in known:
        near = difflib.get_close_matches(column, known, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise PlotError(f"{option}: table {table} has no column {column!r}{hint}; it has {', '.join(known)}")


def _numbers(schema: dict[str, pl.DataType]) -> str:
    return ", ".join([column for column, kind in schema.items() if kind != pl.String()][:4])


def _why(options: Options) -> str:
    return f" that --filter {' '.join(options.filters)} leaves" if options.filters else " in this store"


def _subtitle(options: Options) -> str:
    return f"{options.table}: {', '.join(options.filters)}" if options.filters else options.table


def _bearable(overview: pl.DataFrame, options: Options) -> None:
    """Refuse more than a person could look at, and say what to do."""
    panels = overview.group_by("figure").agg(pl.col("panel").n_unique())["panel"].max()
    groups = overview.group_by("figure", "panel").agg(pl.col("group").n_unique())["group"].max()
    for what, number, most, option in (
        ("pictures", overview["figure"].n_unique(), _MOST_FIGURES, options.figure_by),
        ("panels in one picture", panels, _MOST_PANELS, options.panel_by),
        ("groups in one panel", groups, _MOST_GROUPS, options.group_by),
    ):
        if isinstance(number, int) and number > most:
            raise NothingToDraw(
                f"{' and '.join(option)}: {number} {what} would be drawn, more than {most}; leave some out with "
                f"--filter, such as --filter '{(*option, 'site')[0]}=a*'"
            )


def _spec(options: Options, x_column: str, y_column: str) -> FacetSpec:
    x, y = _axis(x_column, log=False), _axis(y_column, log=options.log)
    counter = _counter(options, y_column)
    if counter and y_column == RATE:
        y = y.model_copy(update={"title": counter, "unit": "bit/s" if counter.startswith("octets") else "per second"})
    elif counter:
        unit = "bytes" if counter.startswith("octets") else "packets"
        y = y.model_copy(update={"title": f"{counter} in each sample", "unit": unit})
    if options.kind == "cdf" or options.kind == "histogram":
        return _spec_of_distribution(options, y, counter or f"{y_column} of {options.table}")
    return FacetSpec(
        title=counter or f"{y_column} of {options.table}",
        kind=options.kind,
        x=x,
        y=y,
        # Octets and packets have no axis in common.
        share="x" if "counter" in options.panel_by else "both",
        wide=x.scale == "time",
        breaks=x.scale == "time",
        missing=f"without {x_column} or {y_column}",
    )


def _spec_of_distribution(options: Options, values: Axis, title: str) -> FacetSpec:
    cdf = options.kind == "cdf"
    return FacetSpec(
        title=f"Distribution of {title}",
        kind="line" if cdf else "density",
        x=values,
        y=Axis(title="Rows up to the value" if cdf else "Rows in each bin", unit="% of the group"),
        share="y" if "counter" in options.panel_by else "both",
        missing=f"without {options.y or 'value'}",
    )


def _counter(options: Options, y: str) -> str:
    """The one counter of which growth is drawn, if it is one."""
    if options.table != "counters" or y not in ("value", RATE):
        return ""
    named = [text.partition("=")[2].strip() for text in options.filters if re.match(r"counter\s*=", text.strip())]
    return named[0] if len(named) == 1 and not any(sign in named[0] for sign in "*?") else ""


def _axis(column: str, *, log: bool) -> Axis:
    if column in _INSTANTS:
        return Axis(title="Time", unit="UTC", scale="time")
    for suffix, unit, _ in _UNITS:
        if column.endswith(suffix):
            return Axis(title=column.removesuffix(suffix), unit=unit, scale="log" if log else "linear")
    return Axis(title=column, scale="log" if log else "linear")


class _Query:
    """The rows that the options ask for, in an engine: figure, panel, group, x and y."""

    def __init__(self, backend: Backend, options: Options, x: str, y: str) -> None:
        import ibis

        self.backend, self._log = backend, options.log
        first, last, conditions = _conditions(options)
        table = backend.table(options.table, first, last)
        for column, operation, value in conditions:
            table = table.filter(_holds(table[column], operation, value))
        kinds = {"figure": options.figure_by, "panel": options.panel_by, "group": options.group_by}
        texts = {}
        for name, columns in kinds.items():
            parts: list[Any] = []
            for column in columns:
                parts += [" ", table[column].cast("string").fill_null("none")]
            texts[name] = ibis.literal("") if not parts else _joined(parts[1:])
        self._rows = table.select(x=_scaled(table, x), y=_scaled(table, y), **texts)

    def overview(self) -> pl.DataFrame:
        """One row for each figure, panel and group: how many rows, why some are not drawn, and the ends."""
        import ibis

        rows = self._rows
        known = rows.x.notnull() & rows.y.notnull()
        zero, negative = (
            (known & (rows.y == 0), known & (rows.y < 0)) if self._log else (known & ibis.literal(False),) * 2
        )
        shown = known & ~zero & ~negative
        query = rows.group_by(*_KEYS).agg(
            rows=rows.count(),
            missing=(~known).cast("int64").sum(),
            zeros=zero.cast("int64").sum(),
            negative=negative.cast("int64").sum(),
            x_low=rows.x.min(where=known & ~negative),
            x_high=rows.x.max(where=known & ~negative),
            y_low=rows.y.min(where=shown),
            y_high=rows.y.max(where=shown),
            whole=(rows.y == rows.y.floor()).cast("int64").min(where=shown),
        )
        return self.backend.run(query)

    def of_figure(self, name: str) -> ir.Table:
        """The rows of one picture."""
        return self._rows.filter(self._rows.figure == name)

    def thinned(self, overview: pl.DataFrame, kind: str) -> pl.DataFrame:
        """The rows that pixels can show: one a cell for points; first, last, lowest, highest of a column for lines."""
        rows = self._rows.filter(self._rows.x.notnull() & self._rows.y.notnull())
        if self._log:
            rows = rows.filter(rows.y >= 0)
        low, high = _ends(overview, "x")
        # A picture's panels share its pixels, and one cell is half a pixel.
        panels = max(overview.group_by("figure").agg(pl.col("panel").n_unique())["panel"].to_list())
        columns = max(300, _COLUMNS // min(4, panels))
        celled = rows.mutate(column=((rows.x - low) * (columns / ((high - low) or 1.0))).floor().cast("int64"))
        return self._lines(celled) if kind == "line" else self._points(celled, overview)

    def _points(self, rows: ir.Table, overview: pl.DataFrame) -> pl.DataFrame:
        low, high = _ends(overview, "y")
        y = rows.y
        if self._log:
            import ibis

            # Zeros are cells of their own.
            y = ibis.cases((rows.y > 0, rows.y.ln()), else_=None)
            low, high = (pl.Series([low, high]).log()).to_list() if low > 0 else (0.0, 1.0)
        cell = ((y - low) * (_ROWS / ((high - low) or 1.0))).floor().cast("int64").fill_null(-1)
        celled = rows.mutate(cell=cell)
        # One of the cell's rows, the same whichever engine counts; its x and y are those of one row.
        query = celled.group_by(*_KEYS, "column", "cell").agg(x=celled.x.min(), y=celled.y.argmin(celled.x))
        return self.backend.run(query).select(*_KEYS, "x", "y").sort(*_KEYS, "x", "y")

    def _lines(self, rows: ir.Table) -> pl.DataFrame:
        query = rows.group_by(*_KEYS, "column").agg(
            x_first=rows.x.min(), y_first=rows.y.argmin(rows.x), x_last=rows.x.max(), y_last=rows.y.argmax(rows.x),
            x_lowest=rows.x.argmin(rows.y), y_lowest=rows.y.min(), x_highest=rows.x.argmax(rows.y),
            y_highest=rows.y.max(),
        )  # fmt: skip
        wide = self.backend.run(query)
        parts = [wide.select(*_KEYS, x=f"x_{end}", y=f"y_{end}") for end in ("first", "lowest", "highest", "last")]
        return pl.concat(parts).unique().sort(*_KEYS, "x", "y")


def _joined(parts: Sequence[Any]) -> Any:
    joined = parts[0]
    for part in parts[1:]:
        joined = joined + part
    return joined


def _scaled(table: ir.Table, column: str) -> Any:
    """A column as numbers in its axis's unit; what is no number (infinite, NaN) is null."""
    import ibis

    if column == RATE:
        in_bits = ibis.cases((table.counter.startswith("octets"), 8.0), else_=1.0)
        spans = ibis.cases((table.span_ns > 0, table.span_ns), else_=None)
        return table.value * in_bits * 1e9 / spans.cast("float64")
    factor = next((factor for suffix, _, factor in _UNITS if column.endswith(suffix)), 1.0)
    value = table[column].cast("float64")
    if table[column].type().is_floating():
        value = ibis.cases((value.isnan() | value.isinf(), None), else_=value).cast("float64")
    return value * factor


def _ends(overview: pl.DataFrame, axis: str) -> tuple[float, float]:
    low, high = overview[f"{axis}_low"].drop_nulls().min(), overview[f"{axis}_high"].drop_nulls().max()
    return (float(low), float(high)) if isinstance(low, float) and isinstance(high, float) else (0.0, 1.0)


# --- conditions ---

_Condition = tuple[str, str, Any]


def _conditions(options: Options) -> tuple[str | None, str | None, list[_Condition]]:
    """Days to read, as far as conditions on ``day`` limit them, and all conditions."""
    first: str | None = None
    last: str | None = None
    found = []
    for text in options.filters:
        column, operation, value = _condition(options.table, text)
        found.append((column, operation, value))
        if column == "day" and "*" not in str(value) and _is_day(str(value)):
            if operation in ("=", ">=", ">"):
                first = max(first or str(value), str(value))
            if operation in ("=", "<=", "<"):
                last = min(last or str(value), str(value))
    if first is not None and last is not None and first > last:
        raise NothingToDraw(f"--filter: no day is from {first} to {last}")
    return first, last, found


def _condition(table: str, text: str) -> _Condition:
    match = _FILTER.fullmatch(text.strip())
    if match is None:
        raise PlotError(
            f"--filter {text!r}: of a store expected a column, =, !=, <, <=, > or >=, and a value, such as "
            "site=dfw* or value>0"
        )
    column, operation, value = match.groups()
    _column(f"--filter {text!r}", table, column)
    kind = TABLES[table].get(column, pl.String())
    if kind == pl.String():
        return column, operation, value
    if value in ("", "null") and operation in ("=", "!="):
        return column, operation, None
    if column in _INSTANTS and (instant := _instant(value)) is not None:
        return column, operation, instant
    try:
        return column, operation, int(value) if kind == pl.Int64() else float(value)
    except ValueError:
        expected = "a time such as 2018-02-11 or 2018-02-11T12:00" if column in _INSTANTS else "a number"
        raise PlotError(f"--filter {text!r}: {column}: expected {expected}, got {value!r}") from None


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _instant(text: str) -> int | None:
    """Nanoseconds since the Unix epoch of an ISO 8601 time, UTC where it says nothing else."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000


_OPERATIONS = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _holds(column: Any, operation: str, value: Any) -> Any:
    """A condition on a column; ``*`` and ``?`` in text are those of a shell."""
    if value is None:
        return column.isnull() if operation == "=" else column.notnull()
    if isinstance(value, str) and operation in ("=", "!=") and any(sign in value for sign in "*?"):
        # Engines disagree about escapes in LIKE, but not about these regular expressions.
        glob = "".join(".*" if sign == "*" else "." if sign == "?" else re.escape(sign) for sign in value)
        matches = column.re_search(f"^{glob}$")
        return matches if operation == "=" else ~matches
    return _OPERATIONS[operation](column, value)

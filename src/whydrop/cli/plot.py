"""``whydrop plot``: pictures of recordings, or their numbers."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Command
from whydrop.cli.progress import working
from whydrop.show import pictures
from whydrop.show.plots import COMBINERS
from whydrop.show.writing import FORMATS

if TYPE_CHECKING:
    from whydrop.show.figure import Figure
    from whydrop.show.plots.options import PlotOptions
    from whydrop.show.plots.schema import PlotSpec

Options = TypeVar("Options")

_STORE = "whydrop-store.json"
_STORE_ONLY = {"x": "--x", "y": "--y", "kind": "--kind"}
# Options with which other plots combine recordings; grids use panels instead.
_NOT_IN_GRIDS = {"combine": "--combine", "reduce": "--reduce", "paired": "--paired", "absolute_time": "--absolute-time"}
_RECORDINGS_ONLY = {
    "limits": "--limits", "window": "--time", "from_zero": "--zero", "scale": "--scale", "baseline": "--baseline",
    "ratio": "--ratio",
}  # fmt: skip

EXAMPLES = """
\b
Examples:
  whydrop plot rrul.recording
  whydrop plot list rrul.recording
  whydrop plot *.recording -p ping_cdf -o cdf.svg
  whydrop plot a.recording -p tcp_cwnd --format csv -o -
  whydrop plot *.recording -p box_combine --group-by title
  whydrop plot *.recording -p ping_cdf --panel-by title
  whydrop plot my.store --table counters --panel-by site
"""


class _Size(click.ParamType):  # type: ignore[type-arg]  # older click has no argument
    name = "WIDTHxHEIGHT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        parts = str(value).lower().split("x")
        if len(parts) == 2 and all(part.isdigit() and 100 <= int(part) <= 10_000 for part in parts):
            return int(parts[0]), int(parts[1])
        raise click.BadParameter(
            f"{value!r}: expected two numbers of pixels from 100 to 10000, such as 1200x800", ctx, param
        )


class _Zoom(click.ParamType):  # type: ignore[type-arg]  # older click has no argument
    name = "LOW:HIGH"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float] | tuple[()]:
        if value == "none" or value == ():
            return ()
        try:
            low, high = (float(part) for part in str(value).split(":"))
        except ValueError:
            low, high = 1.0, 0.0
        if not 0 <= low < high <= 100:
            raise click.BadParameter(f"{value!r}: expected two percentiles such as 5:95, or none", ctx, param)
        return low, high


class _Ends(click.ParamType):  # type: ignore[type-arg]  # older click has no argument
    """Two numbers, and a unit behind them where ``with_unit`` says so."""

    def __init__(self, metavar: str, example: str, *, with_unit: bool) -> None:
        self.name, self._example, self._with_unit = metavar, example, with_unit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        number = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
        found = re.fullmatch(rf"({number}):({number})\s*(.*)", str(value).strip())
        if found is None or not float(found[1]) < float(found[2]) or (found[3] and not self._with_unit):
            raise click.BadParameter(f"{value!r}: expected two rising numbers, such as {self._example}", ctx, param)
        ends = float(found[1]), float(found[2])
        return (*ends, found[3]) if self._with_unit else ends


_RECORDINGS = click.argument("recordings", metavar="RECORDING...", nargs=-1, required=True, type=options.ANY_PATH)


@click.command("plot", cls=Command, epilog=EXAMPLES)
@_RECORDINGS
@click.option("-p", "--plot", "wanted", metavar="NAME|FILE.toml", help="Plot to draw.  [default: the test's own]")
@click.option("-o", "--output", type=options.FILE, metavar="FILE",
              help="Picture to write; - is standard output.  [default: NAME.html]")  # fmt: skip
@click.option("-f", "--format", "file_format", type=click.Choice(FORMATS), metavar="FORMAT",
              help=f"{', '.join(FORMATS)}.  [default: the suffix of --output]")  # fmt: skip
@click.option("--size", type=_Size(), help="Size in pixels.")
@click.option("--title", help="Title; '' for none.  [default: the plot's own]")
@click.option("--note", metavar="TEXT", help="Text below the picture.")
@click.option("--no-legend", is_flag=True, help="Draw no legend.")
@click.option("--filter", "filters", multiple=True, metavar="PATTERN",
              help="Draw 'TCP*' series, or leave out '!TCP*'; rows of a store: 'site=dfw*'. Repeatable.")  # fmt: skip
@click.option("--zoom", type=_Zoom(), help="End the value axis at these percentiles, such as 5:95; none: show all.")
@click.option("--limits", type=_Ends("LOW:HIGH[UNIT]", "0:100ms", with_unit=True), multiple=True,
              help="End value axes at these values, such as 0:100ms. Repeatable.")  # fmt: skip
@click.option("--time", "window", type=_Ends("BEGIN:END", "10:20", with_unit=False),
              help="End the axis of time at these seconds, such as 10:20.")  # fmt: skip
@click.option("--zero/--no-zero", "from_zero", default=None, help="Begin value axes at zero where values allow it.")
@click.option("--log", is_flag=True, help="Draw a logarithmic value axis.")
@click.option("--cut/--no-cut", default=None, help="Leave out the idle time around the load.")
@click.option(
    "--smooth", type=quantities.Whole(0, 10_000), metavar="STEPS", help="Draw the moving average over STEPS time steps."
)
@click.option("--smooth-across-load", is_flag=True, help="Average across the start and end of the load, as Flent does.")
@click.option("--absolute-time", is_flag=True, help="Show the time of day instead of seconds since the start.")
@click.option("--paired", is_flag=True, help="Draw recordings side by side with the same axes.")
@click.option("--group-by", multiple=True, metavar="KEY",
              help="Group recordings by a key of the metadata, title, name or batch. Repeatable.")  # fmt: skip
@click.option("--figure-by", multiple=True, metavar="KEY", help="Draw one picture for each value of KEY.")
@click.option("--panel-by", multiple=True, metavar="KEY",
              help="Draw one panel for each value of KEY (or series, recording, column).")  # fmt: skip
@click.option("--combine", type=click.Choice(COMBINERS), metavar="HOW",
              help="Combine recordings: groups, series, both, batch or a list.")  # fmt: skip
@click.option("--reduce", metavar="NAME", help="Reduce a series to one number: mean, median, pct99, mos, ...")
@click.option("--scale", multiple=True, type=options.ANY_PATH, metavar="RECORDING",
              help="Let the axes fit this recording too, without drawing it.")  # fmt: skip
@click.option("--baseline", type=options.ANY_PATH, metavar="RECORDING",
              help="Draw the difference to this recording, step by step.")  # fmt: skip
@click.option("--ratio", is_flag=True, help="Divide by --baseline instead.")
@click.option("--table", metavar="TABLE", help="For a store: the table to draw, such as counters, ndt or tcp.")
@click.option("--x", metavar="COLUMN", help="For a store: column of the horizontal axis.  [default: time]")
@click.option("--y", metavar="COLUMN", help="For a store: column of the vertical axis.  [default: value]")
@click.option(
    "--kind",
    metavar="KIND",
    type=click.Choice(("points", "line", "cdf", "histogram")),
    help="For a store: points, line, cdf or histogram.  [default: points]",
)
def command(
    recordings: tuple[Path, ...],
    wanted: str | None,
    file_format: str | None,
    output: Path | None,
    size: tuple[int, int] | None,
    title: str | None,
    note: str | None,
    no_legend: bool,
    **given: Any,
) -> None:
    """Draw recordings: one, or many overlaid, side by side, or combined by their metadata (docs/plots.md)."""
    kind = file_format or _format_of(output)
    pictures.need_for(kind)
    if output is not None and str(output) != "-":
        options.folder_exists("--output", output)
    of_store = given["table"] is not None or any((path / _STORE).is_file() for path in recordings)
    in_grids = of_store or bool(given["figure_by"] or given["panel_by"])
    _refuse_contradictions(given, of_store=of_store, in_grids=in_grids)
    from whydrop.api.recordings import opened
    from whydrop.recording.metrics.reducing import UnknownReducer
    from whydrop.show.plots import building, catalogue

    try:
        with working("Drawing"):
            if of_store:
                figures = _of_store(recordings, given)
            else:
                figures = building.figures(wanted, opened(recordings), _plot_options(given))
        names = [figure.key for figure in figures]
        for figure, path in zip(figures, _paths(recordings, names, kind, output, named=in_grids), strict=True):
            _write(figure.titled(title).noted(note), path, kind, legend=not no_legend, size=size)
    except (catalogue.PlotError, UnknownReducer) as reason:
        raise click.UsageError(ending.printable(str(reason))) from None


def _picked(kind: type[Options], given: Mapping[str, Any]) -> Options:
    """The options of the command line that a class has, by the names of its fields."""
    return kind(**{one.name: given[one.name] for one in fields(kind)})  # type: ignore[arg-type]


def _plot_options(given: Mapping[str, Any]) -> PlotOptions:
    from whydrop.api.recordings import opened
    from whydrop.show.plots.options import Limits, PlotOptions

    baseline = given["baseline"]
    read = {
        "limits": [Limits(*ends) for ends in given["limits"]],
        "scale": opened(given["scale"]),
        "baseline": None if baseline is None else opened([baseline])[0],
    }
    return _picked(PlotOptions, {**given, **read})


def _refuse_contradictions(given: Mapping[str, Any], *, of_store: bool, in_grids: bool) -> None:
    if not of_store and any(given[name] is not None for name in _STORE_ONLY):
        raise click.UsageError("--x, --y and --kind are for the rows of a store; give --table too.")
    if of_store and (of_recordings := [option for name, option in _RECORDINGS_ONLY.items() if given[name]]):
        raise click.UsageError(f"{of_recordings[0]} does not go with a store.")
    beside = [option for name, option in _NOT_IN_GRIDS.items() if given[name]]
    if in_grids and beside:
        what = "a store" if of_store else "--figure-by or --panel-by"
        raise click.UsageError(f"{beside[0]} does not go with {what}.")


def _of_store(paths: Sequence[Path], given: Mapping[str, Any]) -> list[Figure]:
    from whydrop.show.facets import of_store
    from whydrop.store.engines import open_backend
    from whydrop.store.tables import TABLES

    if len(paths) != 1:
        raise click.UsageError("A store is drawn alone: give one folder or prefix.")
    if given["table"] is None:
        raise click.UsageError(f"{ending.printable(str(paths[0]))!r} is a store: give --table {', '.join(TABLES)}.")
    # Path() drops one slash of s3://bucket.
    location = re.sub(r"^(\w{2,}):/(?!/)", r"\1://", str(paths[0]))
    with open_backend(location) as backend:
        return of_store.facets(backend, _picked(of_store.Options, {**given, "kind": given["kind"] or "points"}))


@command.subcommand(
    "list", short_help="List the plots that recordings have.", epilog="Example: whydrop plot list rrul.recording"
)
@_RECORDINGS
def list_(recordings: tuple[Path, ...]) -> None:
    """List the plots that these recordings have."""
    from whydrop.api.recordings import opened
    from whydrop.show.plots import building

    _print_list(building.available(opened(recordings)))


def _format_of(output: Path | None) -> str:
    suffix = "" if output is None else output.suffix.removeprefix(".").lower()
    if suffix and suffix not in FORMATS:
        expected = f"{', '.join(f'.{known}' for known in FORMATS[:-1])} or .{FORMATS[-1]}"
        raise click.UsageError(f"--output {ending.printable(str(output))!r}: expected {expected}, or give --format.")
    return suffix or "html"


def _paths(given: Sequence[Path], keys: Sequence[str], kind: str, output: Path | None, *, named: bool) -> list[Path]:
    """The file of each picture, all different; names from files and values of columns cannot lead to other folders.

    By default in the current folder, named after the recordings; also after the plot where several could be meant.
    """
    if output is not None and (len(keys) == 1 or str(output) == "-"):
        return [output] * len(keys)
    names: list[str] = []
    for key in keys:
        name = re.sub(r"[^\w.-]+", "-", key).strip("-.")[:80] or "picture"
        again = sum(1 for other in names if other == name or other.startswith(f"{name}~"))
        names.append(f"{name}~{again + 1}" if again else name)
    if output is not None:
        return [output.with_name(f"{output.stem}-{name}{output.suffix}") for name in names]
    stem = re.sub(r"(\.gz|\.bz2)?$", "", given[0].name)
    stem = re.sub(r"\.(recording|store|flent|flnt|json)$", "", stem) or "recording"
    if len(given) == len(keys) == 1 and not named:
        return [Path(f"{stem}.{kind}")]
    stem += f"-and-{len(given) - 1}-more" if len(given) > 1 else ""
    return [Path(f"{stem}-{name}.{kind}") for name in names]


def _write(figure: Figure, path: Path, kind: str, *, legend: bool, size: tuple[int, int] | None) -> None:
    """Write a figure, whole or not at all; print its path, and on standard error which samples it leaves out."""
    from whydrop.runtime import durable
    from whydrop.show.writing import rendered

    with working(f"Drawing {ending.printable(figure.key)}"):
        content = rendered(figure, kind, legend=legend, size=size)
        if str(path) != "-":
            durable.write_bytes(path, content)
    if str(path) == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
    else:
        sys.stdout.write(f"{ending.printable(figure.title or figure.key)}: {ending.printable(str(path))}\n")
    sys.stdout.flush()
    print(f"whydrop: {ending.printable(figure.footnotes()[0])}", file=sys.stderr)


def _print_list(plots: dict[str, PlotSpec]) -> None:
    if not plots:
        print("None: no plot of the catalogue fits the series of these recordings.")
        return
    width = max(len(name) for name in plots)
    for name, plot in plots.items():
        print(f"{name:<{width}}  {plot.kind:<11}  {plot.title}: {plot.description[:1].lower()}{plot.description[1:]}")

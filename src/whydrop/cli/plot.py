"""``whydrop plot``: pictures of recordings, or their numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, figures, options, quantities, usage
from whydrop.cli.command import Command
from whydrop.cli.plot_options import plot_options
from whydrop.cli.progress import working
from whydrop.cli.recordings import all_opened, reading

if TYPE_CHECKING:
    from whydrop.show.plots.schema import PlotSpec

FORMATS = ("png", "svg", "pdf", "html", "csv", "json")
COMBINERS = (
    "groups", "groups-points", "groups-concat", "series", "both", "batch", "batch-concat", "batch-series",
)  # fmt: skip

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


_RECORDINGS = click.argument("recordings", metavar="RECORDING...", nargs=-1, required=True, type=options.ANY_PATH)


@click.command("plot", cls=Command, epilog=EXAMPLES)
@_RECORDINGS
@click.option("-p", "--plot", "wanted", metavar="NAME|FILE.toml", help="Plot to draw.  [default: the test's own]")
@click.option("-o", "--output", type=options.FILE, metavar="FILE",
              help="Picture to write; - is standard output.  [default: NAME.png]")  # fmt: skip
@click.option("-f", "--format", "kind", type=click.Choice(FORMATS), metavar="FORMAT",
              help=f"{', '.join(FORMATS)}.  [default: the suffix of --output]")  # fmt: skip
@click.option("--size", type=_Size(), help="Size in pixels.")
@click.option("--title", help="Title; '' for none.  [default: the plot's own]")
@click.option("--no-legend", is_flag=True, help="Draw no legend.")
@click.option("--filter", "filters", multiple=True, metavar="PATTERN",
              help="Draw series such as 'TCP*', not '!TCP*'. For a store: rows, site=dfw*. Repeatable.")  # fmt: skip
@click.option("--zoom", type=_Zoom(), help="Let the value axis end at these percentiles, such as 5:95, or none.")
@click.option("--log", is_flag=True, help="Draw a logarithmic value axis.")
@click.option("--cut/--no-cut", default=None, help="Leave out the idle time around the load.")
@click.option(
    "--smooth", type=quantities.Whole(0, 10_000), metavar="STEPS", help="Draw the moving average over STEPS time steps."
)
@click.option("--smooth-across-load", is_flag=True, help="Average across the start and end of the load, as Flent does.")
@click.option("--absolute-time", is_flag=True, help="Show the time of day instead of seconds since the start.")
@click.option("--paired", is_flag=True, help="Draw recordings side by side with the same axes.")
@click.option("--group-by", "keys", multiple=True, metavar="KEY",
              help="Group recordings by a key of the metadata, title, name or batch. Repeatable.")  # fmt: skip
@click.option("--figure-by", "figure_by", multiple=True, metavar="KEY", help="Draw one picture for each value of KEY.")
@click.option("--panel-by", "panel_by", multiple=True, metavar="KEY",
              help="Draw one panel for each value of KEY (or series, recording, column).")  # fmt: skip
@click.option("--combine", type=click.Choice(COMBINERS), metavar="HOW",
              help="Combine recordings: groups, series, both, batch or a list.")  # fmt: skip
@click.option("--reduce", metavar="NAME", help="Reduce a series to one number: mean, median, pct99, mos, ...")
@click.option("--table", metavar="TABLE", help="For a store: the table to draw, such as counters, ndt or tcp.")
@click.option("--x", metavar="COLUMN", help="For a store: column of the horizontal axis.  [default: time]")
@click.option("--y", metavar="COLUMN", help="For a store: column of the vertical axis.  [default: value]")
@click.option(
    "--kind",
    "mark",
    type=click.Choice(("points", "line")),
    help="For a store: how each row is drawn.  [default: points]",
)
def command(
    recordings: tuple[Path, ...],
    wanted: str | None,
    kind: str | None,
    output: Path | None,
    size: tuple[int, int] | None,
    title: str | None,
    no_legend: bool,
    **given: Any,
) -> None:
    """Draw recordings: one, or many overlaid, side by side, or combined by their metadata (docs/plots.md)."""
    kind = kind or _kind_of(output)
    if output is not None and str(output) != "-":
        usage.folder_exists("--output", output)
    from whydrop.cli import plot_facets

    if plot_facets.wanted(recordings, given):
        sys.exit(plot_facets.run(recordings, wanted, kind, output, given, legend=not no_legend, size=size, title=title))
    from whydrop.api.plotting import chosen
    from whydrop.recording.errors import RecordingError
    from whydrop.recording.metrics.reducing import UnknownReducer
    from whydrop.show.figure import NothingToDraw
    from whydrop.show.plots import building, catalogue, numbers

    try:
        opened = all_opened(recordings)
        made = plot_options(given)
        plots = chosen(wanted, opened)
        for name, plot in plots:
            path = _path(output, recordings, name, kind, several=len(plots) > 1)
            with working(f"Drawing {name}"):
                figure = building.build(name, plot, opened, made).titled(title)
            figures.write(figure, path, kind, numbers, legend=not no_legend, size=size)
    except (catalogue.PlotError, UnknownReducer) as reason:
        raise click.UsageError(ending.printable(str(reason))) from None
    except (NothingToDraw, RecordingError, OSError, ValueError) as reason:
        sys.exit(ending.status(reason))


@command.subcommand(
    "list", short_help="List the plots that recordings have.", epilog="Example: whydrop plot list rrul.recording"
)
@_RECORDINGS
def list_(recordings: tuple[Path, ...]) -> None:
    """List the plots that these recordings have."""
    from whydrop.show.plots import building

    with reading():
        _print_list(building.available(all_opened(recordings)))
        sys.stdout.flush()


def _kind_of(output: Path | None) -> str:
    suffix = "" if output is None else output.suffix.removeprefix(".").lower()
    if suffix and suffix not in FORMATS:
        expected = f"{', '.join(f'.{known}' for known in FORMATS[:-1])} or .{FORMATS[-1]}"
        raise click.UsageError(f"--output {ending.printable(str(output))!r}: expected {expected}, or give --format.")
    return suffix or "png"


def _path(output: Path | None, recordings: tuple[Path, ...], key: str, kind: str, *, several: bool) -> Path:
    """The file of a picture; by default in the current folder, named after the recordings and the plot."""
    if output is not None and not several:
        return output
    if output is not None:
        return output.with_name(f"{output.stem}-{key}{output.suffix}")
    stem = recordings[0].name
    for suffix in (".gz", ".bz2", ".recording", ".flent", ".flnt", ".json"):
        stem = stem.removesuffix(suffix)
    more = "" if len(recordings) == 1 else f"-and-{len(recordings) - 1}-more"
    return Path(f"{stem or 'recording'}{more}-{key}.{kind}" if several or more else f"{stem or 'recording'}.{kind}")


def _print_list(plots: dict[str, PlotSpec]) -> None:
    if not plots:
        print("None: no plot of the catalogue fits the series of these recordings.")
        return
    width = max(len(name) for name in plots)
    for name, plot in plots.items():
        print(f"{name:<{width}}  {plot.kind:<11}  {plot.title}: {plot.description[:1].lower()}{plot.description[1:]}")

"""``whydrop plot``: pictures of recordings, and the numbers that are in them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, figures, usage
from whydrop.cli.plot_options import chosen_plots, plot_options
from whydrop.cli.recordings import all_opened
from whydrop.cli.working import working

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
  whydrop plot rrul.recording --list
  whydrop plot before.recording after.flent.gz --plot ping_cdf -o cdf.svg
  whydrop plot *.recording --plot box_combine --group-by batch.variables.qdisc
  whydrop plot rrul.recording --plot tcp_cwnd --format csv --output -
  whydrop plot *.recording --plot ping_cdf --panel-by batch.variables.qdisc
  whydrop plot fleet.store --table counters --filter counter=discards.tx
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


@click.command("plot", epilog=EXAMPLES)
@click.argument("recordings", metavar="RECORDING...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-p", "--plot", "wanted", metavar="NAME|FILE.toml", help="Which plot; that of the test by default.")
@click.option("--list", "as_list", is_flag=True, help="List the plots that these recordings have, and draw nothing.")
@click.option("--format", "kind", type=click.Choice(FORMATS), help="By default that of --output, else png.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="- is standard output."
)
@click.option(
    "--size", type=_Size(), help="Of the whole picture, in pixels; PNGs have twice as many, pages fit their window."
)
@click.option("--title", help="Instead of the plot's own; an empty one leaves it out.")
@click.option("--no-legend", is_flag=True, help="Leave the legends out.")
@click.option(
    "--filter", "filters", multiple=True, metavar="PATTERN",
    help="Only series whose names match (as in a shell); with ! before it, all but those. Of a store: rows, such as "
    "site=dfw* or value>0. May be repeated.",
)  # fmt: skip
@click.option("--zoom", type=_Zoom(), help="Percentiles at the ends of the values' axis, such as 5:95, or none.")
@click.option("--log", is_flag=True, help="Make the axis of the values logarithmic.")
@click.option("--cut/--no-cut", default=None, help="Leave the idle time before and after the load out, or in.")
@click.option("--smooth", type=click.IntRange(0, 10_000), metavar="STEPS", help="Window of a moving average.")
@click.option("--smooth-across-load", is_flag=True,
              help="Let moving averages run across the start and the end of the load, as Flent does.")  # fmt: skip
@click.option("--absolute-time", is_flag=True, help="Time of day instead of seconds after the start.")
@click.option("--paired", is_flag=True, help="Recordings side by side with the same axes, instead of in one.")
@click.option("--group-by", "keys", multiple=True, metavar="KEY", help="A key of the metadata, title, name, or batch.")
@click.option("--figure-by", "figure_by", multiple=True, metavar="KEY", help="One picture for each value of a key.")
@click.option("--panel-by", "panel_by", multiple=True, metavar="KEY",
              help="One panel for each value; also series, recording, or a column of a store's table.")  # fmt: skip
@click.option("--combine", type=click.Choice(COMBINERS), metavar="HOW",
              help=f"How several recordings become one: {', '.join(COMBINERS)}.")  # fmt: skip
@click.option("--reduce", metavar="NAME", help="What makes one number of a series: mean, median, pct99, mos, ...")
@click.option("--table", metavar="TABLE", help="Of a store: counters, polls, ndt, tcp, verdicts, ...")
@click.option("--x", metavar="COLUMN", help="Of a store's table.  [default: its time]")
@click.option("--y", metavar="COLUMN", help="Of a store's table.  [default: value, if there is one]")
@click.option("--kind", "mark", type=click.Choice(("points", "line")), help="Of a store's rows.  [default: points]")
def command(
    recordings: tuple[Path, ...],
    wanted: str | None,
    as_list: bool,
    kind: str | None,
    output: Path | None,
    size: tuple[int, int] | None,
    title: str | None,
    no_legend: bool,
    **options: Any,
) -> None:
    """Draw recordings: one, or many overlaid, side by side, or combined by their metadata.

    RECORDING is a folder that `whydrop run` wrote, or a file of Flent's. Without --plot it is the plot of the test, as
    NAME.png in the current folder. What is drawn can be had as numbers too: --format csv or json. How much of the
    samples is left out of the picture is said below it and on standard error. --figure-by, --panel-by and --group-by
    make grids of panels; with --table the same is drawn of the rows of a store, which RECORDING then is.
    """
    kind = kind or _kind_of(output)
    if output is not None and str(output) != "-":
        usage.folder_exists("--output", output)
    from whydrop.cli import plot_facets

    if plot_facets.wanted(recordings, options):
        sys.exit(
            plot_facets.run(recordings, wanted, kind, output, options, legend=not no_legend, size=size, title=title)
        )
    from whydrop.recording.errors import RecordingError
    from whydrop.recording.metrics.reducing import UnknownReducer
    from whydrop.show.figure import NothingToDraw
    from whydrop.show.plots import building, catalogue, numbers

    try:
        opened = all_opened(recordings)
        if as_list:
            _print_list(building.available(opened))
            return
        made = plot_options(options)
        plots = chosen_plots(wanted, opened)
        for name, plot in plots:
            path = _path(output, recordings, name, kind, several=len(plots) > 1)
            with working(f"Drawing {name}"):
                figure = building.build(name, plot, opened, made).titled(title)
            figures.write(figure, path, kind, numbers, legend=not no_legend, size=size)
    except (catalogue.PlotError, UnknownReducer) as reason:
        raise click.UsageError(ending.printable(str(reason))) from None
    except (NothingToDraw, RecordingError, OSError, ValueError) as reason:
        sys.exit(ending.status(reason))


def _kind_of(output: Path | None) -> str:
    suffix = "" if output is None else output.suffix.removeprefix(".").lower()
    if suffix and suffix not in FORMATS:
        expected = f"{', '.join(f'.{known}' for known in FORMATS[:-1])} or .{FORMATS[-1]}"
        raise click.UsageError(f"--output {ending.printable(str(output))!r}: expected {expected}, or give --format.")
    return suffix or "png"


def _path(output: Path | None, recordings: tuple[Path, ...], key: str, kind: str, *, several: bool) -> Path:
    """Where a picture is written; where nothing is said, beside where one stands, named for what is in it."""
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
        print("None: these recordings have no series that a plot of the catalogue shows.")
        return
    width = max(len(name) for name in plots)
    for name, plot in plots.items():
        print(f"{name:<{width}}  {plot.kind:<11}  {plot.title}: {plot.description[:1].lower()}{plot.description[1:]}")

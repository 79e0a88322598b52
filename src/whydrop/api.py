"""The public functions, and what explaining returns: what was found, with charts and the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whydrop import _core
from whydrop.explaining.explained import Analysis, Explained
from whydrop.runtime import markup

if TYPE_CHECKING:
    import altair

    from whydrop.measure.handle import Run
    from whydrop.recording.comparing.comparison import Comparison
    from whydrop.recording.recording import Recording
    from whydrop.store.store import Store
    from whydrop.studies.discards.study import Results


def explain(
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Explanation:
    """Explain why the packets of a capture were dropped or had to wait.

    Args:
        path: a pcap or pcapng file, plain or compressed (gzip, zstd, xz, lz4, bzip2); ``"-"`` reads standard input.
            A sequence of paths is one capture in several files, in any order (``tcpdump -C`` rotation).
        progress: called now and then with the bytes read so far and the bytes in all (0 where that is not known).
            An exception that it raises stops the analysis and reaches the caller.

    Returns:
        The explanation. Its first verdict is the headline.

    Raises:
        whydrop.CaptureError: the input could not be analysed; the message names the file, the byte offset and what
            was expected. A truncated or damaged capture is analysed up to the damage instead, and says so.

    >>> import whydrop
    >>> found = whydrop.explain("examples/policed-download.pcap.zst")
    >>> headline = found.verdicts[0]
    >>> headline.cause
    'policer'
    >>> 19e6 < headline.parameters["rate_bps"].value < 21e6
    True
    """
    paths = [path] if isinstance(path, (str, PathLike)) else list(path)
    if not paths:
        raise ValueError("no capture given: pass the path of a pcap or pcapng file")
    return Explanation(_core.explain([fspath(one) for one in paths], progress=progress))


def explain_pair(
    first: str | PathLike[str],
    second: str | PathLike[str],
    *more: str | PathLike[str],
    progress: Callable[[int, int], None] | None = None,
) -> Explanation:
    """Explain from two or more captures of one path where, when and why its packets were dropped or had to wait.

    Args:
        first: a capture, as for :func:`explain`.
        second: a capture of the same packets at another point of the path.
        more: captures at further points. The order of all is of no importance: they are put in that of the path.
        progress: as for :func:`explain`.

    Returns:
        The explanation, with :attr:`Explanation.pair` and the table ``crossings``.

    Raises:
        whydrop.CaptureError: one of the captures could not be analysed, or they have no packet in common.

    >>> import whydrop
    >>> found = whydrop.explain_pair(
    ...     "examples/policed-download.pcap.zst", "examples/policed-download-far.pcap.zst"
    ... )
    >>> found.verdicts[0].place, found.pair.lost_1_to_2, found.pair.lost_2_to_1
    ('between capture 1 and capture 2', 96, 0)
    """
    paths = [fspath(one) for one in (first, second, *more)]
    return Explanation(_core.explain_pair(paths, progress=progress))


def explain_recording(path: str | PathLike[str], captured: Analysis | None = None) -> Explanation:
    """Explain from the recording of a test why packets of the path were dropped or had to wait.

    Args:
        path: a folder ``NAME.recording``, or a file of Flent, netperf-wrapper or ``iperf3 --json``.
        captured: the analysis of captures of the same test (``whydrop._core.explain`` or ``explain_pair``): what both
            tell of a direction makes one verdict.

    Returns:
        The explanation; it has :attr:`Explanation.recordings`, and without captures neither flows nor tables.

    Raises:
        whydrop.recording.errors.RecordingError: it cannot be read, or holds neither probes nor flows.
    """
    from whydrop.explaining.recordings import document

    return Explanation(document.explain(path, captured))


def open(path: str | PathLike[str]) -> Recording | Store:
    """Open what measurements are kept in.

    Args:
        path: the folder of a recording; a file of Flent, netperf-wrapper, ``iperf3 --json`` or DISCO; a store: its
            folder, or a prefix of an object store such as ``s3://bucket/fleet``.

    Raises:
        whydrop.recording.errors.RecordingError: it is none of these (a store's error is one of them, too).

    >>> import whydrop
    >>> whydrop.open("rrul.recording").table("probes")  # doctest: +SKIP
    """
    from whydrop.formats.importing import open_recording
    from whydrop.store.store import DESCRIPTION, Store

    if "://" in fspath(path) or (Path(path) / DESCRIPTION).is_file():
        return Store.open(path)
    return open_recording(path)


def start(
    test: str,
    to: str | Sequence[str] = (),
    *,
    output: str | PathLike[str] = ".",
    length_s: float | None = None,
    parameters: Mapping[str, Any] | None = None,
    with_runner: str | None = None,
    secret: str | None = None,
    title: str = "",
    note: str = "",
) -> Run:
    """Start a test, and go on; several may run at once.

    Args:
        test: its name in the catalogue (``whydrop tests`` lists them), or the path of a test file.
        to: the hosts to test against, as ``host`` or ``host:port``.
        output: the folder in which the recording gets a folder of its own.
        length_s: how long the load lasts; by default as the test says.
        parameters: of the test, by name (``whydrop tests TEST`` lists them).
        with_runner: programs that measure instead of the engine, such as ``iperf3``.
        secret: that the responders ask for.
        title: distinguishes this recording from others.
        note: kept with the recording.

    Returns:
        The run: watch it by :meth:`Run.events`, end it by :meth:`Run.stop`, wait for it by :meth:`Run.recording`.

    Raises:
        ValueError: there is no such test, its file has mistakes, or hosts and parameters do not fit it. What goes wrong
            later is raised by :meth:`Run.wait`.

    >>> import whydrop
    >>> run = whydrop.start("rrul", to="server.example", length_s=10)  # doctest: +SKIP
    >>> for event in run.events():  # doctest: +SKIP
    ...     print(event.state, event.elapsed_s)
    """
    from whydrop.measure.handle import Run, prepared

    plan, settings = prepared(
        test,
        [to] if isinstance(to, str) else list(to),
        output=Path(output),
        length_s=length_s,
        parameters=parameters or {},
        with_runner=with_runner,
        secret=secret,
        title=title,
        note=note,
    )
    return Run(plan, settings)


def run(test: str, to: str | Sequence[str] = (), **options: Any) -> Recording:
    """Run a test, and return its recording; Ctrl-C ends the test, and what was measured is kept.

    Args:
        test: as for :func:`start`, and so are ``to`` and ``options``.

    Raises:
        ValueError: as of :func:`start`.
        whydrop.measure.engine.EngineError: it could not begin: a host cannot be reached, or a program is missing.
    """
    started = start(test, to, **options)
    try:
        return started.recording()
    except KeyboardInterrupt:
        started.stop()
        started.wait()
        raise


def compare(
    *recordings: Recording | str | PathLike[str], group_by: Sequence[str] = (), seed: int | None = None
) -> Comparison:
    """Compare recordings, or groups of them, with the first: each metric with its difference, and how certain it is.

    Args:
        recordings: two or more, open or by their paths.
        group_by: keys of the metadata, such as ``batch.variables.qdisc``: recordings with the same values are one side.
        seed: of the resampling.

    Raises:
        ValueError: fewer than two sides, or a key that no recording has.
    """
    from whydrop.formats.importing import open_recording
    from whydrop.recording.comparing import comparison
    from whydrop.recording.comparing.grouping import sides
    from whydrop.recording.recording import Recording
    from whydrop.recording.statistics.resampling import SEED
    from whydrop.show import labels

    opened = [one if isinstance(one, Recording) else open_recording(one) for one in recordings]
    return comparison.compare(sides(opened, labels.of_recordings(opened), group_by), SEED if seed is None else seed)


def study(
    store: str | PathLike[str],
    parameters: str | PathLike[str] | None = None,
    *,
    settings: Sequence[str] = (),
    backend: str = "duckdb",
) -> Results:
    """Study the discards of a store's switches and the speeds of its clients: ``whydrop study discards``.

    Args:
        store: its folder, or a prefix of an object store.
        parameters: a TOML file (docs/discards.md); by default those that ``whydrop study discards --example`` shows.
        settings: parameters as ``change.significance=0.05``, which win over the file.
        backend: the engine: ``duckdb``, ``spark``, ``spark://host:port``, ``bigquery:PROJECT``.

    Returns:
        Tables as polars frames, and notes.

    Raises:
        ValueError: the parameters have mistakes.
        whydrop.store.engines.BackendError: the store cannot be opened with this engine.
    """
    from whydrop.store.engines import open_backend
    from whydrop.studies.discards import reading
    from whydrop.studies.discards.study import run

    chosen = reading.read(None if parameters is None else Path(parameters), settings)
    with open_backend(fspath(store), backend) as opened:
        return run(opened, chosen)


class Explanation(Explained):
    """The findings in a capture, in several of one path, or in a recording; it draws charts and writes reports."""

    def chart(self, name: str, *, flow: str | None = None) -> altair.VConcatChart:
        """One chart, to show in a notebook or to save.

        Args:
            name: one of ``time-sequence``, ``close-up``, ``model``, ``model-close-up``, ``in-flight``,
                ``burst``, ``rtt``, ``throughput``; of two captures also ``models``, ``crossings``, ``loss-burst``,
                ``transit``, ``transit-histogram``, ``clock``.
            flow: the flow to draw, or part of its name such as ``":443"``; by default the one that lost most to the
                headline verdict.

        Raises:
            KeyError: there is no chart of this name.
            ValueError: no flow matches, or the chart has nothing to draw (its message says why).

        >>> import whydrop
        >>> found = whydrop.explain("examples/policed-download.pcap.zst")
        >>> found.chart("time-sequence").save("sequence.png")  # doctest: +SKIP
        """
        import altair

        from whydrop.show import charts
        from whydrop.show.vega import drawing

        figure = charts.figure(self, name, charts.choose_flow(self, flow))
        chart: altair.VConcatChart = altair.VConcatChart.from_dict(drawing.specification(figure))
        return chart

    def write_charts(self, folder: str | PathLike[str], format: str = "png", *, flow: str | None = None) -> list[Path]:
        """Write every chart that has something to draw as ``FOLDER/NAME.FORMAT``; return the paths.

        Nothing is written for a capture without TCP data.

        Args:
            folder: created where it is missing.
            format: ``png``, ``svg`` or ``pdf``.
            flow: as for :meth:`chart`.
        """
        from whydrop.show import charts
        from whydrop.show.vega import drawing

        figures = charts.figures(self, charts.choose_flow(self, flow)) if self.flows else []
        return drawing.write_all(figures, Path(folder), format)

    def write_report(self, path: str | PathLike[str], *, flow: str | None = None) -> Path:
        """Write one self-contained HTML page with verdicts, charts and tables; it requests nothing from any network.

        Of a recording it holds the plots of its test, statistics and what is known of the hosts, too.

        Args:
            path: the file to write.
            flow: the connection that the charts show first, or part of its name.
        """
        from whydrop.formats.importing import open_recording
        from whydrop.runtime import durable
        from whydrop.show import report

        target = Path(path)
        recordings = [open_recording(one["path"]) for one in self.recordings]
        durable.write_bytes(target, report.of_explained(self, flow=flow, recordings=recordings).encode())
        return target

    def _repr_html_(self) -> str:
        rows = [
            (one.cause, f"{one.confidence:.0%}", one.lost, one.sentence, "; ".join(one.advice)) for one in self.verdicts
        ]
        return markup.table(["cause", "confidence", "packets lost", "verdict", "advice"], rows)

    def __repr__(self) -> str:
        headline = self.verdicts[0].sentence if self.verdicts else "no verdict"
        return f"<whydrop.Explanation: {headline}>"

"""The public functions that explain, and what they return: what was found, with charts and the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from whydrop import _core
from whydrop.explaining.explained import Analysis, Explained

if TYPE_CHECKING:
    import altair


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


class Explanation(Explained):
    """What was found in a capture, in several of one path, or in a recording; it draws charts and writes reports."""

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
        from whydrop.show import charts, printing

        figure = charts.figure(self, name, charts.choose_flow(self, flow))
        return printing.draw(figure)

    def write_charts(self, folder: str | PathLike[str], format: str = "png", *, flow: str | None = None) -> list[Path]:
        """Write every chart that has something to draw as ``FOLDER/NAME.FORMAT``; return the paths.

        Nothing is written for a capture without TCP data.

        Args:
            folder: created where it is missing.
            format: ``png``, ``svg`` or ``pdf``.
            flow: as for :meth:`chart`.
        """
        from whydrop.show import charts, printing

        figures = charts.figures(self, charts.choose_flow(self, flow)) if self.flows else []
        return printing.write_all(figures, Path(folder), format)

    def write_report(self, path: str | PathLike[str], *, flow: str | None = None) -> Path:
        """Write one self-contained HTML page with verdicts, charts and tables; it requests nothing from any network.

        Args:
            path: the file to write.
            flow: the connection that the charts show first, or part of its name.
        """
        from whydrop.runtime import durable
        from whydrop.show import report

        target = Path(path)
        durable.write_bytes(target, report.page(self, flow=flow).encode())
        return target

    def __repr__(self) -> str:
        headline = self.verdicts[0].sentence if self.verdicts else "no verdict"
        return f"<whydrop.Explanation: {headline}>"

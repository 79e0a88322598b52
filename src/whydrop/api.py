"""The analysis from Python: verdicts as objects, tables as Arrow-backed frames, charts and the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from whydrop import _core
from whydrop.document import Capture, Flow, Transfer, Verdict

if TYPE_CHECKING:
    import altair
    import polars

TABLES = ("segments", "acks", "sacks", "model", "flows", "transfers")

KINDS = ("new", "fast", "timeout", "tail-loss-probe", "other")
FATES = ("delivered", "lost", "unknown")


class ArrowTable(Protocol):
    """Anything that exports the Arrow C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule named ``arrow_array_stream``."""


class Analysis(Protocol):
    """What an analysis hands over: the document as JSON text, and tables."""

    def json(self, *, pretty: bool = False) -> str:
        """Return the document of the JSON contract."""

    def table(self, name: str) -> ArrowTable:
        """Return one of the tables ``segments``, ``acks``, ``sacks``, ``model``."""


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


class Explanation:
    """What whydrop found in a capture."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._frames: dict[str, polars.DataFrame] = {}

    def json(self, *, pretty: bool = False) -> str:
        """The document of the JSON contract as text: what ``whydrop explain --json`` prints."""
        return self._analysis.json(pretty=pretty)

    @cached_property
    def document(self) -> dict[str, Any]:
        """The document of the JSON contract as plain Python values."""
        document: dict[str, Any] = json.loads(self.json())
        return document

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Causes by the losses that they explain, then by the share of time that they limit."""
        return tuple(Verdict.from_json(entry) for entry in self.document["verdicts"])

    @cached_property
    def captures(self) -> tuple[Capture, ...]:
        """The capture files, as they were read."""
        return tuple(Capture.from_json(entry) for entry in self.document["captures"])

    @cached_property
    def flows(self) -> tuple[Flow, ...]:
        """One entry for each direction of a TCP connection; ``flow`` columns of the tables index this tuple.

        >>> import whydrop
        >>> found = whydrop.explain("examples/policed-download.pcap.zst")
        >>> max(found.flows, key=lambda flow: flow.payload_bytes).flow
        '10.0.1.1:41001 > 10.0.3.1:5201'
        """
        return tuple(Flow.from_json(entry) for entry in self.document["flows"])

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """One entry for each transfer, with the cause that limited it."""
        return tuple(Transfer.from_json(entry) for entry in self.document["transfers"])

    def table(self, name: str) -> polars.DataFrame:
        """One table as a polars frame that shares the memory of the analysis.

        ==============  =====================================  =====================================================
        name            one row for each                       columns
        ==============  =====================================  =====================================================
        ``segments``    data packet on the wire                flow, transfer, time_ns, sequence, payload_bytes,
                                                               ip_bytes, kind, fate, spurious, rtt_ns,
                                                               in_flight_bytes
        ``acks``        acknowledgment that changed something  flow, time_ns, acknowledged, window_bytes
        ``sacks``       SACK block (RFC 2018)                  flow, time_ns, start, end, duplicate (RFC 2883)
        ``model``       packet that a winning model replayed   verdict, flow, time_ns, level_bytes, ip_bytes,
                                                               predicted_drop, seen_lost
        ``flows``       flow                                   as in the document
        ``transfers``   transfer                               as in the document
        ==============  =====================================  =====================================================

        ``time_ns`` is nanoseconds since the Unix epoch; sequence numbers count bytes from the flow's first byte and do
        not wrap; ``kind`` is one of ``new``, ``fast``, ``timeout``, ``tail-loss-probe``, ``other``; ``fate`` one of
        ``delivered``, ``lost``, ``unknown``; what is not known is null.

        Raises:
            KeyError: there is no table of this name.

        >>> import whydrop
        >>> found = whydrop.explain("examples/policed-download.pcap.zst")
        >>> segments = found.table("segments")
        >>> segments.filter(segments["fate"] == "lost").height == sum(flow.lost for flow in found.flows)
        True
        """
        if name not in TABLES:
            raise KeyError(f"no table {name!r}; there are {', '.join(TABLES)}")
        if name not in self._frames:
            self._frames[name] = self._frame(name)
        return self._frames[name]

    def _frame(self, name: str) -> polars.DataFrame:
        import polars

        if name in ("flows", "transfers"):
            return polars.DataFrame(self.document[name], infer_schema_length=None)
        frame = polars.DataFrame(self._analysis.table(name))
        if name == "segments" and frame.schema["kind"] == polars.UInt8:
            frame = frame.with_columns(_labelled("kind", KINDS), _labelled("fate", FATES))
        return frame

    def chart(self, name: str, *, flow: str | None = None) -> altair.VConcatChart:
        """One chart, to show in a notebook or to save.

        Args:
            name: one of ``time-sequence``, ``close-up``, ``model``, ``model-close-up``, ``in-flight``,
                ``burst``, ``rtt``, ``throughput``.
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
        from whydrop.show import report

        target = Path(path)
        target.write_text(report.page(self, flow=flow), encoding="utf-8")
        return target

    def __repr__(self) -> str:
        headline = self.verdicts[0].sentence if self.verdicts else "no verdict"
        return f"<whydrop.Explanation: {headline}>"


def _labelled(column: str, labels: Sequence[str]) -> polars.Expr:
    """The codes of a column as an enumeration."""
    import polars

    return polars.col(column).cat.to(polars.Enum(labels))

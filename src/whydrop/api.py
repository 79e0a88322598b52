"""The analysis from Python: verdicts as objects, tables as Arrow-backed frames, charts and the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from whydrop import _core
from whydrop.explaining import completing
from whydrop.explaining.document import Capture, Flow, Transfer, Verdict
from whydrop.explaining.pair import Pair

if TYPE_CHECKING:
    import altair
    import polars

TABLES = ("segments", "acks", "sacks", "model", "flows", "transfers")

KINDS = ("new", "fast", "timeout", "tail-loss-probe", "other")
FATES = ("delivered", "lost", "unknown")

# Of two captures of one path.
PAIR_TABLES = ("crossings",)
DIRECTIONS = ("1-to-2", "2-to-1", "unknown")
CROSSINGS = (
    "matched",
    "lost",
    "missed-downstream",
    "missed-upstream",
    "duplicated",
    "outside-overlap",
    "other-path",
    "undecided",
    "forgotten",
)


class ArrowTable(Protocol):
    """Anything that exports the Arrow C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule named ``arrow_array_stream``."""


class Analysis(Protocol):
    """What an analysis hands over: what it found in codes and numbers, and tables."""

    def document(self) -> dict[str, Any]:
        """Return the document of the JSON contract before it is put into words."""

    def table(self, name: str) -> ArrowTable:
        """Return one of the tables ``segments``, ``acks``, ``sacks``, ``model``, ``crossings``."""


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


class Explanation:
    """What whydrop found in a capture, in several of one path, or in a recording."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._frames: dict[str, polars.DataFrame] = {}

    def json(self, *, pretty: bool = False) -> str:
        """The document of the JSON contract as text: what ``whydrop explain --json`` prints."""
        return completing.text(self.document, pretty=pretty)

    @cached_property
    def document(self) -> dict[str, Any]:
        """The document of the JSON contract as plain Python values."""
        return completing.document(self._analysis.document())

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Causes by the losses that they explain, then by the share of time that they limit."""
        return tuple(Verdict.from_json(entry) for entry in self.document["verdicts"])

    @cached_property
    def captures(self) -> tuple[Capture, ...]:
        """The capture files, as they were read."""
        return tuple(Capture.from_json(entry) for entry in self.document["captures"])

    @property
    def recordings(self) -> tuple[dict[str, Any], ...]:
        """Of a recording: its path, test, status, times of load, flows and probes, as in the document."""
        return tuple(self.document.get("recordings", ()))

    @cached_property
    def flows(self) -> tuple[Flow, ...]:
        """One entry for each direction of a TCP connection; ``flow`` columns of the tables index this tuple.

        Small connections that are too many, as in a flood, are summed up in ``Capture.small_connections`` instead.

        >>> import whydrop
        >>> found = whydrop.explain("examples/policed-download.pcap.zst")
        >>> max(found.flows, key=lambda flow: flow.payload_bytes).flow
        '10.0.1.1:41001 > 10.0.3.1:5201'
        """
        return tuple(Flow.from_json(entry) for entry in self.document["flows"])

    @property
    def datagrams(self) -> dict[str, Any] | None:
        """UDP of one capture, as in the document: flows, RTP and spin bits in them, and what share can be judged.

        ``None`` where there is none, and of two captures, which judge UDP as anything else (:attr:`pair`).
        """
        found: dict[str, Any] | None = self.document.get("datagrams")
        return found

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """One entry for each transfer, with the cause that limited it."""
        return tuple(Transfer.from_json(entry) for entry in self.document["transfers"])

    @cached_property
    def pair(self) -> Pair | None:
        """What two captures of one path show together; ``None`` for one capture."""
        pair = self.document.get("pair")
        return None if pair is None else Pair.from_json(pair)

    @cached_property
    def hops(self) -> tuple[Pair, ...]:
        """Of more than two captures, each stretch of the path between two neighbours; ``pair`` is all of it."""
        return tuple(Pair.from_json(hop) for hop in self.document.get("hops", ()))

    @cached_property
    def stretches(self) -> tuple[Pair, ...]:
        """What lies between neighbouring captures: the hops, or the pair; ``hop`` columns index this tuple."""
        return self.hops or (() if self.pair is None else (self.pair,))

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
                                                               predicted_drop, seen_lost, rival, wait_ns,
                                                               seen_wait_ns
        ``flows``       flow                                   as in the document, ``limits`` without ``spans``
        ``transfers``   transfer                               as in the document
        ``crossings``   packet on the wire between two         flow, direction, sent_ns, transit_ns, time_1_ns,
                        captures                               time_2_ns, number_1, number_2, sequence,
                                                               payload_bytes, ip_bytes, crossing, burst_position,
                                                               burst_length, gap_ns, retransmission, overtook,
                                                               ce_set, hop
        ==============  =====================================  =====================================================

        ``time_ns`` is nanoseconds since the Unix epoch; sequence numbers count bytes from the flow's first byte and do
        not wrap; ``kind`` is one of ``new``, ``fast``, ``timeout``, ``tail-loss-probe``, ``other``; ``fate`` one of
        ``delivered``, ``lost``, ``unknown``; what is not known is null. In ``model``, ``rival`` marks rows of the best
        model that lost, and ``wait_ns`` is how long the model holds the packet, ``seen_wait_ns`` how long it was held.

        In ``crossings``, ``flow`` counts the flows of :attr:`pair` (of more than two captures those of the entry of
        :attr:`hops` that ``hop`` counts); ``sent_ns`` is the time at the point that the packet passed first, by capture
        1's clock, and ``time_1_ns``, ``time_2_ns`` are the times as captured, each by its own clock; ``sequence`` is
        the number in the header, which wraps; ``direction`` is ``1-to-2``, ``2-to-1`` or ``unknown``; ``crossing`` is
        ``matched``, ``lost``, ``missed-downstream`` or ``missed-upstream`` (by that capture only), ``duplicated`` (a
        further copy), ``outside-overlap``, ``other-path``, ``undecided`` or ``forgotten``; ``gap_ns`` is how long
        nothing went the same way before.

        Raises:
            KeyError: there is no table of this name.

        >>> import whydrop
        >>> found = whydrop.explain("examples/policed-download.pcap.zst")
        >>> segments = found.table("segments")
        >>> segments.filter(segments["fate"] == "lost").height == sum(flow.lost for flow in found.flows)
        True
        """
        known = TABLES if self.pair is None else TABLES + PAIR_TABLES
        if name not in known:
            hint = " (crossings takes two captures of one path)" if name in PAIR_TABLES else ""
            raise KeyError(f"no table {name!r}; there are {', '.join(known)}{hint}")
        if name not in self._frames:
            self._frames[name] = self._frame(name)
        return self._frames[name]

    def _frame(self, name: str) -> polars.DataFrame:
        import polars

        if name in ("flows", "transfers"):
            return polars.DataFrame(list(map(_without_spans, self.document[name])), infer_schema_length=None)
        frame = polars.DataFrame(self._analysis.table(name))
        if name == "segments" and frame.schema["kind"] == polars.UInt8:
            frame = frame.with_columns(_labelled("kind", KINDS), _labelled("fate", FATES))
        if name == "model" and "rival" not in frame.columns:
            # One capture tells no waits of single packets, and its models are compared by other means.
            frame = frame.with_columns(
                rival=polars.lit(False),
                wait_ns=polars.lit(None, polars.Int64),
                seen_wait_ns=polars.lit(None, polars.Int64),
            )
        return crossings_labelled(frame) if name == "crossings" else frame

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


def crossings_labelled(frame: polars.DataFrame) -> polars.DataFrame:
    """The table ``crossings`` with its codes as enumerations."""
    import polars

    if frame.schema["direction"] != polars.UInt8:
        return frame
    return frame.with_columns(_labelled("direction", DIRECTIONS), _labelled("crossing", CROSSINGS))


def _without_spans(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A flow or transfer as a row: what limited it by share; the single spans are of the document alone."""
    limits = entry.get("limits") or {}
    return {**entry, "limits": {name: value for name, value in limits.items() if name != "spans"} or None}


def _labelled(column: str, labels: Sequence[str]) -> polars.Expr:
    """The codes of a column as an enumeration."""
    import polars

    return polars.col(column).cat.to(polars.Enum(labels))

"""Findings as an object: verdicts, flows and transfers by attribute, tables as Arrow-backed frames."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from whydrop.errors import UnknownNameError
from whydrop.explaining import completing
from whydrop.explaining.document import Capture, Flow, Transfer, Verdict
from whydrop.explaining.pair import Pair

if TYPE_CHECKING:
    import polars

TABLES = ("segments", "acks", "sacks", "model", "flows", "transfers", "verdicts", "rtp", "rtp_reports")

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
    """The result of an analysis: findings in codes and numbers, and tables."""

    def document(self) -> dict[str, Any]:
        """Return the document of the JSON contract before it is put into words."""

    def table(self, name: str) -> ArrowTable:
        """Return one of the tables ``segments``, ``acks``, ``sacks``, ``model``, ``crossings``, ``rtp``, ..."""


class Explained:
    """The findings in a capture, in several of one path, or in a recording."""

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

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on each capture and recording as a whole, such as damage, each with its path."""
        of_captures = (
            # A note on damage to the file begins with its path.
            note if note.startswith(f"{capture.path}: ") else f"{capture.path}: {note}"
            for capture in self.captures
            for note in capture.notes
        )
        of_recordings = (f"{one['path']}: {note}" for one in self.recordings for note in one["notes"])
        return (*of_captures, *of_recordings)

    @cached_property
    def flows(self) -> tuple[Flow, ...]:
        """One entry for each direction of a TCP connection; ``flow`` columns of the tables index this tuple.

        Small connections that are too many, as in a flood, are summed up in ``Capture.small_connections`` instead.

        >>> import whydrop
        >>> found = whydrop.explain("examples/policed-download.pcap.zst")
        >>> max(found.flows, key=lambda flow: flow.payload_bytes).flow
        '10.0.1.1:41001 > 10.0.3.1:5201'
        """
        tcp = (entry for entry in self.document["flows"] if entry.get("protocol", "tcp") == "tcp")
        return tuple(Flow.from_json(entry) for entry in tcp)

    @property
    def datagrams(self) -> dict[str, Any] | None:
        """UDP of one capture, as in the document: flows, RTP and spin bits in them, and what share can be judged.

        ``None`` where there is none, and of two captures, which judge UDP as anything else (:attr:`pair`).
        """
        found: dict[str, Any] | None = self.document.get("datagrams")
        return found

    @property
    def servers(self) -> tuple[dict[str, Any], ...]:
        """Of one capture, the servers that were asked by UDP or for DNS, and the outcomes, as in the document."""
        return tuple(self.document.get("servers", ()))

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """One entry for each transfer, with the cause that limited it."""
        return tuple(Transfer.from_json(entry) for entry in self.document["transfers"])

    @cached_property
    def pair(self) -> Pair | None:
        """Findings of two captures of one path together; ``None`` for one capture."""
        pair = self.document.get("pair")
        return None if pair is None else Pair.from_json(pair)

    @cached_property
    def hops(self) -> tuple[Pair, ...]:
        """Of more than two captures, each segment of the path between two neighbours; ``pair`` is all of it."""
        return tuple(Pair.from_json(hop) for hop in self.document.get("hops", ()))

    @cached_property
    def path_segments(self) -> tuple[Pair, ...]:
        """The segments between neighbouring captures: the hops, or the pair; ``hop`` columns index this tuple."""
        return self.hops or (() if self.pair is None else (self.pair,))

    def table(self, name: str) -> polars.DataFrame:
        """One table as a polars frame that shares the memory of the analysis.

        ==============  =====================================  =====================================================
        name            one row for each                       columns
        ==============  =====================================  =====================================================
        ``segments``    data packet on the wire                flow, transfer, time_ns, sequence, payload_bytes,
                                                               ip_bytes, kind, fate, spurious, rtt_ns,
                                                               in_flight_bytes
        ``acks``        acknowledgment that changed something  flow, time_ns, acknowledged, window_bytes, ecn_echo
        ``sacks``       SACK block (RFC 2018)                  flow, time_ns, start, end, duplicate (RFC 2883)
        ``model``       packet that a winning model replayed   verdict, flow, time_ns, level_bytes, ip_bytes,
                                                               predicted_drop, seen_lost, rival, wait_ns,
                                                               seen_wait_ns
        ``flows``       flow                                   flow (number), name, start_ns, end_ns, packets, lost,
                                                               ...: as in the document
        ``transfers``   transfer                               transfer (number), flow (number), start_ns, end_ns,
                                                               payload_bytes, packets, lost, goodput_bps, cause, ...
        ``verdicts``    verdict                                verdict (number), cause, confidence, place, lost,
                                                               sentence, evidence, advice, flows, and each parameter
                                                               with its interval: rate_bps, rate_bps_low, ...
        ``rtp``         packet of an RTP stream                stream, time_ns, number (does not wrap), late_ns (later
                                                               than at the pace of its clock)
        ``rtp_reports`` report on it by its receiver (RTCP)    stream, time_ns, lost_share, lost, jitter_ns,
                                                               round_trip_ns (from the capture point and back)
        ``crossings``   packet on the wire between two         flow, direction, sent_ns, transit_ns, time_1_ns,
                        captures                               time_2_ns, number_1, number_2, sequence,
                                                               payload_bytes, ip_bytes, crossing, burst_position,
                                                               burst_length, gap_ns, retransmission, overtook,
                                                               ce_set, hop
        ==============  =====================================  =====================================================

        ``flow``, ``transfer`` and ``verdict`` are numbers of rows in ``flows``, ``transfers`` and ``verdicts``. All
        times are int64 nanoseconds, instants since the Unix epoch. Sequence numbers count bytes from the flow's first
        byte and do not wrap. ``kind`` is one of ``new``, ``fast``, ``timeout``, ``tail-loss-probe``, ``other``;
        ``fate`` one of ``delivered``, ``lost``, ``unknown``. Unknown values are null. In ``model``, ``rival`` marks
        rows of the best model that lost, and packets over which none was replayed; ``wait_ns`` is the delay in the
        model, ``seen_wait_ns`` that in the captures.

        In ``crossings``, ``flow`` counts the flows of :attr:`pair` (of more than two captures those of the entry of
        :attr:`hops` that ``hop`` counts); ``sent_ns`` is the time at the point that the packet passed first, by capture
        1's clock, and ``time_1_ns``, ``time_2_ns`` are the times as captured, each by its own clock; ``sequence`` is
        the number in the header, which wraps (where a device between the captures changes it, that at capture 1);
        ``direction`` is ``1-to-2``, ``2-to-1`` or ``unknown``; ``crossing`` is ``matched``, ``lost``,
        ``missed-downstream`` or ``missed-upstream`` (by that capture only), ``duplicated`` (a further copy),
        ``outside-overlap``, ``other-path``, ``undecided`` or ``forgotten``; ``gap_ns`` is how long
        nothing passed in the same direction before.

        Raises:
            UnknownNameError: there is no table of this name.

        >>> import whydrop
        >>> found = whydrop.explain("examples/policed-download.pcap.zst")
        >>> segments = found.table("segments")
        >>> segments.filter(segments["fate"] == "lost").height == sum(flow.lost for flow in found.flows)
        True
        """
        known = TABLES if self.pair is None else TABLES + PAIR_TABLES
        if name not in known:
            hint = " (crossings takes two captures of one path)" if name in PAIR_TABLES else ""
            raise UnknownNameError(f"no table {name!r}; there are {', '.join(known)}{hint}")
        if name not in self._frames:
            self._frames[name] = self._frame(name)
        return self._frames[name]

    def _frame(self, name: str) -> polars.DataFrame:
        import polars

        from whydrop.explaining import frames

        if name in frames.MAKERS:
            return frames.MAKERS[name](self.document)
        frame = polars.DataFrame(self._analysis.table(name))
        if name == "segments" and frame.schema["kind"] == polars.UInt8:
            frame = frame.with_columns(_labelled("kind", KINDS), _labelled("fate", FATES))
        if name == "model" and "rival" not in frame.columns:
            # One capture does not show the delays of single packets, and its models are compared by other means.
            frame = frame.with_columns(
                rival=polars.lit(False),
                wait_ns=polars.lit(None, polars.Int64),
                seen_wait_ns=polars.lit(None, polars.Int64),
            )
        return crossings_labelled(frame) if name == "crossings" else frame


def crossings_labelled(frame: polars.DataFrame) -> polars.DataFrame:
    """The table ``crossings`` with its codes as enumerations."""
    import polars

    if frame.schema["direction"] != polars.UInt8:
        return frame
    return frame.with_columns(_labelled("direction", DIRECTIONS), _labelled("crossing", CROSSINGS))


def _labelled(column: str, labels: Sequence[str]) -> polars.Expr:
    """The codes of a column as an enumeration."""
    import polars

    return polars.col(column).cat.to(polars.Enum(labels))

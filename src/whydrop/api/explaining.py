"""``whydrop.explain``, and the explanation that it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whydrop.explaining import sources as explained_sources
from whydrop.explaining.explained import Explained

if TYPE_CHECKING:
    import altair
    import polars

    from whydrop.explaining.document import Verdict
    from whydrop.explaining.hints import PairHints
    from whydrop.explaining.predicting.prediction import Prediction
    from whydrop.recording.recording import Recording


def explain(
    *sources: str | PathLike[str] | Recording,
    sequence: bool = False,
    switch_port: tuple[str, str] | None = None,
    tables: bool = True,
    progress: Callable[[int, int], None] | None = None,
    filter: str | None = None,
    begin: float | datetime | None = None,
    end: float | datetime | None = None,
    hints: PairHints | None = None,
) -> Explanation:
    """Explain why packets were lost or delayed, from captures, a recording, or both.

    Args:
        sources: one of

            - a capture: a pcap or pcapng file, plain or compressed (gzip, zstd, xz, lz4, bzip2); ``"-"`` is standard
              input;
            - two or more captures of the same packets at different points of one path, in any order: their packets are
              matched and their clocks aligned (:attr:`Explanation.pair`, and the table ``crossings``);
            - a recording: a :class:`Recording`, its folder, a file of Flent, netperf-wrapper or ``iperf3 --json``, a
              file with TCP statistics (web100, tcp-info, NDT7, a log of ``ss``), or the folder of a store with such;
            - a recording and captures of the same test. Captures in the folder of a recording need not be named.
        sequence: the captures are pieces of one capture (``tcpdump -C``), in any order.
        switch_port: with a recording, a store and the port in it (``"SWITCH/PORT"``) that the path goes through towards
            the receivers: what that port discarded is evidence, too.
        tables: ``False`` saves time and a third of the memory, and :meth:`Explanation.table` has no packets.
        progress: called now and then with the bytes read so far and the bytes in all (0 where that is not known).
            An exception that it raises stops the analysis and reaches the caller.
        filter: a display filter such as ``"tcp.port == 443 and ip.addr == 10.0.0.0/8"`` (docs/filters.md): only the
            connections and packets that match are analysed.
        begin: of one capture, the first time that is analysed: seconds since its first packet, or a moment.
        end: the last time that is analysed.
        hints: of two captures, what is known of the path between them.

    Raises:
        whydrop.CaptureError: a capture could not be analysed; the message names the file, the byte offset and what
            was expected. A truncated or damaged capture is analysed up to the damage, with a note.
        whydrop.Error: a recording cannot be read, it holds neither probes nor flows, or the sources do not go together.

    >>> import whydrop
    >>> found = whydrop.explain("examples/policed-download.pcap.zst")
    >>> headline = found.verdicts[0]
    >>> headline.cause
    'policer'
    >>> 19e6 < headline.parameters["rate_bps"].value < 21e6
    True
    >>> found = whydrop.explain(
    ...     "examples/policed-download.pcap.zst", "examples/policed-download-far.pcap.zst"
    ... )
    >>> found.verdicts[0].place, found.pair.lost_1_to_2, found.pair.lost_2_to_1
    ('between capture 1 and capture 2', 96, 0)
    """
    return Explanation(
        explained_sources.analyse(
            sources,
            sequence=sequence,
            switch_port=switch_port,
            tables=tables,
            progress=progress,
            filter=filter,
            begin=_time(begin),
            end=_time(end),
            hints=hints,
        )
    )


def _time(moment: float | datetime | None) -> float | None:
    """Seconds since the start as a float, a moment as whole nanoseconds since the epoch."""
    if isinstance(moment, datetime):
        return round(moment.timestamp() * 1_000_000) * 1000
    return None if moment is None else float(moment)


def predict(
    *sources: str | PathLike[str], changes: Sequence[str] = (), control: str | None = None, runs: int = 20
) -> Prediction:
    """Predict what changes of the path or of the senders would bring to the connections of captures.

    Args:
        sources: one capture, or captures of one path, as for :func:`explain`; or a TOML file with a path, over which
            one connection is simulated.
        changes: such as ``"policer.burst=200kB"``, ``"aqm=fq_codel"``, ``"pace=9M"`` or ``"cc=bbr"``
            (docs/prediction.md). Without one, those that are worth it for the path are tried one by one.
        control: the congestion control of the senders, ``"cubic"``, ``"reno"`` or ``"bbr"``; by default the one that
            reproduces the captures best.
        runs: how often the connections are simulated, with and without the changes.

    Raises:
        whydrop.CaptureError: a capture could not be analysed.
        whydrop.PredictionError: the captures have nothing that could be run.
        whydrop.PathError: the file has no path that makes sense, or no round trip.
        whydrop.ChangeError: a change is not understood, or does not fit the path.

    >>> import whydrop
    >>> both = "examples/policed-download.pcap.zst", "examples/policed-download-far.pcap.zst"
    >>> found = whydrop.predict(*both, changes=["policer.burst=400kB"], runs=4)
    >>> found.changed_path.split(",")[1]
    'burst=400kB'
    """
    from whydrop.explaining.predicting.advising import predicted
    from whydrop.explaining.predicting.described import of_file
    from whydrop.explaining.predicting.prediction import predict_described
    from whydrop.explaining.predicting.reproducing import reproduce
    from whydrop.explaining.predicting.running import Runs

    if len(sources) == 1 and Path(sources[0]).suffix.lower() == ".toml":
        return predict_described(of_file(Path(sources[0])), changes, control, count=runs)
    simulated = Runs()
    return predicted(reproduce(explain(*sources), control, runs, simulated, changes), changes, simulated)


class Explanation(Explained):
    """The findings in captures, in a recording, or in both; it draws charts and writes reports.

    :func:`whydrop.explain` returns it. ``verdicts[0]`` is the headline.
    """

    def chart(self, name: str, *, flow: str | None = None) -> altair.VConcatChart:
        """One chart, to show in a notebook or to save.

        Args:
            name: one of ``time-sequence``, ``close-up``, ``received``, ``model``, ``model-close-up``, ``arrivals``,
                ``in-flight``, ``burst``, ``rtt``, ``gap-time``, ``ack-delay``, ``interarrival``, ``throughput``,
                ``limits``; of two captures also ``models``, ``models-close-up``, ``crossings``,
                ``crossings-close-up``, ``jitter``, ``loss-burst``, ``transit``, ``transit-histogram``, ``clock``; of
                RTP streams ``rtp``, ``rtp-2``, ...
            flow: the flow to draw, or part of its name such as ``":443"``; by default the one that lost most to the
                headline verdict.

        Raises:
            UnknownNameError: there is no chart of this name.
            ValueError: no flow matches, or the chart has nothing to draw (its message says why).

        >>> import whydrop
        >>> found = whydrop.explain("examples/policed-download.pcap.zst")
        >>> found.chart("time-sequence").save("sequence.png")  # doctest: +SKIP
        """
        from whydrop.show import charts
        from whydrop.show.vega.charts import chart

        number = 0 if name.startswith("rtp") else charts.choose_flow(self, flow)
        return chart(charts.figure(self, name, number))

    def write_charts(self, folder: str | PathLike[str], format: str = "png", *, flow: str | None = None) -> list[Path]:
        """Write every chart that has something to draw as ``FOLDER/NAME.FORMAT``; return the paths.

        Nothing is written for a capture without TCP data and RTP streams.

        Args:
            folder: created where it is missing.
            format: ``png``, ``svg`` or ``pdf``.
            flow: as for :meth:`chart`.
        """
        from whydrop.show import charts
        from whydrop.show.vega import drawing

        figures = charts.figures(self, charts.choose_flow(self, flow)) if self.flows else []
        figures += charts.stream_figures(self)
        return drawing.write_all(figures, Path(folder), format)

    def write_report(
        self, path: str | PathLike[str], *, flow: str | None = None, predicted: Prediction | None = None
    ) -> Path:
        """Write one self-contained HTML page with verdicts, charts and tables; it requests nothing from any network.

        Of a recording it holds the plots of its test, statistics and what is known of the hosts, too.

        Args:
            path: the file to write.
            flow: the connection that the charts show first, or part of its name.
            predicted: what changes would bring (:func:`predict`), if that is to be in the page.
        """
        from whydrop.formats.importing import open_recording
        from whydrop.runtime import durable
        from whydrop.show import report

        target = Path(path)
        recordings = [open_recording(one["path"]) for one in self.recordings]
        page = report.of_explained(self, flow=flow, recorded=recordings, predicted=predicted)
        durable.write_bytes(target, page.encode())
        return target

    def replay(self, path: str | Mapping[str, Any], *, verdict: int = 0) -> polars.DataFrame:
        """The packets of a verdict under a path that you describe: the drops, waits and levels that it would have.

        Each element of the path decides from the arrivals alone, whatever happened to the packets. Of two captures,
        arrivals, fates and delays are those captured between them; of one capture, arrivals and fates are inferred.

        Args:
            path: elements with their parameters as text (docs/models.md), such as ``"policer:rate=280M,burst=80kB"``,
                or as ``Verdict.path`` has them.
            verdict: the number of the verdict.

        Returns:
            A frame with a row for each packet: ``time_ns``, ``flow``, ``ip_bytes``, ``lost`` (null where unknown),
            ``seen_wait_ns`` (delay above that of the fastest packet), ``level_bytes`` (tokens in the bucket, or queued
            bytes), ``predicted_drop``, ``predicted_mark`` (all packets count as ECN-capable),
            ``predicted_wait_ns``. It has no rows where the verdict concerns no losses and no queue.

        Raises:
            whydrop.ModelError: the path makes no sense; the message says what was expected.

        >>> import whydrop
        >>> found = whydrop.explain(
        ...     "examples/policed-download.pcap.zst", "examples/policed-download-far.pcap.zst"
        ... )
        >>> packets = found.replay("policer:rate=20M,burst=40kB")
        >>> packets["lost"].sum(), packets.filter("lost", "predicted_drop").height
        (96, 77)
        """
        from whydrop.explaining import replaying

        return replaying.replay(self, path, verdict)

    def _repr_html_(self) -> str:
        from whydrop.show import html
        from whydrop.show.document import Column, Columns, Table
        from whydrop.text.quantities import count, percent

        columns: Columns[Verdict] = {
            Column("Cause"): lambda one: one.cause,
            Column("Confidence", number=True): lambda one: percent(one.confidence),
            Column("Packets lost", number=True): lambda one: count(one.lost),
            Column("Verdict"): lambda one: one.sentence,
            Column("Advice"): lambda one: "; ".join(one.advice),
        }
        return html.fragment(Table.of("", columns, self.verdicts))

    def __repr__(self) -> str:
        headline = self.verdicts[0].sentence if self.verdicts else "no verdict"
        return f"<whydrop.Explanation: {headline}>"

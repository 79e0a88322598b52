"""A file of TCP's statistics (web100, tcp-info, NDT, SideStream) as a recording: each connection a flow.

The rows are those of a store's table ``tcp`` (`whydrop import --store`), which every such file becomes; here they take
the names of a recording's ``tcp_info``. As of a watched connection, what the other end acknowledged, and what came from
it, are goodput.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from whydrop.formats.archives import kinds, tarring
from whydrop.formats.archives.reading import pieces
from whydrop.formats.archives.reading_one import kind_of
from whydrop.formats.archives.streams import ZSTD
from whydrop.recording import tables
from whydrop.recording.recording import Recording, RecordingError

_KINDS = ("snaplog", "sidestream", "tcp-info", "netlink", "ndt")
_CONNECTION = ("test_id", "source", "local_address", "local_port", "remote_address", "remote_port")
# The study's own interval; shorter ones show the order of acknowledgments.
_STEP_NS = 100_000_000
# As of a watched connection.
_GOODPUT_NS = 200_000_000
_NS_PER_S = 1e9

# The recording's name for a column where the store's differs.
_NAMES = {
    "lost_packets": "lost_segments",
    "retransmitted_packets": "retransmitted_segments",
    "sent_packets": "sent_segments",
    "received_packets": "received_segments",
    "sent_data_packets": "sent_data_segments",
    "receive_window_limited_ns": "receiver_limited_ns",
    "send_window_bytes": "receive_window_bytes",
    "timeout_ns": "retransmission_timeout_ns",
    "timeouts_in_a_row": "current_timeout_count",
}
_BBR = {"tcp_bbr_bw": pl.col("bbr_bandwidth_bps") / 1e6, "tcp_bbr_mrtt": pl.col("bbr_min_rtt_ns") / 1e6}


def is_tcp_statistics(content: bytes, path: Path) -> bool:
    """True if a file's content, unpacked where it is one of gzip, is such statistics or an archive of them."""
    if content.startswith(ZSTD):
        return kind_of(path) in _KINDS
    if tarring.is_tar(content[:1024]):
        return True
    return kinds.kind(content, path.name) in _KINDS


def recording(path: Path) -> Recording:
    """The connections of a file or an archive.

    Raises:
        RecordingError: there is none in it that tells of itself.
    """
    found = list(pieces(path))
    notes = [note for piece in found for note in piece.notes]
    notes += [f"Damaged at {piece.damage}. What is before that is shown" for piece in found if piece.damage]
    frames = [piece.frame for piece in found if piece.table == "tcp" and piece.frame.height]
    if not frames:
        raise RecordingError(f"{path}: no statistics of a TCP connection" + "".join(f"; {note}" for note in notes))
    rows = _numbered(pl.concat(frames))
    last = rows.group_by("flow", maintain_order=True).agg(
        pl.all().drop_nulls().last(),
        start_ns=pl.col("time_ns").min(),
        sent=pl.col("acked_bytes").max() - pl.col("acked_bytes").min(),
        came=pl.col("received_bytes").max() - pl.col("received_bytes").min(),
    )
    intervals = [_intervals(rows, "acked_bytes", 0), _intervals(rows, "received_bytes", 1)]
    contents = {
        "flows": _flows(last),
        "tcp_info": _tcp_info(rows),
        "intervals": pl.concat(intervals),
        "values": _values(rows),
    }
    return Recording(path, _metadata(path, rows), contents, list(dict.fromkeys(notes)))


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with a time, in its order, and with the even number of their connection's flow."""
    timed = rows.with_columns(time_ns=pl.coalesce("time_ns", "elapsed_ns")).drop_nulls("time_ns")
    numbers = timed.select(_CONNECTION).unique(maintain_order=True).with_row_index("flow")
    joined = timed.join(numbers, on=_CONNECTION, how="left", nulls_equal=True)
    return joined.with_columns(flow=pl.col("flow").cast(pl.Int32) * 2).sort("flow", "time_ns", maintain_order=True)


def _tcp_info(rows: pl.DataFrame) -> pl.DataFrame:
    same = [name for name in tables.TCP_INFO if name in rows.columns and name not in _NAMES and name != "state"]
    packets = {
        f"{name}_packets": pl.when(pl.col("mss_bytes") > 0).then(pl.col(f"{name}_bytes") // pl.col("mss_bytes"))
        for name in ("congestion_window", "slow_start_threshold")
    }
    frame = rows.select(*same, state=pl.col("state").str.to_lowercase(), **_NAMES, **packets)
    return tables.conform("tcp_info", frame)


def _values(rows: pl.DataFrame) -> pl.DataFrame:
    told = [rows.select("flow", "time_ns", key=pl.lit(key), value=value) for key, value in _BBR.items()]
    return tables.conform("values", pl.concat(told).drop_nulls("value"))


def _intervals(rows: pl.DataFrame, column: str, way: int) -> pl.DataFrame:
    """What a connection carried one way, in intervals as those of a watched one."""
    since = pl.col("time_ns") - pl.col("time_ns").min().over("flow")
    ends = rows.drop_nulls(column).group_by("flow", step=since // _GOODPUT_NS, maintain_order=True).last()
    grown, start = (pl.col(name).diff().over("flow") for name in (column, "time_ns"))
    spans = ends.select(
        pl.col("flow") + way, start_ns=pl.col("time_ns") - start, end_ns="time_ns", payload_bytes=grown
    ).filter(pl.col("payload_bytes") >= 0, pl.col("end_ns") > pl.col("start_ns"))
    carried = spans.filter(pl.col("payload_bytes").sum().over("flow") > 0)
    goodput = pl.col("payload_bytes") * 8 / (pl.col("end_ns") - pl.col("start_ns")) * _NS_PER_S
    return tables.conform("intervals", carried.with_columns(goodput_bps=goodput))


def _flows(last: pl.DataFrame) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    names: dict[str, int] = {}
    for row in last.iter_rows(named=True):
        ends = [_place(row[f"{end}_address"], row[f"{end}_port"]) for end in ("local", "remote")]
        for way, carried in enumerate((row["sent"], row["came"])):
            if way and not carried:
                continue
            name = " > ".join(ends[::-1] if way else ends)
            names[name] = names.get(name, 0) + 1
            rows.append(
                {
                    "flow": row["flow"] + way,
                    "name": name if names[name] == 1 else f"{name} #{names[name]}",
                    "kind": "tcp",
                    "direction": ("up", "down")[way],
                    "runner": row["source"],
                    "host": row["remote_address"],
                    "address": row["remote_address"],
                    "congestion_control": None if way else row["congestion_control"],
                    "start_ns": row["start_ns"],
                    "end_ns": row["time_ns"],
                    "payload_bytes": carried,
                    "status": "complete",
                }
            )
    return tables.conform("flows", pl.DataFrame(rows, infer_schema_length=None))


def _place(address: str | None, port: int | None) -> str:
    host = address or "unknown"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _metadata(path: Path, rows: pl.DataFrame) -> dict[str, Any]:
    first, last = rows["time_ns"].min(), rows["time_ns"].max()
    sources = ", ".join(rows["source"].drop_nulls().unique().sort())
    kernels = rows["kernel"].drop_nulls().unique().sort().to_list()
    return {
        "name": "tcp",
        "title": path.name,
        "status": "complete",
        "started_ns": first,
        "ended_ns": last,
        "test": {"test": "tcp", "title": f"TCP's own statistics ({sources})", "step_s": _STEP_NS / _NS_PER_S},
        "imported": {"format": sources, "file": path.name, "metadata": {"kernels": kernels}},
    }

"""TCP's statistics of connections: rows of a store's table ``tcp`` as a recording, and a recording's as such rows.

So what was watched live, what other tools logged and what measurement platforms published is drawn and explained by the
same code, and stands in the same table. Stores count bytes, recordings packets as Linux does: both know the MSS.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.recording import tables
from whydrop.recording.errors import RecordingError
from whydrop.recording.recording import Recording
from whydrop.store.tables import TCP, conform

if TYPE_CHECKING:
    from whydrop.store.store import Store

NAME = "connections"
# Payload is put into intervals no shorter than this, as a watch does: shorter ones see single round trips.
_INTERVAL_NS = 200_000_000
_NS = 1_000_000_000

# Columns of the store, by the recording's name where that is another one.
_RENAMED = {
    "sent_packets": "sent_segments",
    "sent_data_packets": "sent_data_segments",
    "received_packets": "received_segments",
    "retransmitted_packets": "retransmitted_segments",
    "lost_packets": "lost_segments",
    "send_window_bytes": "receive_window_bytes",  # what the other end lets this one send
    "receive_window_limited_ns": "receiver_limited_ns",
    "timeout_ns": "retransmission_timeout_ns",
    "timeouts_in_a_row": "current_timeout_count",
}
# Bytes in the store, packets in the recording.
_BY_MSS = {
    "congestion_window_packets": "congestion_window_bytes",
    "slow_start_threshold_packets": "slow_start_threshold_bytes",
    "max_congestion_window_packets": "max_congestion_window_bytes",
    "unacked_packets": "flight_bytes",
}
# Mbit/s, ms.
_OF_BBR = {"tcp_bbr_bw": "bbr_bandwidth_bps", "tcp_bbr_mrtt": "bbr_min_rtt_ns"}
_OTHERS = {"flow", "time_ns", "state", "receive_window_bytes", *_RENAMED, *_BY_MSS}
_SAME = tuple(name for name in tables.TCP_INFO if name in TCP and name not in _OTHERS)

_ENDS = ("local_address", "local_port", "remote_address", "remote_port")
_IDENTITY = ("test_id", "source", *_ENDS)


def recording(frame: pl.DataFrame, path: Path, notes: Sequence[str] = (), damage: str | None = None) -> Recording:
    """Rows of ``tcp`` as a recording with a flow for each connection and direction, as a watch has them.

    Args:
        frame: rows of ``tcp``, of any number of connections. Those without any time are left out.
        path: what they were read from.
        notes: what a reader should know.
        damage: where the file is damaged.

    Raises:
        RecordingError: no row says when it was.
    """
    rows = _numbered(frame)
    if rows.is_empty():
        without = "holds no samples of TCP connections" if frame.is_empty() else "no sample of a connection has a time"
        problems = "; ".join([*notes, *([] if damage is None else [damage])])
        raise RecordingError(
            f"{path}: {without}, so there is nothing to draw or to explain"
            f"{f' ({problems})' if problems else ''}; `whydrop import FILE --store DIR` takes what else it has"
        )
    intervals = _intervals(rows)
    parts = {
        "flows": _flows(rows, intervals),
        "tcp_info": _tcp_info(rows),
        "intervals": intervals,
        "values": _values(rows),
    }
    damaged = [] if damage is None else [f"Damaged: {damage}. What is before that is shown"]
    return Recording(path, _metadata(rows, path, damage), parts, [*notes, *damaged])


def of_store(store: Store, most: int) -> Recording:
    """The connections in a store's table ``tcp`` that carried most, as a recording.

    Raises:
        RecordingError: there are none, or the store cannot be read.
    """
    rows = store.scan("tcp")
    grown = [
        pl.col(name).max().fill_null(0) - pl.col(name).min().fill_null(0) for name in ("acked_bytes", "received_bytes")
    ]
    carried = rows.group_by(_IDENTITY).agg(carried=pl.sum_horizontal(grown)).collect()
    chosen = carried.sort("carried", *_IDENTITY, descending=[True] + [False] * len(_IDENTITY)).head(most)
    found = rows.drop("day").join(chosen.lazy().select(_IDENTITY), on=list(_IDENTITY), how="semi", nulls_equal=True)
    notes = list(store.notes)
    if carried.height > most:
        notes.append(f"{carried.height} connections: the {most} that carried most are here")
    return recording(found.collect(), Path(store.files.shown), notes)


def _numbered(frame: pl.DataFrame) -> pl.DataFrame:
    """In order of time, with the number of the flow that each connection sends."""
    # NDT7's clock is the server's; where only the time since the start is known, that is the time.
    rows = frame.with_columns(time_ns=pl.coalesce("time_ns", "elapsed_ns")).drop_nulls("time_ns")
    first = rows.group_by(_IDENTITY, maintain_order=True).agg(pl.col("time_ns").min()).sort("time_ns", *_IDENTITY)
    flows = first.select(*_IDENTITY, flow=pl.int_range(pl.len(), dtype=pl.Int32) * 2)
    numbered = rows.join(flows, on=list(_IDENTITY), how="left", nulls_equal=True)
    return numbered.sort("flow", "time_ns", "elapsed_ns", maintain_order=True)


def _tcp_info(rows: pl.DataFrame) -> pl.DataFrame:
    mss = pl.when(pl.col("mss_bytes") > 0).then(pl.col("mss_bytes"))
    return rows.select(
        "flow",
        "time_ns",
        *_SAME,
        *(pl.col(there).alias(here) for here, there in _RENAMED.items()),
        # A window is whole packets until the MSS changes; the last packet in flight may be smaller.
        *((pl.col(there) / mss).ceil().cast(pl.Int64).alias(here) for here, there in _BY_MSS.items()),
        pl.col("state").str.to_lowercase(),
    )


def _values(rows: pl.DataFrame) -> pl.DataFrame:
    """The values that BBR reports of itself, as a watch records them."""
    values = [
        rows.select("flow", "time_ns", key=pl.lit(key), value=pl.col(column) / 1e6) for key, column in _OF_BBR.items()
    ]
    return pl.concat(values).drop_nulls("value")


def _intervals(rows: pl.DataFrame) -> pl.DataFrame:
    """The payload acknowledged (of the even flows) and received (of the odd ones)."""
    last = pl.col("time_ns") // _INTERVAL_NS != pl.col("time_ns").shift(-1).over("flow") // _INTERVAL_NS
    edges = rows.filter(last.fill_null(value=True) | pl.col("flow").is_first_distinct())
    found = []
    for way, column in enumerate(("acked_bytes", "received_bytes")):
        known = edges.drop_nulls(column)
        grown = pl.col(column).diff().over("flow")
        found.append(
            known.select(
                flow=(pl.col("flow") + way).cast(pl.Int32),
                start_ns=pl.col("time_ns").shift(1).over("flow"),
                end_ns="time_ns",
                # A counter that falls was reset.
                payload_bytes=pl.when(grown >= 0).then(grown),
            )
            .drop_nulls()
            .filter(pl.col("end_ns") > pl.col("start_ns"))
            .with_columns(goodput_bps=pl.col("payload_bytes") * 8e9 / (pl.col("end_ns") - pl.col("start_ns")))
        )
    # Of what was received there is no flow where nothing was.
    sends = pl.col("flow") % 2 == 0
    return pl.concat(found).filter(sends | (pl.col("payload_bytes").sum().over("flow") > 0))


def _flows(rows: pl.DataFrame, intervals: pl.DataFrame) -> pl.DataFrame:
    carried = dict(intervals.group_by("flow").agg(pl.col("payload_bytes").sum()).iter_rows())
    first = ("machine", "site", "kernel")
    totals = rows.group_by("flow", maintain_order=True).agg(
        *(pl.col(name).first() for name in (*_IDENTITY, *first)),
        # NDT7 does not name it, but has the state of BBR where that is at work.
        pl.coalesce(
            pl.col("congestion_control").drop_nulls().last(),
            pl.when(pl.col("bbr_bandwidth_bps").is_not_null().any()).then(pl.lit("bbr")),
        ),
        start_ns=pl.col("time_ns").min(),
        end_ns=pl.col("time_ns").max(),
    )
    names: dict[str, int] = {}
    found = []
    for one in totals.iter_rows(named=True):
        local, remote = (_place(one[f"{end}_address"], one[f"{end}_port"]) for end in ("local", "remote"))
        facts = {"local": local, "remote": remote, "cookie": f"{one['test_id']} {local} {remote}"}
        facts |= {name: one[name] for name in ("test_id", "source", *first) if one[name] is not None}
        for way, name in ((0, f"{local} > {remote}"), (1, f"{remote} > {local}")):
            flow = one["flow"] + way
            if way and not carried.get(flow):
                continue
            names[name] = names.get(name, 0) + 1
            found.append(
                {
                    "flow": flow,
                    "name": name if names[name] == 1 else f"{name} #{names[name]}",
                    "kind": "tcp",
                    "direction": ("up", "down")[way],
                    "runner": one["source"],
                    "host": one["remote_address"],
                    "address": one["remote_address"],
                    "ip_version": 6 if ":" in (one["remote_address"] or "") else 4,
                    "congestion_control": None if way else one["congestion_control"],
                    "start_ns": one["start_ns"],
                    "end_ns": one["end_ns"],
                    "payload_bytes": carried.get(flow, 0),
                    "status": "complete",
                    "facts": json.dumps(facts, ensure_ascii=False),
                }
            )
    return pl.DataFrame(found, schema=tables.FLOWS)


def _place(address: str | None, port: int | None) -> str:
    known = address or "?"
    return f"{f'[{known}]' if ':' in known else known}:{'?' if port is None else port}"


def _metadata(rows: pl.DataFrame, path: Path, damage: str | None) -> dict[str, Any]:
    span = rows.select(first=pl.col("time_ns").min(), last=pl.col("time_ns").max()).row(0)
    apart = rows.select(pl.col("time_ns").diff().over("flow").median()).item() or _INTERVAL_NS
    connections = rows["flow"].n_unique()
    sources = rows["source"].unique().drop_nulls().sort().to_list()
    return {
        "name": NAME,
        "title": str(rows["test_id"][0] or path.name) if connections == 1 else path.name,
        "status": "failed" if damage else "complete",
        "failures": [damage] if damage else [],
        "started_ns": span[0],
        "ended_ns": span[1],
        "test": {
            "test": NAME,
            "title": "TCP's statistics of connections",
            "length_s": (span[1] - span[0]) / _NS,
            "step_s": max(apart, _INTERVAL_NS) / _NS,
            "parameters": {"connections": connections},
        },
        "imported": {"format": "+".join(sources), "file": path.name, "written_by": "", "metadata": {}},
    }


def rows_of(found: Recording) -> pl.DataFrame:
    """The TCP statistics of a recording, watched or of a test, as rows of ``tcp``."""
    named = []
    for flow in found.table("flows").filter(pl.col("kind") == "tcp").iter_rows(named=True):
        facts = json.loads(flow["facts"]) if flow["facts"] else {}
        facts = facts if isinstance(facts, dict) else {}
        local, remote = (_parted(facts.get(end)) for end in ("local", "remote"))
        named.append(
            {
                "flow": flow["flow"],
                "test_id": facts.get("test_id") or f"{found.path.name}/{flow['name']}",
                "source": facts.get("source") or ("watch" if flow["runner"] == "kernel" else flow["runner"]),
                "congestion_control": flow["congestion_control"],
                "local_address": local[0],
                "local_port": local[1],
                "remote_address": remote[0] or flow["address"],
                "remote_port": remote[1],
                **{name: facts.get(name) for name in ("machine", "site", "kernel")},
            }
        )
    flows = pl.DataFrame(named, schema={"flow": pl.Int32()} | {name: TCP[name] for name in _NAMED}, strict=False)
    mss = pl.col("mss_bytes")
    rows = found.table("tcp_info").join(flows, on="flow", how="inner")
    return conform(
        "tcp",
        rows.select(
            "time_ns",
            *_NAMED,
            *_SAME,
            *(pl.col(here).alias(there) for here, there in _RENAMED.items()),
            *((pl.col(here) * mss).alias(there) for here, there in _BY_MSS.items()),
            pl.col("state").str.to_uppercase(),
        ),
    )


_NAMED = ("congestion_control", "machine", "site", "kernel", *_IDENTITY)


def _parted(place: Any) -> tuple[str | None, int | None]:
    """Address and port of an end as it is written in ``facts``.

    >>> _parted("[2001:db8::1]:443"), _parted("192.0.2.1:?"), _parted(None)
    (('2001:db8::1', 443), ('192.0.2.1', None), (None, None))
    """
    if not isinstance(place, str):
        return None, None
    address, _, port = place.rpartition(":")
    known = address.strip("[]")
    return (known if known not in ("", "?") else None), (int(port) if port.isascii() and port.isdigit() else None)

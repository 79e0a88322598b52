"""A recording as a file of Flent (format version 4), which Flent 2.3 opens, plots and summarises.

A recording that was imported from Flent is written with its original metadata, grid and raw values. Of other
recordings, the series of flows and the computed series become results on the grid, rows of the tables become raw
values, and the metadata get Flent's keys; the recording's own metadata stand under ``WHYDROP``.
"""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from typing import Any

import polars as pl

from whydrop.formats.flent.raw import raw_values
from whydrop.formats.flent.values import COMPUTING, TCP_COLUMNS
from whydrop.recording import document
from whydrop.recording.grid import computed_plans
from whydrop.recording.metrics.summary import Summary
from whydrop.recording.recording import Recording, Series

VERSION = 4

_UNITS = {"Mbit/s": "Mbits/s", "kbit/s": "Kbits/s"}
_RUNNERS = {by: runner for runner, by in COMPUTING.items()}

# Names of tests that Flent 2.3 knows: it cannot open a file of any other.
_NAMES = """
bursts bursts_11e cisco_5tcpup cisco_5tcpup_2udpflood command-output cpu_stress cubic_bbr cubic_cdg cubic_dctcp
cubic_ledbat cubic_ledbat_1 cubic_reno cubic_westwood dashtest dslreports_8dn http http-1down http-1up http-rrul
iterated_bidirectional ledbat_cubic_1 mqtt_read ping power_usage qdisc-stats reno_cubic_westwood_cdg
reno_cubic_westwood_ledbat reno_cubic_westwood_lp rrul rrul46 rrul46compete rrul_100_up rrul_50_down rrul_50_up
rrul_be rrul_be_iperf rrul_be_nflows rrul_cs8 rrul_icmp rrul_noclassification rrul_prio rrul_torrent rrul_up
rrul_var rtt_fair rtt_fair4be rtt_fair6be rtt_fair_up rtt_fair_var rtt_fair_var_down rtt_fair_var_mixed
rtt_fair_var_up sctp_vs_tcp tcp_12down tcp_12up tcp_1down tcp_1up tcp_1up_noping tcp_2down tcp_2up tcp_2up_delay
tcp_2up_square tcp_2up_square_westwood tcp_4down tcp_4up tcp_4up_squarewave tcp_50up tcp_6down tcp_6up tcp_8down
tcp_8up tcp_bidirectional tcp_download tcp_ndown tcp_nup tcp_upload tcp_upload_1000 tcp_upload_prio udp_flood
udp_flood_var_up udp_flood_var_up_stagger voip voip-1up voip-rrul
"""


def exported(recording: Recording) -> bytes:
    """The contents of a ``.flent.gz``."""
    # Without indentation, which makes Python's JSON ten times slower.
    made = as_document(recording)
    try:
        text = json.dumps(made, sort_keys=True, allow_nan=False)
    except ValueError:
        # Samples that are no numbers; to look for them in every recording would cost more than to write it.
        text = json.dumps(document.plain(made), sort_keys=True, allow_nan=False)
    # No time in the file's header: the same recording gives the same file.
    return gzip.compress(text.encode(), mtime=0)


def exported_series(recording: Recording) -> list[Series]:
    """The series that become results."""
    on_grid = set(recording.table("grids")["name"].unique().to_list())
    if on_grid:
        return [series for series in recording.series() if series.name in on_grid]
    # Flent knows quantities of TCP by the same keys, and its plots look for them among the results.
    return [
        series
        for series in recording.series()
        if series.kind != "counter" and (not series.key or series.key in TCP_COLUMNS)
    ]


def as_document(recording: Recording) -> dict[str, Any]:
    """The file as Python's objects."""
    series = exported_series(recording)
    grid = recording.grid(*(one.name for one in series)) if series else recording.grid().select("time_s")
    x_values = _x_values(recording, grid)
    return {
        "version": VERSION,
        "x_values": x_values,
        "results": {name: grid[name].to_list() for name in grid.columns if name != "time_s"},
        "raw_values": {**{name: [] for name in _without_raw_values(recording)}, **raw_values(recording)},
        "metadata": _metadata(recording, series, x_values),
    }


def _without_raw_values(recording: Recording) -> list[str]:
    """Series for which an imported file has an empty list of raw values."""
    names = (recording.metadata["imported"] or {}).get("without_raw_values")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _x_values(recording: Recording, grid: pl.DataFrame) -> list[float]:
    imported = recording.table("grids")
    if imported.height:
        # As the file had them: a sum of steps differs from their product in the last digit.
        first = imported["name"][0]
        return imported.filter(pl.col("name") == first)["time_s"].to_list()
    return grid["time_s"].to_list()


def _metadata(recording: Recording, series: list[Series], x_values: list[float]) -> dict[str, Any]:
    imported = recording.metadata["imported"]
    if isinstance(imported, dict) and imported.get("format") == "flent" and isinstance(imported.get("metadata"), dict):
        return _as_it_was(recording, imported["metadata"], x_values)
    found = _under_flents_keys(recording, x_values)
    found["SERIES_META"] = _series_metadata(recording, series)
    found["WHYDROP"] = json.loads(document.text(recording.metadata))
    return found


def _as_it_was(recording: Recording, original: dict[str, Any], x_values: list[float]) -> dict[str, Any]:
    """Imported metadata, with times in UTC (as from version 3 on) and every key that Flent requires."""
    found = dict(original)
    found.pop("NETPERF_WRAPPER_VERSION", None)
    found.setdefault("FLENT_VERSION", recording.metadata["imported"].get("written_by"))
    started_ns = recording.metadata["started_ns"]
    if isinstance(started_ns, int):
        found["T0"] = _time(started_ns)
    if not str(found.get("TIME") or "").endswith("Z"):
        asked_ns = recording.metadata["imported"].get("asked_ns")
        found["TIME"] = _time(asked_ns if isinstance(asked_ns, int) else recording.started_ns)
    if isinstance(found.get("BATCH_TIME"), str) and not found["BATCH_TIME"].endswith("Z"):
        found["BATCH_TIME"] += "Z" if "." in found["BATCH_TIME"] else ".000000Z"
    found.setdefault("TITLE", "")
    found.setdefault("STEP_SIZE", recording.step_s)
    if found.get("TOTAL_LENGTH") is None:
        found["TOTAL_LENGTH"] = max(x_values, default=0.0)
    return found


def _under_flents_keys(recording: Recording, x_values: list[float]) -> dict[str, Any]:
    metadata, test = recording.metadata, recording.metadata["test"]
    hosts = [host for host in test.get("hosts") or [] if isinstance(host, str)]
    local = metadata["hosts"].get("local")
    batch = metadata["batch"] or {}
    versions = recording.table("flows")["ip_version"].drop_nulls().to_list()
    total_s = max(x_values, default=0.0)
    name, own_name = _name_for(recording)
    title = str(metadata["title"] or "")
    return {
        "NAME": name,
        "TITLE": f"{own_name}: {title}" if own_name and title else own_name or title,
        "NOTE": str(metadata["note"] or "") or None,
        "HOST": hosts[0] if hosts else None,
        "HOSTS": hosts,
        "LOCAL_HOST": (local or {}).get("host_name") if isinstance(local, dict) else None,
        "TIME": _time(recording.started_ns),
        "T0": _time(recording.started_ns),
        "LENGTH": test.get("length_s", total_s),
        "TOTAL_LENGTH": total_s,
        "STEP_SIZE": recording.step_s,
        "TEST_PARAMETERS": {str(key): _text(value) for key, value in (test.get("parameters") or {}).items()},
        "FLENT_VERSION": f"whydrop {metadata['whydrop']}",
        "IP_VERSION": versions[0] if versions else None,
        "FAILED_RUNNERS": len(recording.flows_without_data()),
        "BATCH_NAME": batch.get("name"),
        "BATCH_TITLE": batch.get("title"),
        "BATCH_UUID": batch.get("id"),
        "BATCH_TIME": _time(batch["started_ns"]) if isinstance(batch.get("started_ns"), int) else None,
        "HTTP_GETTER_DNS": None,
        "HTTP_GETTER_URLLIST": None,
        "HTTP_GETTER_WORKERS": None,
        "DATA_FILENAME": f"{recording.path.stem}.flent.gz",
        **_host_metadata(local if isinstance(local, dict) else {}),
        "REMOTE_METADATA": {
            str(name): _host_metadata(host)
            for name, host in metadata["hosts"].items()
            if name != "local" and isinstance(host, dict)
        },
    }


def _series_metadata(recording: Recording, series: list[Series]) -> dict[str, Any]:
    summary = Summary(recording)
    rows = {row["flow"]: row for row in summary.flows}
    plans = computed_plans(recording.metadata["test"])
    resent = summary.retransmissions()
    found: dict[str, Any] = {}
    for place, one in enumerate(series):
        entry: dict[str, Any] = {"UNITS": _UNITS.get(one.units, one.units), "IDX": place}
        mean = summary.told_mean(one)
        if mean is not None:
            entry["MEAN_VALUE"] = mean
        if one.kind == "computed":
            entry["RUNNER"] = _RUNNERS.get(str(plans.get(one.name, {}).get("by")), "NullRunner")
            entry["COMPUTED_LATE"] = False
        elif not one.key and one.flow is not None:
            entry |= _flow_metadata(rows[one.flow], resent)
        found[one.name] = entry
    return found


def _flow_metadata(row: dict[str, Any], resent: dict[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {"RUNNER": f"whydrop {row['runner']}" if row["runner"] else "whydrop"}
    if row["congestion_control"]:
        found["CONG_CONTROL"] = row["congestion_control"]
    if row["dscp"] is not None:
        found["UPSTREAM_TOS"] = found["DOWNSTREAM_TOS"] = row["dscp"] << 2
    if row["name"] in resent:
        found["TCP_RETRANSMIT"] = resent[row["name"]]
    return found


def _time(instant_ns: int) -> str:
    moment = datetime.fromtimestamp(instant_ns // 1_000_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{instant_ns // 1000 % 1_000_000:06d}Z"


def _text(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool)) or value is None else json.dumps(value)


def _name_for(recording: Recording) -> tuple[str, str]:
    """The name of a test that Flent knows, and the recording's own name where it is another.

    A test that is unknown to Flent gets the name of a similar one, so that Flent finds plots for it.
    """
    name = str(recording.metadata["name"])
    if name in _NAMES.split():
        return name, ""
    flows = recording.table("flows")
    load = set(flows.filter(flows["kind"].is_in(["tcp"]))["direction"].to_list())
    kinds = set(flows["kind"].to_list())
    if {"up", "down"} <= load:
        return "rrul_be", name
    if load:
        return ("tcp_nup" if "up" in load else "tcp_ndown"), name
    if "udp" in kinds:
        return "udp_flood", name
    if "http" in kinds:
        return "http", name
    return "ping", name


def _host_metadata(host: dict[str, Any]) -> dict[str, Any]:
    """Flent's metadata of one host; unknown values are null."""
    kernel = host.get("kernel") or {}
    return {
        "KERNEL_NAME": kernel.get("name"),
        "KERNEL_RELEASE": kernel.get("release"),
        "MODULE_VERSIONS": host.get("modules") or {},
        "SYSCTLS": host.get("sysctls") or {},
        "IP_ADDRS": {
            name: [str(address).partition("/")[0] for address in addresses]
            for name, addresses in (host.get("addresses") or {}).items()
        },
        "GATEWAYS": [
            {"iface": gateway.get("interface"), "ip": gateway.get("address")} for gateway in host.get("gateways") or []
        ],
        "EGRESS_INFO": _egress(host),
    }


def _egress(host: dict[str, Any]) -> dict[str, Any] | None:
    for target, route in (host.get("egress") or {}).items():
        interface = (host.get("interfaces") or {}).get(route.get("interface")) or {}
        driver, speed = interface.get("driver"), interface.get("speed_mbit_per_s")
        queue_length = interface.get("queue_length_packets")
        return {
            "iface": route.get("interface"),
            "target": route.get("address") or target,
            "src": route.get("source"),
            "nexthop": route.get("gateway"),
            "driver": driver.get("driver") if isinstance(driver, dict) else driver,
            "offloads": interface.get("offloads") or {},
            "bql": {
                queue: str(limits.get("limit_max"))
                for queue, limits in (interface.get("byte_queue_limits") or {}).items()
                if isinstance(limits, dict)
            },
            "link_params": {
                "ether": interface.get("hardware_address"),
                "qlen": None if queue_length is None else str(queue_length),
                "speed": f"{speed}Mb/s" if isinstance(speed, int) and speed > 0 else None,
                "duplex": interface.get("duplex"),
            },
            "qdiscs": [_object(qdisc) for qdisc in interface.get("qdiscs") or []],
            "classes": [_object(each) for each in interface.get("classes") or []] or None,
            "tc_stats_pre": [_statistics(qdisc) for qdisc in interface.get("qdiscs") or []],
            "tc_stats_post": [_statistics(qdisc) for qdisc in interface.get("qdiscs_after") or []],
        }
    return None


def _object(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": found.get("kind"),
        "id": found.get("handle"),
        "parent": found.get("parent"),
        "params": {key: str(value) for key, value in (found.get("options") or {}).items()},
    }


def _statistics(found: dict[str, Any]) -> str:
    counters = " ".join(f"{key} {value}" for key, value in (found.get("statistics") or {}).items())
    return f"qdisc {found.get('kind')} {found.get('handle')} parent {found.get('parent')} {counters}"

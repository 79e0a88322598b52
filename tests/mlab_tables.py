"""M-Lab's tables in BigQuery, as far as the packaged mapping reads them: their schemas, and synthetic rows of them.

A row is what BigQuery's JSON has: dicts for structs, lists for arrays.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from small_stores import BIN, SECOND, Row

#: As in m-lab/etl (schema/) and m-lab/etl-schema (views/).
SCHEMAS = """
CREATE TABLE `measurement-lab`.utilization.switch (
  date DATE, parser STRUCT<Filename STRING>, a STRUCT<Machine STRING, Site STRING>,
  raw STRUCT<Metrics ARRAY<STRUCT<Metric STRING,
    Sample ARRAY<STRUCT<timestamp INT64, value FLOAT64, counter INT64>>>>>);
CREATE TABLE `measurement-lab`.ndt.web100 (
  date DATE, a STRUCT<TestTime TIMESTAMP, MeanThroughputMbps FLOAT64>, parser STRUCT<Filename STRING>,
  server STRUCT<Site STRING, Machine STRING>,
  raw STRUCT<connection STRUCT<data_direction INT64, server_hostname STRING>,
    web100 STRUCT<version STRING, connection_spec STRUCT<local_ip STRING, local_port INT64, remote_ip STRING,
      remote_port INT64>, snap STRUCT<StartTimeStamp INT64, Duration INT64, HCThruOctetsAcked INT64,
      HCThruOctetsReceived INT64, SegsOut INT64, SegsRetrans INT64, OctetsRetrans INT64, SndLimTimeRwin INT64,
      SndLimTimeCwnd INT64, SndLimTimeSnd INT64, CongSignals INT64, Timeouts INT64, MinRTT INT64, SumRTT INT64,
      CountRTT INT64>>>);
CREATE TABLE `measurement-lab`.ndt.ndt5 (
  date DATE, server STRUCT<Site STRING, Machine STRING>,
  raw STRUCT<StartTime TIMESTAMP, S2C STRUCT<UUID STRING, StartTime TIMESTAMP, EndTime TIMESTAMP, ServerIP STRING,
    ServerPort INT64, ClientIP STRING, ClientPort INT64, MeanThroughputMbps FLOAT64, MinRTT INT64,
    TCPInfo STRUCT<BytesAcked INT64, BytesReceived INT64, SegsOut INT64, TotalRetrans INT64, BytesRetrans INT64,
      RWndLimited INT64>>>);
CREATE TABLE `measurement-lab`.ndt.ndt7 (
  date DATE, server STRUCT<Site STRING, Machine STRING>, a STRUCT<MeanThroughputMbps FLOAT64>,
  raw STRUCT<StartTime TIMESTAMP, ServerIP STRING, ServerPort INT64, ClientIP STRING, ClientPort INT64,
    Download STRUCT<UUID STRING, StartTime TIMESTAMP, EndTime TIMESTAMP, ServerMeasurements ARRAY<STRUCT<TCPInfo STRUCT<
      ElapsedTime INT64, BytesAcked INT64, BytesReceived INT64, SegsOut INT64, TotalRetrans INT64,
      BytesRetrans INT64, RWndLimited INT64, MinRTT INT64>>>>>);
"""

SWITCH, WEB100, NDT5, NDT7 = (
    f"measurement-lab.{name}" for name in ("utilization.switch", "ndt.web100", "ndt.ndt5", "ndt.ndt7")
)
_V1 = "20180211T00:00:00-to-20180211T01:00:00-switch.json.gz"
_V2 = "2018-02-11T00:00:00-to-2018-02-11T00:05:00-switch.jsonl"
_FELL = 1.8446744073709552e19  # a counter that fell, in 64 bits without a sign


@dataclass
class MadeUp:
    """Rows of M-Lab's tables, and the rows of a store that they are."""

    tables: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in (SWITCH, WEB100, NDT5, NDT7)})
    counters: list[Row] = field(default_factory=list)
    ndt: list[Row] = field(default_factory=list)

    def samples(
        self, place: tuple[str, str | None], counter: str, start_s: int, values: list[float | None], *, second: bool
    ) -> None:
        """Ten-second samples of the uplink from ``start_s`` on; None: no sample there, a negative one: a reset.

        ``second``: as the second generation of DISCO has them, which counts what grew since the poll before.
        """
        site, machine = place
        kind, direction = counter.split(".")
        before: int | None = None
        for number, value in enumerate(values, 1):
            end_s = start_s + number * 10
            if value is None:
                continue
            reset = value < 0
            total = 1000 * number if second else None
            sample = {"timestamp": end_s, "value": _FELL if reset else value, "counter": total or 0}
            self.tables[SWITCH].append({
                "date": _day(end_s), "parser": {"Filename": _V2 if second else _V1},
                "a": {"Machine": machine, "Site": site},
                "raw": {"Metrics": [{"Metric": f"switch.{kind}.uplink.{direction}", "Sample": [sample]}]},
            })  # fmt: skip
            span = 10 if not second else end_s - before if before is not None else None
            before = end_s
            whole = "ok" if value == int(value) else "interpolated"
            self.counters.append({
                "end_ns": end_s * SECOND, "span_ns": None if span is None else span * SECOND, "metro": site[:3],
                "site": site, "switch": f"s1.{site}", "machine": machine, "port": "uplink", "counter": counter,
                "value": None if reset else value, "total": total, "quality": "reset" if reset else whole,
            })  # fmt: skip

    def web100(self, row: Row) -> None:
        """A test by web100, of a row of a store without what the mapping does not give."""
        micros = {name: None if row[name] is None else row[name] // 1000 for name in _CLOCKS}
        start = row["start_ns"]
        self.tables[WEB100].append({
            "date": _day(row["time_ns"] // SECOND),
            "a": {"TestTime": _moment(row["time_ns"]), "MeanThroughputMbps": None},
            "parser": {"Filename": row["test_id"]}, "server": {"Site": row["site"], "Machine": row["machine"]},
            "raw": {
                "connection": {
                    "data_direction": int(row["direction"] == "download"), "server_hostname": row["server"],
                },
                "web100": {
                    "version": None,
                    "connection_spec": {
                        "local_ip": row["local_address"], "local_port": row["local_port"],
                        "remote_ip": row["remote_address"], "remote_port": row["remote_port"],
                    },
                    "snap": {
                        "StartTimeStamp": None if start is None else start // 1000,
                        "Duration": micros["duration_ns"], "HCThruOctetsAcked": row["acked_bytes"],
                        "SegsOut": row["sent_segments"], "SegsRetrans": row["retransmitted_segments"],
                        "SndLimTimeRwin": micros["receiver_limited_ns"],
                        "SndLimTimeCwnd": micros["congestion_limited_ns"],
                        "SndLimTimeSnd": micros["sender_limited_ns"], "MinRTT": 4294967295,
                    },
                },
            },
        })  # fmt: skip
        end = None if start is None or row["duration_ns"] is None else start + row["duration_ns"]
        self.ndt.append(row | {"end_ns": end})

    def ndt5(self, row: Row) -> None:
        """A test by NDT5."""
        self.tables[NDT5].append({
            "date": _day(row["time_ns"] // SECOND), "server": {"Site": row["site"], "Machine": row["machine"]},
            "raw": {"StartTime": _moment(row["time_ns"]), "S2C": {
                "UUID": row["test_id"], "StartTime": _moment(row["start_ns"]),
                "EndTime": _moment(row["start_ns"] + row["duration_ns"]), "ServerIP": row["local_address"],
                "ServerPort": row["local_port"], "ClientIP": row["remote_address"], "ClientPort": row["remote_port"],
                "TCPInfo": {
                    "BytesAcked": row["acked_bytes"], "SegsOut": row["sent_segments"],
                    "TotalRetrans": row["retransmitted_segments"], "RWndLimited": 3,
                },
            }},
        })  # fmt: skip
        self.ndt.append(_without_web100(row, "ndt5"))

    def ndt7(self, row: Row) -> None:
        """A test by NDT7: of its measurements the last one counts."""
        last = {
            "ElapsedTime": row["duration_ns"] // 1000, "BytesAcked": row["acked_bytes"],
            "SegsOut": row["sent_segments"], "TotalRetrans": row["retransmitted_segments"], "RWndLimited": 3,
        }  # fmt: skip
        self.tables[NDT7].append({
            "date": _day(row["time_ns"] // SECOND), "server": {"Site": row["site"], "Machine": row["machine"]},
            "raw": {
                "StartTime": _moment(row["time_ns"]), "ServerIP": row["local_address"],
                "ServerPort": row["local_port"], "ClientIP": row["remote_address"],
                "ClientPort": row["remote_port"],
                "Download": {
                    "UUID": row["test_id"], "StartTime": _moment(row["start_ns"]),
                    "EndTime": _moment(row["start_ns"] + row["duration_ns"]),
                    "ServerMeasurements": [{"TCPInfo": dict.fromkeys(last, 1)}, {"TCPInfo": last}],
                },
            },
        })  # fmt: skip
        self.ndt.append(_without_web100(row, "ndt7"))

    def twice(self) -> None:
        """Every other row of the switches' table again, as M-Lab's tables have some twice."""
        self.tables[SWITCH] += self.tables[SWITCH][::2]


_CLOCKS = ("duration_ns", "receiver_limited_ns", "congestion_limited_ns", "sender_limited_ns")


def _without_web100(row: Row, protocol: str) -> Row:
    unknown = {"server": None, "congestion_limited_ns": None, "sender_limited_ns": None, "receiver_limited_ns": 3000}
    return row | unknown | {"protocol": protocol, "end_ns": row["start_ns"] + row["duration_ns"]}


def _day(at_s: int) -> str:
    return str(datetime.fromtimestamp(at_s, UTC).date())


def _moment(at_ns: int) -> str:
    """As BigQuery's JSON has it, to the microsecond."""
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_ns // 1000)
    return at.strftime("%Y-%m-%d %H:%M:%S.%f+00:00")


def made_up(download: Any, seed: int = 3) -> MadeUp:
    """Three days of three sites: gaps, resets, midnights, machines that lack samples, tests of three protocols.

    Args:
        download: `small_stores.download`.
        seed: of what is random.
    """
    chance = random.Random(seed)
    rows = MadeUp()
    first = date(2018, 2, 11)
    midnight = int(datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp())
    for number, site in enumerate(("dfw01", "dfw02", "lga01")):
        for machine in ("mlab1", "mlab2"):
            for day in range(4):
                for counter in _COUNTERS:
                    if machine == "mlab2" and chance.random() < 0.3:
                        continue
                    values = [_value(chance, counter) for _ in range(12)]
                    start = midnight + day * 86_400 - 60
                    rows.samples((site, machine), counter, start, values, second=number == 1 and day == 3)
    for index in range(90):
        day = chance.choice((0, 0, 1, 2, 2))
        start = day * 86_400 * SECOND + chance.choice((-9, 2, 11, 25, 300)) * SECOND + index * 1_000_000
        site = chance.choice(("dfw01", "dfw02", "lga01"))
        odd = chance.choice(_ODD)
        row = download(
            start, chance.choice((9.0, 10.5, 14.25, 59.0)), client=f"192.0.2.{chance.randrange(6)}", site=site,
            metro=site[:3], machine=chance.choice(("mlab1", "mlab1", "mlab2")), remote_port=30_000 + index,
            acked_bytes=chance.randrange(900_000, 90_000_000), retransmitted_segments=chance.randrange(0, 90),
            test_id=f"test-{index}",
        )  # fmt: skip
        {"web100": rows.web100, "ndt5": rows.ndt5, "ndt7": rows.ndt7}[chance.choice(_PROTOCOLS)](row | odd)
    return rows


_COUNTERS = ("octets.tx", "discards.tx", "discards.rx", "unicast.tx", "unicast.rx", "multicast.tx", "broadcast.tx")
_PROTOCOLS = ("web100", "web100", "web100", "ndt5", "ndt7")
_ODD: tuple[Row, ...] = (
    *({},) * 12,
    {"sent_segments": None},
    {"retransmitted_segments": None},
    {"site": None, "metro": None},
)


def _value(chance: random.Random, counter: str) -> float | None:
    if counter.startswith("discards"):
        return chance.choice((0.0, 0.0, 0.0, 0.0, 3.0, 0.25, None))
    return chance.choice((1000.0, 2500.0, float(chance.randrange(10**6)), 12.5, None, -1.0))


assert BIN == 10 * SECOND

"""Measurement Lab's names."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whydrop.formats.archives import names
from whydrop.formats.archives.names import Host


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mlab1.dfw02.measurement-lab.org", Host("mlab1", "dfw02")),
        ("ndt.iupui.mlab1.dfw02.measurement-lab.org", Host("mlab1", "dfw02")),
        ("ndt-iupui-mlab3-lga0t.measurement-lab.org", Host("mlab3", "lga0t")),
        ("mlab2-dfw07.mlab-oti.measurement-lab.org", Host("mlab2", "dfw07")),
        ("20170922T000000Z-mlab1-los01-ndt-0004.tgz", Host("mlab1", "los01")),
        ("20190516T013026.744845Z-tcpinfo-mlab4-arn02-ndt.tgz", Host("mlab4", "arn02")),
        ("s1.dfw07.measurement-lab.org", Host(None, "dfw07")),
        ("s1-dfw07.measurement-lab.org", Host(None, "dfw07")),
        ("web100-files.tar.gz", None),
        ("notmlab1.dfw02.example", None),
        ("mlab1.dfw022.example", None),
    ],
)
def test_hosts_and_archives_of_both_generations_name_machine_and_site(name: str, expected: Host | None) -> None:
    assert names.host(name) == expected


def test_a_host_has_one_name_whichever_way_it_was_spelled() -> None:
    old, new = names.host("mlab1.dfw02.measurement-lab.org"), names.host("20200101T000000Z-ndt5-mlab1-dfw02-ndt.tgz")
    assert old
    assert new
    assert old.name == new.name == "mlab1.dfw02.measurement-lab.org"
    assert old.metro == "dfw"


@pytest.mark.parametrize(
    ("name", "client", "port", "kind", "direction"),
    [
        ("20170430T11%3A54%3A26.658288000Z_p508486E9.dip0.t-ipconnect.de%3A53088.s2c_snaplog",
         "p508486E9.dip0.t-ipconnect.de", 53088, "s2c_snaplog", "download"),
        ("2017/04/30/20170430T11:54:26.658288000Z_p508486E9.dip0.t-ipconnect.de:53087.c2s_snaplog.gz",
         "p508486E9.dip0.t-ipconnect.de", 53087, "c2s_snaplog", "upload"),
        ("20170430T11:54:26.658288000Z-75.133.69.98:60631.s2c_snaplog",
         "75.133.69.98", 60631, "s2c_snaplog", "download"),
        ("20170430T11:54:26.658288000Z_2600:1700:b00:2ec0:e0ac:3f40:4614:503a:51540.meta",
         "2600:1700:b00:2ec0:e0ac:3f40:4614:503a", 51540, "meta", None),
        ("20170430T11:54:26.658288000Z_2600:1004:b148:b780:4eef:c0ff:feb7:8700.s2c_ndttrace",
         "2600:1004:b148:b780:4eef:c0ff:feb7:8700", None, "s2c_ndttrace", "download"),
        ("20170430T11:54:26.658288000Z_:0.cputime", "", 0, "cputime", None),
    ],
)  # fmt: skip
def test_a_test_s_file_is_named_for_time_client_and_direction(
    name: str, client: str, port: int | None, kind: str, direction: str | None
) -> None:
    file = names.ndt_file(name)
    assert file is not None
    assert (file.time_ns, file.client, file.port, file.kind) == (1493553266658288000, client, port, kind)
    assert file.direction == direction


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2019-05-16T00:00:05.205Z", 1557964805205000000),
        ("2019-05-16T02:00:05.205+02:00", 1557964805205000000),
        ("2019-05-15T20:30:05.2051234567-03:30", 1557964805205123456),
        ("1970-01-01T00:00:01Z", 1_000_000_000),
        ("0001-01-01T00:00:00Z", None),
        ("2262-04-11T23:47:16.9Z", None),
        ("2019-02-31T00:00:00Z", None),
        ("2019-05-16T00:00:05", None),
        ("yesterday", None),
        (1557964805, None),
    ],
)
def test_times_of_json_are_read_with_their_offsets_and_nothing_else(text: object, expected: int | None) -> None:
    assert names.rfc3339_ns(text) == expected


def test_a_connection_s_uuid_is_in_its_file_s_name() -> None:
    assert names.uuid("2019/05/16/ndt-q5zbq_1555433454_0000000000002C37.00000.jsonl.zst") == (
        "ndt-q5zbq_1555433454_0000000000002C37"
    )
    assert names.uuid("README.md") is None


@pytest.mark.slow
@given(st.text())
def test_any_name_is_read_or_not_but_never_an_error(name: str) -> None:
    names.plain(name)
    names.host(name)
    names.time_ns(name)
    names.ndt_file(name)
    names.uuid(name)
    names.rfc3339_ns(name)


@given(st.datetimes(min_value=datetime.datetime(1970, 1, 2), max_value=datetime.datetime(2261, 1, 1)))
def test_the_time_in_a_name_is_that_of_the_calendar(moment: datetime.datetime) -> None:
    exact = moment.replace(tzinfo=datetime.UTC)
    microseconds = (exact - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
    assert names.time_ns(f"{moment:%Y%m%dT%H:%M:%S.%f}Z_client:1.meta") == microseconds * 1000
    assert names.rfc3339_ns(exact.isoformat().replace("+00:00", "Z")) == microseconds * 1000

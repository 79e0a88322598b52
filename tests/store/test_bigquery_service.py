"""The client of BigQuery beside an emulator of the service: `whydrop study discards --backend bigquery --endpoint`."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

import bigquery_emulator
from mlab_tables import SCHEMAS, MadeUp, made_up
from small_stores import download, write
from whydrop.cli.commands import whydrop
from whydrop.store.engines import BackendError, check_engine, open_backend

_ASKED = [
    "study", "discards", "--json", "--set", 'metros=["dfw","lga"]', "--set", "days.first=2018-02-11", "--set",
    "days.last=2018-02-13", "--set", "change.before={first=2018-02-11,last=2018-02-11}", "--set",
    "change.after={first=2018-02-13,last=2018-02-13}", "--set", "change.more_tests_than=1",
]  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> MadeUp:
    made = made_up(download)
    made.twice()
    return made


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("google.cloud.bigquery")
    with bigquery_emulator.running(tmp_path_factory.mktemp("emulator") / "log") as url:
        yield url


# Filling the emulator takes most of a minute; what the queries mean is compared in test_google_sql.py.
@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_study_by_the_service_is_that_of_a_store(service, rows, tmp_path):
    bigquery_emulator.fill(service, SCHEMAS, rows.tables)
    store = write(tmp_path / "store", rows.counters, rows.ndt)
    asked = CliRunner().invoke(whydrop, [*_ASKED, "--backend", "bigquery:payer", "--endpoint", service])
    wanted = CliRunner().invoke(whydrop, [*_ASKED, str(store)])
    assert (asked.exit_code, wanted.exit_code) == (0, 0), asked.output
    found, expected = json.loads(asked.stdout), json.loads(wanted.stdout)
    assert found["notes"] == expected["notes"]
    for name in ("discard_changes", "comparisons"):
        assert len(found["tables"][name]) == len(expected["tables"][name]) > 0
        for one, other in zip(found["tables"][name], expected["tables"][name], strict=True):
            assert one == pytest.approx(other, rel=1e-9)


@pytest.mark.slow
def test_what_the_service_refuses_is_one_line_with_its_address(service, tmp_path):
    mapping = tmp_path / "mapping.toml"
    mapping.write_text("[[ndt]]\nfrom = '`measurement-lab.ndt.gone` AS t'\n[ndt.columns]\ntime_ns = 't.x'\n")
    with (
        open_backend("", "bigquery:payer", mapping=mapping, endpoint=service) as backend,
        pytest.raises(BackendError, match="ndt was not found") as refused,
    ):
        backend.run(backend.table("ndt"))
    assert str(refused.value).startswith(f"BigQuery at {service}, project payer: ")
    assert "\n" not in str(refused.value)


def test_an_endpoint_where_nothing_listens_is_reported_at_once():
    pytest.importorskip("google.cloud.bigquery")
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        told = f"BigQuery at {url}, project payer: no service answers .Connection refused"
        with open_backend("", "bigquery:payer", endpoint=url) as backend, pytest.raises(BackendError, match=told):
            backend.run(backend.table("ndt"))


@pytest.mark.parametrize("text", ["", "here", "ftp://h", "http://", "http://h:99999", "http://h:0", "http://[::1"])
def test_an_endpoint_is_the_url_of_a_service(text):
    with pytest.raises(BackendError, match=r"expected the URL of a service, such as http://127\.0\.0\.1:9050"):
        check_engine("bigquery:payer", endpoint=text)


def test_an_endpoint_is_bigquerys():
    asked = CliRunner().invoke(whydrop, ["study", "discards", "a.store", "--endpoint", "http://127.0.0.1:1"])
    assert asked.exit_code == 2
    assert "--endpoint: an endpoint is BigQuery's, not duckdb's" in asked.output

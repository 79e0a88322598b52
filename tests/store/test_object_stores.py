"""A store below a prefix of an object store: pyarrow's own client speaks S3 with a server of this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.s3_server import ObjectStore, object_store
from store.test_ingesting import SERIES, hourly, statuses
from store.test_writing_parts import rows
from whydrop.formats.archives.ingesting import ingest
from whydrop.store.errors import StoreError
from whydrop.store.store import Store


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anyone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with object_store() as server:
        yield server


@pytest.mark.slow
def test_files_are_read_into_it_once(server: ObjectStore, tmp_path: Path) -> None:
    where = server.uri("telemetry")
    files = hourly(tmp_path, 2)
    assert statuses(ingest(Store.create(where), files)) == ["new", "new"]
    assert statuses(ingest(Store.create(where), files)) == ["known", "known"]
    assert ingest(Store.open(where), files, again=True).tables()["counters"].duplicates == 2 * SERIES * 360
    store = Store.open(where)
    frame = store.scan("counters", days=["2018-05-15"]).collect()
    assert frame.height == 2 * SERIES * 360
    assert set(frame["day"]) == {"2018-05-15"}
    (contents,) = store.contents()
    assert (contents.rows, contents.sites, contents.parts) == (2 * SERIES * 360, {"dfw02"}, 1)


@pytest.mark.slow
def test_days_are_compacted_in_it(server: ObjectStore) -> None:
    store = Store.create(server.uri("telemetry"))
    store.add("counters", rows(10))
    store.add("counters", rows(10, first=11))
    # What two writers at the same time may do to each other here.
    store.write_part("counters", "2018-02-11", "twice", rows(5))
    (done,) = store.compact()
    assert (done.rows, done.left_out) == (20, 5)
    assert store.scan("counters").collect().height == 20
    assert [key for key in server.objects if key.endswith(".parquet")] == [
        key for key in server.objects if "telemetry/counters/day=2018-02-11/compacted-" in key
    ]


def test_a_part_of_many_megabytes_is_one_object(server: ObjectStore) -> None:
    from whydrop.store.files import Files

    files = Files.at(server.uri("large"))
    content = bytes(range(256)) * 100_000
    files.put("x", content)
    assert files.read("x") == content


@pytest.mark.slow  # pyarrow tries for seconds
def test_a_place_that_does_not_answer_is_named(server: ObjectStore) -> None:
    where = server.uri("telemetry")
    server.shutdown()
    server.server_close()
    with pytest.raises(StoreError, match="telemetry"):
        Store.open(where)


@pytest.mark.parametrize("where", ["gopher://x/y", "s3://", "://", ""])
def test_a_place_of_no_known_kind_is_refused(where: str) -> None:
    with pytest.raises(StoreError, match="Expected a folder"):
        Store.open(where)

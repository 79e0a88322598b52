"""``whydrop store`` and its subcommands, as people call them."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from archives.test_disco import file_of, metric, windows
from store.test_ingesting import SERIES, hourly
from whydrop.formats.archives.ingesting import ingest
from whydrop.store.store import Store


def call(*words: object) -> Result:
    """A command within this process, which is quicker by a second: the interpreter's start is not what is tested."""
    from whydrop.cli.commands import whydrop

    name, *rest = map(str, words)
    return CliRunner().invoke(whydrop, [name, *rest])


@pytest.mark.slow
def test_a_folder_is_read_and_the_store_says_what_it_holds(tmp_path: Path, run) -> None:
    hourly(tmp_path / "in", 2)
    store = tmp_path / "store"
    done = run("store", "import", store, tmp_path / "in")
    assert done.returncode == 0, done.stderr
    assert f"{store}: 2 880 new rows from 2 files" in done.stdout
    assert done.stderr == ""
    told = run("store", store)
    assert told.returncode == 0
    assert "2018-05-15 16:00:10Z" in told.stdout
    assert "Sites (1): dfw02" in told.stdout


def test_the_json_documents_say_the_same(tmp_path: Path) -> None:
    (path,) = hourly(tmp_path / "in", 1)
    store = tmp_path / "store"
    document = json.loads(call("store", "import", store, path, "--json").stdout)
    rows = SERIES * 360
    assert document["complete"]
    assert document["tables"] == {"counters": {"rows": rows, "duplicates": 0, "conflicts": 0}}
    assert [file["status"] for file in document["files"]] == ["new"]
    of = json.loads(call("store", store, "--json").stdout)["tables"]["counters"]
    assert (of["rows"], of["days"], of["sites"]) == (rows, ["2018-05-15"], ["dfw02"])


def test_what_could_not_be_read_is_named_and_the_rest_is_in(tmp_path: Path) -> None:
    (good,) = hourly(tmp_path, 1)
    evil = tmp_path / "evil\x1b[2J-switch.json"
    evil.write_bytes(file_of(metric("octets.\x1b[2J.tx", windows([1.0]))) + b"{")
    done = call("store", "import", tmp_path / "store", evil, tmp_path / "missing", good)
    assert done.exit_code == 1
    assert "missing: No such file or directory" in done.stderr
    assert "evil\\x1b[2J-switch.json: offset" in done.stderr
    assert "\x1b" not in done.stderr + done.stdout
    assert "1 441 new rows" in done.stdout


def test_a_mistyped_name_alone_makes_no_store(tmp_path: Path) -> None:
    done = call("store", "import", tmp_path / "store", tmp_path / "missing")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.endswith("missing: No such file or directory\n")
    assert not (tmp_path / "store").exists()


def test_notes_of_many_files_are_one_line_for_each_kind_and_damage_has_lines_of_its_own(tmp_path: Path) -> None:
    for number in range(30):
        with tarfile.open(tmp_path / f"{number}.tgz", "w:gz") as archive:
            for name, content in (("empty.json", b""), ("x.cputime", b"0"), ("odd-switch.json", b"[]")):
                info = tarfile.TarInfo(f"{number}/{name}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    (tmp_path / "README").write_text("of another kind")
    done = call("store", "import", tmp_path / "store", tmp_path)
    assert done.exit_code == 1
    said = done.stdout.splitlines()
    assert said[0] == f"{tmp_path}/store: 0 new rows from 31 files"
    assert "Empty files: 30, in 30 files" in done.stdout
    assert "Logs of CPU time left out: 30, in 30 files" in done.stdout
    assert not [line for line in said if "README" in line]
    assert len(done.stderr.splitlines()) == 21
    assert "10 more damaged parts" in done.stderr
    known = json.loads(call("store", "import", tmp_path / "store", tmp_path, "--json").stdout)
    assert sum("It was damaged when it was read" in note for file in known["files"] for note in file["notes"]) == 30


def test_days_that_are_over_are_compacted(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for path in hourly(tmp_path / "in", 3):
        ingest(Store.create(store), [path])
    done = call("store", "compact", store)
    assert "Compacted: 3 files" in done.stdout
    assert len(list(store.glob("counters/*/*.parquet"))) == 1


def test_a_folder_that_is_no_store_is_an_error_of_one_line(tmp_path: Path) -> None:
    done = call("store", tmp_path)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "no store" in done.stderr
    assert call("store", "compact", tmp_path, "--table", "no-such-table").exit_code == 2
    for day in ("yesterday", "2018-99-99", "20180211"):
        assert call("store", "compact", tmp_path, "--before", day).exit_code == 2


def test_files_of_tests_do_not_go_into_a_store(tmp_path: Path) -> None:
    (disco,) = hourly(tmp_path / "in", 1)
    iperf3 = Path(__file__).parents[1] / "recording" / "iperf3" / "tcp-reverse.json"
    done = call("store", "import", tmp_path / "store", disco, iperf3)
    assert done.exit_code == 1
    assert "tcp-reverse.json: begins with" in done.stderr
    assert Store.open(tmp_path / "store").scan("counters").collect().height > 0


def test_what_belongs_into_a_store_says_so_where_none_is_given(tmp_path: Path) -> None:
    (disco,) = hourly(tmp_path / "in", 1)
    archive = tmp_path / "archive.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(disco, disco.name)
    done = call("import", archive, "--output", tmp_path)
    assert done.exit_code == 1
    assert "whydrop store import STORE" in done.stderr


@pytest.mark.parametrize("words", [("import", "x", "--store", "s"), ("ingest", "x", "--store", "s")])
def test_the_old_spellings_are_answered_in_one_line(words: tuple[str, ...]) -> None:
    done = call(*words)
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert "`whydrop store import STORE FILE...`" in done.stderr

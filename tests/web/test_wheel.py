"""The wheel, built of this tree and installed beside nothing but what it depends on: its page needs no Node.js."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from example_files import ROOT
from patience import PATIENCE_S, wait_until
from web.conftest import EXAMPLES, Server, client_of, running
from whydrop.web.pages import VIEWS

pytestmark = [pytest.mark.slow, pytest.mark.needs_program("cargo", str(Path.home() / ".cargo/bin/cargo"))]

SOURCES = ROOT / "src"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make wheel` does, but of what tools/setup has compiled for tests."""
    if not (ROOT / os.environ.get("CARGO_TARGET_DIR", "target")).is_dir() and "CI" not in os.environ:
        pytest.skip("nothing is compiled in this tree (tools/setup): the wheel would take minutes")
    folder = tmp_path_factory.mktemp("wheel")
    # Cargo reuses what was compiled with the same variables.
    script = '. tools/lib.sh; export PATH="$PATH:$HOME/.cargo/bin"; exec .venv/bin/maturin build --profile dev --locked'
    environment = {**os.environ, "VIRTUAL_ENV": str(ROOT / ".venv")}
    words = ["bash", "-c", f'{script} --out "$1"', "bash", str(folder)]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel, and with the packages of this one but whydrop."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    site = folder / "lib" / Path(sysconfig.get_path("purelib")).parent.name / "site-packages"
    with zipfile.ZipFile(wheel) as files:
        files.extractall(site)
    # The folder is searched, but its own `.pth` files, one of which names our sources, are not read.
    (site / "beside.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def server(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`whydrop web` of the wheel, which finds no program."""
    folder = tmp_path_factory.mktemp("installed") / "library"
    folder.mkdir()
    shutil.copy(EXAMPLES / "policed-download.pcap.zst", folder)
    bare = {"HOME": str(folder.parent), "PATH": str(folder.parent / "nothing")}
    with running(folder, program=(python, "-m", "whydrop"), env=bare) as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    with client_of(server) as asking:
        yield asking


def test_the_wheel_holds_every_file_of_the_sources_and_the_built_scripts_and_nothing_else(wheel: Path):
    wanted = {
        path.relative_to(SOURCES).as_posix(): path
        for path in SOURCES.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("_core.abi3")
    }
    assert {f"whydrop/show/assets/{name}" for name in ("app.js", "app.css", "report.js", "report.css")} < wanted.keys()
    assert any(name.startswith("whydrop/measure/tests/catalogue/") and name.endswith(".toml") for name in wanted)
    with zipfile.ZipFile(wheel) as files:
        names = {name for name in files.namelist() if ".dist-info/" not in name}
        assert names == {*wanted, "whydrop/_core.abi3.so"}
        changed = [name for name, path in wanted.items() if files.read(name) != path.read_bytes()]
        (entry,) = (name for name in files.namelist() if name.endswith(".dist-info/entry_points.txt"))
        assert "whydrop=whydrop.__main__:main" in files.read(entry).decode()
    assert changed == []


def test_the_program_of_the_wheel_lists_its_tests_and_plots(python: Path):
    def said(*words: str) -> str:
        done = subprocess.run([python, *words], capture_output=True, text=True, check=False, cwd=python.parent)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert Path(said("-c", "import whydrop; print(whydrop.__file__)").strip()).is_relative_to(python.parents[1])
    listed = said("-m", "whydrop", "tests")
    assert "rrul" in listed
    assert "tcp_goodput" in said("-c", "from whydrop.show.plots import catalogue; print(*catalogue.catalogue())")


def test_the_page_of_the_wheel_is_served_and_explains_a_capture(server: Server, client: httpx.Client):
    for view in VIEWS:
        page = client.get(f"/{view}").raise_for_status().text
        for asset in (part.partition('"')[0] for part in page.split('"/assets/')[1:]):
            built = (SOURCES / "whydrop/show/assets" / asset).read_bytes()
            assert client.get(f"/assets/{asset}").raise_for_status().content == built, (view, asset)

    def entries() -> list[dict[str, str]]:
        found: list[dict[str, str]] = client.get("/api/library").raise_for_status().json()["entries"]
        return found

    wait_until(lambda: len(entries()) == 1, "the capture in the library")
    asked = client.post("/api/analyses", json={"source": [entries()[0]["id"]]}).raise_for_status().json()["id"]
    shown = client.get(f"/api/analyses/{asked}/page", timeout=PATIENCE_S).raise_for_status().text
    assert "policer" in shown

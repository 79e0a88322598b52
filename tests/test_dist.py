"""Files of `make dist`: installed in small systems, and compared with their own lists and sums."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from example_files import POLICED, ROOT
from release import DIST, chroot, released, run_inside

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

VERDICT = "A policer at 20.0 Mbit/s"
SEARCHED = os.pathsep.join([os.environ.get("PATH", os.defpath), str(ROOT / ".tools" / "bin")])


def explained(folder: Path, *program: str) -> str:
    """The explanation of the example capture, as the program prints it in a chroot."""
    shutil.copyfile(POLICED, folder / "root" / POLICED.name)
    return run_inside(folder, *program, "explain", f"/root/{POLICED.name}").replace("\u00a0", " ")


def test_the_checksums_are_those_of_all_files() -> None:
    listed = dict(reversed(line.split("  ")) for line in (DIST / "SHA256SUMS").read_text().splitlines())
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in DIST.glob("whydrop*")}
    assert listed == files


def test_the_wheel_needs_no_newer_c_library_than_its_name_says() -> None:
    wheel = released("whydrop-*.whl")
    words = [ROOT / "build" / "release-venv" / "bin" / "auditwheel", "show", wheel]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "-manylinux_2_28_" in wheel.name
    assert 'consistent with the following platform tag: "manylinux_2_28_' in " ".join(shown.split())


def test_pip_installs_the_responder_where_deploy_finds_it(tmp_path: Path) -> None:
    wheel = released("whydrop_responder-*.whl")
    python = tmp_path / "environment" / "bin" / "python"
    subprocess.run(["uv", "venv", "--quiet", python.parents[1]], check=True, env={**os.environ, "PATH": SEARCHED})
    words = ["uv", "pip", "install", "--quiet", "--offline", "--python", python, wheel]
    subprocess.run(words, check=True, env={**os.environ, "PATH": SEARCHED})
    program = python.with_name("whydrop-responder")
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert shown.startswith("whydrop-responder ")
    assert program.read_bytes() == released("whydrop-responder-*").read_bytes()


def test_the_source_has_all_that_a_build_needs() -> None:
    with tarfile.open(released("whydrop-*[0-9].tar.gz")) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    wanted = {
        "pyproject.toml",
        "Cargo.lock",
        "crates/python/src/lib.rs",
        "src/whydrop/__init__.py",
        "LICENSE",
        "NOTICE",
    }
    assert wanted | {"src/whydrop/show/assets/report.js"} <= names


@pytest.mark.parametrize(
    ("part", "wanted"), [("crates", "whydrop-explain"), ("python", "polars"), ("pages", "uplot")]
)  # fmt: skip
def test_a_list_of_packages_names_them_with_their_versions(part: str, wanted: str) -> None:
    text = released(f"whydrop-*-{part}.cdx.json").read_text()
    listed = json.loads(text)
    assert listed["bomFormat"] == "CycloneDX"
    assert {"name", "version", "purl"} <= set.intersection(*({*one} for one in listed["components"]))
    assert wanted in {one["name"] for one in listed["components"]}
    assert str(ROOT) not in text


@pytest.fixture(scope="module", params=[("bookworm", "deb12"), ("trixie", "deb13")], ids=["deb12", "deb13"])
def debian(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A Debian in which its package is installed."""
    name, release = request.param
    folder = chroot(name)
    shutil.copyfile(released(f"whydrop_*~{release}_*.deb"), folder / "root" / "whydrop.deb")
    run_inside(folder, "dpkg", "--install", "/root/whydrop.deb")
    yield folder
    run_inside(folder, "dpkg", "--purge", "whydrop")
    assert not (folder / "usr/lib/whydrop").exists()


@pytest.mark.needs_root
@pytest.mark.needs_program("debootstrap")
def test_the_debian_package_explains_a_capture_and_has_manual_pages_and_completions(debian: Path) -> None:
    assert VERDICT in explained(debian, "whydrop")
    assert run_inside(debian, "dpkg", "--verify", "whydrop") == ""
    shared = debian / "usr/share"
    for place in ("man/man1/whydrop-explain.1.gz", "bash-completion/completions/whydrop",
                  "zsh/vendor-completions/_whydrop", "fish/vendor_completions.d/whydrop.fish"):  # fmt: skip
        assert (shared / place).is_file()


@pytest.mark.needs_root
@pytest.mark.needs_program("debootstrap")
def test_the_libraries_of_the_debian_package_find_what_it_depends_on(debian: Path) -> None:
    found = run_inside(debian, "sh", "-c", "find /usr/lib/whydrop -name '*.so*' -exec ldd {} +")
    lacking = {line.split()[0] for line in found.splitlines() if "not found" in line}
    assert lacking == set()
    assert "libc6 (>= 2.28)" in run_inside(debian, "dpkg-query", "--show", "--showformat", "${Depends}", "whydrop")


@pytest.mark.needs_root
@pytest.mark.needs_program("debootstrap")
def test_the_wheel_installs_and_explains_on_debian_11() -> None:
    folder = chroot("bullseye")
    packages = folder / "opt" / "whydrop"
    shutil.rmtree(packages, ignore_errors=True)
    uv = shutil.which("uv", path=SEARCHED)
    assert uv is not None
    # As pip does there: wheels for glibc 2.31 or older.
    words = [uv, "pip", "install", "--quiet", "--target", packages, "--link-mode", "copy", "--only-binary", ":all:",
             "--python-version", "3.11", "--python-platform", f"{os.uname().machine}-manylinux_2_31"]  # fmt: skip
    subprocess.run([*words, released("whydrop-*.whl")], check=True)
    assert "GLIBC 2.31" in run_inside(folder, "ldd", "--version")
    assert VERDICT in explained(folder, "env", "PYTHONPATH=/opt/whydrop", "python3.11", "-m", "whydrop")

"""The wheel in an environment of its own: its size with all packages of the base, and that it explains a capture."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from example_files import POLICED, ROOT
from release import released

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

MOST_BYTES = 330_000_000
# The places of programs that `tools/setup` finds too.
SEARCHED = os.pathsep.join(
    [str(ROOT / ".tools" / "bin"), os.environ.get("PATH", os.defpath), f"{Path.home()}/.cargo/bin"]
)


def done_by(*words: str | Path, cwd: Path = ROOT) -> str:
    environment = {**os.environ, "PATH": SEARCHED}
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, env=environment)
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def section_names(content: bytes) -> list[str]:
    """The names of the sections of a 64-bit ELF file (elf(5))."""
    (table,) = struct.unpack_from("<Q", content, 0x28)
    size, count, named_by = struct.unpack_from("<3H", content, 0x3A)
    starts = [struct.unpack_from("<I", content, table + number * size)[0] for number in range(count)]
    (strings,) = struct.unpack_from("<Q", content, table + named_by * size + 0x18)
    return [content[strings + start :].split(b"\0", 1)[0].decode() for start in starts]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel and the packages that it requires."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = released("whydrop-*.whl")
    uv = shutil.which("uv", path=SEARCHED)
    assert uv is not None
    done_by(uv, "venv", "--quiet", "--python", sys.executable, folder / "venv")
    done_by(
        uv, "pip", "install", "--quiet", "--link-mode", "copy", "--python", folder / "venv" / "bin" / "python", wheel
    )
    return folder / "venv"


def test_the_base_takes_little_room(installed: Path) -> None:
    files = [path for path in installed.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) <= MOST_BYTES
    assert not list(installed.glob("lib/python*/site-packages/pyarrow"))


def test_the_module_has_no_symbols_for_debuggers(installed: Path) -> None:
    (module,) = installed.glob("lib/python*/site-packages/whydrop/_core*.so")
    names = section_names(module.read_bytes())
    # With what unwinds a panic, which becomes a DefectError.
    assert {".text", ".eh_frame"} <= set(names)
    assert not [name for name in names if name == ".symtab" or name.startswith(".debug")]


def test_the_base_explains_a_capture_and_names_the_extra_of_what_it_lacks(installed: Path, tmp_path: Path) -> None:
    program = installed / "bin" / "whydrop"
    said = done_by(program, "explain", POLICED, "--report", "report.html", cwd=tmp_path)
    assert "A policer at 20.0 Mbit/s" in said.replace("\u00a0", " ")
    assert "<script" in (tmp_path / "report.html").read_text()
    lacking = subprocess.run([program, "store", tmp_path], capture_output=True, text=True, check=False)
    assert lacking.returncode == 1
    assert lacking.stderr.endswith("not installed: pip install 'whydrop[store]'\n")

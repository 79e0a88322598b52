"""tools/arrows.py finds imports that run up and files that import each other, and finds none here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import arrows  # noqa: E402

ROOMS = ("low", "high")


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def package(folder: Path, **files: str) -> Path:
    """A package ``house`` of two rooms; ``low__one`` is the file low/one.py."""
    names = {f"house/{name.replace('__', '/')}.py": text for name, text in files.items()}
    return written(
        folder, {"house/__init__.py": "", "house/low/__init__.py": "", "house/high/__init__.py": "", **names}
    )


def complaints(source: Path) -> list[str]:
    return list(arrows.python_complaints(source, "house", ROOMS))


def test_here_every_arrow_points_one_way():
    assert arrows.main() == 0


def test_an_import_that_runs_down_is_as_it_should_be(tmp_path: Path):
    assert complaints(package(tmp_path, low__one="X = 1", high__two="from house.low.one import X")) == []


@pytest.mark.parametrize(
    "text",
    [
        "from house.high.two import Y",
        "from house.high import two",
        "import house.high.two",
        "def f():\n    from house.high.two import Y",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.high.two import Y",
    ],
)
def test_an_import_that_runs_up_is_found_wherever_it_stands(tmp_path: Path, text: str):
    (found,) = complaints(package(tmp_path, low__one=text, high__two="Y = 1"))
    assert "house.low.one imports house.high.two" in found


def test_files_that_import_each_other_are_found(tmp_path: Path):
    (found,) = complaints(package(tmp_path, low__a="from house.low import b", low__b="import house.low.a"))
    assert found == "these import each other: house.low.a, house.low.b"


def test_a_room_without_a_place_is_found(tmp_path: Path):
    (found,) = complaints(package(tmp_path, attic__a="X = 1"))
    assert "not in ROOMS" in found


def crate(folder: Path, **files: str) -> Path:
    names = {f"c/src/{name.replace('__', '/')}.rs": text for name, text in files.items()}
    return written(folder, {"c/Cargo.toml": "", **names})


def test_two_files_of_a_crate_may_use_each_other_and_three_may_not(tmp_path: Path):
    two = {"a": "use crate::b::B;", "b": "fn f(x: super::a::A) {}"}
    assert list(arrows.rust_complaints(crate(tmp_path / "two", lib="mod a; mod b;", **two), {})) == []
    three = {"a": "use crate::{b::B, d as e};", "b": "use super::d::D;", "d": "fn f() { crate::a::g() }"}
    (found,) = arrows.rust_complaints(crate(tmp_path / "three", lib="mod a;", **three), {})
    assert "3 files use each other, at most 2 may: a, b, d" in found


def test_tests_comments_and_reexports_of_a_crate_do_not_count(tmp_path: Path):
    files = {
        "lib": "pub use a::A; mod a;",
        "a": "// crate::b::B\nuse crate::d::D;\n#[cfg(test)]\nmod tests { use crate::b::B; }",
        "b": "use crate::a::A;",
        "d": "use crate::b::B;\npub use crate::a::A;",
    }
    graph = arrows.rust_graph(crate(tmp_path, **files) / "c" / "src")
    assert graph == {"lib": set(), "a": {"d"}, "b": {"a"}, "d": {"b"}}


def test_a_cycle_that_became_shorter_must_stay_so(tmp_path: Path):
    (found,) = arrows.rust_complaints(crate(tmp_path, lib="", a="use crate::b::B;", b="use crate::a::A;"), {"c": 3})
    assert "lower LONGER" in found

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


def graph_of(folder: Path, **files: str) -> dict[str, set[str]]:
    return arrows.rust_graph(crate(folder, **files) / "c" / "src")


@pytest.mark.parametrize(
    "text",
    [
        "use crate::judge;",
        "use crate::{judge as weigh, other};",
        "use crate::rooms::judge;",
        "use super::rooms; fn f() { rooms::judge() }",
        "fn f() { crate::rooms::judge() }",
        "use crate::*; fn f() { crate::judge() }",
        "use crate::rooms::losses::*; fn f() { judge() }",
    ],
)
def test_a_file_uses_the_one_behind_the_reexports(tmp_path: Path, text: str):
    graph = graph_of(
        tmp_path,
        lib="mod a; mod rooms; pub use rooms::judge;",
        a=text,
        rooms__mod="mod losses; pub(crate) use losses::*;",
        rooms__losses="pub fn judge() {}",
    )
    assert graph["a"] - {"lib"} == {"rooms::losses"}


def test_a_circle_through_reexports_is_found(tmp_path: Path):
    files = {
        "lib": "mod evidence; mod hop; mod losses; pub use losses::judge_losses; pub use hop::Hop;",
        "evidence": "use crate::judge_losses; pub struct Evidence;",
        "losses": "use crate::Hop; pub fn judge_losses() {}",
        "hop__mod": "mod inner; pub use inner::Hop;",
        "hop__inner": "pub struct Hop(crate::evidence::Evidence);",
    }
    (found,) = arrows.rust_complaints(crate(tmp_path, **files), {})
    assert "3 files use each other, at most 2 may: evidence, hop::inner, losses" in found


def test_parents_and_tests_make_no_circle(tmp_path: Path):
    tests = "\n#[cfg(test)]\nmod tests { use super::*; use crate::b::B; }"
    graph = graph_of(
        tmp_path,
        lib="mod a; #[cfg(test)] mod testing; #[cfg(test)] use b::B; pub struct Root;",
        a__mod="mod one; mod two; use one::One; pub struct Own(two::Two);",
        a__one=f"use super::Own; pub struct One(crate::Root);{tests}",
        a__two="pub struct Two(super::Own);",
        b="use crate::a::Own; pub struct B;",
    )
    assert graph == {"lib": set(), "a": {"a::one", "a::two"}, "a::one": set(), "a::two": set(), "b": {"a"}}


def test_reexports_that_name_each_other_end(tmp_path: Path):
    graph = graph_of(
        tmp_path, lib="mod a; mod b;", a="pub use crate::b::X;", b="pub use crate::a::X; fn f() { self::X }"
    )
    assert graph == {"lib": set(), "a": set(), "b": set()}


def test_a_cycle_that_became_shorter_must_stay_so(tmp_path: Path):
    (found,) = arrows.rust_complaints(crate(tmp_path, lib="", a="use crate::b::B;", b="use crate::a::A;"), {"c": 3})
    assert "lower LONGER" in found

"""Check that the rooms' arrows point in one direction: no import runs up, and none runs in a circle.

``make check`` runs it. It reads the sources; nothing is imported or compiled.

- Python: a file of `src/whydrop` imports from its own room and from those before it in ROOMS, imports inside functions
  and those for type checkers included; no files import each other, directly or round about.
- Rust: of the files of a crate no more than two use each other. Where there are more (LONGER), there must not be more
  than that, and the number here must come down with them. A file uses the file that has the item, however many
  re-exports lead to it. What ``a/b.rs`` uses of ``a/mod.rs`` does not count.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# From what knows nothing of the others to what knows all of them. `whydrop/__init__.py` offers the public names, and
# loads them when they are asked for.
ROOMS = (
    "errors",
    "_core",
    "text",
    "runtime",
    "recording",
    "store",
    "formats",
    "measure",
    "monitoring",
    "explaining",
    "emulating",
    "show",
    "studies",
    "act",
    "api",
    "web",
    "mcp",
    "cli",
    "__main__",
)

# The longest cycle of each crate that has one of more than two files.
LONGER: Mapping[str, int] = {}

Graph = dict[str, set[str]]


def main() -> int:
    """Print each import against the arrows; return the exit status."""
    complaints = [*python_complaints(ROOT / "src"), *rust_complaints(ROOT / "crates")]
    for complaint in complaints:
        print(f"tools/arrows.py: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


def python_complaints(source: Path, package: str = "whydrop", rooms: tuple[str, ...] = ROOMS) -> Iterator[str]:
    """The faults in the imports of a package, a sentence each."""
    graph = python_graph(source, package)
    order = {room: place for place, room in enumerate(rooms)}
    for module in sorted(graph):
        here = _room(module)
        if here not in order:
            if module != package:
                yield f"{module}: its room is not in ROOMS"
            continue
        for target in sorted(graph[module]):
            there = _room(target)
            if there in order and order[there] > order[here]:
                yield f"{module} imports {target}: {there} knows {here}, so {here} must not know {there}"
    # What the package offers by name it does not load.
    for cycle in cycles({module: targets for module, targets in graph.items() if module != package}):
        yield f"these import each other: {', '.join(cycle)}"


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def python_graph(source: Path, package: str) -> Graph:
    """Each module of a package, and those of the package that it imports."""
    files = {}
    for path in (source / package).rglob("*.py*"):
        if path.suffix in (".py", ".pyi"):
            parts = path.relative_to(source).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: set(_imports(ast.parse(path.read_text()), files)) - {name} for name, path in files.items()}


def _imports(tree: ast.AST, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                member = f"{node.module}.{alias.name}"
                if member in known or node.module in known:
                    yield member if member in known else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)


def rust_complaints(crates: Path, longer: Mapping[str, int] = LONGER) -> Iterator[str]:
    """Which crates have longer cycles of files than they may."""
    for crate in sorted(path.parent.name for path in crates.glob("*/Cargo.toml")):
        found = [cycle for cycle in cycles(rust_graph(crates / crate / "src")) if len(cycle) > 2]
        longest = max(map(len, found), default=0)
        allowed = longer.get(crate, 2)
        if longest > allowed:
            cycle = max(found, key=len)
            yield f"crates/{crate}: {longest} files use each other, at most {allowed} may: {', '.join(cycle)}"
        elif crate in longer and longest < allowed:
            yield f"crates/{crate}: the longest cycle has {longest} files now: lower LONGER, so that it stays so"


_USE = re.compile(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.DOTALL)
_PATH = re.compile(r"(?<![\w:.])\w+(?:::\w+)+")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+\w+\s*\{")
_ONLY_TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))?\s+)?(?:mod|use)\s+[^;{]+(?:\{[^}]*\})?;", re.DOTALL)
_DECLARED = re.compile(r"\bmod\s+(\w+)\s*;")
_ITEM = re.compile(r"\b(?:fn|struct|enum|union|trait|type|const|static|macro_rules!)\s+(\w+)")

Name = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RustFile:
    """A module file of a crate: where its names come from."""

    module: Name
    text: str
    imports: Mapping[str, Name]
    """Absolute paths of the names that a ``use`` brings into it, re-exports included."""
    globs: tuple[Name, ...]
    named: tuple[Name, ...]
    """Absolute paths of what it uses itself."""
    items: frozenset[str]

    @classmethod
    def read(cls, module: Name, text: str) -> RustFile:
        """The file without its tests and comments."""
        text = _ONLY_TESTS.sub("", _TESTS.split(_COMMENT.sub("", text))[0])
        children = set(_DECLARED.findall(text))
        imports: dict[str, Name] = {}
        globs, named = [], []
        for exported, trees in _USE.findall(text):
            for path, alias in (pair for tree in _spread(trees) for pair in _absolute(tree, module, children)):
                if path[-1] == "*":
                    globs.append(path[:-1])
                else:
                    imports[alias] = path
                if not exported:
                    named.append(path)
        code = _USE.sub("", text)
        for match in _PATH.finditer(code):
            first, *rest = match[0].split("::")
            if first in imports:
                named.append((*imports[first], *rest))
            else:
                named.extend(path for path, _ in _absolute(match[0], module, children))
        return cls(module, code, imports, tuple(globs), tuple(named), frozenset(_ITEM.findall(code)))


def rust_graph(source: Path) -> Graph:
    """Each module file of a crate, and the files of the items that it uses, re-exports followed; its tests left out."""
    files: dict[Name, RustFile] = {}
    for path in source.rglob("*.rs"):
        parts = list(path.relative_to(source).with_suffix("").parts)
        if parts[-1] in ("lib", "main", "mod"):
            parts.pop()
        if not any(part.endswith("tests") for part in parts):
            files[tuple(parts)] = RustFile.read(tuple(parts), path.read_text())
    graph: Graph = {}
    for module, file in files.items():
        used = {_holder(path, files) for path in file.named}
        # a file in the folder of another is a part of it
        others = {one for one in used if one is not None and module[: len(one)] != one}
        graph["::".join(module) or "lib"] = {"::".join(one) or "lib" for one in others}
    return graph


def _holder(path: Name, files: Mapping[Name, RustFile], seen: frozenset[Name] = frozenset()) -> Name | None:
    """The file that has the item of a path; none for what is not an item: a module, which only leads to others."""
    length = max((length for length in range(len(path) + 1) if path[:length] in files), default=-1)
    if length < 0 or length == len(path) or path in seen:
        return None
    file, name = files[path[:length]], path[length]
    if name in file.imports and name not in file.items:
        return _holder((*file.imports[name], *path[length + 1 :]), files, seen | {path})
    if name not in file.items:
        for glob in file.globs:
            found = _holder((*glob, *path[length:]), files, seen | {path})
            if found is not None and name in files[found].items:
                return found
    return file.module


def _absolute(path: str, module: Name, children: Collection[str]) -> Iterator[tuple[Name, str]]:
    """A path within the crate from its root, and the name by which the file calls it."""
    path, _, alias = path.partition(" as ")
    first, *rest = path.split("::")
    if rest and rest[-1] == "self":
        rest.pop()
    alias = alias or (rest[-1] if rest else first)
    if first == "crate":
        yield tuple(rest), alias
    elif first == "self":
        yield (*module, *rest), alias
    elif first == "super":
        base = module[:-1]
        while rest and rest[0] == "super":
            base, rest = base[:-1], rest[1:]
        yield (*base, *rest), alias
    elif first in children:
        yield (*module, first, *rest), alias


def _spread(tree: str) -> Iterator[str]:
    """The paths of a use tree: ``a::{b, c::d as e}`` has ``a::b`` and ``a::c::d as e``."""
    tree = re.sub(r"\s*([{},:])\s*", r"\1", " ".join(tree.split()))
    brace = tree.find("{")
    if brace < 0:
        yield tree
        return
    head, depth, start = tree[:brace], 0, brace + 1
    for place in range(brace, len(tree)):
        depth += {"{": 1, "}": -1}.get(tree[place], 0)
        if (tree[place] == "," and depth == 1) or depth == 0:
            yield from (head + one for one in _spread(tree[start:place]) if one)
            start = place + 1
        if depth == 0:
            return


def cycles(graph: Graph) -> list[list[str]]:
    """The strongly connected components of more than one node (Tarjan 1972), by name."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in graph.get(node, ()):
            if target not in graph:
                continue
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            place = stack.index(node)
            component = stack[place:]
            del stack[place:]
            if len(component) > 1:
                found.append(sorted(component))

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 4 * len(graph) + 1000))
    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(found)


if __name__ == "__main__":
    sys.exit(main())

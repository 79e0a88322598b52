"""Check that the rooms' arrows point in one direction: no import runs up, and none runs in a circle.

``make check`` runs it. It reads the sources; nothing is imported or compiled.

- Python: a file of `src/whydrop` imports from its own room and from those before it in ROOMS, imports inside functions
  and those for type checkers included; no files import each other, directly or round about.
- Rust: of the files of a crate no more than two use each other. Where there are more (LONGER), there must not be more
  than that, and the number here must come down with them.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
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


_USE = re.compile(r"\buse\s+([^;]+);", re.DOTALL)
_PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod\s+\w+\s*\{")
_DECLARED = re.compile(r"\b(pub(?:\([^)]*\))?\s+)?use\s+[^;]+;", re.DOTALL)


def rust_graph(source: Path) -> Graph:
    """Each module file of a crate, and those of the crate that it names; its own tests and re-exports left out."""
    files = {}
    for path in source.rglob("*.rs"):
        parts = list(path.relative_to(source).with_suffix("").parts)
        if parts[-1] in ("lib", "main", "mod"):
            parts.pop()
        if not (parts and (parts[-1].endswith("tests") or "tests" in parts)):
            files[tuple(parts)] = path
    graph: Graph = {}
    for module, path in files.items():
        text = _TESTS.split(_COMMENT.sub("", path.read_text()))[0]
        named = {_module_of(names, files) for names in _names_in(text, module)}
        graph["::".join(module) or "lib"] = {"::".join(one) or "lib" for one in named if one not in (None, module)}
    return graph


def _names_in(text: str, module: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Absolute paths within the crate of what a file names."""
    for match in _USE.finditer(text):
        exported = re.search(r"\bpub(?:\([^)]*\))?\s+$", text[: match.start()]) is not None
        if not exported:
            yield from (path for tree in _spread(match[1]) for path in _absolute(tree, module))
    for match in _PATH.finditer(_DECLARED.sub("", text)):
        yield from _absolute(match[0], module)


def _absolute(path: str, module: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    first, *rest = path.split("::")
    if first == "crate":
        yield tuple(rest)
    elif first == "self":
        yield (*module, *rest)
    elif first == "super":
        base = module[:-1]
        while rest and rest[0] == "super":
            base, rest = base[:-1], rest[1:]
        yield (*base, *rest)


def _spread(tree: str) -> Iterator[str]:
    """The paths of a use tree: ``a::{b, c::d}`` has ``a::b`` and ``a::c::d``."""
    tree = "".join(tree.split())
    brace = tree.find("{")
    if brace < 0:
        yield re.split(r"\bas\b", tree)[0]
        return
    head, depth, start = tree[:brace], 0, brace + 1
    for place in range(brace, len(tree)):
        depth += {"{": 1, "}": -1}.get(tree[place], 0)
        if (tree[place] == "," and depth == 1) or depth == 0:
            yield from (head + one for one in _spread(tree[start:place]) if one)
            start = place + 1
        if depth == 0:
            return


def _module_of(names: tuple[str, ...], files: Mapping[tuple[str, ...], Path]) -> tuple[str, ...] | None:
    """The file that holds what is named: the longest path that is a file's."""
    for length in range(len(names), 0, -1):
        if names[:length] in files:
            return names[:length]
    return None


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

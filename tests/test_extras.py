"""The base without optional packages: what works, and the line that says which extra a command needs."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from base_install import OPTIONAL, ROOT, run_base, run_without
from example_files import POLICED
from whydrop.cli.commands import COMMANDS
from whydrop.runtime import extras

SOURCE = ROOT / "src" / "whydrop"
FAR = ROOT / "examples" / "policed-download-far.pcap.zst"
# The parts that import optional packages, each with the file at its entrance that calls `extras.need`.
ENTRANCES = {
    "explaining/many/finding.py": "explaining/many/finding.py",
    "explaining/many/spark.py": "store/engines/spark.py",
    "formats/archives/streams.py": "formats/archives/streams.py",
    "mcp": "mcp/__init__.py",
    "monitoring/switches": "monitoring/switches/sessions.py",
    "show/facets": "store/engines/__init__.py",
    "show/vega": "show/vega/__init__.py",
    "store": "store/files.py",
    "store/engines": "store/engines/__init__.py",
    "studies": "studies/__init__.py",
    "web": "web/__init__.py",
}


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules that a file imports, except those for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        yield from imported(node)


def test_each_extra_has_the_packages_of_pyproject() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(declared) == {*extras.PACKAGES, "all"}
    for extra, modules in extras.PACKAGES.items():
        names = [re.match(r"[\w-]+(\[[\w,]+\])?", line)[0] for line in declared[extra]]
        ours = {f"whydrop[{included}]" for included in extras.INCLUDED.get(extra, ())}
        assert ours == {name for name in names if name.startswith("whydrop[")}
        assert set(modules.values()) == {name for name in names if "[" not in name}


def test_optional_packages_are_imported_only_behind_an_entrance_that_asks_for_them() -> None:
    for path in SOURCE.rglob("*.py"):
        name = str(path.relative_to(SOURCE))
        found = {module.partition(".")[0] for module in imported(ast.parse(path.read_text()))}.intersection(OPTIONAL)
        if found:
            assert any(f"{name}/".startswith(f"{part}/") for part in ENTRANCES), (name, found)
    for entrance in ENTRANCES.values():
        assert "extras.need(" in (SOURCE / entrance).read_text(), entrance


@pytest.mark.parametrize("extra", extras.PACKAGES)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(extra: str) -> None:
    code = f"""
from whydrop import Error, MissingExtraError
from whydrop.runtime import extras
try:
    extras.need({extra!r})
except ImportError as reason:
    assert isinstance(reason, Error) and isinstance(reason, MissingExtraError)
    print(reason)
"""
    said = run_base(code=code).stdout
    assert re.fullmatch(rf"this needs .+, which (is|are) not installed: pip install 'whydrop\[{extra}\]'\n", said)
    assert all(package in said for package in extras.PACKAGES[extra].values())


def test_only_missing_packages_are_named() -> None:
    code = (
        "from whydrop.runtime import extras\ntry: extras.need('studies')\nexcept ImportError as reason: print(reason)"
    )
    assert run_without(["scipy"], code=code).stdout == (
        "this needs scipy, which is not installed: pip install 'whydrop[studies]'\n"
    )


@pytest.mark.slow
def test_the_base_has_every_public_name_and_the_help_of_every_command() -> None:
    code = f"""
import whydrop
for name in whydrop.__all__:
    getattr(whydrop, name)
from click.testing import CliRunner
from whydrop.cli.commands import whydrop as program
for words in [["--help"], *([name, "--help"] for name in {list(COMMANDS)!r})]:
    done = CliRunner().invoke(program, words)
    assert done.exit_code == 0, (words, done.output, done.exception)
"""
    done = run_base(code=code)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_the_base_explains_captures_and_writes_their_report(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = run_base("explain", POLICED, "--report", page)
    assert (done.returncode, done.stderr) == (0, "")
    assert "A policer at 20.0 Mbit/s" in done.stdout.replace("\u00a0", " ")
    assert "<script" in page.read_text()
    pair = run_base("explain", POLICED, FAR, "--json")
    assert json.loads(pair.stdout)["verdicts"][0]["cause"] == "policer"
    matched = run_base("match", POLICED, FAR, "-o", tmp_path / "packets.parquet")
    assert (matched.returncode, matched.stderr) == (0, "")


@pytest.mark.slow
def test_the_base_measures_records_and_draws(tmp_path: Path) -> None:
    """A test against a responder on this host: its recording is opened, compared, drawn, and explained again."""
    code = f"""
import whydrop
with whydrop.responder(addresses=["127.0.0.1"], port=0, open=True) as far:
    found = whydrop.run(
        "tests/demo-load.toml", f"127.0.0.1:{{far.port}}", duration_s=2, output={str(tmp_path)!r},
        parameters={{"delay_s": 0.5}},
    )
print(found.path)
"""
    done = run_base(code=code)
    assert done.returncode == 0, done.stderr
    recording = done.stdout.splitlines()[-1]
    page = tmp_path / "plot.html"
    for words in (
        ("show", recording), ("stats", recording), ("metadata", recording), ("explain", recording),
        ("compare", recording, recording), ("plot", recording, "-o", page), ("plot", recording, "-o", "-", "-f", "csv"),
        ("report", recording, "-o", tmp_path / "report.html"), ("export", recording, "-f", "csv"),
    ):  # fmt: skip
        shown = run_base(*words, cwd=tmp_path)
        assert (shown.returncode, "Traceback" in shown.stderr) == (0, False), (words, shown.stderr)
    assert "<script" in page.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["pace", "192.0.2.1", "--rate", "950M", "--dry-run"],
        ["pace", "127.0.0.1", "--from", POLICED, "--dry-run"],
        ["run", "rrul", "--to", "192.0.2.1", "--dry-run"],
        ["watch", "--port", "1", "--duration", "100ms"],
        ["tests", "rrul"],
        ["doctor"],
        ["completion", "zsh"],
    ],
    ids=lambda words: f"{words[0]}-{words[-1]}",
)
def test_the_base_plans_watches_and_describes(words: list[str | Path], tmp_path: Path) -> None:
    done = run_base(*words, cwd=tmp_path)
    assert (done.returncode, "not installed: pip" in done.stderr) == (0, False), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("store", ["store", "STORE"]),
        ("store", ["store", "import", "STORE", POLICED]),
        ("store", ["store", "explain", "STORE", POLICED]),
        ("store", ["plot", "STORE", "--table", "counters"]),
        ("studies", ["study", "discards", "STORE"]),
        ("studies", ["study", "tcp", "STORE"]),
        ("studies", ["study", "queues", "STORE"]),
        ("plots", ["explain", POLICED, "--charts", "charts"]),
        ("plots", ["plot", "none.recording", "-o", "plot.svg"]),
        ("plots", ["run", "rrul", "--to", "192.0.2.1", "--plot", "plot.png"]),
        ("switches", ["collect", "switches.toml"]),
        ("switches", ["collect", "check", "switches.toml"]),
        ("web", ["web", "STORE"]),
        ("mcp", ["mcp", "STORE"]),
    ],
    ids=lambda given: given if isinstance(given, str) else "-".join(str(word) for word in given[:2]),
)
def test_a_command_without_its_extra_says_so_in_one_line(extra: str, words: list[str | Path], tmp_path: Path) -> None:
    (tmp_path / "STORE").mkdir()
    (tmp_path / "STORE" / "whydrop-store.json").write_text('{"whydrop_store": 1}\n')
    (tmp_path / "switches.toml").write_text('store = "STORE"\n[[switch]]\nname = "s1"\naddress = "192.0.2.7"\n')
    done = run_base(*words, cwd=tmp_path)
    assert done.stdout == ""
    assert re.fullmatch(
        rf"whydrop: this needs .+, which (is|are) not installed: pip install 'whydrop\[{extra}\]'\n", done.stderr
    ), done.stderr
    assert done.returncode == 1

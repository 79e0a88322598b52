"""Tests by name or path: the catalogue, users' own files, and what they extend."""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whydrop.errors import Mistake
from whydrop.measure.tests.parsed_file import ReadFile, each_of_flows, read, unknown_names
from whydrop.measure.tests.schema import Change, Flow, Hosts, Parameter, Series, TestFile, coerced, common
from whydrop.runtime.user_files.problems import FileError, Problem
from whydrop.runtime.user_files.spelling import suggestion

CATALOGUE = Path(__file__).parent / "catalogue"

# What a test takes over from those that it extends, besides lists; what it is it says itself.
_SCALARS = ("family", "hosts", "length_s", "delay_s", "step_s", "total_s", "default_plot")


class UnknownTestError(Mistake):
    """No test has this name; says which is nearest."""


@dataclass(frozen=True)
class Placed:
    """A part of a test and the place where it is written, for errors that only show when it is used."""

    part: Any
    source: ReadFile
    path: tuple[str | int, ...]

    def problem(self, key: str, message: str) -> Problem:
        """A mistake at one of its keys."""
        return self.source.problem((*self.path, key) if key else self.path, message)


@dataclass(frozen=True)
class Test:
    """A test with everything that it extends, before its parameters are filled in.

    Attributes:
        name: by which it is called.
        source: its file, or ``catalogue:NAME``.
        settings: length, delay, step and total as the file sets them.
        presets: parameters that a variant sets.
        variant_of: the test of which it is a variant.
        spoken_of: the parameters that its own file names, rather than one that it extends.
    """

    __test__ = False

    name: str
    source: str
    title: str
    description: str
    shows: str
    family: str | None
    hosts: Hosts
    settings: dict[str, Any]
    parameters: dict[str, Parameter]
    flows: list[Placed]
    changes: list[Placed]
    computed: list[Placed]
    without: list[str]
    plots: list[str]
    default_plot: str | None
    example: str | None
    abstract: bool
    presets: dict[str, Any] = field(default_factory=dict)
    variant_of: str | None = None
    spoken_of: frozenset[str] = frozenset()

    @property
    def own_parameters(self) -> dict[str, Parameter]:
        """The parameters that are this test's, and not every test's."""
        return {name: parameter for name, parameter in self.parameters.items() if name not in common()}


def load(name: str) -> Test:
    """The test of this name, or in the file at this path.

    Raises:
        UnknownTestError: the catalogue has no such test and there is no such file.
        FileError: the file has mistakes.
    """
    path, variant = _find(name)
    test = load_file(path)
    return _as_variant(test, path, variant) if variant else test


def file_of(name: str) -> Path:
    """The file of the test of this name; of a variant that of the test that it varies.

    Raises:
        UnknownTestError: the catalogue has no such test.
    """
    return _find(name)[0]


def names(*, variants: bool = True) -> list[str]:
    """The names of the catalogue's tests in alphabetical order."""
    found = []
    for path in sorted(CATALOGUE.glob("*.toml")):
        raw = _raw(path)
        if not raw.get("abstract"):
            found.append(path.stem)
        if variants:
            found.extend(raw.get("variants", {}))
    return sorted(found)


def _find(name: str) -> tuple[Path, str | None]:
    if "/" in name or name.endswith(".toml"):
        return Path(name), None
    wanted = _folded(name)
    variants: dict[str, tuple[Path, str]] = {}
    for path in sorted(CATALOGUE.glob("*.toml")):
        if _folded(path.stem) == wanted:
            return path, None
    for path in sorted(CATALOGUE.glob("*.toml")):
        variants |= {_folded(variant): (path, variant) for variant in _raw(path).get("variants", {})}
    if wanted in variants:
        return variants[wanted]
    hint = suggestion(name, names(), "`whydrop tests` lists them.")
    raise UnknownTestError(f"no test is called {name!r}{hint} If you mean a file, give its path: ./{name}.toml")


def _folded(name: str) -> str:
    return name.lower().replace("_", "-")


@functools.cache
def _raw(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


@functools.cache
def _read_own(path: Path) -> ReadFile:
    """A file of the catalogue, which does not change while the program runs."""
    return read(path, f"catalogue/{path.name}")


def _source(path: Path) -> ReadFile:
    return _read_own(path) if path.parent == CATALOGUE else read(path, str(path))


def load_file(path: Path) -> Test:
    """Read a file and all that it extends, and put them together.

    Raises:
        FileError: with every mistake in it.
    """
    problems: list[Problem] = []
    chain: list[ReadFile] = []
    own = _source(path)
    _visit(own, [], chain, problems)
    for source in chain:
        problems.extend(source.problems)
    problems.extend(unknown_names(own, _names_of(chain)))
    if own.model is not None:
        problems.extend(_incomplete(own))
    if problems or any(source.model is None for source in chain):
        raise FileError(problems)
    test = _merged(path.stem, chain)
    problems = [*_untyped(test, own), *_presets(test, own)]
    if problems:
        raise FileError(problems)
    return test


def _names_of(chain: Sequence[ReadFile]) -> set[str]:
    """The parameters; and the variables of the extended flows, which changes may use and are not distinguished here."""
    names = {key for source in chain for key in source.raw.get("parameters", {})}
    if any(source.raw.get("change") for source in chain):
        names.update(*(each for source in chain for _, each in each_of_flows(source.raw)))
    return names


def _visit(source: ReadFile, above: list[Path], chain: list[ReadFile], problems: list[Problem]) -> None:
    """The files that one extends, each once, and itself at the end: later ones override earlier ones."""
    extends = source.raw.get("extends", [])
    parents = [extends] if isinstance(extends, str) else extends if isinstance(extends, list) else []
    here = source.path.resolve()
    for number, parent in enumerate(parents):
        place = ("extends", number) if isinstance(extends, list) else ("extends",)
        if not isinstance(parent, str):
            continue  # the schema says so
        try:
            path = _parent(parent, source.path)
            if path.resolve() in [*above, here]:
                raise UnknownTestError(f"{parent!r} extends this test, so this cannot extend it: a cycle")
            if all(path.resolve() != known.path.resolve() for known in chain):
                _visit(_source(path), [*above, here], chain, problems)
        except UnknownTestError as reason:
            problems.append(source.problem(place, str(reason)))
        except FileError as reason:
            problems.append(source.problem(place, f"{parent!r} cannot be used"))
            problems.extend(reason.problems)
    chain.append(source)


def _parent(name: str, extender: Path) -> Path:
    if "/" in name or name.endswith(".toml"):
        path = extender.parent / name
        if not path.is_file():
            raise UnknownTestError(f"there is no file {str(path)!r}")
        return path
    known = [path.stem for path in CATALOGUE.glob("*.toml")]
    if name not in known:
        hint = suggestion(name, known, "`whydrop tests` lists the names")
        raise UnknownTestError(f"the catalogue has no test {name!r}{hint}")
    return CATALOGUE / f"{name}.toml"


def _incomplete(source: ReadFile) -> Iterator[Problem]:
    model = source.model
    assert model is not None
    if model.title is None:
        yield source.problem(("title",), "is missing; expected one line that says what the test does")
    for number, flow in enumerate(model.flows):
        if flow.kind is None:
            yield source.problem(("flows", number, "kind"), "is missing; expected one of tcp, udp, probe, icmp, ...")


def _untyped(test: Test, own: ReadFile) -> Iterator[Problem]:
    for name, parameter in test.parameters.items():
        if parameter.type is None:
            yield own.problem(("parameters", name, "type"), "is missing; expected integer, text, list, ...")


def _presets(test: Test, own: ReadFile) -> Iterator[Problem]:
    """Values of variants that their parameters refuse."""
    assert own.model is not None
    for variant, settings in own.model.variants.items():
        for key, value in settings.set.items():
            path = ("variants", variant, "set", key)
            parameter = test.parameters.get(key)
            if parameter is None:
                yield own.problem(path, f"the test has no parameter {key}{suggestion(key, test.parameters)}")
                continue
            try:
                coerced(parameter, value)
            except ValueError as reason:
                yield own.problem(path, str(reason))


def _merged(name: str, chain: list[ReadFile]) -> Test:
    own = chain[-1].model
    assert own is not None
    models = [source.model for source in chain if source.model is not None]
    scalars = {key: value for model in models for key in _SCALARS if (value := getattr(model, key)) is not None}
    return Test(
        name=name,
        source=f"catalogue:{name}" if chain[-1].path.parent == CATALOGUE else str(chain[-1].path),
        title=own.title or name,
        description=(own.description or "").strip(),
        shows=(own.shows or "").strip(),
        family=scalars.get("family"),
        hosts=scalars.get("hosts", Hosts(minimum=1, maximum=1)),
        settings={key: scalars[key] for key in ("length_s", "delay_s", "step_s", "total_s") if key in scalars},
        parameters=_parameters(models),
        flows=_latest(_placed(chain, "flows")),
        changes=list(_placed(chain, "change")),
        computed=_latest(_placed(chain, "computed")),
        without=[pattern for model in models for pattern in model.without],
        plots=next((model.plots for model in reversed(models) if model.plots), []),
        default_plot=scalars.get("default_plot"),
        example=own.example,
        abstract=own.abstract,
        spoken_of=frozenset(own.parameters),
    )


def _parameters(models: list[TestFile]) -> dict[str, Parameter]:
    """Each file may change single fields of a parameter that another has made."""
    tables: dict[str, dict[str, Any]] = {name: dict(parameter) for name, parameter in common().items()}
    for model in models:
        for name, parameter in model.parameters.items():
            table = tables.setdefault(name, {})
            table.update({key: getattr(parameter, key) for key in parameter.model_fields_set})
    return {name: Parameter.model_validate(table) for name, table in tables.items()}


def _placed(chain: list[ReadFile], key: str) -> Iterator[Placed]:
    for source in chain:
        for number, part in enumerate(getattr(source.model, key)):
            yield Placed(part, source, (key, number))


def _latest(parts: Iterable[Placed]) -> list[Placed]:
    """Where two files name a flow or series the same, the later one's stands, in the earlier one's place."""
    found: list[Placed] = []
    for part in parts:
        same = [old for old in found if _written_name(old.part) == _written_name(part.part)]
        earlier = [old for old in same if old.source.path != part.source.path]
        if not earlier:
            found.append(part)
            continue
        found[found.index(earlier[0])] = part
        found = [kept for kept in found if kept not in earlier[1:]]
    return found


def _written_name(part: Flow | Series | Change) -> str:
    name = getattr(part, "name", None)
    return str(getattr(name, "text", name))


def _as_variant(test: Test, path: Path, variant: str) -> Test:
    own = _source(path).model
    assert own is not None
    settings = own.variants[variant]
    return dataclasses.replace(
        test,
        name=variant,
        source=f"catalogue:{variant}",
        title=settings.title,
        description=(settings.description or test.description).strip(),
        shows=(settings.shows or test.shows).strip(),
        presets=settings.set,
        variant_of=test.name,
        abstract=False,
    )

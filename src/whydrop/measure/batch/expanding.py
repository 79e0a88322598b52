"""From batch files to runs: inheritance, arguments laid over batches, variables replaced."""

from __future__ import annotations

import itertools
import math
import random
import re
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from whydrop.errors import Mistake
from whydrop.measure.batch.batch_file import Table, Tables, lineage
from whydrop.measure.batch.variables import VariableError, expand, expand_all
from whydrop.measure.tests.expressions import written
from whydrop.measure.tests.schema import common
from whydrop.runtime.user_files import quantities
from whydrop.runtime.user_files.problems import FileError, Problem
from whydrop.runtime.user_files.spelling import suggestion
from whydrop.text.quantities import long_duration

_MOST_RUNS = 100_000
# Of each batch, so many runs that cannot be are looked at: a slip in a large matrix makes the same mistake in each.
_MOST_MISTAKEN = 20
# Nothing in a batch takes longer than a year; clocks of the kernel go wrong far behind that.
_LONGEST_S = 366 * 86400.0
# Fields that are added up rather than replaced.
_TABLES = ("variables", "set", "for_", "matrix")
# What variables can name besides variables: settings that are one value.
_NAMED = ("test", "title", "note", "output", "length_s", "delay_s", "step_s", "ip_version", "pause_s", "repetitions")
_NO_RUN = "so there would be no run; expected at least one"


class BatchError(Mistake):
    """A batch cannot be run as asked for."""


@dataclass(frozen=True)
class BatchCommand:
    """A command around a run, with everything filled in. A text is for the shell, a list for the kernel."""

    name: str
    kind: str
    run: str | list[str]
    essential: bool = False
    kill: bool = False
    timeout_s: float = 60.0
    metadata: str | None = None


@dataclass(frozen=True)
class Run:
    """One run of a batch, with everything filled in.

    Attributes:
        key: unique in the plan and the same each time the files are expanded; the state file goes by it.
        arguments: the names of the arguments and values that make it, one for each axis.
        run: a command in a test's place.
        folder: where the batch file lies; paths in it start from there.
    """

    key: str
    batch: str
    arguments: tuple[str, ...]
    repetition: int
    test: str | None
    hosts: tuple[str, ...]
    parameters: dict[str, Any]
    folder: Path
    with_runner: str | None = None
    ip_version: int | None = None
    secret_file: Path | None = None
    run: str | list[str] | None = None
    run_length_s: float = 0.0
    title: str = ""
    note: str = ""
    output: str = ""
    pause_s: float = 0.0
    commands: tuple[BatchCommand, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    """The batches wanted from the files on the command line, and how they are run.

    Attributes:
        batches: names or patterns; none: all that are neither abstract nor disabled.
        overrides: settings or variables that replace those of every batch (arguments still override them).
        repetitions: of each run; ``None``: as the file says.
        shuffle: in random order; ``None``: as the file says.
        seed: of the random order; ``None``: from the contents of the files.
        time: of the whole batch, as ``${batch_time}``.
        share: number and count of a share: of two hosts that run a batch together, one runs (1, 2), the other (2, 2).
    """

    batches: Sequence[str] = ()
    overrides: Mapping[str, str] = field(default_factory=dict)
    repetitions: int | None = None
    shuffle: bool | None = None
    seed: int | None = None
    time: str = ""
    share: Sequence[int] | None = None


def expand_runs(tables: Tables, wanted: Wanted) -> list[Run]:
    """Every run, in the order of the files.

    Raises:
        FileError: with every mistake that shows in expanding.
        BatchError: no such batch, an override that nothing takes.
    """
    problems: list[Problem] = []
    runs: list[Run] = []
    for batch in _chosen(tables, wanted):
        try:
            runs.extend(_runs(tables, batch, wanted, problems))
        except VariableError as reason:
            problems.append(batch.problem(str(reason)))
        if len(runs) > _MOST_RUNS:
            raise BatchError(f"more than {_MOST_RUNS} runs in all; choose some batches with --batch")
    if problems:
        raise FileError(problems)
    if twice := [key for key, count in Counter(run.key for run in runs).items() if count > 1]:
        raise BatchError(f"two runs are the same: {twice[0]}")
    return runs


def shuffled(runs: Sequence[Run], seed: int) -> list[Run]:
    """The runs of each batch in an order that the seed alone decides; batches stay in their order."""
    found: list[Run] = []
    generator = random.Random(seed)
    for batch in dict.fromkeys(run.batch for run in runs):
        own = [run for run in runs if run.batch == batch]
        generator.shuffle(own)
        found.extend(own)
    return found


def _chosen(tables: Tables, wanted: Wanted) -> list[Table]:
    batches = tables.named("batch")
    if not wanted.batches:
        return [table for table in batches.values() if _runs_at_all(tables, table, wanted)]
    found: list[Table] = []
    for pattern in wanted.batches:
        matching = [table for name, table in batches.items() if fnmatchcase(name, pattern)]
        if not matching:
            hint = suggestion(pattern, batches, f"there are {', '.join(batches)}")
            raise BatchError(f"no batch is called {pattern!r}{hint}")
        for table in matching:
            if pattern == table.name and not _runs_at_all(tables, table, wanted):
                word = "abstract: it is only inherited from" if table.said.get("abstract") else "disabled"
                raise BatchError(f"batch {table.name!r} is {word}")
        found.extend(table for table in matching if table not in found and _runs_at_all(tables, table, wanted))
    return found


def _runs_at_all(tables: Tables, table: Table, wanted: Wanted) -> bool:
    if table.said.get("abstract"):
        return False
    settings = _merged([*lineage(tables, table), _overriding(wanted)])
    try:
        return not _true("disabled", settings.get("disabled", False), settings.get("variables", {}))
    except ValueError as reason:
        raise FileError([table.problem(str(reason), "disabled")]) from None


def _merged(chain: Iterable[Table | Mapping[str, Any]]) -> dict[str, Any]:
    """Later tables over earlier ones, key by key; what is not inherited is left out."""
    found: dict[str, Any] = {}
    for table in chain:
        said = table.said if isinstance(table, Table) else table
        if said.get("replace_set"):
            found["set"] = {}
        for key, value in said.items():
            if key in ("inherits", "abstract", "replace_set"):
                continue
            found[key] = {**found.get(key, {}), **value} if key in _TABLES else value
    return found


# --- the matrix ---


def _runs(tables: Tables, batch: Table, wanted: Wanted, problems: list[Problem]) -> Iterator[Run]:
    chain: list[Table | Mapping[str, Any]] = [*lineage(tables, batch), _overriding(wanted)]
    settings = _merged(chain)
    axes = _axes(tables, batch, settings)
    count = _repetitions(batch, settings, wanted)
    if count * math.prod(map(len, axes)) > _MOST_RUNS:
        raise BatchError(f"batch {batch.name!r} has more than {_MOST_RUNS} runs")
    mistaken: dict[str, list[tuple[str, ...]]] = {}
    for choice in itertools.product(*axes):
        layers = (lineage(tables, part) if isinstance(part, Table) else [part] for _, part in choice)
        merged = _merged(itertools.chain(chain, *layers))
        names = tuple(name for name, _ in choice)
        try:
            for repetition in range(1, count + 1):
                yield _run(tables, batch, names, repetition, merged, wanted)
        except (VariableError, ValueError) as reason:
            # What is wrong with one repetition is wrong with all.
            mistaken.setdefault(str(reason), []).append(names)
            if sum(map(len, mistaken.values())) >= _MOST_MISTAKEN:
                break
    problems.extend(batch.problem(f"{reason}{_with(cases)}") for reason, cases in mistaken.items())


def _with(cases: Sequence[tuple[str, ...]]) -> str:
    """Which arguments make a mistake: those of the first run that has it, and that there are more."""
    if not cases[0]:
        return ""
    return f" (with {', '.join(cases[0])}{', and with others' if len(cases) > 1 else ''})"


def _overriding(wanted: Wanted) -> dict[str, Any]:
    found: dict[str, Any] = {"variables": {}, "set": {}}
    for key, value in wanted.overrides.items():
        if key.startswith("set."):
            found["set"][key.removeprefix("set.")] = value
        elif key in ("hosts", "commands"):
            found[key] = [value]
        elif key in (*_NAMED, "with", "secret_file", "run", "run_length_s"):
            found[{"with": "with_runner"}.get(key, key)] = value
        else:
            found["variables"][key] = value
    return found


def _axes(tables: Tables, batch: Table, settings: Mapping[str, Any]) -> list[list[tuple[str, Table | dict[str, Any]]]]:
    """For each axis its choices: a name, and what it lays over the batch."""
    arguments = tables.named("argument")
    axes: list[list[tuple[str, Table | dict[str, Any]]]] = []
    known = settings.get("variables", {})
    for axis, texts in settings.get("for_", {}).items():
        patterns = list(_split(expand_all(texts, known)))
        if strange := [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in arguments)]:
            hint = suggestion(strange[0], arguments, f"there are {', '.join(arguments) or 'none'}")
            raise FileError([batch.problem(f"no argument is called {strange[0]!r}, or matches it{hint}", "for", axis)])
        names = dict.fromkeys(name for pattern in patterns for name in arguments if fnmatchcase(name, pattern))
        axes.append([(name, arguments[name]) for name in names])
        if not names:
            raise FileError([batch.problem(f"no argument, {_NO_RUN}", "for", axis)])
    for variable, given in settings.get("matrix", {}).items():
        values = [part for value in given for part in _values_in(value, known)]
        axes.append([(f"{variable}={value}", {"variables": {variable: value}}) for value in dict.fromkeys(values)])
        if not values:
            raise FileError([batch.problem(f"no value, {_NO_RUN}", "matrix", variable)])
    return axes


def _values_in(value: Any, known: Mapping[str, Any]) -> list[Any]:
    """A value of an axis as it is; of a text with variables, all values that they give."""
    return list(_split([expand(value, known)])) if isinstance(value, str) and "${" in value else [value]


def _repetitions(batch: Table, settings: Mapping[str, Any], wanted: Wanted) -> int:
    value = settings.get("repetitions", 1) if wanted.repetitions is None else wanted.repetitions
    text = expand(str(value), settings.get("variables", {}))
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_RUNS:
        raise FileError([batch.problem(f"{text!r}: expected 1 to {_MOST_RUNS}", "repetitions")])
    return int(text)


# --- one run ---


def _run(
    tables: Tables,
    batch: Table,
    names: tuple[str, ...],
    repetition: int,
    merged: dict[str, Any],
    wanted: Wanted,
) -> Run:
    values = _values(merged, batch, repetition, wanted)
    test, command = merged.get("test"), merged.get("run")
    if (test is None) == (command is None):
        raise ValueError("expected either test or run" + (", not both" if test else ""))
    secret = merged.get("secret_file")
    parameters, strange = _parameters(merged, values), dict[str, str]()
    if merged.get("lenient") and test is not None:
        parameters, strange = _known(expand(test, values), batch.folder, parameters)
    return Run(
        key=f"{batch.name}/{','.join(names)}/{repetition:02d}",
        batch=batch.name,
        arguments=names,
        repetition=repetition,
        test=expand(test, values) if test is not None else None,
        hosts=tuple(_split(expand_all(merged.get("hosts") or [], values))),
        parameters=parameters,
        folder=batch.folder,
        with_runner=expand(merged["with_runner"], values) if merged.get("with_runner") else None,
        ip_version=_ip_version(merged, values),
        secret_file=batch.folder / expand(secret, values) if secret else None,
        run=expand_all(command, values) if command is not None else None,
        run_length_s=_seconds("run_length_s", merged.get("run_length_s", 0), values),
        title=expand(merged.get("title") or "", values),
        note=expand(merged.get("note") or "", values),
        output=clean_path(expand(merged.get("output") or "", values)),
        pause_s=_seconds("pause_s", merged.get("pause_s", 0), values),
        commands=tuple(_commands(tables, merged, values)),
        variables={name: expand(f"${{{name}}}", values) for name in merged.get("variables", {})} | strange,
    )


def _values(merged: Mapping[str, Any], batch: Table, repetition: int, wanted: Wanted) -> dict[str, Any]:
    """The values of variables: the batch's own over its settings over what every batch has."""
    found: dict[str, Any] = {name: parameter.default for name, parameter in common().items() if name in _NAMED}
    found = {name: value for name, value in found.items() if value is not None}
    found |= {name: merged[name] for name in _NAMED if merged.get(name) is not None}
    hosts = merged.get("hosts") or []
    found |= {"hosts": ",".join(hosts), "host": hosts[0] if hosts else "", "local_host": socket.gethostname()}
    found |= {"batch_name": batch.name, "batch_time": wanted.time, "repetition": f"{repetition:02d}"}
    return {**found, **merged.get("variables", {})}


def _parameters(merged: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = expand_all(merged.get("set", {}), values)
    for key in ("length_s", "delay_s", "step_s"):
        if merged.get(key) is not None:
            found[key] = _seconds(key, merged[key], values)
    return found


def _known(test: str, folder: Path, parameters: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The parameters that the test has, and the others as variables."""
    from whydrop.measure.tests.loading import load

    own = load(test_path(test, folder)).parameters
    names = {name for parameter, described in own.items() for name in (parameter, *described.aliases)}
    known = {key: value for key, value in parameters.items() if key.replace("-", "_") in names}
    return known, {key: written(value) for key, value in parameters.items() if key not in known}


def test_path(test: str, folder: Path) -> str:
    """A test's name as it is, a path of its file from the batch file's folder."""
    return str(folder / test) if "/" in test or test.endswith(".toml") else test


def _split(hosts: Sequence[str]) -> Iterator[str]:
    for host in hosts:
        yield from (name.strip() for name in re.split(r"[,;\s]+", host) if name.strip())


def _seconds(key: str, value: Any, values: Mapping[str, Any]) -> float:
    try:
        found = quantities.seconds(expand(value, values) if isinstance(value, str) else value)
    except VariableError:
        raise
    except ValueError as reason:
        raise ValueError(f"{key}: {reason}") from None
    if not 0 <= found <= _LONGEST_S:
        raise ValueError(f"{key}: {value!r}: expected 0 to {long_duration(_LONGEST_S)} (a year)")
    return found


def _ip_version(merged: Mapping[str, Any], values: Mapping[str, Any]) -> int | None:
    value = merged.get("ip_version")
    text = expand(value, values) if isinstance(value, str) else "" if value is None else str(value)
    if text not in ("", "4", "6"):
        raise ValueError(f"ip_version: {text!r}: expected 4 or 6")
    return int(text) if text else None


def _commands(tables: Tables, merged: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[BatchCommand]:
    """The commands named, each followed by those that it names itself, each once."""
    known = tables.named("command")
    pending = [*_split(expand_all(merged.get("commands") or [], values))]
    seen: set[str] = set()
    while pending:
        name = pending.pop(0)
        if name in seen:
            continue
        seen.add(name)
        if name not in known:
            raise ValueError(f"no command is called {name!r}; there are {', '.join(known) or 'none'}")
        table = _merged(lineage(tables, known[name]))
        own = {**table.get("variables", {}), **values}
        if _true("disabled", table.get("disabled", False), own):
            continue
        pending = [*_split(expand_all(table.get("also", []), own)), *pending]
        if table.get("kind") is None or table.get("run") is None:
            raise ValueError(f"command {name!r} has no {'kind' if table.get('kind') is None else 'run'}")
        yield BatchCommand(
            name=name,
            kind=table["kind"],
            run=expand_all(table["run"], own),
            essential=_true("essential", table.get("essential", False), own),
            kill=_true("kill", table.get("kill", False), own),
            timeout_s=_seconds("timeout_s", table.get("timeout_s", 60), own),
            metadata=_metadata(name, table, own),
        )


def _metadata(command: str, table: Mapping[str, Any], values: Mapping[str, Any]) -> str | None:
    if table.get("metadata") is None:
        return None
    if table["kind"] == "monitor":
        raise ValueError(f"command {command!r}: metadata: a monitor has none; expected a pre or post command")
    return expand(table["metadata"], values)


def _true(key: str, value: bool | str, values: Mapping[str, Any]) -> bool:
    if isinstance(value, bool):
        return value
    text = expand(value, values).strip().lower()
    if text in ("true", "yes", "on", "1"):
        return True
    if text in ("false", "no", "off", "0", ""):
        return False
    raise ValueError(f"{key}: {text!r}: expected true or false")


def clean_path(path: str) -> str:
    """A path without what file systems and shells choke on; its folders stay.

    >>> clean_path("results/10 Mbit:fq_codel*")
    'results/10_Mbit_fq_codel_'
    """
    return re.sub(r"[^\w./=+,@~-]+", "_", path)

"""Tests before they run: what a form asks for, what will be sent, and what is wrong with which field."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import whydrop
from whydrop.errors import Error
from whydrop.measure import local_ends, volume
from whydrop.measure.far_hosts import PlaceError, far_hosts
from whydrop.measure.plan import Plan
from whydrop.measure.tests import FileError, SettingError, UnknownTestError, loading, resolve
from whydrop.measure.tests.explaining import example_plan, flow_rows
from whydrop.runtime.masking import MASK, masked_options
from whydrop.web.endpoints import RequestError
from whydrop.web.library.links import is_within

# A parameter that is a URL, or the path of a file of this host.
_FILES = ("http_url_list",)
# Rows of the table of flows; some tests have a thousand flows.
_MOST_ROWS = 60


@dataclasses.dataclass(frozen=True)
class Described:
    """A test as its form needs it.

    Attributes:
        test: as :func:`whydrop.describe_test` has it.
        own: the parameters that its file speaks of; all others are those of every test, or of its kind.
        secrets: parameters that hold secrets.
        file: the text of its file, and of the file of the test that it is a variant of.
        flows: a table in words, the first row of which has the titles.
        refused: why this page does not run it; empty: it does.
    """

    test: dict[str, Any]
    own: list[str]
    secrets: list[str]
    file: str
    flows: list[list[str]]
    refused: str


@dataclasses.dataclass(frozen=True)
class Checked:
    """A test that could be started.

    Attributes:
        total_s: how long it takes.
        flows: a table in words, the first row of which has the titles.
        sends: what will be sent, in words.
        notes: what differs from the test as it is written, and which servers it needs.
    """

    total_s: float
    flows: list[list[str]]
    sends: list[str]
    notes: list[str]


def described(name: str) -> Described:
    """A test of the catalogue.

    Raises:
        whydrop.Error: there is no such test.
    """
    test = loading.load(name)
    document = whydrop.describe_test(name)
    own = [one for one in test.own_parameters if one in test.spoken_of]
    secrets = [one for one in test.parameters if masked_options({one: "x"})[one] == MASK]
    flows = document.pop("flows")
    plan = example_plan(test)
    return Described(document, own, secrets, _file_of(name), _table(plan) if flows else [], _refused(plan))


def check(
    test: str,
    to: Sequence[str],
    *,
    parameters: Mapping[str, Any],
    duration_s: float | None,
    runner: str | None,
    folders: Sequence[Path],
) -> Checked:
    """Plan a test without running it.

    Raises:
        RequestError: it cannot be run so; with what is wrong with each field.
    """
    try:
        plan = _planned(test, to, parameters, duration_s, runner)
    except SettingError as reason:
        raise _of_fields(reason.mistakes) from None
    except PlaceError as reason:
        others = _wrong_settings(test, len(to), parameters, duration_s)
        raise _of_fields([f"to: {reason}", *others]) from None
    except local_ends.CannotLeaveError as reason:
        raise RequestError(str(reason), fields={"local_address": str(reason)}) from None
    except (UnknownTestError, FileError) as reason:
        raise RequestError(str(reason), fields={"test": str(reason)}) from None
    if refused := _refused(plan):
        raise RequestError(refused, fields={"test": refused})
    for name, path in _named_files(plan.parameters):
        if not is_within(path, folders):
            words = f"{str(path)!r}: expected a file in one of the folders of this page"
            raise RequestError(f"{name}: {words}", fields={name: words})
    return Checked(plan.total_s, _table(plan), volume.in_words(plan), list(plan.notes))


def _planned(
    test: str, to: Sequence[str], parameters: Mapping[str, Any], duration_s: float | None, runner: str | None
) -> Plan:
    wanted = dict(parameters) | ({} if duration_s is None else {"length_s": duration_s})
    plan = resolve(test, [one.name for one in far_hosts(to)], wanted, runner)
    local_ends.check(plan.flows, {})
    return plan


def _wrong_settings(test: str, hosts: int, parameters: Mapping[str, Any], duration_s: float | None) -> Sequence[str]:
    """The mistakes that are not of the hosts."""
    try:
        _planned(test, [f"host{number}" for number in range(hosts)], parameters, duration_s, None)
    except SettingError as reason:
        return reason.mistakes
    except Error:
        pass
    return ()


def _of_fields(mistakes: Sequence[str]) -> RequestError:
    """Mistakes with the fields that they begin with; those of no field are of the far end, or of the whole."""
    fields: dict[str, str] = {}
    for mistake in mistakes:
        name, separator, words = mistake.partition(": ")
        words = words.partition(": --set ")[0].partition(": name each with --to")[0]
        if separator and name.isidentifier():
            fields[name] = words
        elif "--to" in mistake:
            fields["to"] = mistake.partition(": name each with --to")[0]
        elif mistake.startswith("--with"):
            fields["runner"] = mistake.partition(": ")[2]
    return RequestError("; ".join(mistakes), fields=fields)


def _refused(plan: Plan) -> str:
    """Why this page does not run a test: commands would do whatever a page says."""
    if any(flow.runner == "command" for flow in plan.flows):
        return f"{plan.test} runs commands on this host, which this page does not: use `whydrop run {plan.test}` there"
    return ""


def files_in(parameters: Mapping[str, Any]) -> Iterator[Path]:
    """The files of this host that parameters of a test name."""
    return (path for _, path in _named_files(parameters))


def _named_files(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    for name in _FILES:
        value = str(parameters.get(name) or "")
        if value and urlsplit(value).scheme not in ("http", "https"):
            yield name, Path(value)


def _table(plan: Plan) -> list[list[str]]:
    rows = [list(row) for row in flow_rows(plan.flows)]
    if len(rows) <= _MOST_ROWS + 1:
        return rows
    left_out = ["…", f"{len(rows) - 1 - _MOST_ROWS} more", *[""] * (len(rows[0]) - 2)]
    return [*rows[: _MOST_ROWS + 1], left_out]


def _file_of(name: str) -> str:
    try:
        return loading.file_of(name).read_text("utf-8")
    except (Error, OSError):
        return ""

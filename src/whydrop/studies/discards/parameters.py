"""The parameters of the study of discards: the report's own choices, a TOML file, and the command line.

Every mistake is reported with its line.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from whydrop.runtime.user_files import lines as toml_lines
from whydrop.runtime.user_files import validating
from whydrop.runtime.user_files.problems import FileError, Problem, written_path

Definitions = Literal["corrected", "published"]

_DAY_S = 86_400
_COMMAND_LINE = "--set"
# Stores count nanoseconds since 1970 in 64 bits.
_EARLIEST, _LATEST = date(1970, 1, 1), date(2261, 12, 31)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Days(_Strict):
    """UTC days, both ends included."""

    first: date
    last: date

    @model_validator(mode="after")
    def _in_order(self) -> Days:
        if self.last < self.first:
            raise ValueError(f"last ({self.last}) is before first ({self.first})")
        if self.first < _EARLIEST or self.last > _LATEST:
            raise ValueError(f"{self.first} to {self.last}: expected days from {_EARLIEST} to {_LATEST}")
        return self

    @property
    def length(self) -> int:
        """How many days."""
        return (self.last - self.first).days + 1


class Tests(_Strict):
    """Which downloads are counted (the report's ``dl``)."""

    least_acked_bytes: Annotated[int, Field(ge=0, lt=2**63)] = 1_000_000
    least_duration_s: Annotated[float, Field(ge=0, le=_DAY_S)] = 9.0
    # The published query says 600 s, ten times what M-Lab itself calls a valid test (less than one minute).
    most_duration_s: Annotated[float, Field(gt=0, le=_DAY_S)] = 60.0
    excluded_clients: tuple[str, ...] = (
        "45.56.98.222",
        "2600:3c03::f03c:91ff:fe33:819",
        "35.225.75.192",
        "35.192.37.249",
        "35.193.254.117",
    )


class Change(_Strict):
    """A change of configuration, and the days before and after it that are compared (figure 6)."""

    before: Days = Days(first=date(2018, 2, 11), last=date(2018, 2, 25))
    after: Days = Days(first=date(2018, 3, 11), last=date(2018, 3, 25))
    metros: tuple[str, ...] = ("dfw",)
    more_tests_than: Annotated[int, Field(ge=1, lt=2**63)] = 10  # of a client in each of the two periods
    # Speeds are called the same if the interval of after / before lies within 1 / (1 + m) and 1 + m.
    equivalence_margin: Annotated[float, Field(gt=0, lt=1)] = 0.10
    significance: Annotated[float, Field(gt=0, lt=0.5)] = 0.01

    @model_validator(mode="after")
    def _apart(self) -> Change:
        if self.after.first <= self.before.last:
            raise ValueError(f"after.first ({self.after.first}) is not after before.last ({self.before.last})")
        return self


class Exposure(_Strict):
    """Which tests were exposed to discards (figure 7)."""

    metros: tuple[str, ...] = ("dfw",)
    # Published only: what the joined times mean. Since 2020-09-08 M-Lab's tables hold windows' ends; in 2018, when the
    # report was made, they had starts, so that it joined samples one bin late.
    recorded: Literal["ends", "starts"] = "ends"


class Watch(_Strict):
    """When a port is to be reported (``study discards watch``)."""

    ratio: Annotated[float, Field(gt=0, lt=1)] = 1e-4  # discards to packets, over the window
    window_s: Annotated[float, Field(gt=0, le=366 * _DAY_S)] = 3600.0
    low_utilisation: Annotated[float, Field(gt=0, le=1)] = 0.5  # a discard below this is a microburst's
    least_discards: Annotated[int, Field(ge=1, lt=2**63)] = 10
    # Of ports by name, such as {uplink = 10e9}; of others it is taken from the highest rate seen.
    port_speed_bps: dict[str, Annotated[float, Field(gt=0)]] = {}


class Parameters(_Strict):
    """Everything that can be chosen. The defaults are the report's metros and days."""

    title: str = "Switch discards and download speed"
    definitions: Definitions = "corrected"
    metros: tuple[str, ...] = ("dfw", "lga", "nuq")  # empty: all
    days: Days = Days(first=date(2016, 6, 1), last=date(2018, 8, 1))
    port: str = "uplink"
    published_machine: str = "mlab1"  # the published definitions use its samples and tests
    bin_s: Annotated[int, Field(ge=1, le=_DAY_S)] = 10  # of the switches' samples
    tests: Tests = Tests()
    change: Change | None = Change()  # in files false for none, as TOML has no null
    contact: Exposure = Exposure()
    watch: Watch = Watch()
    seed: Annotated[int, Field(ge=0)] = 1  # of resampling

    @property
    def is_published(self) -> bool:
        """True if everything is computed as the report did, its faults included."""
        return self.definitions == "published"

    @property
    def quantile(self) -> float:
        """The quantile of figures 1, 2 and 4."""
        # APPROX_QUANTILES(x, 101) gives 102 bounds; the report takes the 50th, counted from 1.
        return 49 / 101 if self.is_published else 0.5

    @field_validator("change", mode="before")
    @classmethod
    def _none(cls, value: Any) -> Any:
        return None if value is False else value

    @model_validator(mode="before")
    @classmethod
    def _published_limits(cls, given: Any) -> Any:
        """As published means the published limit too, unless another was asked for."""
        if not isinstance(given, dict) or given.get("definitions") != "published":
            return given
        tests = given.get("tests", {})
        if isinstance(tests, Tests) and "most_duration_s" not in tests.model_fields_set:
            return {**given, "tests": tests.model_copy(update={"most_duration_s": 600.0})}
        if isinstance(tests, dict) and "most_duration_s" not in tests:
            return {**given, "tests": {**tests, "most_duration_s": 600.0}}
        return given


def example() -> str:
    """A commented file with the defaults."""
    return Path(__file__).with_name("example.toml").read_text(encoding="utf-8")


def read(path: Path | None, settings: Sequence[str] = (), *, shown: str | None = None) -> Parameters:
    """Parameters from a file, if there is one, and from settings as ``change.significance=0.05``, which win.

    Args:
        path: of the file.
        settings: that win over the file.
        shown: the name of the file in errors; by default its path.

    Raises:
        FileError: with every mistake: file, line, key, and what was expected there.
    """
    raw: dict[str, Any] = {}
    where: dict[toml_lines.Path, int] = {}
    name = _COMMAND_LINE if path is None else shown or str(path)
    if path is not None:
        raw, where = validating.parse(path, name)
    set_here = [_set(raw, setting) for setting in settings]
    model, mistakes = validating.validate(Parameters, raw)
    if model is None:
        raise FileError(_problem(name, where, set_here, place, message) for place, message in mistakes)
    return model


def _problem(
    name: str, where: dict[toml_lines.Path, int], set_here: list[toml_lines.Path], place: toml_lines.Path, message: str
) -> Problem:
    """A mistake where it was made: on the command line, or in a line of the file."""
    message = message.replace("input should be a valid tuple", 'expected a list, such as ["dfw", "lga"]')
    if not where or any(place[: len(one)] == one for one in set_here):
        return Problem(_COMMAND_LINE, 0, written_path(place), message)
    return Problem(name, toml_lines.nearest_line(where, place), written_path(place), message)


def _set(raw: dict[str, Any], setting: str) -> toml_lines.Path:
    """Put one setting in its place; return the place."""
    written, equals, text = setting.partition("=")
    path = tuple(part.strip() for part in written.split("."))
    if not equals or not all(path):
        message = f"{setting!r}: expected KEY=VALUE, such as change.significance=0.05"
        raise FileError([Problem(_COMMAND_LINE, 0, "", message)])
    table = raw
    for number, part in enumerate(path[:-1]):
        inner = table.setdefault(part, _days(path[: number + 1]))
        if not isinstance(inner, dict):
            message = f"is {inner!r}, which has no keys of its own"
            raise FileError([Problem(_COMMAND_LINE, 0, written_path(path[: number + 1]), message)])
        table = inner
    table[path[-1]] = _value(text.strip())
    return path


def _days(path: tuple[str, ...]) -> dict[str, Any]:
    """The default days where ``path`` names days, since one end alone could not be read; else an empty table."""
    found: Any = Parameters()
    for part in path:
        found = getattr(found, part, None)
    return found.model_dump() if isinstance(found, Days) else {}


def _value(text: str) -> Any:
    """A value as TOML has them; what is none is a text without its quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text

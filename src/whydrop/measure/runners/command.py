"""Any program that prints numbers, as a flow: power meters, MQTT clients, counters, other tests.

[[flows]]
name = "Power"
kind = "value"
units = "W"
runner = "command"
options.command = ["mosquitto_sub", "-h", "broker.example.net", "-t", "lab/power", "-F", "%U %p"]
options.parser = { format = "regex", pattern = '^(?P<time>[\\d.]+) (?P<value>[-\\d.]+)$', time_unit = "s" }
"""

from __future__ import annotations

import shlex
import shutil
import signal
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_validator

from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners.parsing.base import Parser, ns
from whydrop.measure.runners.parsing.declared import Declaration, DeclaredParser
from whydrop.measure.runners.program import ProgramRunner
from whydrop.runtime.user_files import validating
from whydrop.runtime.user_files.problems import written_path

# The first number of each line, where nothing is declared.
_FIRST_NUMBER = Declaration(format="regex", pattern=r"(?P<value>[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")


class _Options(BaseModel):
    """The options of a flow."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)

    command: list[str] = []
    parser: Declaration = _FIRST_NUMBER
    environment: dict[str, str] = {}
    secrets: list[str] = []
    stop_signal: Literal["INT", "TERM", "HUP", "QUIT"] = "INT"

    @field_validator("command", mode="before")
    @classmethod
    def _words(cls, command: Any) -> Any:
        words = shlex.split(command) if isinstance(command, str) else command
        if not isinstance(words, list | tuple) or not words or not words[0]:
            raise ValueError('expected a program and its arguments, such as ["sensors", "-u"]')
        return words

    @field_validator("secrets", mode="before")
    @classmethod
    def _listed(cls, secrets: Any) -> Any:
        return [secrets] if isinstance(secrets, str) else secrets

    @field_validator("environment")
    @classmethod
    def _has_names(cls, environment: dict[str, str]) -> dict[str, str]:
        if any("=" in name or "\0" in name for name in environment):
            raise ValueError('expected a table such as { NAME = "value" }')
        return environment


class CommandRunner(ProgramRunner):
    """A user's own command; where its output does not end by itself, the end of the flow's time ends it."""

    name = "command"

    def __init__(self, flow: PlannedFlow, number: int) -> None:
        options, self._mistakes = validating.validate(_Options, flow.options)
        # complaint() names the mistakes; until then there is something to hold on to
        self._options = options or _Options.model_construct()
        super().__init__(flow, number)
        self.stop_signal = signal.Signals[f"SIG{self._options.stop_signal}"]

    def command(self) -> list[str]:
        """Its words, with what is known of the flow filled in; never a shell."""
        flow = self.flow
        known = {
            "{host}": flow.host or "",
            "{port}": str(flow.port or ""),
            "{duration_s}": f"{flow.duration_s:g}" if flow.duration_s is not None else "",
            "{interval_s}": f"{flow.interval_s:g}",
        }
        return [_filled(word, known) for word in self._options.command]

    def parser(self) -> Parser:
        """As declared."""
        kind, interval_ns = self.flow.kind, ns(self.flow.interval_s)
        return DeclaredParser(self.number, self._options.parser, kind=kind, interval_ns=interval_ns)

    def ends_itself(self) -> bool:
        """The end of a command is not known."""
        return self.flow.duration_s is None

    def complaint(self) -> str | None:
        """Faults of what the user wrote."""
        if self._mistakes:
            return "; ".join(f"{written_path(('options', *key))}: {what}" for key, what in self._mistakes)
        if not self._options.command:
            return "options.command: is missing: what is to be run?"
        if shutil.which(self.called()) is None:
            return f"options.command: there is no program {self.called()!r} here: install it, or give its path"
        return None

    def secrets(self) -> Sequence[str]:
        """The values that the user calls secret, and all values of the environment that he set."""
        return [*self._options.secrets, *(value for value in self._options.environment.values() if len(value) > 3)]

    def environment(self) -> Mapping[str, str]:
        """The user's settings."""
        return self._options.environment

    def called(self) -> str:
        """As the user calls it."""
        return self._options.command[0] if self._options.command else self.name

    def advice(self, message: str) -> str:
        """The name for messages."""
        return message if message.startswith(self.called()) else f"{self.called()}: {message}"


def _filled(word: str, known: Mapping[str, str]) -> str:
    """Only these names in braces are filled in: words of other languages (awk's, JSON's) have braces too."""
    for name, value in known.items():
        word = word.replace(name, value)
    return word

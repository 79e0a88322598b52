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

from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners.parsing.base import Parser, ns
from whydrop.measure.runners.parsing.declared import DeclarationError, DeclaredParser, declared
from whydrop.measure.runners.program import ProgramRunner

_SIGNALS = {name: signal.Signals[f"SIG{name}"] for name in ("INT", "TERM", "HUP", "QUIT")}
_DEFAULT_PARSER = {"format": "regex", "pattern": r"(?P<value>[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"}


class CommandRunner(ProgramRunner):
    """A user's own command; where its output does not end by itself, the end of the flow's time ends it."""

    name = "command"

    def __init__(self, flow: PlannedFlow, number: int) -> None:
        super().__init__(flow, number)
        self.stop_signal = _SIGNALS.get(str(flow.options.get("stop_signal", "INT")), signal.SIGINT)

    def command(self) -> list[str]:
        """Its words, with what is known of the flow filled in; never a shell."""
        flow = self.flow
        known = {
            "{host}": flow.host or "",
            "{port}": str(flow.port or ""),
            "{duration_s}": f"{flow.duration_s:g}" if flow.duration_s is not None else "",
            "{interval_s}": f"{flow.interval_s:g}",
        }
        return [_filled(word, known) for word in self._words()]

    def _words(self) -> list[str]:
        command = self.flow.options.get("command")
        if isinstance(command, str):
            return shlex.split(command)
        return [str(word) for word in command] if isinstance(command, (list, tuple)) else []

    def parser(self) -> Parser:
        """As declared; the first number of each line if nothing was."""
        try:
            declaration = declared(self.flow.options.get("parser", _DEFAULT_PARSER))
        except DeclarationError:
            # check() says so; until then there is something to hold on to
            declaration = declared(_DEFAULT_PARSER)
        return DeclaredParser(self.number, declaration, kind=self.flow.kind, interval_ns=ns(self.flow.interval_s))

    def ends_itself(self) -> bool:
        """The end of a command is not known."""
        return self.flow.duration_s is None

    def complaint(self) -> str | None:
        """Faults of what the user wrote."""
        options = self.flow.options
        try:
            words = self._words()
        except ValueError as reason:
            return f"options.command: {reason}"
        if not words or not words[0]:
            return 'options.command: expected a program and its arguments, such as ["sensors", "-u"]'
        try:
            declared(options.get("parser", _DEFAULT_PARSER))
        except DeclarationError as reason:
            return f"options.{reason}"
        environment = options.get("environment", {})
        if not isinstance(environment, dict) or any("=" in str(key) or "\0" in str(key) for key in environment):
            return 'options.environment: expected a table such as { NAME = "value" }'
        if not all(isinstance(secret, str) for secret in _as_list(options.get("secrets", []))):
            return "options.secrets: expected a list of texts"
        if options.get("stop_signal", "INT") not in _SIGNALS:
            return f"options.stop_signal: expected {', '.join(_SIGNALS)}, not {options['stop_signal']!r}"
        if shutil.which(words[0]) is None:
            return f"options.command: there is no program {words[0]!r} here: install it, or give its path"
        return None

    def secrets(self) -> Sequence[str]:
        """The values that the user calls secret, and all values of the environment that he set."""
        environment = self.flow.options.get("environment", {})
        values = [str(value) for value in environment.values()] if isinstance(environment, dict) else []
        return [
            *map(str, _as_list(self.flow.options.get("secrets", []))),
            *(value for value in values if len(value) > 3),
        ]

    def environment(self) -> Mapping[str, str]:
        """The user's settings."""
        environment = self.flow.options.get("environment", {})
        return {str(key): str(value) for key, value in environment.items()} if isinstance(environment, dict) else {}

    def called(self) -> str:
        """As the user calls it."""
        words = self._words()
        return words[0] if words else self.name

    def advice(self, message: str) -> str:
        """The name for messages."""
        return message if message.startswith(self.called()) else f"{self.called()}: {message}"


def _as_list(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _filled(word: str, known: Mapping[str, str]) -> str:
    """Only these names in braces are filled in: words of other languages (awk's, JSON's) have braces too."""
    for name, value in known.items():
        word = word.replace(name, value)
    return word

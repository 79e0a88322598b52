"""Flent's batch files (INI) as ours (TOML): the same runs, and a note for each thing that has no counterpart."""

from __future__ import annotations

import configparser
import re
import shlex
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from whydrop.errors import Error
from whydrop.measure.batch import toml_writing
from whydrop.measure.batch.variables import escaped, names_in
from whydrop.measure.tests.loading import load, names
from whydrop.runtime.user_files.quantities import CODE_POINTS

_KINDS = {"batch": "batch", "arg": "argument", "command": "command"}

# Options copied as text under the names of whydrop.
_TEXTS = {
    "test_name": "test",
    "length": "length_s",
    "delay": "delay_s",
    "step_size": "step_s",
    "ip_version": "ip_version",
    "title": "title",
    "note": "note",
    "output_path": "output",
    "data_dir": "output",
    "pause": "pause_s",
    "repetitions": "repetitions",
}
# Options that are parameters of our tests: their names, and what their value is multiplied by.
_PARAMETERS = {
    "http_getter_timeout": ("http_timeout_s", 1e-3),
    "http_getter_workers": ("http_workers", None),
    "http_getter_urllist": ("http_url_list", None),
    "irtt_sample_interval": ("probe_interval_s", 1e-3),
    "swap_updown": ("swap_directions", None),
    "local_bind": ("local_address", None),
}
# Test parameters that have other names here.
_RENAMED = {"burst_tos": "burst_marking", "burst_ports": None}
# Options for what whydrop always does.
_ALWAYS = {
    "socket_stats": "TCP_INFO of every flow is always recorded",
    "extended_metadata": "metadata of this host is always recorded",
    "remote_metadata": "metadata of the far end comes through the responder",
    "debug_log": "commands' output is always kept beside the recording",
    "debug_error": "errors always say all that is known",
    "log_file": "commands' output is always kept beside the recording",
}
_NO_COUNTERPART = {
    "remote_hosts": "runs flows from this host only; start a batch on the other host",
    "control_host": "the engine has one control connection to the host itself",
    "control_local_bind": "the control connection leaves from where the flows do (local_address)",
    **dict.fromkeys(
        ("netperf_control_port", "netperf_control_host", "netperf_control_local_bind"),
        'only `with = "netperf"` has it',
    ),
    **dict.fromkeys(
        ("ditg_control_host", "ditg_control_port", "ditg_control_local_bind", "ditg_secret"),
        "D-ITG is not used; VoIP streams come from the engine",
    ),
    "http_getter_dns": "names are resolved by the system",
    "socket_timeout": "late probes are recorded as late",
    "send_size": "the engine hands data over in pieces that suit the rate",
    "test_payload": "the engine's payload is random already",
    "marking_name": "code points are written as names or numbers",
    "marking_names": "code points are written as names or numbers",
    "plot": "draw with `whydrop plot`",
    "format": "print with `whydrop show`, draw with `whydrop plot`",
    "output": "print with `whydrop show`, draw with `whydrop plot`",
    "filename_extra": "recordings are named by test, time and title; kept as a variable",
    "rcfile": "there is no configuration file",
    "cache_file": "there is no cache",
    "gui": "there is no graphical interface for batches",
}
_KNOWN_TO_FLENT = {"batch_name", "batch_time", "repetition", "local_host"}
# Variables that Flent's settings provide, under our names.
_VARIABLES = {
    "test_name": "test",
    "name": "test",
    "length": "length_s",
    "delay": "delay_s",
    "step_size": "step_s",
    "output_path": "output",
    "pause": "pause_s",
    "host": "host",
    "hosts": "hosts",
}
_TRUTHS = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}


class ConversionError(Error, ValueError):
    """A file that is none of Flent's batch files."""


@dataclass
class Converted:
    """A batch file as TOML.

    Attributes:
        notes: what has no counterpart, with section and option.
    """

    text: str
    notes: list[str] = field(default_factory=list)


def convert(path: Path) -> Converted:
    """Convert a batch file of Flent's.

    Raises:
        ConversionError: it is none.
        OSError: it cannot be read.
    """
    sections = _sections(path)
    return _Conversion(sections).converted(path.name)


Sections = dict[tuple[str, str], dict[str, str]]


def _sections(path: Path) -> Sections:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_bytes().decode(), source=str(path))
    except (configparser.Error, UnicodeDecodeError) as reason:
        raise ConversionError(f"{path}: not an INI file: {' '.join(str(reason).split())}") from None
    found: Sections = {}
    for section in parser.sections():
        kind, separator, name = section.partition("::")
        if not separator or kind.lower() not in _KINDS:
            raise ConversionError(
                f"{path}: section [{section}]: expected [Batch::name], [Arg::name] or [Command::name]"
            )
        found[_KINDS[kind.lower()], name.lower()] = dict(parser.items(section))
    if not any(kind == "batch" for kind, _ in found):
        raise ConversionError(f"{path}: no [Batch::name] section; expected a batch file of Flent's")
    return found


class _Conversion:
    def __init__(self, sections: Sections) -> None:
        self.sections = sections
        self.notes: list[str] = []
        self.parameters = _parameters_of(self._tests())
        self.defined = {key for section in sections.values() for key in section} | _KNOWN_TO_FLENT | set(_VARIABLES)

    def converted(self, name: str) -> Converted:
        tables: dict[str, Any] = {"schema": 1}
        for (kind, section), options in self.sections.items():
            make = self._command if kind == "command" else self._settings
            tables.setdefault(kind, {})[section] = make(kind, section, options)
        self._order_of_inheritance()
        for section in tables["batch"]:
            self._leave_unknown(section, tables["batch"][section])
            self._tolerate(section, tables)
        lines = [f"# Converted from Flent's batch file {name}."]
        lines += [f"# Note: {note}" for note in self.notes]
        return Converted("\n".join(lines) + "\n\n" + toml_writing.document(tables), self.notes)

    def _tests(self) -> list[str]:
        """The tests that the file names; all where a name is only known when the batch runs."""
        named = {options["test_name"] for options in self.sections.values() if "test_name" in options}
        known = set(names())
        for name in sorted(named):
            if "${" not in name and name not in known:
                self.notes.append(f"test_name {name}: whydrop has no such test (see `whydrop tests`)")
        return sorted(known if any("${" in name for name in named) else named & known)

    def _leave_unknown(self, name: str, table: dict[str, Any]) -> None:
        """Where nothing gives a variable a value Flent leaves it as it stands; here it then says so itself."""
        chain = self._lineage("batch", name)
        if _TRUTHS.get(self.sections["batch", name].get("abstract", "no").lower()):
            return
        known = {key for section in chain for key in section} | _KNOWN_TO_FLENT | set(_VARIABLES)
        needed = {variable for section in chain for variable in _named(section)}
        axes = {key: value for section in chain for key, value in section.items() if key.startswith("for_")}
        for value in axes.values():
            arguments = [self._lineage("argument", argument) for argument in self._matching(value)]
            of_each = [{key for section in sections for key in section} for sections in arguments]
            known |= set.intersection(*of_each) if of_each else set()
            needed |= {variable for sections in arguments for section in sections for variable in _named(section)}
        for command in (section for kind, section in self.sections if kind == "command"):
            own = self._lineage("command", command)
            needed |= {variable for section in own for variable in _named(section)} - {k for one in own for k in one}
        for variable in sorted(needed & self.defined - known):
            table.setdefault("variables", {})[variable] = f"$${{{variable}}}"
            self._note(name, variable, "has a value only with some arguments or none; Flent leaves it as it stands")

    def _tolerate(self, name: str, tables: dict[str, Any]) -> None:
        """Flent's tests ignore unknown parameters; those of whydrop refuse them without this option."""
        chain = self._lineage("batch", name)
        test = {key: value for section in chain for key, value in section.items()}.get("test_name", "")
        if "test_name" in self.sections["batch", name] and test in names():
            every = [*tables.get("argument", {}).values(), *tables["batch"].values()]
            if {key for table in every for key in table.get("set", {})} - _parameters_of([test]):
                tables["batch"][name]["lenient"] = True

    def _lineage(self, kind: str, name: str) -> list[dict[str, str]]:
        """A section and those that it inherits from, nearest last."""
        found: dict[str, dict[str, str]] = {}
        pending = [name]
        while pending:
            one = pending.pop()
            if one not in found:
                section = found[one] = self.sections[kind, one]
                pending += _names(section.get("inherits", ""))
        return list(found.values())[::-1]

    def _matching(self, patterns: str) -> list[str]:
        known = [section for kind, section in self.sections if kind == "argument"]
        return [name for name in known if any(fnmatchcase(name, each.strip().lower()) for each in _split(patterns))]

    # --- batches and arguments ---

    def _settings(self, kind: str, name: str, options: dict[str, str]) -> dict[str, Any]:
        table: dict[str, Any] = {}
        parameters: dict[str, Any] = {}
        variables: dict[str, Any] = {}
        for key, value in options.items():
            if key == "inherits":
                table[key] = self._inherited(kind, name, value)
            elif key in _TEXTS:
                table[_TEXTS[key]] = self._typed(_TEXTS[key], value)
            elif key in ("hosts", "host", "commands"):
                table["commands" if key == "commands" else "hosts"] = self._texts(value)
            elif key in ("test_parameters", "test_parameter"):
                parameters |= self._test_parameters(name, value, variables)
                table["replace_set"] = True
            elif key in _PARAMETERS:
                parameters |= self._parameter(key, value)
            elif key.startswith("for_"):
                self._axis(kind, name, table, key, value)
            elif key in ("abstract", "disabled", "enabled"):
                self._switch(kind, name, table, key, value)
            else:
                self._variable(name, variables, key, value)
        if not self._sets_elsewhere(kind, name):
            table.pop("replace_set", None)
        return table | {key: part for key, part in (("set", parameters), ("variables", variables)) if part}

    def _inherited(self, kind: str, name: str, value: str) -> list[str]:
        parents = _names(value)
        for parent in parents:
            if (kind, parent) not in self.sections:
                raise ConversionError(f"[{kind}::{name}] inherits from {parent!r}, which is not there")
        return parents

    def _sets_elsewhere(self, kind: str, name: str) -> bool:
        """True if another table could have set parameters that these replace, as they do in Flent."""
        return any(
            "test_parameters" in options or "test_parameter" in options
            for (other, section), options in self.sections.items()
            if other != "command" and (other, section) != (kind, name)
        )

    def _axis(self, kind: str, name: str, table: dict[str, Any], key: str, value: str) -> None:
        if kind != "batch":
            self._note(name, key, "arguments have no loops")
            return
        patterns = [pattern.strip().lower() for pattern in _split(value)]
        known = [section for of, section in self.sections if of == "argument"]
        for pattern in patterns:
            if not any(fnmatchcase(argument, pattern) for argument in known):
                raise ConversionError(f"[Batch::{name}] {key}: no [Arg::...] section matches {pattern!r}")
        table.setdefault("for", {})[key.removeprefix("for_")] = patterns

    def _switch(self, kind: str, name: str, table: dict[str, Any], key: str, value: str) -> None:
        truth = _TRUTHS.get(value.strip().lower())
        if truth is not None and kind != "argument":
            table["disabled" if key == "enabled" else key] = truth != (key == "enabled")
        elif kind == "command" and key != "enabled":
            table[key] = self._text(value)
        elif kind == "command":
            self._note(name, key, f"its value {value!r} is only known later; say disabled instead")
        else:
            self._note(name, key, f"its value {value!r} is neither yes nor no here; left out")

    def _variable(self, name: str, variables: dict[str, Any], key: str, value: str) -> None:
        if why := _ALWAYS.get(key) or _NO_COUNTERPART.get(key):
            self._note(name, key, why)
        # Other texts may name it, whatever it was for.
        if key not in _ALWAYS:
            variables[key] = self._text(value)

    def _test_parameters(self, name: str, value: str, variables: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for part in _split(value, ";"):
            key, equals, setting = (word.strip() for word in part.partition("="))
            key = key.lower()
            ours = _RENAMED.get(key, key)
            if not equals:
                self._note(name, "test_parameters", f"{part!r} is not KEY=VALUE; left out")
            elif ours is None:
                self._note(name, f"test_parameters {key}", "has no counterpart; left out")
            elif ours not in self.parameters:
                self._note(name, f"test_parameters {key}", "no test here takes it; kept as a variable")
                variables[key] = self._text(setting)
            else:
                found[ours] = self._marking(setting) if "marking" in ours else self._text(setting)
        return found

    def _marking(self, value: str) -> str:
        """Flent's numbers are whole bytes of the IP header, ours are code points."""
        marks = [mark.strip() for mark in value.split(",")]
        return ",".join(
            _code_point(mark) if re.fullmatch(r"0[xX][0-9a-fA-F]+|[0-9]+", mark) else self._text(mark) for mark in marks
        )

    def _parameter(self, key: str, value: str) -> dict[str, Any]:
        ours, factor = _PARAMETERS[key]
        if factor is None:
            return {ours: self._typed(ours, value)}
        try:
            return {ours: float(f"{float(value) * factor:.12g}")}
        except ValueError:
            return {ours: f"{self._text(value)} ms"}

    # --- commands ---

    def _command(self, kind: str, name: str, options: dict[str, str]) -> dict[str, Any]:
        table: dict[str, Any] = {}
        for key, value in options.items():
            if key == "inherits":
                table["inherits"] = self._inherited("command", name, value)
            elif key == "exec":
                table["run"] = self._text(value.strip())
            elif key == "type":
                if value.strip() not in ("pre", "post", "monitor"):
                    raise ConversionError(f"[Command::{name}] type: {value!r}: expected pre, post or monitor")
                table["kind"] = value.strip()
            elif key in ("essential", "kill", "disabled", "enabled"):
                self._switch(kind, name, table, key, value)
            elif key == "extra_commands":
                table["also"] = self._texts(value)
            else:
                table.setdefault("variables", {})[key] = self._text(value)
        return table

    # --- values ---

    def _text(self, value: str) -> str:
        """Variables under our names; what Flent leaves to the shell, because nothing defines it, is escaped."""
        kept = escaped(value, lambda name: name.lower() in self.defined)
        return re.sub(
            r"(?<!\$)\$\{([^{}]+)\}", lambda match: f"${{{_VARIABLES.get(match[1].lower(), match[1])}}}", kept
        )

    def _texts(self, value: str) -> list[str]:
        return [self._text(part) for part in _split(value)]

    def _typed(self, key: str, value: str) -> Any:
        """A number where the option is one and says one."""
        text = value.strip()
        if key in ("title", "note", "output", "test"):
            return self._text(value)
        if re.fullmatch(r"\d+", text):
            return int(text)
        if re.fullmatch(r"\d*\.\d+", text):
            return float(text)
        return _TRUTHS[text.lower()] if text.lower() in _TRUTHS else self._text(value)

    def _note(self, section: str, key: str, why: str) -> None:
        note = f"{section}: {key}: {why}"
        if note not in self.notes:
            self.notes.append(note)

    def _order_of_inheritance(self) -> None:
        """Flent loses what a parent inherits where the parent stands below its child; ours does not."""
        place = {key: number for number, key in enumerate(self.sections)}
        for (kind, name), options in self.sections.items():
            for parent in _names(options.get("inherits", "")):
                if place.get((kind, parent), -1) > place[kind, name] and "inherits" in self.sections[kind, parent]:
                    what = f"{parent} stands below and inherits itself; Flent would lose what that inherits"
                    self._note(name, "inherits", what)


def _names(value: str) -> list[str]:
    return [name.strip().lower() for name in value.split(",") if name.strip()]


def _named(section: dict[str, str]) -> set[str]:
    return {name.lower() for value in section.values() for name in names_in(value)}


def _parameters_of(tests: list[str]) -> set[str]:
    """All parameters of these tests, under every name."""
    described = [item for test in tests for item in load(test).parameters.items()]
    return {name for parameter, one in described for name in (parameter, *one.aliases)}


def _code_point(byte: str) -> str:
    value = int(byte, 16) if byte.lower().startswith("0x") else int(byte)
    names = {code: name for name, code in CODE_POINTS.items() if name.startswith(("CS", "AF", "EF"))}
    return names.get(value >> 2, str(value >> 2))


def _split(value: str, separators: str = ",;") -> list[str]:
    """As Flent splits lists: at commas and semicolons, but not within quotes."""
    try:
        lexer = shlex.shlex(value, posix=True)
        lexer.whitespace_split = True
        lexer.whitespace = separators
        return [part.strip() for part in lexer if part.strip()]
    except ValueError:
        return [part.strip() for part in re.split(f"[{separators}]", value) if part.strip()]

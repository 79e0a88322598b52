"""The schema of a test file. ``docs/writing-tests.md`` is made from it, so every field says what it is."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import core_schema

from whydrop.measure.tests.expressions import Template, is_template
from whydrop.runtime.user_files import quantities
from whydrop.runtime.user_files.spelling import suggestion

KINDS = ("tcp", "udp", "probe", "icmp", "burst", "http", "value")
RUNNERS = (
    "engine",
    "iperf3",
    "netperf",
    "irtt",
    "stamp",
    "msak",
    "ping",
    "fping",
    "nuttcp",
    "http",
    "responsiveness",
    "command",
)
WAYS = ("mean", "sum", "fairness", "difference-from-min", "smooth-mean")
TYPES = ("integer", "number", "text", "boolean", "list", "duration", "rate", "size", "dscp")
FAMILIES = {
    "latency": "latency, idle and under load",
    "rrul": "Realtime Response Under Load and its variants",
    "rtt-fairness": "flows to several hosts with different round-trip times",
    "tcp": "TCP flows up, down and in both directions",
    "congestion-control": "duels of congestion controls",
    "udp": "UDP streams, floods and bursts",
    "application": "what applications feel: voice and web pages",
    "host": "measurements on the hosts: queues, processors, commands",
}


@dataclass(frozen=True)
class Expects:
    """The values that a field takes, or an expression that yields one when the test is resolved.

    Attributes:
        words: for the documentation.
        parse: of a value; ``None`` where the field's own type says enough.
        computable: whether an expression may stand for it.
    """

    words: str
    parse: Callable[[Any], Any] | None = None
    computable: bool = True

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Read the value before pydantic checks the type."""
        inner = handler(source)
        return inner if self.parse is None else core_schema.no_info_before_validator_function(self._read, inner)

    def _read(self, value: Any) -> Any:
        if self.computable and is_template(value):
            Template(value).names()
            return Template(value)
        assert self.parse is not None
        return self.parse(value)


def whole(value: Any) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise ValueError(f"{value!r}: expected a whole number")
    return int(value)


def truth(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r}: expected true or false")
    return value


def text(value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r}: expected a text in quotes")
    return value


def _ip_version(value: Any) -> int:
    if value not in (4, 6) or isinstance(value, bool):
        raise ValueError(f"{value!r}: expected 4 or 6")
    return int(value)


def address(value: Any) -> str:
    """An address of IPv4 or IPv6."""
    import ipaddress

    try:
        return str(ipaddress.ip_address(value if isinstance(value, str) else ""))
    except ValueError:
        raise ValueError(f"{value!r}: expected an address of this host, such as 192.0.2.7 or 2001:db8::7") from None


def _items(value: Any) -> Any:
    if not isinstance(value, list):
        raise ValueError(f"{value!r}: expected a list, or an expression that yields one")
    return value


def texts(value: Any) -> Any:
    """A text is a list of one."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError(f"{value!r}: expected a text or a list of texts")
    return items


def _one_of(choices: Iterable[str], *, computable: bool = False) -> Expects:
    names = tuple(choices)

    def parse(value: Any) -> str:
        if value in names:
            return str(value)
        raise ValueError(f"{value!r}: expected one of {', '.join(names)}{suggestion(str(value), names)}")

    return Expects(", ".join(names), parse, computable)


Seconds = Annotated[Any, Expects("time", quantities.seconds)]
Rate = Annotated[Any, Expects("rate", quantities.rate_bps)]
Size = Annotated[Any, Expects("size", quantities.size_bytes)]
CodePoint = Annotated[Any, Expects("DSCP", quantities.dscp)]
Whole = Annotated[Any, Expects("whole number", whole)]
Truth = Annotated[Any, Expects("true or false", truth)]
Text = Annotated[Any, Expects("text", text)]
Items = Annotated[Any, Expects("list", _items)]
Address = Annotated[Any, Expects("address", address)]
Version = Annotated[Any, Expects("4 or 6", _ip_version)]
Condition = Annotated[Any, Expects("condition", truth)]
DirectionName = Annotated[Any, _one_of(("up", "down", "both"), computable=True)]
RunnerName = Annotated[Any, _one_of(RUNNERS, computable=True)]
Texts = Annotated[list[str], Expects("text or list of texts", texts, computable=False)]


class Table(BaseModel):
    """A table of a file that a user writes."""

    model_config = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)


class FlowSettings(Table):
    """The settings of a flow, where it is made and where it is changed."""

    kind: Annotated[Any, _one_of(KINDS)] = Field(default=None, description="Kind of the flow; see the kinds above.")
    direction: DirectionName = Field(
        default=None,
        description="`up` is from here to the host. TCP and UDP flows: `up` or `down`; probes are always `both`.",
    )
    runner: RunnerName = Field(
        default="engine",
        description="Program that measures: `engine` is whydrop itself, the others are programs of that name.",
    )
    host: Text = Field(default=None, description="The far end; by default the first host. Empty: none.")
    port: Whole = Field(default=None, description="Port of another program's server; not for the engine.")
    ip_version: Version = Field(default=None, description="IP version; by default either.")
    local_address: Address = Field(default=None, description="Source address of its packets, of this host.")
    interface: Text = Field(
        default=None, description="Outgoing interface of its packets, of this host (`SO_BINDTODEVICE`)."
    )
    during: Annotated[Any, _one_of(("load", "whole"))] = Field(
        default=None,
        description="`load`: from `delay_s` on for `length_s`; `whole`: the whole test. Defaults to `load` for `tcp`, "
        "`udp` and `burst`, to `whole` for the other kinds.",
    )
    start_s: Seconds = Field(default=None, description="Start, after the start of the test; overrides `during`.")
    duration_s: Seconds = Field(default=None, description="Duration; overrides `during`.")
    interval_s: Seconds = Field(
        default=None,
        description="For probes: time from one to the next. For other flows: interval of the counts at the receiver. "
        "Defaults to `probe_interval_s` for `probe`, `icmp_interval_s` for `icmp`, else `step_s`.",
    )
    dscp: CodePoint = Field(
        default=0, description="Code point of all its packets, in both directions: 0–63, a name, or `tos 0xb8`."
    )
    ecn: Truth = Field(default=None, description="Request explicit congestion notification, or refuse it.")
    congestion_control: Text = Field(default=None, description="Congestion control of the TCP sender.")
    rate_bps: Rate = Field(default=None, description="Fixed rate of the application; UDP needs one.")
    pacing_rate_bps: Rate = Field(default=None, description="Upper limit of the transport (`SO_MAX_PACING_RATE`).")
    send_buffer_bytes: Size = Field(default=None, description="Send buffer of the TCP sender.")
    receive_buffer_bytes: Size = Field(default=None, description="Receive buffer of the TCP receiver.")
    payload_bytes: Size = Field(default=None, description="A TCP flow ends after this many sent bytes.")
    packet_payload_bytes: Size = Field(default=None, description="UDP payload of each packet.")
    on_s: Seconds = Field(default=None, description="Square wave: `on_s` on, then `off_s` off, repeated.")
    off_s: Seconds = Field(default=None, description="See `on_s`.")
    packets_per_burst: Whole = Field(default=None, description="For kind `burst`: packets in one burst.")
    burst_every_s: Seconds = Field(
        default=None, description="For kind `burst`: time from the start of one burst to the next."
    )
    timeout_s: Seconds = Field(default=None, description="For probes: a later answer counts as late.")
    units: Text = Field(default=None, description="For kind `value`: unit of its values.")
    optional: Truth = Field(
        default=False,
        description="If the flow cannot run, the test continues without it and reports it; any other flow must run.",
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the runner; may hold expressions.")


# Of each setting that a user, or an expression, gives a value.
PARSERS: dict[str, Callable[[Any], Any]] = {
    name: expected.parse
    for name, setting in FlowSettings.model_fields.items()
    for expected in setting.metadata
    if isinstance(expected, Expects) and expected.parse is not None
}


class Flow(FlowSettings):
    """One flow, or several that differ in what `each` or `repeat` says."""

    name: Text = Field(
        description="Name of the series, unique in the test. With `repeat` or `each`, it must hold expressions."
    )
    each: dict[str, Items] = Field(
        default_factory=dict,
        description="One flow for each item of each list: the item is a variable of the list's name. Several lists "
        "give all combinations. Items may be tables: `${m.label}`.",
    )
    repeat: Whole = Field(default=None, description="Number of flows, numbered by `${number}`.")
    when: Condition = Field(default=None, description="The flow exists only if this expression is true.")


class Change(FlowSettings):
    """A change of flows that other tables, or the tests extended, have made; all other fields are those of a flow."""

    match: Texts = Field(description="Patterns over names of flows: `*`, `?`, `[abc]`.")
    when: Condition = Field(default=None, description="The change is made only if this expression is true.")


class Series(Table):
    """A series computed from others, step by step. A step in which one of them has no value has none either."""

    name: Text = Field(description="Unique in the test.")
    by: Annotated[Any, _one_of(WAYS)] = Field(
        description="`fairness` is Jain's index; `difference-from-min` subtracts the minimum of the whole series."
    )
    of: Texts = Field(description="Patterns over names of flows, or names of series such as `VoIP::owd_up`.")
    without: Texts = Field(default_factory=list, description="Patterns over names to leave out.")
    units: str = Field(default="Mbit/s", description="Unit of its values.")
    when: Condition = Field(default=None, description="The series exists only if this expression is true.")


class Parameter(Table):
    """A parameter that a user may set with `--set NAME=VALUE`."""

    type: Annotated[Any, _one_of(TYPES)] = Field(
        default=None, description="Type of its value. Times, rates and sizes may have units."
    )
    default: Any = Field(
        default=None, description="Default value; may be computed. Without it, an unset parameter has no value."
    )
    required: bool = Field(default=False, description="The parameter must be set.")
    minimum: float | int | None = Field(default=None, description="Minimum; for a list, minimum number of items.")
    maximum: float | int | None = Field(default=None, description="Maximum; for a list, maximum number of items.")
    choices: list[Any] | None = Field(default=None, description="Allowed values.")
    items: Annotated[Any, _one_of(TYPES)] = Field(default="text", description="For a list: type of its items.")
    help: str | None = Field(default=None, description="Its effect, in one line.")
    aliases: list[str] = Field(default_factory=list, description="Other names, for example those of other tools.")


class Variant(Table):
    """A test of its own name that is this one with other values of its parameters."""

    title: str = Field(description="As of a test.")
    description: str | None = Field(default=None, description="As of a test; by default that of the test itself.")
    shows: str | None = Field(default=None, description="As of a test.")
    set: dict[str, Any] = Field(default_factory=dict, description="Parameters and their values, as by `--set`.")


class Hosts(Table):
    """How many far ends a test takes."""

    minimum: int = Field(default=1, ge=0, description="Minimum number.")
    maximum: int | None = Field(default=None, description="Maximum number; by default any.")


def _hosts(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"minimum": value, "maximum": value}
    return value


class TestFile(Table):
    """The top of a test file."""

    __test__ = False  # not a test of pytest's

    schema_version: Literal[1] = Field(default=1, alias="schema", description="Version of this schema: 1.")
    title: str | None = Field(default=None, description="One line for lists.")
    description: str | None = Field(default=None, description="Flows that the test runs.")
    shows: str | None = Field(default=None, description="What the result shows, and how to read it.")
    family: Annotated[Any, _one_of(FAMILIES)] = Field(default=None, description="Group in lists.")
    abstract: bool = Field(default=False, description="For `extends` only: the test is not listed and cannot be run.")
    extends: Texts = Field(
        default_factory=list,
        description="Tests to inherit from: names in the catalogue, or paths relative to this file. Later "
        "ones override earlier ones, and this file overrides them all.",
    )
    hosts: Annotated[Hosts | None, Expects("number, or a table", _hosts, computable=False)] = Field(
        default=None, description="Number of far ends: a number, or `{ minimum = 1 }`."
    )
    length_s: Seconds = Field(default=None, description="Duration of the load (60).")
    delay_s: Seconds = Field(default=None, description="Idle time before and after the load (5).")
    step_s: Seconds = Field(default=None, description="Step of the grid on which series are compared (0.2).")
    total_s: Seconds = Field(default=None, description="Duration of the whole test (`${length_s + 2 * delay_s}`).")
    parameters: dict[str, Parameter] = Field(default_factory=dict, description="Parameters that users may set.")
    flows: list[Flow] = Field(default_factory=list, description="Flows that the test runs.")
    change: list[Change] = Field(default_factory=list, description="Changes of flows, made in order.")
    computed: list[Series] = Field(default_factory=list, description="Series computed from others.")
    without: Texts = Field(
        default_factory=list, description="Patterns over names of flows and computed series to leave out."
    )
    plots: Texts = Field(default_factory=list, description="Names of suitable plots.")
    default_plot: str | None = Field(default=None, description="Plot to draw by default.")
    variants: dict[str, Variant] = Field(default_factory=dict, description="Tests that differ in parameters only.")
    example: str | None = Field(default=None, description="A command that runs the test.")


def _number(value: Any) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r}: expected a number")
    return value


def _text(value: Any) -> str:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"{value!r}: expected a text")


_VALUES: dict[str, Callable[[Any], Any]] = {
    "integer": whole,
    "number": _number,
    "text": _text,
    "boolean": truth,
    "duration": quantities.seconds,
    "rate": quantities.rate_bps,
    "size": quantities.size_bytes,
    "dscp": quantities.dscp,
}
_TRUTHS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def coerced(parameter: Parameter, value: Any) -> Any:
    """A value of the parameter's type and within its bounds, from what a user wrote in a file or on a command line.

    Raises:
        ValueError: it is not; says what was expected.
    """
    if parameter.type == "list":
        items = value if isinstance(value, list) else _listed(value)
        found: Any = [_one(parameter.items, item) for item in items]
        _within(parameter, len(found), " items")
        return found
    found = _one(parameter.type or "text", value)
    if isinstance(found, int | float) and not isinstance(found, bool):
        _within(parameter, found, "")
    if parameter.choices is not None and found not in parameter.choices:
        choices = [str(choice) for choice in parameter.choices]
        raise ValueError(f"{found!r}: expected one of {', '.join(choices)}{suggestion(str(found), choices)}")
    return found


def _listed(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [item.strip() for item in value.replace(";", ",").split(",") if item.strip()]
    return [value]


def _one(kind: str, value: Any) -> Any:
    if isinstance(value, str):
        text = value.strip()
        if kind == "boolean" and text.lower() in _TRUTHS:
            return _TRUTHS[text.lower()]
        if kind in ("integer", "number"):
            value = _from_text(text)
    return _VALUES[kind](value)


def _from_text(text: str) -> Any:
    for read in (lambda: int(text, 0), lambda: int(text), lambda: float(text)):
        try:
            return read()
        except ValueError:
            continue
    return text


def _within(parameter: Parameter, value: float, unit: str) -> None:
    low, high = parameter.minimum, parameter.maximum
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"at least {low:g}" if high is None else f"at most {high:g}" if low is None else f"{low:g} to {high:g}"
        raise ValueError(f"{value:g}{unit}: expected {bounds}{unit}")


@functools.cache
def common() -> dict[str, Parameter]:
    """The parameters that every test has."""
    tables = tomllib.loads(Path(__file__).with_name("every-test.toml").read_text())["parameters"]
    return {name: Parameter.model_validate(table) for name, table in tables.items()}

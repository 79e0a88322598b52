"""The schema of a batch file. ``docs/batches.md`` is checked against it, so every field says what it is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from whydrop.measure.tests.schema import Expects, Table, Texts, texts

# A value that is computed later: texts hold ${variables}.
Scalar = str | int | float | bool


def _scalars(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r}: expected a table")
    return value


def _axes(value: Any) -> Any:
    if not isinstance(value, dict) or not all(
        isinstance(items, str | list)
        and all(isinstance(item, str) for item in ([items] if isinstance(items, str) else items))
        for items in value.values()
    ):
        raise ValueError(f"{value!r}: expected a table of lists of names or patterns of arguments")
    return {axis: [items] if isinstance(items, str) else items for axis, items in value.items()}


def _words(value: Any) -> Any:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return value
    raise ValueError(f"{value!r}: expected a command line for the shell, or a list of words")


Time = Annotated[Scalar | None, Expects("time")]
SomeTexts = Annotated[list[str] | None, Expects("text or list of texts", texts, computable=False)]
CommandLine = Annotated[Any, Expects("text for the shell, or list of words", _words, computable=False)]
Axes = Annotated[dict[str, list[str]], Expects("table of lists", _axes, computable=False)]


class Settings(Table):
    """The settings that a batch and an argument can both have: the argument's count."""

    inherits: Texts = Field(
        default_factory=list,
        description="Tables of the same kind to inherit from; later ones override earlier ones, and this table "
        "overrides them all.",
    )
    test: str | None = Field(default=None, description="Test: a name, or the path of a file, relative to this file.")
    run: CommandLine = Field(default=None, description="Command to run in the place of a test.")
    run_length_s: Time = Field(default=None, description="Duration of `run`, for the plan.")
    hosts: SomeTexts = Field(default=None, description="Far ends, as in `--to`; a text may hold several.")
    length_s: Time = Field(default=None, description="As `--duration`.")
    delay_s: Time = Field(default=None, description="As `--set delay_s=`.")
    step_s: Time = Field(default=None, description="As `--set step_s=`.")
    ip_version: Annotated[Scalar | None, Expects("4 or 6")] = Field(
        default=None, description="4 or 6; by default either."
    )
    with_runner: str | None = Field(default=None, alias="with", description="As `--with`.")
    secret_file: str | None = Field(default=None, description="As `--secret-file`; the path is relative to this file.")
    set: Annotated[dict[str, Any], Expects("table", _scalars, computable=False)] = Field(
        default_factory=dict, description="Parameters of the test, merged with those of inherited tables."
    )
    replace_set: bool = Field(default=False, description="Drop the parameters of inherited tables.")
    lenient: bool = Field(
        default=False, description="Parameters that the test does not have become variables instead of errors."
    )
    title: str | None = Field(default=None, description="Title of the recording.")
    note: str | None = Field(default=None, description="Note kept with the recording.")
    output: str | None = Field(default=None, description="Folder of the recording, below `--output`.")
    commands: SomeTexts = Field(default=None, description="Names of commands to run around the test.")
    repetitions: int | str | None = Field(default=None, description="Runs of each combination (1).")
    pause_s: Time = Field(default=None, description="Pause after each run (0).")
    variables: dict[str, Scalar] = Field(
        default_factory=dict, description="Values of `${name}` in any text; they may hold further variables."
    )


class Batch(Settings):
    """Runs of one test with all combinations of arguments."""

    abstract: bool = Field(default=False, description="For inheritance only, not run; this key is not inherited.")
    disabled: bool | str = Field(default=False, description="Not run; this key is inherited. Texts may hold variables.")
    for_: Axes = Field(
        default_factory=dict,
        alias="for",
        description="Axes of the matrix: for each, names or patterns (`*`, `?`) of arguments. Variables may hold "
        "several, separated by commas.",
    )
    matrix: dict[str, list[Scalar]] = Field(
        default_factory=dict,
        description="Further axes of plain values: for each variable, its values; a variable may hold several.",
    )


class Argument(Settings):
    """One value of an axis: variables and settings that it lays over the batch."""


class Command(Table):
    """A command around the runs."""

    inherits: Texts = Field(default_factory=list, description="As of a batch.")
    kind: Literal["pre", "post", "monitor"] | None = Field(
        default=None, description="`pre`: before the run; `post`: after it; `monitor`: beside it."
    )
    run: CommandLine = Field(default=None, description="The command.")
    essential: bool | str = Field(default=False, description="If it fails, the run fails, and the test is not started.")
    kill: bool | str = Field(
        default=False, description="For monitors: end it after the test (SIGTERM, later SIGKILL) instead of waiting."
    )
    timeout_s: Time = Field(
        default=None,
        description="A command that takes longer is killed (60 s; for monitors from the end of the test).",
    )
    disabled: bool | str = Field(default=False, description="Not run. Texts may hold variables.")
    metadata: str | None = Field(
        default=None,
        description="Name under which the recording keeps the command's output (`batch.outputs.NAME`), parsed if it is "
        "JSON. Not for monitors.",
    )
    also: Texts = Field(default_factory=list, description="Further commands to run directly after it.")
    variables: dict[str, Scalar] = Field(
        default_factory=dict, description="Variables of the command; variables of the batch override them."
    )


class BatchFile(Table):
    """The top of a batch file."""

    schema_version: Literal[1] = Field(default=1, alias="schema", description="Version of this schema: 1.")
    shuffle: bool = Field(
        default=True, description="Run in random order, so that slow changes of the path affect all runs alike."
    )
    batch: dict[str, Batch] = Field(default_factory=dict, description="Batches by name.")
    argument: dict[str, Argument] = Field(default_factory=dict, description="Arguments by name.")
    command: dict[str, Command] = Field(default_factory=dict, description="Commands by name.")

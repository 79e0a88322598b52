"""The schema of a batch file. ``docs/batches.md`` is checked against it, so every field says what it is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from whydrop.measure.tests.schema import Expects, Texts, texts

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
SomeTexts = Annotated[list[str] | None, BeforeValidator(texts), Expects("text or list of texts")]
CommandLine = Annotated[Any, BeforeValidator(_words), Expects("text for the shell, or list of words")]
Axes = Annotated[dict[str, list[str]], BeforeValidator(_axes), Expects("table of lists")]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Settings(_Table):
    """The settings that a batch and an argument can both have: the argument's count."""

    inherits: Texts = Field(
        default_factory=list, description="Tables of the same kind; later ones override earlier ones, this one all."
    )
    test: str | None = Field(default=None, description="The test: its name, or the path of its file from this file.")
    run: CommandLine = Field(default=None, description="A command that is run in the place of a test.")
    run_length_s: Time = Field(default=None, description="How long `run` takes, for the plan.")
    hosts: SomeTexts = Field(default=None, description="Far ends, as `--to` takes them; a text may hold several.")
    length_s: Time = Field(default=None, description="As `--duration`.")
    delay_s: Time = Field(default=None, description="As `--set delay_s=`.")
    step_s: Time = Field(default=None, description="As `--set step_s=`.")
    ip_version: Annotated[Scalar | None, Expects("4 or 6")] = Field(
        default=None, description="4 or 6; either where nothing is said."
    )
    with_runner: str | None = Field(default=None, alias="with", description="As `--with`.")
    secret_file: str | None = Field(default=None, description="As `--secret-file`; its path from this file.")
    set: Annotated[dict[str, Any], BeforeValidator(_scalars), Expects("table")] = Field(
        default_factory=dict, description="Parameters of the test, added to those that inherited tables set."
    )
    replace_set: bool = Field(default=False, description="Forget the parameters that inherited tables set.")
    lenient: bool = Field(
        default=False, description="Keep parameters that the test does not have as variables, instead of refusing them."
    )
    title: str | None = Field(default=None, description="Title of the recording.")
    note: str | None = Field(default=None, description="Note kept with the recording.")
    output: str | None = Field(default=None, description="Folder of the recording, below `--output`.")
    commands: SomeTexts = Field(default=None, description="Names of commands that are run around the test.")
    repetitions: int | str | None = Field(default=None, description="How often each combination is run (1).")
    pause_s: Time = Field(default=None, description="Pause behind each run (0).")
    variables: dict[str, Scalar] = Field(
        default_factory=dict, description="What `${name}` stands for in any text; texts may hold further variables."
    )


class Batch(Settings):
    """Runs of one test with all combinations of arguments."""

    abstract: bool = Field(default=False, description="Only to be inherited from; this itself is not inherited.")
    disabled: bool = Field(default=False, description="Not run; this is inherited.")
    for_: Axes = Field(
        default_factory=dict,
        alias="for",
        description="Axes of the matrix: for each, names or patterns (`*`, `?`) of arguments.",
    )
    matrix: dict[str, list[Scalar]] = Field(
        default_factory=dict, description="Further axes: for each variable its values, without arguments of their own."
    )


class Argument(Settings):
    """One value of an axis: variables and settings that it lays over the batch."""


class Command(_Table):
    """A command around the runs."""

    inherits: Texts = Field(default_factory=list, description="As of a batch.")
    kind: Literal["pre", "post", "monitor"] | None = Field(
        default=None, description="`pre` before the run, `post` behind it, `monitor` beside it."
    )
    run: CommandLine = Field(default=None, description="The command.")
    essential: bool | str = Field(default=False, description="If it fails, the run fails, and the test is not started.")
    kill: bool | str = Field(
        default=False, description="Of monitors: end it (SIGTERM, later SIGKILL) behind the test, rather than wait."
    )
    timeout_s: Time = Field(
        default=None,
        description="A command that takes longer is killed: 60 s, of monitors counted from the test's end.",
    )
    disabled: bool | str = Field(default=False, description="Not run; texts may hold variables.")
    also: Texts = Field(default_factory=list, description="Further commands that are run with it, directly behind it.")
    variables: dict[str, Scalar] = Field(
        default_factory=dict, description="Variables of the command; those of the batch override them."
    )


class BatchFile(_Table):
    """The top of a batch file."""

    schema_version: Literal[1] = Field(default=1, alias="schema", description="Version of this schema: 1.")
    shuffle: bool = Field(
        default=True, description="Run in random order, so that slow changes of the path hit all alike."
    )
    batch: dict[str, Batch] = Field(default_factory=dict, description="Batches by name.")
    argument: dict[str, Argument] = Field(default_factory=dict, description="Arguments by name.")
    command: dict[str, Command] = Field(default_factory=dict, description="Commands by name.")

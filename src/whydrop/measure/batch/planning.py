"""The plan of a batch: what its runs would do, and how long they would take, before any of them begins."""

from __future__ import annotations

from collections.abc import Sequence

from whydrop.errors import Mistake
from whydrop.measure.batch.expanding import Run, test_path
from whydrop.measure.places import FarEnd, places
from whydrop.measure.plan import Plan
from whydrop.measure.tests import FileError, SettingError, UnknownTestError, resolve

# Connecting, describing the hosts, waiting for late packets, writing the recording: as a rule of thumb.
AROUND_S = 3.0


class RunsError(Mistake):
    """Runs that cannot be; ``lines`` says for each what is wrong, once."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = list(dict.fromkeys(lines))
        super().__init__("\n".join(self.lines))


def plan_of(run: Run) -> Plan:
    """The plan of a run's test.

    Raises:
        UnknownTestError, FileError, SettingError: as of resolving a test.
    """
    assert run.test is not None
    parameters = dict(run.parameters)
    if run.ip_version is not None:
        parameters["ip_version"] = run.ip_version
    names = [place.name for place in places_of(run)]
    return resolve(test_path(run.test, run.folder), names, parameters, run.with_runner, title=run.title)


def times_s(runs: Sequence[Run]) -> dict[str, float]:
    """How long each run takes, without its pause.

    Raises:
        RunsError: with all that is wrong with any of them.
    """
    found: dict[str, float] = {}
    problems: list[str] = []
    for run in runs:
        if run.run is not None:
            found[run.key] = run.run_length_s
            continue
        try:
            found[run.key] = plan_of(run).total_s + AROUND_S
        except (FileError, SettingError, UnknownTestError, ValueError) as reason:
            problems.extend(f"{run.batch}: {line}" for line in str(reason).splitlines())
    if problems:
        raise RunsError(problems)
    return found


def places_of(run: Run) -> list[FarEnd]:
    """The far ends of a run.

    Raises:
        ValueError: one of them is no place.
    """
    try:
        return places(run.hosts)
    except ValueError as reason:
        raise ValueError(f"hosts: {reason}") from None

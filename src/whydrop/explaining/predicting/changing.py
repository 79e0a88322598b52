"""Changes of a setting, as ``--change`` takes them."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence

from whydrop import _core
from whydrop.errors import Mistake
from whydrop.explaining.predicting.running import Json
from whydrop.explaining.predicting.setting import Candidate


class ChangeError(Mistake):
    """A change that cannot be made; the message says what was expected."""


class _MissingElementError(ChangeError):
    """The path does not have the element that is to be changed."""


def changed_setting(setting: Json, changes: Sequence[str]) -> Json:
    """A setting with changes.

    Raises:
        ChangeError: a change is not understood, does not fit the path, or is undone by a later one.
    """
    # Before each change, and after the last.
    steps = [setting]
    for change in changes:
        try:
            steps.append(_changed(steps[-1], change))
        except LookupError as reason:
            raise _MissingElementError(f"--change {reason}") from None
        except ValueError as reason:
            raise ChangeError(f"--change {reason}") from None
    _refuse_undone(steps, changes)
    return steps[-1]


def _changed(setting: Json, change: str) -> Json:
    changed: Json = json.loads(_core.changed_setting(json.dumps(setting), change))
    return changed


def _refuse_undone(steps: Sequence[Json], changes: Sequence[str]) -> None:
    """Refuse a change that has an effect alone, but none with the changes behind it.

    Args:
        steps: the setting before each change, and after the last.
    """
    for place, change in enumerate(changes):
        before, later = steps[place], changes[place + 1 :]
        if not later or {"most_packets": None, **before} == steps[place + 1]:
            continue
        try:
            without = functools.reduce(_changed, later, before)
        except (LookupError, ValueError):
            # A later change needs it.
            continue
        if without == steps[-1]:
            behind = " and ".join(later)
            raise ChangeError(
                f"--change {change}: it has no effect, since {behind} comes after it; leave one of them out"
            )


def fitting(candidates: Sequence[Candidate], changes: Sequence[str]) -> list[Candidate]:
    """Those of the settings that may have been which have what is changed, before any of them is run.

    Raises:
        ChangeError: a change is not understood, or fits none of the paths.
    """
    found, refusals = [], []
    for one in candidates:
        try:
            changed_setting(one.setting, changes)
        except ChangeError as reason:
            refusals.append(reason)
        else:
            found.append(one)
    if not found:
        # What is wrong with a value says more than which elements the other paths have.
        raise next((one for one in refusals if not isinstance(one, _MissingElementError)), refusals[0])
    return found

"""Changes of a setting, as ``--change`` takes them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from whydrop import _core
from whydrop.errors import Mistake
from whydrop.explaining.predicting.running import Json
from whydrop.explaining.predicting.setting import Candidate

# In a message about an element that the path does not have.
_NO_ELEMENT = "the path has no"


class ChangeError(Mistake):
    """A change that cannot be made; the message says what was expected."""


def changed_setting(setting: Json, changes: Sequence[str]) -> Json:
    """A setting with changes.

    Raises:
        ChangeError: a change is not understood, or does not fit the path.
    """
    text = json.dumps(setting)
    for change in changes:
        try:
            text = _core.changed_setting(text, change)
        except ValueError as reason:
            raise ChangeError(f"--change {reason}") from None
    changed: Json = json.loads(text)
    return changed


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
        raise next((one for one in refusals if _NO_ELEMENT not in str(one)), refusals[0])
    return found

"""Changes of a setting, as ``--change`` takes them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from whydrop import _core
from whydrop.errors import Mistake
from whydrop.explaining.predicting.running import Json
from whydrop.explaining.predicting.setting import Candidate


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


def refuse_unfit(changes: Sequence[str], candidates: Sequence[Candidate]) -> None:
    """Refuse changes that fit none of the settings that may have been, before any of them is run.

    Raises:
        ChangeError: a change is not understood, or fits none of the paths.
    """
    refusals = []
    for one in candidates:
        try:
            changed_setting(one.setting, changes)
        except ChangeError as reason:
            refusals.append(reason)
        else:
            return
    if refusals:
        raise refusals[0]

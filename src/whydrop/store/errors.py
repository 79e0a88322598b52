"""Errors of a store, in words for the person who must act."""

from __future__ import annotations

from whydrop.recording.errors import RecordingError


class StoreError(RecordingError):
    """A store could not be read or written; the message names the file and what to do."""


class DamagedPartError(StoreError):
    """A part that cannot be read.

    Attributes:
        damage: what is wrong with it, without its name.
    """

    def __init__(self, shown: str, damage: str) -> None:
        super().__init__(f"{shown}: {damage}")
        self.damage = damage


class PartGoneError(DamagedPartError):
    """A part that was listed and is not there any more: its rows are in another."""

    def __init__(self, shown: str) -> None:
        super().__init__(shown, "it is not there any more: the store was changed while it was read; try again")

"""Errors of recordings, in words for the person who must act."""

from __future__ import annotations

from whydrop.errors import Error


class RecordingError(Error):
    """A recording could not be read or written; the message names the file and what was expected of it."""

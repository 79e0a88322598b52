"""The base of the errors that whydrop raises for its users."""

from __future__ import annotations


class Error(Exception):
    """Something that the user can act on: an unreadable file, an unreachable host, an impossible setting.

    The message says what is wrong, where, and what was expected. Everything else that is raised is a defect of
    whydrop, or an ``OSError`` with its file name.
    """

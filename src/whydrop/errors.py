"""The base of the errors that whydrop raises for its users."""

from __future__ import annotations


class Error(Exception):
    """Something that the user can act on: an unreadable file, an unreachable host, an impossible setting.

    The message says what is wrong, where, and what was expected. Everything else that is raised is a defect of
    whydrop, or an ``OSError`` with its file name.

    Attributes:
        exit_status: of a command that ends with it: 2 where the command line or a file of the user is wrong, else 1.
    """

    exit_status = 1


class DefectError(Error):
    """A defect of whydrop that ended a call; the message says where. Please report it."""


class MissingExtraError(Error, ImportError):
    """Optional packages are not installed; the message names them, and the command that installs them."""


class UnknownNameError(Error, KeyError):
    """A name that is not known here; the message lists those that are."""

    def __str__(self) -> str:
        """The message; that of a KeyError would be in quotes."""
        return str(self.args[0]) if self.args else ""


class Mistake(Error, ValueError):  # noqa: N818 (it is the user's, not a fault)
    """A mistake in the command line or in a file of the user; the message may have several, one a line."""

    exit_status = 2

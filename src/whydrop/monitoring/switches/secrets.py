"""Secrets of switches: read from files or the environment, and never printed by accident."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from whydrop.errors import Error

LARGEST_BYTES = 1024


class SecretError(Error, ValueError):
    """A secret that cannot be read; the message says why and never quotes it."""


class Secret:
    """A text that only `reveal` shows: not ``str``, ``repr``, formats, pickles or copies."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __repr__(self) -> str:
        return "<secret>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a secret must not be pickled or copied")


def from_file(path: Path) -> tuple[Secret, str | None]:
    """The first line of a file, and a warning if every user of this machine can read it.

    Raises:
        SecretError: it cannot be read, is empty, too long, or more than one line.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(LARGEST_BYTES + 1)
    except OSError as reason:
        raise SecretError(f"{str(path)!r}: {reason.strerror}; expected a file that holds the secret") from None
    if len(content) > LARGEST_BYTES:
        raise SecretError(f"{str(path)!r} has more than {LARGEST_BYTES} bytes; expected a secret on one line")
    secret = _checked(content, repr(str(path)))
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        return secret, f"{str(path)!r} can be read or changed by every user of this machine; run chmod o= on it"
    return secret, None


def from_environment(name: str) -> Secret:
    """A variable of the environment.

    Raises:
        SecretError: it is not set, or holds no secret.
    """
    value = os.environb.get(os.fsencode(name))
    if value is None:
        raise SecretError(f"the environment has no variable {name!r}; expected it to hold the secret")
    if len(value) > LARGEST_BYTES:
        raise SecretError(f"the variable {name!r} has more than {LARGEST_BYTES} bytes")
    return _checked(value, f"the variable {name!r}")


def _checked(content: bytes, where: str) -> Secret:
    try:
        # Some editors write an invisible byte order mark before the text.
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise SecretError(f"{where} is not UTF-8; expected a secret on one line") from None
    if not lines or not lines[0]:
        raise SecretError(f"{where} is empty; expected a secret on its first line")
    if any(line.strip() for line in lines[1:]):
        raise SecretError(f"{where} has {len(lines)} lines; expected the secret alone, on one line")
    return Secret(lines[0])

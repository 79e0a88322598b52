"""The secrets that a responder shares with its clients: where they are read from, and how new ones are written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from whydrop.errors import Mistake

if TYPE_CHECKING:
    from whydrop import _core


class SecretFileError(Mistake):
    """The file of a secret is not safe or is no text; the message says what to do."""


def shared_secret(path: Path | None = None) -> str | None:
    """The secret of a client in a file; without one that of ``WHYDROP_SECRET_FILE``, or ``WHYDROP_SECRET`` itself.

    Raises:
        OSError: the file cannot be read.
        SecretFileError: others can read or change the file, or it holds no secret or several.
    """
    from whydrop import _core

    secret, refusal = _core.shared_secret(path)
    if refusal is not None:
        raise SecretFileError(refusal)
    return secret


def keyring(path: Path | None = None) -> _core.Keyring | None:
    """The secrets of a responder in a file; without one as for :func:`shared_secret`.

    Raises:
        OSError: the file cannot be read.
        SecretFileError: others can read or change the file, or it holds no secret.
        whydrop.Error: a line is invalid.
    """
    from whydrop import _core

    found, refusal = _core.Keyring.read(path)
    if refusal is not None:
        raise SecretFileError(refusal)
    return found


def add_secret(path: Path, line: str) -> None:
    """Add the line of a client to the file of a responder, a new one if there is none.

    Raises:
        OSError: the file cannot be read or written.
        SecretFileError: the name is in the file already, or a line is invalid.
    """
    from whydrop import _core

    try:
        before = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        write_secret(path, line)
        return
    except UnicodeDecodeError:
        raise SecretFileError(f"{path}: not UTF-8 text, so not a file of secrets; nothing was added") from None
    if before and not before.endswith("\n"):
        line = f"\n{line}"
    try:
        _core.Keyring(f"{before}{line}\n")
    except _core.TrafficError as reason:
        raise SecretFileError(f"{path}, {reason}; nothing was added") from None
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def write_secret(path: Path, secret: str) -> None:
    """Write a secret into a new file that its owner alone can read.

    Raises:
        OSError: the file exists, or cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as reason:
        message = f"{reason.strerror}; a secret replaces no file: name a new one, or remove this one"
        raise FileExistsError(reason.errno, message, path) from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{secret}\n")
    except OSError as reason:
        # Such as a full disk: the next try would find the file.
        path.unlink(missing_ok=True)
        raise OSError(reason.errno, reason.strerror, path) from None

"""The secret that a responder and its clients share: where it is read from, and how a new one is written."""

from __future__ import annotations

import os
from pathlib import Path

from whydrop.errors import Mistake


class SecretFileError(Mistake):
    """The file of a secret is not safe or is no text; the message says what to do."""


def shared_secret(path: Path | None = None) -> str | None:
    """The secret in a file; without one that of ``WHYDROP_SECRET_FILE``, or ``WHYDROP_SECRET`` itself.

    Raises:
        OSError: the file cannot be read.
        SecretFileError: others can read or change the file, or it holds no secret.
    """
    from whydrop import _core

    secret, refusal = _core.shared_secret(path)
    if refusal is not None:
        raise SecretFileError(refusal)
    return secret


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

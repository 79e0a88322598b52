"""The secret that a responder and its clients share: where it is read from, and how a new one is written."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from whydrop.errors import Mistake

VARIABLE = "WHYDROP_SECRET"
FILE_VARIABLE = "WHYDROP_SECRET_FILE"
LARGEST_BYTES = 4096


class SecretFileError(Mistake):
    """The file of a secret is not safe or is no text; the message says what to do."""


def shared_secret(path: Path | None = None) -> str | None:
    """The secret in a file; without one that of ``WHYDROP_SECRET_FILE``, or ``WHYDROP_SECRET`` itself.

    Raises:
        OSError: the file cannot be read.
        SecretFileError: others can read or change the file, or it holds no secret.
    """
    if path is None and (named := os.environ.get(FILE_VARIABLE)):
        path = Path(named)
    if path is None:
        return os.environ.get(VARIABLE, "").strip() or None
    try:
        with path.open("rb") as file:
            _refuse_unsafe(path, os.fstat(file.fileno()))
            content = file.read(LARGEST_BYTES + 1)
    except OSError as reason:
        raise OSError(
            reason.errno,
            f"{reason.strerror}; expected the file of the secret (--secret-file or {FILE_VARIABLE})",
            path,
        ) from None
    if len(content) > LARGEST_BYTES:
        raise SecretFileError(f"{path}: more than {LARGEST_BYTES} bytes; {_advice(path)}")
    try:
        secret = content.decode().strip()
    except UnicodeDecodeError:
        raise SecretFileError(f"{path}: not UTF-8 text; {_advice(path)}") from None
    if not secret:
        raise SecretFileError(f"{path}: holds no secret; {_advice(path)}")
    return secret


def _refuse_unsafe(path: Path, status: os.stat_result) -> None:
    """Refuse a regular file that others can read or change.

    Of a file of another user the bits of the group may be those of an access list, as systemd sets one on credentials.
    """
    others = 0o077 if status.st_uid == os.geteuid() else 0o007
    if stat.S_ISREG(status.st_mode) and status.st_mode & others:
        raise SecretFileError(
            f"{path}: other users can read or change the secret (mode {stat.S_IMODE(status.st_mode):04o}); run: "
            f"chmod 600 {shlex.quote(str(path))}"
        )


def _advice(path: Path) -> str:
    return f"make a secret with: whydrop secret -o {shlex.quote(str(path))}"


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

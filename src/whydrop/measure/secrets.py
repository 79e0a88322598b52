"""The secret that a responder and its clients share: from a file, or from the environment."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "WHYDROP_SECRET"
FILE_VARIABLE = "WHYDROP_SECRET_FILE"


def secret(path: Path | None = None) -> str | None:
    """The secret in a file; without one that of ``WHYDROP_SECRET_FILE``, or ``WHYDROP_SECRET`` itself.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not text.
    """
    if path is None and (named := os.environ.get(FILE_VARIABLE)):
        path = Path(named)
    if path is None:
        return os.environ.get(VARIABLE, "").strip() or None
    try:
        return path.read_text("utf-8").strip()
    except OSError as reason:
        raise OSError(
            reason.errno,
            f"{reason.strerror}; expected the file of the secret (--secret-file or {FILE_VARIABLE})",
            path,
        ) from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8 text; make a secret with: head -c 24 /dev/urandom | base64") from None

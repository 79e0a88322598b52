"""Certificates of tests."""

from __future__ import annotations

import subprocess
from pathlib import Path


def certificate(folder: Path, name: str = "page") -> tuple[Path, Path]:
    """A certificate of localhost and its key, made as docs/web.md says."""
    made = folder / f"{name}.crt", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "365", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-out", made[0], "-keyout", made[1]],
        check=True, capture_output=True,
    )  # fmt: skip
    return made

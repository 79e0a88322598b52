"""The token of a server: random, or from a file that only its user can read."""

from __future__ import annotations

import math
import os
import re
import secrets
import stat
from pathlib import Path

from whydrop.errors import Error

# As many guesses as an attacker would need are out of reach for ever.
_LEAST_BITS = 128
_LONGEST = 512


class TokenError(Error):
    """The file of a token cannot be used; the message says what to type."""


def new() -> str:
    """A random token of 144 bits."""
    return secrets.token_urlsafe(18)


def from_file(path: Path) -> str:
    """The token in a file.

    Raises:
        TokenError: there is none, others may read it, or it could be guessed.
    """
    make = f"make one: (umask 077; openssl rand -hex 32 > {path})"
    try:
        # A pipe would let this wait for its writer.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise TokenError(f"{path}: expected a file; {make}")
            text = file.read(_LONGEST + 2).decode("ascii", "replace").strip()
    except OSError as reason:
        raise TokenError(f"{path}: {reason.strerror or reason}; {make}") from None
    if status.st_mode & 0o077:
        raise TokenError(f"{path}: other users of this host may read the token; type: chmod 600 {path}")
    if status.st_uid not in (0, os.geteuid()):
        raise TokenError(f"{path}: belongs to another user, who may change the token; {make}")
    if not re.fullmatch(r"[A-Za-z0-9_.~+/=-]+", text) or len(text) > _LONGEST:
        raise TokenError(f"{path}: expected one line of letters and digits; {make}")
    if most_bits(text) < _LEAST_BITS:
        raise TokenError(f"{path}: the token could be guessed: it has less than {_LEAST_BITS} bits; {make}")
    return text


def most_bits(token: str) -> float:
    """The most randomness that a token can have, in bits, by the kinds of its characters and how they repeat.

    >>> most_bits("0123456789abcdef" * 2), most_bits("a" * 100) < 1
    (128.0, True)
    """
    kinds = 16 if re.fullmatch(r"[0-9a-f]*|[0-9A-F]*", token) else 64
    counts = [token.count(char) for char in set(token)]
    of_repeats = -sum(count / len(token) * math.log2(count / len(token)) for count in counts)
    # A short random text repeats few characters: its own frequencies say less than it holds.
    return len(token) * math.log2(kinds) if of_repeats > 3 else len(token) * of_repeats

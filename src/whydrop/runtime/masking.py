"""Command lines and messages without the secrets in them: a recording is given to others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

MASK = "***"
_SECRET_WORD = r"(?:pass(?:word|wd|phrase)?|pw|secret|token|hmac|api[-_]?key|credentials?|auth(?:orization)?)"
# --password=x, password=x, PASSWORD=x
_ASSIGNED = re.compile(rf"(?i)^(-{{0,2}}(?:[\w-]*[-_])?{_SECRET_WORD}[=:])(.+)$", re.DOTALL)
# --password x
_NAMED = re.compile(rf"(?i)^--(?:[\w-]*[-_])?{_SECRET_WORD}$")
_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")
_NAME = re.compile(rf"(?i)^(?:\w*_)?{_SECRET_WORD}s?$")


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` without these secrets, and without user names and passwords in addresses.

    >>> masked("cannot open http://me:mine@example.net/ with s3cr3t", ["s3cr3t"])
    'cannot open http://***@example.net/ with ***'
    """
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return _IN_URL.sub(f"{MASK}@", text)


def masked_command(arguments: Sequence[str], secrets: Iterable[str] = ()) -> list[str]:
    """A command line without secrets: those that are known, and what follows an option that is called like one.

    >>> masked_command(["irtt", "client", "--hmac=0x1234", "host"])
    ['irtt', 'client', '--hmac=***', 'host']
    >>> masked_command(["read", "--api-key", "1234", "-u", "me"], ["me"])
    ['read', '--api-key', '***', '-u', '***']
    """
    known, shown, hide_next = list(secrets), [], False
    for argument in arguments:
        shown.append(MASK if hide_next else _ASSIGNED.sub(rf"\g<1>{MASK}", masked(argument, known)))
        hide_next = _NAMED.match(argument) is not None
    return shown


def masked_options(options: dict[str, Any]) -> dict[str, Any]:
    """A flow's options as a recording may keep them: values with a secret name are masked.

    >>> masked_options({"hmac": "x", "command": ["read", "--token=y"], "secrets": ["z"], "workers": 4})
    {'hmac': '***', 'command': ['read', '--token=***'], 'secrets': '***', 'workers': 4}
    """
    secrets = [secret for secret in options.get("secrets", ()) if isinstance(secret, str)]
    return {key: MASK if _NAME.match(key) else _masked_value(value, secrets) for key, value in options.items()}


def _masked_value(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        return masked(value, secrets)
    if isinstance(value, (list, tuple)):
        if all(isinstance(item, str) for item in value):
            return masked_command(value, secrets)
        return [_masked_value(item, secrets) for item in value]
    if isinstance(value, dict):
        return {key: MASK if _NAME.match(str(key)) else _masked_value(item, secrets) for key, item in value.items()}
    return value

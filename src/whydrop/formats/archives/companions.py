"""The ``.meta`` beside a web100 test's snaplogs: its server, and the results that its user saw."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from whydrop.formats.archives.names import ndt_file, plain

MOST_BYTES = 1 << 16
_MOST = 400_000  # an archive is an hour or a day of one server's tests, some thousands
_START = b"Date/Time:"
_SNAPLOGS = {"c2s_snaplog file": "upload", "s2c_snaplog file": "download"}
# Positions in "Summary data" (web100srv.c): speed to the client and from it, kbit/s.
_SPEEDS = {"download": 1, "upload": 2}


@dataclass(frozen=True)
class Companion:
    """The content of a ``.meta`` file about one snaplog."""

    server: str | None
    mean_throughput_bps: float | None


@dataclass
class Companions:
    """The ``.meta`` files of an archive, by the snaplogs that they belong to."""

    _by_file: dict[str, Companion] = field(default_factory=dict)
    _by_test: dict[tuple[int, str, str], Companion] = field(default_factory=dict)

    def add(self, name: str, content: bytes) -> None:
        """Take in a ``.meta``; what cannot be read of it is left out."""
        if len(self._by_test) + len(self._by_file) > _MOST:
            return
        lines = content.decode(errors="backslashreplace").splitlines()
        fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}
        test = ndt_file(name)
        for key, direction in _SNAPLOGS.items():
            of = Companion(fields.get("server hostname") or None, _speed(fields.get("Summary data", ""), direction))
            if fields.get(key):
                self._by_file[plain(fields[key])] = of
            if test:
                self._by_test[test.time_ns, test.client, direction] = of

    def of(self, name: str) -> Companion | None:
        """Facts about a snaplog: by its name in a ``.meta``, or by the same time and client."""
        named = self._by_file.get(plain(name))
        test = ndt_file(name)
        if named or test is None or test.direction is None:
            return named
        return self._by_test.get((test.time_ns, test.client, test.direction))


def is_meta(head: bytes) -> bool:
    """True if a file that begins with these bytes is a ``.meta``."""
    return head.startswith(_START)


def _speed(summary: str, direction: str) -> float | None:
    values = summary.split(",")
    position = _SPEEDS[direction]
    if len(values) <= position:
        return None
    kilobits = re.fullmatch(r"[0-9]{1,12}", values[position].strip())
    # A test that was not made, or failed, has 0 or -1.
    return int(kilobits[0]) * 1000.0 if kilobits and int(kilobits[0]) else None

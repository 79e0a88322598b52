"""DISCO: M-Lab's telemetry of switches, of both generations, as rows of the table ``counters``.

A file is a succession of JSON objects, one for each metric::

    {"experiment": the switch, "hostname": who polled it, "metric": "switch.octets.uplink.tx", "sample": [...]}

* Version 1 (collectd-mlab, 2016-05 to 2020-09) took rates from RRD: a sample's ``timestamp`` is the *start* of ten
  seconds, and its ``value`` their rate times ten, which is fractional where RRD interpolated. Files run from the hour
  to the hour inclusive, and repeat the first sample of the next.
* Version 2 (https://github.com/m-lab/disco, since 2020-09) takes differences of counters: ``timestamp`` is the time of
  the poll, ``value`` the growth since the poll before, and ``counter`` the counter itself. Until 2022-01 two
  of its metrics had one name (`disco_octets`).

Both are brought to the end of the time that a sample covers. What is wrong with files of each is repaired where the
file itself proves how, and said in notes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from whydrop.formats.archives import Piece, names
from whydrop.formats.archives.disco_samples import Series, rows_of
from whydrop.formats.archives.noting import Warnings

_MACHINE = re.compile(r"mlab[0-9]")
_METRIC = re.compile(r"switch\.(queue\.[^.]+\.[^.]+|[^.]+)\.(.+)\.(rx|tx)", re.DOTALL)
# Names are repeated in each row.
_MOST_NAME = 256
# A metric of an hour is 30 kB. As Python's objects, JSON is up to twenty times its text.
MOST_OBJECT_BYTES = 16 << 20
# A file holds some ten thousand.
MOST_SAMPLES = 1_000_000
_SPACE = re.compile(r"[ \t\r\n]*")


def pieces_of(content: bytes, source: str, name: str) -> list[Piece]:
    """The samples of one file.

    Args:
        content: of the file, decompressed.
        source: where it came from, for messages.
        name: the file's own name, which has the time of its end.

    Returns:
        One piece for the table ``counters``. A damaged file gives all that is before the damage.
    """
    warnings = Warnings()
    series, damage = _read(content, warnings)
    return [Piece(source, "counters", rows_of(series, name, warnings), warnings.sentences(), damage)]


class _DamagedError(Exception):
    """The rest of the file is no JSON, or none of DISCO."""


def _read(content: bytes, warnings: Warnings) -> tuple[list[Series], str | None]:
    """Read the series of a file, by metric; and where it is damaged."""
    found: list[Series] = []
    samples = 0
    try:
        for offset, document in _documents(content):
            of = _series(document, offset, warnings)
            if of is None:
                continue
            samples += len(of.samples)
            if samples > MOST_SAMPLES:
                return found, f"more than {MOST_SAMPLES} samples: the metrics from offset {offset} on were not read"
            found.append(of)
    except _DamagedError as reason:
        return found, str(reason)
    return found, None


def _documents(content: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file with their offsets in bytes: commonly one a line, but nothing says so."""
    decode = json.JSONDecoder().raw_decode
    start = 0
    while start < len(content):
        # So much at a time: what an object is made of takes many times its text.
        # Bytes that are no UTF-8 become lone surrogates, so that offsets in bytes can be had back.
        text = content[start : start + MOST_OBJECT_BYTES].decode("utf-8", "surrogateescape")
        is_all = start + MOST_OBJECT_BYTES >= len(content)
        position = _behind_space(text, 0)
        offset = start + position
        while position < len(text):
            try:
                document, end = decode(text, position)
            except RecursionError:
                words = f"offset {offset}: JSON that is nested too deeply to be a metric of DISCO"
                raise _DamagedError(words) from None
            except json.JSONDecodeError as reason:
                if not is_all and offset > start:
                    break  # it may go on behind this text
                if not is_all and (reason.pos >= len(text) - 1 or reason.msg.startswith("Unterminated string")):
                    words = f"offset {offset}: more than {MOST_OBJECT_BYTES >> 20} MiB of JSON; expected one metric"
                    raise _DamagedError(words) from None
                at = offset + _bytes(text, position, reason.pos)
                raise _DamagedError(
                    f"offset {at}: {reason.msg}; expected the rest of the JSON object that begins at offset {offset}"
                ) from None
            except ValueError as reason:  # such as a number of 5000 digits
                raise _DamagedError(f"offset {offset}: {reason}; expected a JSON object of a metric") from None
            if not isinstance(document, dict):
                raise _DamagedError(
                    f"offset {offset}: expected a JSON object of a metric, found {str(document)[:40]!r}"
                )
            yield offset, document
            end = _behind_space(text, end)
            offset += _bytes(text, position, end)
            position = end
        start = offset


def _bytes(text: str, start: int, end: int) -> int:
    """How many bytes a part of the text is."""
    return end - start if text.isascii() else len(text[start:end].encode("utf-8", "surrogateescape"))


def _behind_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _series(document: dict[str, Any], offset: int, warnings: Warnings) -> Series | None:
    experiment, hostname, metric = (_text(document.get(key)) for key in ("experiment", "hostname", "metric"))
    samples = document.get("sample")
    if experiment is None or hostname is None or metric is None or not isinstance(samples, list):
        warnings.add(
            "Objects are no metrics of a switch (expected experiment, hostname, metric, sample)", f"offset {offset}"
        )
        return None
    parsed = _METRIC.fullmatch(metric)
    if parsed is None:
        warnings.add("Metrics are not named as expected, such as switch.octets.uplink.tx, and are left out", metric)
        return None
    kind, port, direction = parsed.groups()
    machine = _MACHINE.search(hostname)
    polled_by = machine.group() if machine else hostname
    # In either spelling: s1.dfw07.measurement-lab.org, s1-dfw07.measurement-lab.org
    of = names.switch(experiment)
    switch = f"s1.{of.site}" if of else experiment
    metro, site = (of.metro, of.site) if of else (None, None)
    return Series(metro, site, switch, polled_by, port, f"{kind}.{direction}", samples)


def _text(value: Any) -> str | None:
    if not isinstance(value, str) or len(value) > _MOST_NAME:
        return None
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return None
    return value

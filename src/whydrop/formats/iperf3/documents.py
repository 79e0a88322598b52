"""The JSON documents that iperf3 wrote, found in whatever file holds them.

Logs hold several runs, text before and behind them, stamps at the beginning of each line; a full disk or a kill cuts
one off; iperf3 itself writes ``nan``, which is no JSON. Each is read as far as it goes, and a note says what was done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from whydrop.formats.archives.json_text import closed
from whydrop.formats.iperf3.ends import as_object

Object = dict[str, Any]

CUT_OFF = "the file is cut off: the part before the cut was read"
_PASSED_OVER = "a line of the stream that cannot be read was passed over"

# A document of --json, with a title or other data of the user's before "start"; or an event of --json-stream.
_STRING = r'"(?:[^"\\]|\\.)*"'
_BEGIN = re.compile(rf'\{{\s*(?:"(?:title|extra_data)"\s*:\s*{_STRING}\s*,\s*)*"(?:start"\s*:\s*\{{|event"\s*:\s*")')
_EVENT = re.compile(r'\{\s*"event"')
# The client has what the server wrote inside of its own document (--get-server-output).
_OF_SERVER = re.compile(r'"server_output_json"\s*:\s*$')

# What C writes for numbers that are none, and strings, in which the same may stand.
_NO_NUMBER = re.compile(
    rf"{_STRING}|(?<![\w.])[+-]?(?:nan|inf(?:inity)?|1\.\#(?:IND|INF|QNAN|SNAN))(?:\(\w*\))?(?![\w.])", re.IGNORECASE
)

# What other programs put before each line: no sign of JSON, up to the first.
_PREFIX = re.compile(r'(?m)^[^{}"\n]{0,99}?[^{}"\s][^{}"\n]{0,99}?[\t ](?=[ \t]*(?:[{}"]|\][\s,}\]]*$))')
_JSON_LINE = re.compile(r'(?m)^[ \t]*[{}"\]]')

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


@dataclass
class Document:
    """One run as ``--json`` writes it, and what is to be said of how it was found."""

    content: Object
    notes: list[str] = field(default_factory=list)


def documents(content: bytes) -> list[Document]:
    """Every run in a file, in order; none where iperf3 did not write it."""
    text = _text(content)
    if '"start"' not in text and '"event"' not in text:
        return []
    text = _without_prefixes(text)
    found: list[Document] = []
    events: Document | None = None
    for value, notes in _values(text):
        if "event" not in value:
            events = None
            found.append(Document(value, notes))
            continue
        if value["event"] == "start" or events is None:
            events = Document({"start": {}, "intervals": [], "end": {}})
            found.append(events)
        events.notes += [note for note in notes if note not in events.notes]
        _add_event(events.content, value)
    return _each_once(found)


def _text(content: bytes) -> str:
    """As UTF-8, or UTF-16 as PowerShell redirects it, with a byte order mark or not."""
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding, "replace")
    head = content[:64]
    if head[1::2].count(0) > len(head) // 4:
        return content.decode("utf-16-le", "replace")
    if head[::2].count(0) > len(head) // 4:
        return content.decode("utf-16-be", "replace")
    return content.decode("utf-8", "replace")


def _without_prefixes(text: str) -> str:
    """Without what a wrapper puts before each line, where most lines of JSON have such a thing."""
    if len(_PREFIX.findall(text)) <= len(_JSON_LINE.findall(text)):
        return text
    return _PREFIX.sub("", text)


def _values(text: str) -> Iterator[tuple[Object, list[str]]]:
    """The objects of iperf3 in a text, and what is to be noted of each."""
    begins = [
        one.start()
        for one in _BEGIN.finditer(text)
        if not _OF_SERVER.search(text, max(0, one.start() - 64), one.start())
    ]
    done = 0
    for number, begin in enumerate(begins):
        if begin < done:
            continue
        value, end = _decoded(text, begin)
        if value is not None:
            done = end
            yield value, []
            continue
        until = begins[number + 1] if number + 1 < len(begins) else len(text)
        # iperf3 has one event on a line.
        is_event = _EVENT.match(text, begin) is not None
        line_end = text.find("\n", begin, until) if is_event else -1
        part = _NO_NUMBER.sub(_null, text[begin : until if line_end < 0 else line_end])
        value, _ = _decoded(part, 0)
        notes = []
        if value is None:
            notes = [CUT_OFF if until == len(text) or line_end < 0 else _PASSED_OVER]
            # Up to an interval, or a part of the end: deeper lie single numbers, and half of an interval is none.
            value, _ = _decoded(closed(part, lambda open_at: 0 < len(open_at) <= 2), 0)
        yield ({"event": "", **(value or {})} if is_event else value or {}), notes


def _decoded(text: str, begin: int) -> tuple[Object | None, int]:
    try:
        value, end = _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None, begin
    return (value, end) if isinstance(value, dict) else (None, begin)


def _integer(digits: str) -> float | int:
    """Python refuses integers of thousands of digits, and nothing here needs more than 64 bits."""
    return int(digits) if len(digits) < 20 else float(digits)


_DECODER = json.JSONDecoder(parse_int=_integer)


def _null(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else "null"


def _add_event(content: Object, event: Object) -> None:
    name, data = event["event"], event.get("data")
    if name == "interval":
        content["intervals"].append(data)
    elif name in ("start", "end", "error", "server_output_json", "server_output_text"):
        content[name] = data


def _each_once(found: list[Document]) -> list[Document]:
    """Without repeated runs: with --json-stream-full-output the whole document stands behind its events."""
    kept: dict[Any, Document] = {}
    for number, document in enumerate(found):
        start = as_object(document.content.get("start"))
        cookie = start.get("cookie")
        # Client and server have the cookie in common.
        key = (cookie, "accepted_connection" in start) if isinstance(cookie, str) else number
        known = kept.get(key)
        if known is None or _completeness(document) > _completeness(known):
            kept[key] = document
    return list(kept.values())


def _completeness(document: Document) -> tuple[bool, int]:
    found = document.content.get("intervals")
    return bool(document.content.get("end")), len(found) if isinstance(found, list) else 0

"""``whydrop study discards watch``: ports that newly discard too much, once or repeatedly."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import whydrop
from whydrop.cli import ending
from whydrop.recording.document import plain
from whydrop.runtime import cancelling
from whydrop.text import quantities

if TYPE_CHECKING:
    from whydrop.studies.discards.parameters import Parameters
    from whydrop.studies.discards.watch import Key, Look

SCHEMA = 1
FOUND = 3
_SECOND = 1_000_000_000
_MOST_NAMES = 8
# Stores count nanoseconds since 1970 in 64 bits.
_LAST_YEAR = 2261


def run(options: dict[str, Any], parameters: Parameters) -> int:
    """Look once, or every ``interval_s``; returns the exit status."""
    from whydrop.store.engines import BackendError

    cancelling.import_polars()

    now_ns = None if options["now"] is None else _instant(options["now"])
    every_s: float | None = options["interval_s"]
    # Without a state file, the ports reported are remembered from one look to the next; at the first, all are new.
    reported: dict[Key, int] | None = {} if every_s is not None and _state(options) is None else None
    while True:
        try:
            status, reported = _once(options, parameters, time.time_ns() if now_ns is None else now_ns, reported)
        except (BackendError, OSError) as reason:
            status = ending.status(reason)
            if isinstance(reason, BrokenPipeError):
                return status
        if every_s is None:
            return status
        sys.stdout.flush()
        # A store that cannot be read now, such as one on a network, may be readable next time.
        time.sleep(max(1.0, every_s))


def _instant(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
        if not 1970 < moment.year <= _LAST_YEAR:
            raise ValueError
    except ValueError:
        raise click.UsageError(
            f"--now: {ending.printable(text)!r}: expected a date and time such as 2018-02-11T12:00:00Z, "
            f"of the years 1971 to {_LAST_YEAR}"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp()) * _SECOND


def _once(
    options: dict[str, Any], parameters: Parameters, now_ns: int, reported: dict[Key, int] | None
) -> tuple[int, dict[Key, int] | None]:
    """Look once: the exit status, and the ports reported, unless a file keeps them.

    ``reported`` comes from the look before; ``None``: from the file, or this is the first look.
    """
    from whydrop.store.engines import open_backend
    from whydrop.studies.discards import watch

    place = _state(options)
    if place is not None and reported is None:
        reported = _read(place, now_ns)
    asked = {name: options[name] for name in ("mapping", "endpoint")}
    with open_backend(options["store"] or "", options["backend"], **asked) as backend:
        found = watch.look(backend, parameters, now_ns, reported)
    if options["as_json"]:
        ending.write_json(document(found, parameters))
    else:
        from whydrop.show.document import Document, Text

        ending.show(Document("Watch", tuple(map(Text, lines(found, parameters)))))
    kept = place is not None and _kept(place, found)
    status = FOUND if found.new.height else 0
    if not found.ports:
        ending.note(_nothing(found, parameters))
        status = ending.NOT_ANALYSED
    return status, None if kept else found.reported


def _read(place: Path, now_ns: int) -> dict[Key, int]:
    """Read which ports were reported; none where that fails, so that alerts still come."""
    from whydrop.studies.discards import watch_state

    try:
        return watch_state.read(place, now_ns)
    except (watch_state.StateError, OSError) as reason:
        ending.note(ending.one_line(reason))
        return {}


def _kept(place: Path, found: Look) -> bool:
    """Write which ports were reported; ``False`` where that fails."""
    from whydrop.studies.discards import watch_state

    try:
        watch_state.write(place, found.reported)
    except OSError as reason:
        ending.note(
            f"{ending.one_line(reason)}: the state cannot be written, and the same ports will be reported again; "
            "name another file with --state"
        )
        return False
    return True


def _state(options: dict[str, Any]) -> Path | None:
    """The state file; a look at another time (--now) has none unless --state names it."""
    from whydrop.studies.discards import watch_state

    if options["state"] is not None:
        return Path(options["state"])
    store = Path(options["store"] or "")
    return store / watch_state.FILE if options["now"] is None and options["store"] and store.is_dir() else None


def lines(found: Look, parameters: Parameters) -> list[str]:
    """The findings as lines, new ports first."""
    from whydrop.studies.discards.sentences import per_million

    limit = per_million(parameters.watch.ratio)
    until = f"in the {_span(parameters)} to {quantities.instant(found.now_ns / 1e9)[:19]} UTC"
    said = [_alert(row, parameters) for row in found.new.iter_rows(named=True)]
    if not said and found.ports:
        said = [f"No port newly discards more than {limit} {until} ({quantities.count(found.ports)} looked at)."]
    elif said:
        ports = quantities.plural(len(said), "port")
        said.insert(0, f"{ports} newly more than {limit} {until} ({quantities.count(found.ports)} looked at):")
    for row in found.alerts.filter(found.alerts["state"] == "ongoing").iter_rows(named=True):
        since = quantities.instant(row["since_ns"] / 1e9)[:19]
        said.append(f"Ongoing since {since} UTC: {_alert(row, parameters)}")
    if found.silent:
        said.append(f"No longer measured {until}: {_ports(found.silent)}.")
    if found.unjudged:
        said.append(f"Discards, but no count of packets, so that the ratio is unknown: {_ports(found.unjudged)}.")
    return said


def _ports(keys: Sequence[Key]) -> str:
    """Ports, not all of many."""
    from whydrop.studies.discards import watch

    more = f" and {len(keys) - _MOST_NAMES} more" if len(keys) > _MOST_NAMES else ""
    return ", ".join(watch.named(key) for key in keys[:_MOST_NAMES]) + more


def _alert(row: dict[str, Any], parameters: Parameters) -> str:
    from whydrop.studies.discards import watch
    from whydrop.studies.discards.sentences import per_million

    before = (
        "" if row["ratio_before"] is None else f", {per_million(row['ratio_before'])} in the {_span(parameters)} before"
    )
    counts = f"{quantities.count(row['discards'])} of {quantities.count(row['packets'])}"
    text = f"{watch.named(row[name] for name in ('site', 'switch', 'machine', 'port', 'direction'))}: "
    text += f"{per_million(row['ratio'])} discarded ({counts}{before})"
    if row["in_quiet_bins"] is None:
        return f"{text}; bursts cannot be recognised, as octets are not counted."
    low = quantities.percent(parameters.watch.low_utilisation)
    speed = quantities.rate(row["speed_bps"])
    guess = f"of {speed}" if row["speed_from"] == "parameters" else f"of {speed} (by its highest rate)"
    if row["in_quiet_bins"]:
        share = quantities.percent(row["in_quiet_bins"] / row["discards"])
        return (
            f"{text}; {share} of them while its mean utilisation {guess} was below {low}: bursts shorter than a sample."
        )
    return f"{text}; none while its mean utilisation {guess} was below {low}: the port is full, not bursty."


def _span(parameters: Parameters) -> str:
    return quantities.long_duration(parameters.watch.window_s)


def _nothing(found: Look, parameters: Parameters) -> str:
    none = f"no samples of discards in the {_span(parameters)} to {quantities.instant(found.now_ns / 1e9)[:19]} UTC"
    if found.last_ns is None:
        return f"{none}, and none on the store's last day: is `whydrop collect` running, and into this store?"
    last = f"the store's last one ended {quantities.instant(found.last_ns / 1e9)[:19]} UTC"
    if found.last_ns > found.now_ns:
        return f"{none}; {last}, which is later: is this clock right, and the collector's?"
    return f"{none}; {last}: is `whydrop collect` running? For a store of the past, look at another time with --now"


def document(found: Look, parameters: Parameters) -> dict[str, Any]:
    """The findings as JSON."""
    return {
        "whydrop": whydrop.__version__,
        "schema": SCHEMA,
        "study": "discards",
        "watch": parameters.watch.model_dump(mode="json"),
        "now_ns": found.now_ns,
        "ports": found.ports,
        "alerts": plain(found.alerts.to_dicts()),
        "silent": _named(found.silent),
        "unjudged": _named(found.unjudged),
    }


def _named(keys: Sequence[Key]) -> list[dict[str, str | None]]:
    return [dict(zip(("site", "switch", "machine", "port", "direction"), key, strict=True)) for key in keys]

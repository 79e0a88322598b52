"""The study of discards once more, slowly: dicts, loops and `statistics`, written from what the tables mean alone.

Each function takes rows as dicts and returns rows as dicts, of the columns of `whydrop.studies.discards.results`. What
engines compute is compared with it, so nothing here is shared with them, and nothing is clever.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from typing import Any

from whydrop.studies.discards.parameters import Days, Parameters

Row = dict[str, Any]
Rows = list[Row]
DAY_S = 86_400


class Tables:
    """The tables of the store: samples by counter, and tests. Rows have the column ``day``."""

    def __init__(self, counters: dict[str, Rows], ndt: Rows) -> None:
        self.counters = counters
        self.ndt = ndt

    def samples(self, counter: str, parameters: Parameters) -> Iterable[Row]:
        """Of the port, metros and days that are looked at."""
        for row in self.counters.get(counter, ()):
            if row["port"] == parameters.port and _is_asked_for(row, parameters.metros, parameters.days):
                yield row


def compute(tables: Tables, parameters: Parameters) -> dict[str, Rows]:
    """Every table that comes of queries."""
    contacts = contacts_of(tables, parameters)
    return {
        "utilisation": utilisation(tables, parameters),
        "download_speed": download_speed(tables, parameters),
        "discard_ratio": discard_ratio(tables, parameters),
        "retransmission_ratio": retransmission_ratio(tables, parameters),
        "client_speeds": client_speeds(tables, parameters),
        "contacts": contacts,
        "contact_days": contact_days(contacts),
    }


def quantile(values: Iterable[float], parameters: Parameters) -> float | None:
    """The median; or, as published, the smallest value that a share of 0.485 or more does not exceed."""
    ordered = sorted(values)
    if not ordered:
        return None
    if parameters.definitions == "corrected":
        return statistics.median(ordered)
    return ordered[math.ceil(49 / 101 * len(ordered)) - 1]


def _is_asked_for(row: Row, metros: tuple[str, ...], days: Days) -> bool:
    in_metro = not metros or row["metro"] in metros
    return in_metro and row["day"] is not None and days.first.isoformat() <= row["day"] <= days.last.isoformat()


def _name(machine: str | None) -> tuple[bool, str]:
    """By name, those without one first."""
    return (machine is not None, machine or "")


def _best_machines(samples: dict[tuple[Any, ...], dict[str | None, list[Any]]]) -> dict[tuple[Any, ...], list[Any]]:
    """Of each site, switch and day the samples of the machine that has most; of several the first by name."""
    chosen = {}
    for place, by_machine in samples.items():
        best = min(by_machine, key=lambda machine: (-len(by_machine[machine]), _name(machine)))
        chosen[place] = by_machine[best]
    return chosen


# Figure 1


def utilisation(tables: Tables, parameters: Parameters) -> Rows:
    """How busy each site's port was each day."""
    if parameters.definitions == "published":
        return _utilisation_published(tables, parameters)
    samples: dict[tuple[Any, ...], dict[str | None, list[tuple[float, int]]]] = defaultdict(lambda: defaultdict(list))
    for row in tables.samples("octets.tx", parameters):
        if row["value"] is not None and row["span_ns"] is not None and row["span_ns"] > 0:
            place = (row["metro"], row["site"], row["day"], row["switch"])
            samples[place][row["machine"]].append((8 * row["value"] / (row["span_ns"] / 1e9), row["span_ns"]))
    days: dict[tuple[Any, ...], list[tuple[float, int]]] = defaultdict(list)
    switches: dict[tuple[Any, ...], int] = defaultdict(int)
    for (metro, site, day, _), chosen in _best_machines(samples).items():
        days[metro, site, day] += chosen
        switches[metro, site, day] += 1
    return [
        {
            "metro": metro, "site": site, "day": day, "rate_bps": quantile((rate for rate, _ in chosen), parameters),
            "samples": len(chosen),
            # Of a site with two switches the day is covered twice.
            "coverage": sum(span for _, span in chosen) / 1e9 / DAY_S / switches[metro, site, day],
        }
        for (metro, site, day), chosen in days.items()
    ]  # fmt: skip


def _utilisation_published(tables: Tables, parameters: Parameters) -> Rows:
    days: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row in tables.samples("octets.tx", parameters):
        if row["machine"] == parameters.published_machine and row["value"] is not None:
            days[row["metro"], row["site"], row["day"]].append(row["value"])
    rows = []
    for (metro, site, day), values in days.items():
        middle = quantile(values, parameters)
        assert middle is not None
        rows.append(
            {
                "metro": metro, "site": site, "day": day, "rate_bps": middle * 8 / 10, "samples": len(values),
                "coverage": len(values) * parameters.bin_s / DAY_S,
            }
        )  # fmt: skip
    return rows


# Figure 3


def discard_ratio(tables: Tables, parameters: Parameters) -> Rows:
    """How much of its packets each site's port discarded each day."""
    if parameters.definitions == "published":
        return _discard_ratio_published(tables, parameters)
    windows: dict[tuple[Any, ...], dict[str, float]] = defaultdict(dict)
    for counter in ("discards.tx", "unicast.tx", "multicast.tx", "broadcast.tx"):
        for row in tables.samples(counter, parameters):
            if row["value"] is not None:
                place = (row["metro"], row["site"], row["day"], row["switch"])
                windows[*place, row["machine"], row["end_ns"]][counter] = row["value"]
    samples: dict[tuple[Any, ...], dict[str | None, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for (metro, site, day, switch, machine, _), values in windows.items():
        if "discards.tx" in values and "unicast.tx" in values:
            packets = values["unicast.tx"] + values.get("multicast.tx", 0) + values.get("broadcast.tx", 0)
            samples[metro, site, day, switch][machine].append((values["discards.tx"], packets))
    days: dict[tuple[Any, ...], list[tuple[float, float]]] = defaultdict(list)
    for (metro, site, day, _), chosen in _best_machines(samples).items():
        days[metro, site, day] += chosen
    rows = []
    for (metro, site, day), chosen in days.items():
        discards, packets = (math.fsum(column) for column in zip(*chosen, strict=True))
        rows.append(_ratio(metro, site, day, discards, packets, len(chosen)))
    return rows


def _discard_ratio_published(tables: Tables, parameters: Parameters) -> Rows:
    days: dict[tuple[Any, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for counter in ("discards.tx", "unicast.tx"):
        for row in tables.samples(counter, parameters):
            if row["machine"] == parameters.published_machine and row["value"] is not None:
                days[row["metro"], row["site"], row["day"]][counter].append(row["value"])
    rows = []
    for (metro, site, day), values in days.items():
        if not values["discards.tx"] or not values["unicast.tx"]:
            continue
        discards, packets = math.fsum(values["discards.tx"]), math.fsum(values["unicast.tx"])
        if discards < packets and discards / packets < 0.01:
            rows.append(_ratio(metro, site, day, discards, packets, len(values["discards.tx"])))
    return rows


def _ratio(metro: str, site: str, day: str, discards: float, packets: float, samples: int) -> Row:
    return {
        "metro": metro, "site": site, "day": day, "ratio": discards / packets if packets > 0 else None,
        "discards": discards, "packets": packets, "samples": samples,
    }  # fmt: skip


# Tests


def duration_ns(row: Row, parameters: Parameters) -> int | None:
    """How long a test sent."""
    limits = [row[name] for name in ("receiver_limited_ns", "congestion_limited_ns", "sender_limited_ns")]
    if None not in limits:
        return sum(limits)
    return None if parameters.definitions == "published" else row["duration_ns"]


def downloads(tables: Tables, parameters: Parameters, *, excluding: bool = True) -> Rows:
    """The study's ``dl``: rows of ``ndt`` with ``dl_ns``, their duration, and ``speed`` in bit/s."""
    chosen = []
    rule = parameters.tests
    for row in tables.ndt:
        length_ns = duration_ns(row, parameters)
        if row["direction"] != "download" or row["acked_bytes"] is None or length_ns is None:
            continue
        if row["acked_bytes"] < rule.least_acked_bytes:
            continue
        if not rule.least_duration_s <= length_ns / 1e9 < rule.most_duration_s or length_ns <= 0:
            continue
        if excluding and row["remote_address"] in rule.excluded_clients:
            continue
        chosen.append({**row, "dl_ns": length_ns, "speed": 8 * row["acked_bytes"] / (length_ns / 1e9)})
    return chosen


def _grouped(rows: Iterable[Row], key: Callable[[Row], tuple[Any, ...]]) -> dict[tuple[Any, ...], Rows]:
    groups: dict[tuple[Any, ...], Rows] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def _of_days(tables: Tables, parameters: Parameters) -> Rows:
    return [row for row in downloads(tables, parameters) if _is_asked_for(row, parameters.metros, parameters.days)]


def _with_client(rows: Rows) -> Rows:
    """Where clients are counted, tests without a client do not count."""
    return [row for row in rows if row["remote_address"] is not None]


# Figure 2


def download_speed(tables: Tables, parameters: Parameters) -> Rows:
    """How fast clients' downloads were each day."""
    rows = []
    groups = _grouped(_with_client(_of_days(tables, parameters)), lambda row: (row["metro"], row["site"], row["day"]))
    for (metro, site, day), tests in groups.items():
        fastest: dict[str, float] = {}
        for test in tests:
            client = test["remote_address"]
            fastest[client] = max(fastest.get(client, 0.0), test["speed"])
        rows.append(
            {
                "metro": metro, "site": site, "day": day, "speed_bps": quantile(fastest.values(), parameters),
                "clients": len(fastest), "tests": len(tests),
            }
        )  # fmt: skip
    return rows


# Figure 4


def retransmission_ratio(tables: Tables, parameters: Parameters) -> Rows:
    """The share of its segments that each site retransmitted each day."""
    published = parameters.definitions == "published"
    rows = []

    def place(row: Row) -> tuple[Any, ...]:
        return (row["metro"], row["site"], row["machine"] if published else None, row["day"])

    counted = [
        row
        for row in _of_days(tables, parameters)
        if row["retransmitted_segments"] is not None and row["sent_segments"] is not None
    ]
    if published:
        counted = [row for row in _with_client(counted) if row["sent_segments"] > 0]
    for (metro, site, machine, day), tests in _grouped(counted, place).items():
        resent = sum(test["retransmitted_segments"] for test in tests)
        sent = sum(test["sent_segments"] for test in tests)
        ratio = resent / sent if sent > 0 else None
        if published:
            worst: dict[str, float] = {}
            for test in tests:
                share = test["retransmitted_segments"] / test["sent_segments"]
                worst[test["remote_address"]] = max(worst.get(test["remote_address"], 0.0), share)
            ratio = quantile(worst.values(), parameters)
        rows.append(
            {
                "metro": metro, "site": site, "machine": machine, "day": day, "ratio": ratio, "retransmitted": resent,
                "segments": sent, "clients": len({test["remote_address"] for test in _with_client(tests)}),
                "tests": len(tests),
            }
        )  # fmt: skip
    return rows


# Figure 6


def client_speeds(tables: Tables, parameters: Parameters) -> Rows:
    """The speeds of clients that tested often both before and after the change."""
    change = parameters.change
    if change is None:
        return []
    published = parameters.definitions == "published"
    tests: Rows = []
    for name, days in (("before", change.before), ("after", change.after)):
        tests += [
            {**row, "period": name}
            for row in _with_client(downloads(tables, parameters))
            if _is_asked_for(row, change.metros or parameters.metros, days)
        ]
    counted = _grouped(tests, lambda row: (row["metro"] if published else row["site"], row["remote_address"]))
    cohort = {
        who
        for who, theirs in counted.items()
        if all(
            sum(test["period"] == period for test in theirs) > change.more_tests_than for period in ("before", "after")
        )
    }
    kept = [row for row in tests if (row["metro"] if published else row["site"], row["remote_address"]) in cohort]
    rows = []

    def place(row: Row) -> tuple[Any, ...]:
        machine = row["machine"] if published else None
        return (row["metro"], row["site"], machine, row["remote_address"], row["period"])

    for (metro, site, machine, client, period), theirs in _grouped(kept, place).items():
        speeds = [test["speed"] for test in theirs]
        if len(speeds) < 2 and published:
            continue
        rows.append(
            {
                "metro": metro, "site": site, "machine": machine, "client": client, "period": period,
                "tests": len(speeds), "mean_bps": statistics.fmean(speeds), "max_bps": max(speeds),
                **_spread(speeds),
            }
        )  # fmt: skip
    return rows


def _spread(speeds: list[float]) -> Row:
    sd = statistics.stdev(speeds) if len(speeds) > 1 else None
    mean = statistics.fmean(speeds)
    return {"sd_bps": sd, "min_bps": min(speeds), "cv": sd / mean if sd is not None and mean else None}


# Figure 7


def contacts_of(tables: Tables, parameters: Parameters) -> Rows:
    """Which tests were exposed to discards."""
    published = parameters.definitions == "published"
    samples: dict[str, Rows] = defaultdict(list)
    for row in tables.counters.get("discards.tx", ()):
        if row["port"] == parameters.port and row["value"] is not None:
            samples[row["site"]].append(row)
    longest_ns: dict[str, int] = {}
    polled: dict[str, dict[str, set[Any]]] = defaultdict(lambda: defaultdict(set))
    for site, of_site in samples.items():
        of_site.sort(key=lambda row: row["end_ns"])
        longest_ns[site] = max(row["span_ns"] or 0 for row in of_site)
        for sample in of_site:
            if sample["span_ns"]:
                polled[site][sample["day"]].add(sample["switch"])
    rows = []
    for test in downloads(tables, parameters, excluding=not published):
        if not _is_asked_for(test, parameters.contact.metros, parameters.days):
            continue
        if published and test["machine"] != parameters.published_machine:
            continue
        start_ns = test["start_ns"]
        row = {
            "metro": test["metro"], "site": test["site"], "machine": test["machine"], "test_id": test["test_id"],
            "start_ns": start_ns, "end_ns": None if start_ns is None else start_ns + test["dl_ns"],
            "client": test["remote_address"], "speed_bps": test["speed"], "day": test["day"],
        }  # fmt: skip
        of_site = samples.get(test["site"], [])
        if published:
            rows.append(row | _published_contact(row, of_site, parameters))
        else:
            site = test["site"]
            rows.append(row | _contact(row, of_site, longest_ns.get(site, 0), polled[site]))
    return rows


def _published_contact(test: Row, samples: Rows, parameters: Parameters) -> Row:
    """A sample of the one machine with discards ends one bin or two after the start of the test's first bin."""
    if test["start_ns"] is None:
        return {"class": "zero", "discards": 0.0}
    bin_ns = parameters.bin_s * 10**9
    first = test["start_ns"] // bin_ns * bin_ns
    late = bin_ns if parameters.contact.recorded == "starts" else 0
    ends = (first + bin_ns + late, first + 2 * bin_ns + late)
    found = [
        sample["value"]
        for sample in _ending_between(samples, ends[0] - bin_ns, ends[1] + bin_ns)
        # The collector polls some milliseconds beside the tick, which is meant.
        if sample["machine"] == parameters.published_machine
        and (sample["end_ns"] + bin_ns // 2) // bin_ns * bin_ns in ends
    ]
    return {"class": "non-zero" if any(value > 0 for value in found) else "zero", "discards": math.fsum(found)}


def _contact(test: Row, samples: Rows, longest_ns: int, polled: dict[str, set[Any]]) -> Row:
    """Samples of all machines that overlap the test; ``polled`` says which switches were on each day."""
    start_ns, end_ns = test["start_ns"], test["end_ns"]
    if start_ns is None:
        return {"class": "unknown", "discards": None, "covered": 0.0}
    touching = [
        sample
        for sample in _ending_between(samples, start_ns, end_ns + longest_ns)
        if sample["span_ns"] and sample["end_ns"] - sample["span_ns"] < end_ns and sample["end_ns"] > start_ns
    ]
    # The switch of a site that a test passed is unknown: all that were polled that day, or on those beside it, must
    # be known.
    day = date.fromisoformat(test["day"])
    switches = set().union(*(polled.get((day + timedelta(days)).isoformat(), set()) for days in (-1, 0, 1)))
    views = _grouped(touching, lambda sample: (sample["switch"], sample["machine"]))
    sums = {view: math.fsum(sample["value"] for sample in seen) for view, seen in views.items()}
    seen_switches = {switch for switch, _ in views}
    covered_ns = 0
    if seen_switches and seen_switches >= switches:
        covered_ns = min(
            _covered(start_ns, end_ns, [sample for sample in touching if sample["switch"] == switch])
            for switch in seen_switches
        )
    most = [max(total for (of, _), total in sums.items() if of == switch) for switch in seen_switches]
    if any(sample["value"] > 0 for sample in touching):
        kind = "non-zero"
    else:
        kind = "zero" if covered_ns == end_ns - start_ns else "unknown"
    covered = covered_ns / (end_ns - start_ns)
    return {"class": kind, "discards": math.fsum(most) if most else None, "covered": covered}


def _ending_between(samples: Rows, after_ns: int, before_ns: int) -> Rows:
    """Samples that end in (after, before]; they are in the order of their ends."""

    def end_ns(sample: Row) -> int:
        return int(sample["end_ns"])

    return samples[bisect_right(samples, after_ns, key=end_ns) : bisect_right(samples, before_ns, key=end_ns)]


def _covered(start_ns: int, end_ns: int, samples: Rows) -> int:
    """Nanoseconds of [start, end) that lie in any of the samples' windows."""
    covered, reached = 0, start_ns
    for first, last in sorted((sample["end_ns"] - sample["span_ns"], sample["end_ns"]) for sample in samples):
        begin, end = max(first, reached), min(last, end_ns)
        if end > begin:
            covered += end - begin
            reached = end
    return covered


def contact_days(contacts: Rows) -> Rows:
    """Tests of each class each day."""
    groups = _grouped(contacts, lambda row: (row["metro"], row["site"], row["day"], row["class"]))
    return [
        {"metro": metro, "site": site, "day": day, "class": kind, "tests": len(tests)}
        for (metro, site, day, kind), tests in groups.items()
    ]

"""Captures of one path: what was matched, lost and delayed between them, as sentences, facts and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whydrop.explaining.document import Model, Verdict
from whydrop.explaining.pair import AfterGap, Changes, LeftOut, Pair, PairFlow, Transit
from whydrop.show.document import Column, Columns, Table, known, plain
from whydrop.text.quantities import clock, count, duration, percent, plural, significant

# Translated flows that are listed; a gateway translates thousands.
_NAMES = 2

# Clocks that differ by less are taken as one.
_SAME_CLOCK_S = 5e-7

_UNMATCHED = {
    "outside-overlap": "outside the time that both captures cover",
    "other-path": "of flows that are in only one capture",
    "undecided": "identical to other packets, so not matched",
    "forgotten": "discarded to keep within the memory limit",
    "not-ip-or-cut-off": "without a whole IP header",
    "broadcast-or-multicast": "broadcast or multicast, which are not matched",
    "too-long": "longer than the packets to match",
}


def too_long(segments: Sequence[Pair]) -> str:
    """A sentence on the packets that were not matched since they are too long; otherwise nothing."""
    number = sum(hop.unmatched.get("too-long", 0) for hop in segments)
    if not number:
        return ""
    return (
        f"This covers a part: {plural(number, 'packet')} longer than --match-up-to were not matched. What was lost or "
        "delayed of them is unknown."
    )


def title(segments: Sequence[Pair]) -> str:
    """The heading."""
    return f"{len(segments) + 1} captures of one path" if len(segments) > 1 else "Two captures"


def summary(pair: Pair) -> str:
    """One sentence: packets matched, and packets lost in each direction."""
    first, second = ends(pair)
    lost = [
        f"{count(number)} lost from {start} to {end}"
        for number, start, end in ((pair.lost_1_to_2, first, second), (pair.lost_2_to_1, second, first))
        if number
    ]
    losses = ", ".join(lost) if lost else "none lost between the captures"
    return f"{count(pair.matched)} packets matched, {losses}."


def ends(pair: Pair) -> tuple[str, str]:
    """The names of the two captures."""
    return f"capture {pair.first + 1}", f"capture {pair.second + 1}"


@dataclass(frozen=True)
class _Direction:
    """The packets from one capture of a path to the next."""

    name: str
    lost: int
    loss_runs: tuple[tuple[int, int], ...]
    transit: Transit | None
    reordered: int
    duplicated: int


def _directions(hop: Pair) -> tuple[_Direction, _Direction]:
    first, second = ends(hop)
    return (
        _Direction(f"{first} to {second}", hop.lost_1_to_2, hop.loss_runs_1_to_2, hop.transit_1_to_2_s,
                   hop.reordered_1_to_2, hop.duplicated_1_to_2),
        _Direction(f"{second} to {first}", hop.lost_2_to_1, hop.loss_runs_2_to_1, hop.transit_2_to_1_s,
                   hop.reordered_2_to_1, hop.duplicated_2_to_1),
    )  # fmt: skip


def directions(segments: Sequence[Pair]) -> Table:
    """Losses and transit times, a row for each direction between neighbouring captures."""

    columns: Columns[_Direction] = {
        Column("Direction"): lambda row: row.name,
        Column("Lost", True, 1): lambda row: count(row.lost),
        Column("Longest loss run", True, 6): lambda row: known(_longest(row.loss_runs), count),
        Column("Fastest", True, 2): lambda row: _transit(row.transit, "min"),
        Column("Median", True, 3): lambda row: _transit(row.transit, "p50"),
        Column("99 %", True, 5): lambda row: _transit(row.transit, "p99"),
        Column("Slowest", True, 4): lambda row: _transit(row.transit, "max"),
        Column("Reordered", True, 7): lambda row: count(row.reordered),
        Column("Duplicated", True, 8): lambda row: count(row.duplicated),
    }
    return Table.of("", columns, [row for segment in segments for row in _directions(segment)])


def _transit(transit: Transit | None, key: str) -> str:
    return "–" if transit is None else duration(getattr(transit, key))


def _longest(runs: tuple[tuple[int, int], ...]) -> int | None:
    return max((length for length, _ in runs), default=None)


_ORDERS = {
    "guessed": "The order of the captures is a guess from losses or clocks: neither TTL nor transit times show it. If "
    "it is wrong, losses and delays are stated for the wrong direction. --client-side CAPTURE sets the order.",
    "contradicted": "TTL or transit times contradict --client-side: losses and delays may be stated for the wrong "
    "direction.",
}


def order(segments: Sequence[Pair]) -> str:
    """A sentence on the order of the captures, where it is not known for certain; otherwise nothing."""
    return next((_ORDERS[hop.order] for hop in segments if hop.order in _ORDERS), "")


def facts(pair: Pair, segments: Sequence[Pair]) -> list[tuple[str, str]]:
    """Further facts, each with a label."""
    lines = [("Matched", _matched(pair))]
    if pair.unmatched:
        reasons = [f"{count(number)} {_reason(reason)}" for reason, number in pair.unmatched.items() if number]
        lines.append(("Unmatched", "; ".join(reasons)))
    if pair.left_out is not None:
        lines.append(("Left out", _left_out(pair.left_out)))
    for hop in segments:
        lines += _clock(hop, named=len(segments) > 1)
    if pair.after_gap is not None:
        lines.append(("After pauses", _pauses(pair, pair.after_gap)))
    changed = _changes(pair)
    if changed:
        lines.append(("Rewritten", "; ".join(changed)))
    return [(label, text) for label, text in lines if text]


def _left_out(gone: LeftOut) -> str:
    return (
        f"{count(gone.flows)} flows of few packets, to keep within the memory limit; both captures hold "
        f"{count(gone.matched)} of their packets, one capture holds {count(gone.unmatched)}"
    )


def _pauses(pair: Pair, gap: AfterGap) -> str:
    return (
        f"the first {count(gap.packets)} packets {_going(pair, gap.direction)} after pauses of at least "
        f"{duration(gap.gap_s)} took {duration(gap.transit_median_s)} between the captures (median), the others "
        f"{duration(gap.other_median_s)}"
    )


def _matched(pair: Pair) -> str:
    text = f"{count(pair.matched)} packets, in the {duration(pair.overlap_s)} that both captures cover"
    missed = [
        f"{name} lacks {count(number)}"
        for name, number in zip(ends(pair), (pair.missed_by_1, pair.missed_by_2), strict=True)
        if number
    ]
    return f"{text}; {' and '.join(missed)} packets that passed it" if missed else text


def _reason(reason: str) -> str:
    return _UNMATCHED.get(reason, reason.replace("-", " "))


def _clock(hop: Pair, *, named: bool) -> Iterator[tuple[str, str]]:
    if hop.clock_offset_s is None:
        return
    yield (f"Clocks {hop.first + 1} and {hop.second + 1}" if named else "Clocks"), clocks(hop)
    yield "Clock uncertainty", _uncertainty(hop)


def clocks(hop: Pair) -> str:
    """How far the second clock is ahead, how fast it runs, and whether it was stepped."""
    if hop.clock_offset_s is None:
        return "the clocks could not be compared"
    first, second = ends(hop)
    if abs(hop.clock_offset_s) < _SAME_CLOCK_S:
        parts = [f"{second}'s clock agrees with {first}'s"]
    else:
        side = "ahead of" if hop.clock_offset_s > 0 else "behind"
        parts = [f"{second}'s clock is {clock(abs(hop.clock_offset_s))} {side} {first}'s"]
    if hop.clock_drift_ppm is not None:
        parts.append(_drift(hop.clock_drift_ppm, hop.clock_drift_error_ppm))
    steps = len(hop.clock_stretches) - 1
    if steps > 0:
        parts.append("was stepped once" if steps == 1 else f"was stepped {steps} times")
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]


def _drift(drift_ppm: float, error_ppm: float | None) -> str:
    error = f" ± {significant(error_ppm, 2)}" if error_ppm else ""
    if abs(drift_ppm) <= (error_ppm or 0.0):
        return f"runs as fast{f' (0{error} ppm)' if error else ''}"
    return f"runs {significant(abs(drift_ppm))}{error} ppm {'fast' if drift_ppm > 0 else 'slow'}"


def _uncertainty(hop: Pair) -> str:
    low, found, high = hop.clock_offset_low_s, hop.clock_offset_s, hop.clock_offset_high_s
    if low is None or high is None or found is None:
        return (
            "packets were matched in one direction only, so transit times are given above that of the fastest packet; "
            "its own transit time is unknown because the clocks may differ"
        )
    room = max(high - found, found - low)
    return (
        f"the offset lies from {clock(low)} to {clock(high)}: one direction may take up to "
        f"{duration(room)} longer than stated, and the other as much less"
    )


def _changes(pair: Pair) -> list[str]:
    changes = pair.changes
    parts = []
    if changes.ttl_hops:
        sense = "lower" if changes.ttl_hops > 0 else "higher"
        parts.append(f"time to live {sense} by {abs(changes.ttl_hops)}")
    for number, what in (
        (changes.dscp, "DSCP changed"),
        (changes.ecn, "ECN changed"),
        (changes.ce_marked, "marked as congested (CE)"),
        (changes.mss, "maximum segment size rewritten"),
    ):
        if number:
            parts.append(f"{what} in {count(number)} {'packet' if number == 1 else 'packets'}")
    renamed = [flow for flow in pair.flows if flow.flow_at_2 not in (None, flow.flow)]
    parts += [f"{flow.flow} became {flow.flow_at_2}" for flow in renamed[:_NAMES]]
    more = max(changes.translated_flows, len(renamed)) - _NAMES
    if more > 0:
        parts.append(f"{count(more)} more flows got new addresses or ports")
    return parts + _renumbered(changes)


def _renumbered(changes: Changes) -> list[str]:
    def of_flows(number: int) -> str:
        return f"of {count(number)} {'flow' if number == 1 else 'flows'}"

    parts = []
    if changes.renumbered_flows:
        parts.append(f"a device between the captures changes the sequence numbers {of_flows(changes.renumbered_flows)}")
    if changes.sack_left_flows:
        parts.append(
            f"it leaves the selective acknowledgments (SACK) {of_flows(changes.sack_left_flows)} unchanged, "
            "which then acknowledge bytes that were never sent"
        )
    return parts


def flows(pair: Pair) -> Table:
    """Flows of any protocol, at both captures."""
    columns: Columns[PairFlow] = {
        Column("Flow"): lambda one: one.flow,
        Column("Name at capture 2", False, 9): lambda one: one.flow_at_2 or "the same",
        Column("Protocol", False, 10): lambda one: one.protocol.upper(),
        Column("Direction", False, 4): lambda one: _going(pair, one.direction),
        Column("Packets at 1", True, 5): lambda one: count(one.packets_1),
        Column("At 2", True, 6): lambda one: count(one.packets_2),
        Column("Matched", True, 2): lambda one: count(one.matched),
        Column("Lost", True, 1): lambda one: count(one.lost),
        Column("Missed by a capture", True, 7): lambda one: count(one.missed_by_1 + one.missed_by_2),
        Column("Reordered", True, 8): lambda one: count(one.reordered),
        Column("Median transit", True, 3): lambda one: _transit(one.transit, "p50"),
        Column("99 %", True, 11): lambda one: _transit(one.transit, "p99"),
    }
    return Table.of(
        "Flows between the captures", columns, pair.flows, weight=lambda one: (float(one.lost), float(one.matched)),
        order="those with most losses and packets are listed first",
    )  # fmt: skip


def _going(pair: Pair, direction: str) -> str:
    first, second = ends(pair)
    known_directions = {"1-to-2": f"from {first} to {second}", "2-to-1": f"from {second} to {first}"}
    return known_directions.get(direction, "in either direction")


# What follows the title of a model; rivals have nothing.
_ROLES = {"winner": " (chosen)", "fitted": " (fitted)", "given": " (yours)"}


_OF_MODELS: Columns[Model] = {
    Column("Model"): lambda one: f"{one.title}{_ROLES.get(one.role, '')}",
    Column("Drops right", True, 1): lambda one: f"{count(one.hits)} of {count(one.lost)}",
    Column("Drops wrong", True, 2): lambda one: count(one.dropped - one.hits),
    Column("Longest wait, model", True, 3): lambda one: known(one.longest_wait_s, duration),
    Column("measured", True, 4): lambda one: known(one.seen_longest_wait_s, duration),
    Column("Median wait error", True, 5): lambda one: known(one.wait_error_s, duration),
    Column("Passes right", True, 6): lambda one: percent(one.passed_right / one.passed) if one.passed else "–",
}


def models(replayed: Sequence[Model]) -> Table:
    """The replayed models: drops, waits and passes, each as the model has them and as measured."""
    return Table.of(
        "Models replayed over the packets", _OF_MODELS, replayed,
        weight=lambda one: (float(one.role == "winner"), float(one.hits)), order="the chosen one first",
    )  # fmt: skip


def models_beside(replayed: Sequence[Model]) -> Table:
    """The same with a column for each model, where few are compared in little room."""
    (_, named), *measures = _OF_MODELS.items()
    columns = (Column(""), *(Column(plain(named(one)), True) for one in replayed))
    rows = tuple((_of_waits(column.title), *map(write, replayed)) for column, write in measures)
    return Table("Models replayed over the packets", columns, rows)


def _of_waits(title: str) -> str:
    """The title of a column that stands alone: one of them goes on from the one before."""
    return "Longest wait, measured" if title == "measured" else title


def ruled_out(verdict: Verdict) -> list[str]:
    """Why models are ruled out that drop more of the lost packets, and others if the rivals do not say it.

    The last line says where fates are inferred.
    """
    inferred = any(model.fates == "inferred" for model in verdict.models)
    limits = ["from one capture, arrivals and fates are inferred, and no delay of a packet is measured"] * inferred
    said = {runner_up.why for runner_up in verdict.against}
    chosen = max((model.hits for model in verdict.models if model.role == "winner"), default=0)
    better = [model for model in verdict.models if model.why and model.hits > chosen]
    others = [model.why for model in verdict.models if model.why and model.why not in said and model not in better]
    return (
        [f"{model.title} drops more of the lost packets and is ruled out: {model.why}" for model in better]
        + others
        + limits
    )

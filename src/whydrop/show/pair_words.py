"""Two captures of one path, in words and as tables; text and report lay them out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from whydrop.explaining.document import Model, Verdict
from whydrop.explaining.pair import AfterGap, Changes, LeftOut, Pair, PairFlow, Transit
from whydrop.show.tables import Column, Columns, Sheet, known
from whydrop.text import quantities

# Renamed flows that are worth a line each; a translating gateway renames thousands.
_NAMES = 2

# Clocks that differ by less are as good as one.
_SAME_CLOCK_S = 5e-7

_UNMATCHED = {
    "outside-overlap": "outside the time that both captures cover",
    "other-path": "of flows that only one of the captures saw",
    "undecided": "alike, so that it cannot be told which is which",
    "forgotten": "let go to keep to the memory allowed",
    "not-ip-or-cut-off": "without a whole IP header",
    "broadcast-or-multicast": "to many hosts at once, which are matched with none",
}


def title(segments: Sequence[Pair]) -> str:
    """The heading."""
    return f"{len(segments) + 1} captures of one path" if len(segments) > 1 else "Two captures"


def summary(pair: Pair) -> str:
    """One sentence: matched, and lost each way."""
    first, second = ends(pair)
    lost = [
        f"{quantities.count(number)} lost from {start} to {end}"
        for number, start, end in ((pair.lost_1_to_2, first, second), (pair.lost_2_to_1, second, first))
        if number
    ]
    losses = ", ".join(lost) if lost else "none lost on the way"
    return f"{quantities.count(pair.matched)} packets matched, {losses}."


def ends(pair: Pair) -> tuple[str, str]:
    """The names of the two captures."""
    return f"capture {pair.first + 1}", f"capture {pair.second + 1}"


def ways(segments: Sequence[Pair]) -> Sheet:
    """Losses and transit times, a row for each direction between neighbouring captures."""
    columns = (
        Column("Way", False, 0),
        Column("Lost", True, 1),
        Column("Longest run", True, 6),
        Column("Fastest", True, 2),
        Column("Median", True, 3),
        Column("99 %", True, 5),
        Column("Slowest", True, 4),
        Column("Reordered", True, 7),
        Column("Duplicated", True, 8),
    )
    rows = tuple(row for segment in segments for row in _hop_rows(segment))
    return Sheet("Between the captures", columns, rows, tuple((0.0, 0.0) for _ in rows), "")


def _hop_rows(hop: Pair) -> Iterator[tuple[str, ...]]:
    first, second = ends(hop)
    yield (
        f"{first} to {second}",
        quantities.count(hop.lost_1_to_2),
        _longest(hop.loss_runs_1_to_2),
        *_transit(hop.transit_1_to_2_s),
        quantities.count(hop.reordered_1_to_2),
        quantities.count(hop.duplicated_1_to_2),
    )
    yield (
        f"{second} to {first}",
        quantities.count(hop.lost_2_to_1),
        _longest(hop.loss_runs_2_to_1),
        *_transit(hop.transit_2_to_1_s),
        quantities.count(hop.reordered_2_to_1),
        quantities.count(hop.duplicated_2_to_1),
    )


def _longest(runs: tuple[tuple[int, int], ...]) -> str:
    return quantities.count(max(length for length, _ in runs)) if runs else "–"


def _transit(transit: Transit | None) -> tuple[str, str, str, str]:
    if transit is None:
        return "–", "–", "–", "–"
    return (
        quantities.duration(transit.min),
        quantities.duration(transit.p50),
        quantities.duration(transit.p99),
        quantities.duration(transit.max),
    )


def facts(pair: Pair, segments: Sequence[Pair]) -> list[tuple[str, str]]:
    """Further facts, each with a label."""
    lines = [("Matched", _matched(pair))]
    if pair.unmatched:
        reasons = [
            f"{quantities.count(number)} {_reason(reason)}" for reason, number in pair.unmatched.items() if number
        ]
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
        f"{quantities.count(gone.flows)} flows of few packets, to keep to the memory allowed; of their packets "
        f"{quantities.count(gone.matched)} are in both captures, {quantities.count(gone.unmatched)} in one"
    )


def _pauses(pair: Pair, gap: AfterGap) -> str:
    return (
        f"{quantities.count(gap.packets)} packets {_going(pair, gap.direction)} after "
        f"{quantities.duration(gap.gap_s)} or more without any took "
        f"{quantities.duration(gap.transit_median_s)} (median), others {quantities.duration(gap.other_median_s)}"
    )


def _matched(pair: Pair) -> str:
    text = f"{quantities.count(pair.matched)} packets in {quantities.duration(pair.overlap_s)} that both captures cover"
    missed = [
        f"{name} missed {quantities.count(number)}"
        for name, number in zip(ends(pair), (pair.missed_by_1, pair.missed_by_2), strict=True)
        if number
    ]
    return f"{text}; {' and '.join(missed)} that were there all the same" if missed else text


def _reason(reason: str) -> str:
    return _UNMATCHED.get(reason, reason.replace("-", " "))


def _clock(hop: Pair, *, named: bool) -> Iterator[tuple[str, str]]:
    if hop.clock_offset_s is None:
        return
    yield (f"Clocks {hop.first + 1} and {hop.second + 1}" if named else "Clocks"), clocks(hop)
    yield "Unknowable", _unknowable(hop)


def clocks(hop: Pair) -> str:
    """How far the second clock is ahead, how fast it runs, and whether it was stepped."""
    if hop.clock_offset_s is None:
        return "the clocks could not be compared"
    first, second = ends(hop)
    if abs(hop.clock_offset_s) < _SAME_CLOCK_S:
        parts = [f"{second}'s clock agrees with {first}'s"]
    else:
        way = "ahead of" if hop.clock_offset_s > 0 else "behind"
        parts = [f"{second}'s clock is {quantities.clock(abs(hop.clock_offset_s))} {way} {first}'s"]
    if hop.clock_drift_ppm is not None:
        parts.append(_drift(hop.clock_drift_ppm, hop.clock_drift_error_ppm))
    steps = len(hop.clock_stretches) - 1
    if steps > 0:
        parts.append("was stepped once meanwhile" if steps == 1 else f"was stepped {steps} times meanwhile")
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]


def _drift(drift_ppm: float, error_ppm: float | None) -> str:
    error = f" ± {quantities.significant(error_ppm, 2)}" if error_ppm else ""
    if abs(drift_ppm) <= (error_ppm or 0.0):
        return f"runs as fast{f' (0{error} ppm)' if error else ''}"
    return f"runs {quantities.significant(abs(drift_ppm))}{error} ppm {'fast' if drift_ppm > 0 else 'slow'}"


def _unknowable(hop: Pair) -> str:
    low, found, high = hop.clock_offset_low_s, hop.clock_offset_s, hop.clock_offset_high_s
    if low is None or high is None or found is None:
        return (
            "packets went one way only, so transit times are those above the fastest packet's: what that took cannot "
            "be told from clocks that may differ"
        )
    room = max(high - found, found - low)
    return (
        f"how the round trip divides into its two ways: the offset lies from {quantities.clock(low)} to "
        f"{quantities.clock(high)}, so one way may take up to {quantities.duration(room)} longer and the other as "
        "much less"
    )


def _changes(pair: Pair) -> list[str]:
    changes = pair.changes
    parts = []
    if changes.ttl_hops:
        parts.append(f"time to live lower by {changes.ttl_hops}")
    for number, what in (
        (changes.dscp, "DSCP changed"),
        (changes.ecn, "ECN changed"),
        (changes.ce_marked, "marked as congested (CE)"),
        (changes.mss, "maximum segment size rewritten"),
    ):
        if number:
            parts.append(f"{what} in {quantities.count(number)} {'packet' if number == 1 else 'packets'}")
    renamed = [flow for flow in pair.flows if flow.flow_at_2 not in (None, flow.flow)]
    parts += [f"{flow.flow} became {flow.flow_at_2}" for flow in renamed[:_NAMES]]
    more = max(changes.translated_flows, len(renamed)) - _NAMES
    if more > 0:
        parts.append(f"{quantities.count(more)} more flows got new addresses or ports")
    return parts + _renumbered(changes)


def _renumbered(changes: Changes) -> list[str]:
    def of_flows(number: int) -> str:
        return f"of {quantities.count(number)} {'flow' if number == 1 else 'flows'}"

    parts = []
    if changes.renumbered_flows:
        parts.append(f"a device between the captures changes the sequence numbers {of_flows(changes.renumbered_flows)}")
    if changes.sack_left_flows:
        parts.append(
            f"it leaves the selective acknowledgments (SACK) {of_flows(changes.sack_left_flows)} unchanged, "
            "which then report what was never sent"
        )
    return parts


def flows(pair: Pair) -> Sheet:
    """Flows of any protocol, at both captures."""
    columns: Columns[PairFlow] = {
        Column("Flow", False, 0): lambda one: one.flow,
        Column("Where it arrives", False, 9): lambda one: one.flow_at_2 or "the same",
        Column("Protocol", False, 10): lambda one: one.protocol.upper(),
        Column("Way", False, 4): lambda one: _going(pair, one.direction),
        Column("Packets at 1", True, 5): lambda one: quantities.count(one.packets_1),
        Column("At 2", True, 6): lambda one: quantities.count(one.packets_2),
        Column("Matched", True, 2): lambda one: quantities.count(one.matched),
        Column("Lost", True, 1): lambda one: quantities.count(one.lost),
        Column("Missed by a capture", True, 7): lambda one: quantities.count(one.missed_by_1 + one.missed_by_2),
        Column("Reordered", True, 8): lambda one: quantities.count(one.reordered),
        Column("Median transit", True, 3): lambda one: _transit(one.transit)[1],
        Column("99 %", True, 11): lambda one: _transit(one.transit)[2],
    }
    order = "those with most losses and packets come first"
    return Sheet.of(
        "Flows between the captures", columns, pair.flows, lambda one: (float(one.lost), float(one.matched)), order
    )


def _going(pair: Pair, direction: str) -> str:
    first, second = ends(pair)
    ways = {"1-to-2": f"from {first} to {second}", "2-to-1": f"from {second} to {first}"}
    return ways.get(direction, "one way or the other")


def models(verdict: Verdict) -> Sheet:
    """The models that were replayed: drops, passes and waits, predicted and seen."""
    columns: Columns[Model] = {
        Column("Model", False, 0): lambda one: f"{one.title} (won)" if one.role == "winner" else one.title,
        Column("Drops right", True, 1): lambda one: f"{quantities.count(one.hits)} of {quantities.count(one.lost)}",
        Column("Drops wrong", True, 2): lambda one: quantities.count(one.dropped - one.hits),
        Column("Passes right", True, 4): lambda one: (
            quantities.percent(one.passed_right / one.passed) if one.passed else "–"
        ),
        Column("Longest wait", True, 3): lambda one: known(one.longest_wait_s, quantities.duration),
        Column("Seen", True, 5): lambda one: known(one.seen_longest_wait_s, quantities.duration),
        Column("Median error", True, 6): lambda one: known(one.wait_error_s, quantities.duration),
    }
    order = "the winner and the best first"
    return Sheet.of(
        "Models replayed over the packets",
        columns,
        verdict.models,
        lambda one: (float(one.role == "winner"), float(one.hits)),
        order,
    )


def ruled_out(verdict: Verdict) -> list[str]:
    """Why the other models are ruled out, where the causes that lost do not already say so."""
    said = {runner_up.why for runner_up in verdict.against}
    return [model.why for model in verdict.models if model.why and model.why not in said]

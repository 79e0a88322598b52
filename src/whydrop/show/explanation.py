"""An explanation as a document: the verdict and what supports it, what else was found, tables."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from whydrop.explaining import parameters
from whydrop.explaining.document import Verdict
from whydrop.explaining.explained import Explained
from whydrop.explaining.matching import Matching
from whydrop.explaining.pair import Pair
from whydrop.show import pair_words, tables, words
from whydrop.show.document import (
    Column,
    Command,
    Document,
    Facts,
    Figures,
    Folded,
    Items,
    Part,
    Section,
    Table,
    Text,
    parts,
)
from whydrop.text import quantities
from whydrop.text.phrases import capital

# Verdicts after the headline that a terminal shows.
_MOST_MINOR = 12
# Captures of one path that a prediction takes.
_MOST_PREDICTED = 2
# Verdicts after the headline that a page holds.
_MOST_FOLDED = 500
_NO_VERDICT = "No verdict: there are no packets to explain."
_NO_DATA_MATCHED = "No verdict: no packet with data is in both captures."


def document(
    found: Explained,
    figures: Mapping[str, Figures] | None = None,
    beside: Sequence[Part] = (),
    after: Sequence[Part] = (),
) -> Document:
    """An explanation for people.

    Args:
        found: the explanation.
        figures: those of all packets between two captures (``pair``) and of single connections (``charts``), for a
            page; without them, only what a terminal shows.
        beside: parts that follow the headline.
        after: parts that follow everything else.
    """
    figures = {} if figures is None else figures
    headline = found.verdicts[0] if found.verdicts else None
    title = words.stated(headline) if headline else _no_verdict(found)
    steps = set(_steps(headline.advice)) if headline else set()
    pair_title = pair_words.title(found.path_segments) if found.pair else ""
    own = (*map(Text, _left_out(found)), *(_verdict(headline, found, _predicting(headline, found)) if headline else ()))
    shown = (
        Section(title, own, key="verdict", cause=headline.cause if headline else "unknown"),
        *parts(
            Section(pair_title, parts(*_pair(found), figures.get("pair")), key="pair"),
            *beside,
            Section(
                _charts_title(found),
                parts(figures.get("charts"), _senders(found) if figures else None),
                key="charts",
            ),
            _others(found, steps, is_page=bool(figures)),
            *_tables(found, is_page=bool(figures)),
            *after,
        ),
    )
    footer = (
        f"Made by whydrop {found.document.get('whydrop', '')}. All times are UTC; 1 kB is 1\N{NO-BREAK SPACE}000 bytes."
    )
    return Document(title, shown, source=_source(found), notes=found.notes, footer=footer)


def _charts_title(found: Explained) -> str:
    return "Charts" if found.pair is None else "Charts of one connection"


def _senders(found: Explained) -> Table | None:
    # Importing polars would take a tenth of a second of every answer on a terminal, which has no such table.
    from whydrop.show import sending

    return sending.table(found)


def of_matching(found: Matching) -> Document:
    """The packets matched between two captures, the losses between them, and the clocks."""
    pair = found.pair
    doubt = Text(pair_words.order((pair,)))
    return Document(
        pair_words.summary(pair), (Section(pair_words.summary(pair), parts(doubt, *_between(pair, (pair,)))),)
    )


def _source(found: Explained) -> str:
    names = [*(capture.path for capture in found.captures), *(one["path"] for one in found.recordings)]
    spans = [
        f"{quantities.count(capture.packets)} packets from {quantities.instant(capture.first)}"
        for capture in found.captures
        if capture.first is not None
    ]
    spans += [f"test {one['test']} from {quantities.instant(one['first'])}" for one in found.recordings]
    return f"{', '.join(names)}: {'; '.join(spans)}"


def _no_verdict(found: Explained) -> str:
    return _NO_DATA_MATCHED if any(segment.matched for segment in found.path_segments) else _NO_VERDICT


def _left_out(found: Explained) -> Iterator[str]:
    """The limits of the answer as a whole: this stands with it, and not among the notes."""
    if order := pair_words.order(found.path_segments):
        yield order
    if too_long := pair_words.too_long(found.path_segments):
        yield too_long
    if beyond := tables.lost_beyond(found):
        yield beyond
    for capture in found.captures:
        if capture.left_out:
            of = f" of {capture.path}" if len(found.captures) > 1 else ""
            every = quantities.plural(capture.packets + capture.left_out, "packet")
            left_out = quantities.count(capture.left_out)
            yield f"This covers a part{of}: the filter or the times given leave out {left_out} of {every}."


def _tables(found: Explained, *, is_page: bool) -> Iterator[Table]:
    yield tables.transfers(found)
    yield tables.flows(found)
    yield tables.datagrams(found)
    yield tables.servers(found)
    if found.pair is not None and is_page:
        yield pair_words.flows(found.pair)
    yield tables.captures(found)


# --- verdicts ---


def _verdict(verdict: Verdict, found: Explained, more_advice: Iterable[str] = ()) -> tuple[Part, ...]:
    """Everything about a verdict but its sentence."""
    where = words.place(verdict.place, found.captures) if verdict.place is not None else ""
    flows = words.flows(verdict, len(found.flows))
    return parts(
        Text(f"Where: {where}" if where else "", "strong"),
        Text(f"Flow: {flows}" if flows else ""),
        Text(_meaning(verdict), "quiet"),
        Facts(tuple(_standing(verdict)), tiles=True),
        Text(_estimate(verdict), "quiet"),
        Section(
            "",
            parts(
                Section("Evidence", parts(Items.of(map(capital, verdict.evidence)))),
                Section("Parameters", parts(_parameters(verdict), Text(_byte_basis(verdict), "quiet"))),
            ),
            beside=True,
        ),
        Section("Why not something else", parts(_against(verdict))),
        replace(pair_words.models(verdict.models), notes=tuple(map(capital, pair_words.ruled_out(verdict)))),
        Section("What to do", parts(Items.of(map(capital, (*verdict.advice, *more_advice))))),
    )


def _predicting(verdict: Verdict, found: Explained) -> tuple[str, ...]:
    """The command that predicts the effect of changes, where the verdict has a path that can be simulated."""
    paths = [capture.path for capture in found.captures]
    has_path = verdict.path is not None or verdict.cause == "aqm"
    # Pieces of one capture are no captures of one path, and of a part no command predicts.
    is_pieces = len(paths) > 1 and found.pair is None
    is_part = any(capture.left_out for capture in found.captures)
    if not has_path or not found.flows or found.recordings or is_pieces or is_part:
        return ()
    if len(paths) > _MOST_PREDICTED or "-" in paths:
        return ()
    return ("Predict the effect of such changes:", f"$ whydrop predict {shlex.join(paths)}")


def _meaning(verdict: Verdict) -> str:
    title, meaning = words.cause_title(verdict.cause), words.cause_meaning(verdict.cause)
    family = f", {words.family(verdict.family)}" if verdict.family is not None else ""
    return f"{title}: {meaning}{family}." if meaning else f"{title}."


def _standing(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """How sure a verdict is, and how much it accounts for: values with their meanings."""
    if certainty := words.certainty(verdict):
        yield certainty, "confidence"
    if verdict.lost and verdict.explained > 0:
        losses = "the one loss" if verdict.lost == 1 else f"{quantities.count(verdict.lost)} losses"
        yield quantities.percent(verdict.explained), f"of {losses} accounted for"
    if verdict.limited_share:
        yield quantities.percent(verdict.limited_share), "of the time limited by it"
    if (lost := verdict.throughput_lost) is not None:
        yield quantities.rate(lost.bps), f"throughput lost to it ({quantities.percent(lost.share)})"


def _estimate(verdict: Verdict) -> str:
    """The method behind the throughput lost."""
    lost = verdict.throughput_lost
    return f"Throughput lost is estimated as {lost.method}." if lost is not None else ""


def _parameters(verdict: Verdict) -> Table:
    def row(name: str) -> tuple[str, Text, str]:
        label, write = parameters.parameter_words(name)
        parameter = verdict.parameters[name]
        return label, Text(write(parameter.value), "strong"), parameters.interval(name, parameter)

    columns = (Column("Parameter"), Column("Value", number=True), Column("95 % interval"))
    return Table("", columns, tuple(row(name) for name, _ in parameters.ordered(verdict.parameters)))


def _byte_basis(verdict: Verdict) -> str:
    if verdict.byte_basis is None or not verdict.parameters:
        return ""
    return f"Sizes count {tables.BYTE_BASES.get(verdict.byte_basis, verdict.byte_basis)}."


def _against(verdict: Verdict) -> Facts:
    return Facts(tuple((words.cause_title(other.cause), capital(other.why)) for other in verdict.against))


def _others(found: Explained, steps: set[tuple[str, ...]], *, is_page: bool) -> Section:
    """The verdicts after the headline; advice that was given before is not repeated in brief."""
    further = words.further(found.verdicts)
    numbers = {id(verdict): number for number, verdict in enumerate(found.verdicts)}
    folded: list[Part] = []
    for verdict in further[:_MOST_FOLDED] if is_page else further:
        new = [step for step in _steps(verdict.advice) if step not in steps]
        steps.update(new)
        flows = words.flows(verdict, len(found.flows))
        standing = " · ".join(f"{value} {meaning}" for value, meaning in _standing(verdict))
        brief = (*([Text(standing, "quiet")] if standing else []), *_brief(line for step in new for line in step))
        summary = f"{flows}: {words.stated(verdict)}" if flows else words.stated(verdict)
        own = _verdict(verdict, found) if is_page else ()
        folded.append(Folded(summary, own, brief, verdict.cause, f"verdict-{numbers[id(verdict)]}"))
    left = len(further) - len(folded)
    if left:
        folded.append(Text(f"and {quantities.count(left)} more, which explain less", "quiet"))
    return Section("Also", tuple(folded), most=_MOST_MINOR, elsewhere="--json and --report list all")


def _steps(advice: Iterable[str]) -> list[tuple[str, ...]]:
    """Each sentence of advice with the commands that follow it."""
    steps: list[list[str]] = []
    for line in advice:
        if line.startswith("$ ") and steps:
            steps[-1].append(line)
        else:
            steps.append([line])
    return [tuple(step) for step in steps]


def _brief(lines: Iterable[str]) -> Iterator[Text | Command]:
    for line in lines:
        yield Command(line[2:]) if line.startswith("$ ") else Text(line)


# --- captures of one path ---


def _pair(found: Explained) -> tuple[Part, ...]:
    pair = found.pair
    return () if pair is None else (Text(pair_words.summary(pair)), *_between(pair, found.path_segments))


def _between(pair: Pair, segments: Sequence[Pair]) -> tuple[Part, ...]:
    facts = tuple((label, capital(text)) for label, text in pair_words.facts(pair, segments))
    return parts(pair_words.directions(segments), Facts(facts))

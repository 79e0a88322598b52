"""Tests of several connections before and after a change as a document: the answer, both kinds by site, clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from whydrop.show.document import Document, Items, Section, parts
from whydrop.studies.discards.document import COMPARISONS, SPREAD, site_name
from whydrop.studies.discards.spread import client_spread
from whydrop.studies.frame_tables import FrameColumn, table_of
from whydrop.text.phrases import listed
from whydrop.text.quantities import plural

if TYPE_CHECKING:
    from whydrop.studies.discards.multi_stream import MultiStream

_TITLE = "Tests of several connections before and after the change"
_AGREEMENT = (
    FrameColumn("Site", ("site",), site_name),
    FrameColumn("Several connections", ("multi_stream",), str),
    FrameColumn("One connection", ("single_stream",), str),
    FrameColumn("Both", ("agreement",), str),
)
_NOTE = (
    "A test: connections of one client to one site that overlap in time. Several users behind one address may look "
    "like one. Speed: the bytes of all connections, over the time from the first one's start to the last one's end. "
    "A question mark: no placebo could be computed, so speeds may vary as much without a change."
)


def document(found: MultiStream) -> Document:
    """The comparison as a terminal shows it."""
    if found.comparisons.is_empty():
        return Document(_TITLE, tuple(parts(Items.of(found.notes))))
    shown = Section(_answer(found.agreement), parts(Items.of(found.notes)))
    agreement = table_of("Clients' mean speeds after the change, by both kinds of tests", found.agreement, _AGREEMENT)
    compared = table_of("Speeds of tests of several connections", found.comparisons, COMPARISONS, notes=[_NOTE])
    spread = table_of(
        "What each client's tests show (medians over clients)", client_spread(found.client_speeds), SPREAD
    )
    return Document(_TITLE, (shown, *parts(agreement, compared, spread)))


def _answer(agreement: pl.DataFrame) -> str:
    both = "Tests of several connections and of one"
    said = []
    for word, what in (
        ("agree", f"{both} agree at"),
        ("disagree", f"{both} disagree at"),
        ("undecided", "One of both kinds of tests is undecided, or both are, at"),
        ("one kind only", "Only one kind of tests has enough clients at"),
    ):
        sites = [site_name(site) for site in agreement.filter(agreement=word)["site"]]
        if sites:
            said.append(f"{what} {listed(sites) if len(sites) <= 4 else plural(len(sites), 'site')}.")
    return " ".join(said)

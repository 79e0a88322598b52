"""The store as the study sees it: its days and metros, why a table is empty, and which sites are left out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from whydrop.studies.discards.parameters import Days, Parameters
from whydrop.text.phrases import listed

if TYPE_CHECKING:
    import polars as pl

    from whydrop.store.engines import Backend

_MOST_NAMES = 8


@dataclass(frozen=True)
class _Need:
    """One thing that rows must be: ``column`` is what the store's other values of it are listed from."""

    words: str
    column: str
    holds: Any  # an Ibis expression over the table's columns


def why_empty(backend: Backend, parameters: Parameters, name: str) -> str:
    """A sentence's second half: what the store does not hold of what table ``name`` is made of."""
    if name in ("utilisation", "discard_ratio", "discard_bin_days"):
        return _lacking(
            backend, "counters", _of_counters(backend, parameters, name), "counters of switches", _REPAIR[0]
        )
    spans = _of_tests(backend, parameters, name)
    found = _lacking(backend, "ndt", spans, "NDT tests", _REPAIR[1])
    if found != _NOTHING_LACKING:
        return found
    if name == "client_speeds" and parameters.change is not None:
        return f"no client has more than {parameters.change.more_tests_than} tests in each of the two periods"
    return "no test fits the parameters (tests: least_acked_bytes, least_duration_s, most_duration_s)"


def of_other_machines(backend: Backend, parameters: Parameters) -> list[str]:
    """Sentences about sites that the published definitions leave out, as they look at one machine's rows alone.

    Such sites vanish from figures 1 and 3, and in figure 7 all of their tests count as not exposed; or, where no test
    names the machine, there are none. Nothing of that can be seen in the figures.
    """
    if not parameters.is_published:
        return []
    machine = parameters.published_machine
    counters, tests = backend.table("counters"), backend.table("ndt")
    samples = _machines(
        backend,
        counters.filter(counters.port == parameters.port),
        parameters,
        tuple({*parameters.metros, *parameters.contact.metros}) if parameters.metros else (),
    )
    downloads = _machines(
        backend, tests.filter(tests.direction == "download"), parameters, parameters.contact.metros or parameters.metros
    )
    return [
        *_left_out(
            samples,
            machine,
            "no samples",
            "figures 1 and 3 leave it out, and figure 7 counts its tests as not exposed",
            "figures 1 and 3 leave them out, and figure 7 counts their tests as not exposed",
        ),
        *_left_out(downloads, machine, "no tests", "figure 7 leaves it out", "figure 7 leaves them out"),
    ]  # fmt: skip


def _machines(backend: Backend, table: Any, parameters: Parameters, metros: tuple[str, ...]) -> pl.DataFrame:
    """Which machines each site names in rows of the study's days; null: rows that name none."""
    for need in _of_place_and_days(table, metros, [parameters.days]):
        table = table.filter(need.holds)
    return backend.run(table.select("site", "machine").distinct().order_by("site", "machine"))


def _left_out(named: pl.DataFrame, machine: str, what: str, one: str, many: str) -> list[str]:
    """One sentence: which sites have rows, but none of the machine; and what to do about it."""
    rows = list(named.iter_rows())
    have = {site for site, name in rows if name == machine}
    others = [(site, name) for site, name in rows if site not in have]
    if not others:
        return []
    sites = list(dict.fromkeys(site for site, _ in others))
    there = sorted({name for _, name in others if name is not None})
    remedy = "leave out --as-published: the corrected definitions take every machine's"
    if there:
        remedy = f"name one of these with --set published_machine={there[0]}, or {remedy}"
        has = f"there are those of {listed([repr(name) for name in there])}"
    else:
        has = "its rows name no machine" if len(sites) == 1 else "their rows name no machine"
    verb, then = ("has", one) if len(sites) == 1 else ("have", many)
    lacks = f"{listed([site or 'an unnamed site' for site in sites])} {verb} {what} ({has})"
    return [f"As published, only machine {machine!r} counts, of which {lacks}: {then}. To see them, {remedy}."]


_NOTHING_LACKING = "no row fits the parameters"
_REPAIR = (
    "`whydrop store import` reads DISCO's archives into it, and `whydrop collect` polls switches",
    "`whydrop store import` reads M-Lab's archives into it",
)


def _of_counters(backend: Backend, parameters: Parameters, name: str) -> list[_Need]:
    table = backend.table("counters")
    counter = "octets.tx" if name == "utilisation" else "discards.tx"
    needs = _of_place_and_days(table, parameters.metros, [parameters.days])
    needs.append(_Need(f"port {parameters.port!r}", "port", table.port == parameters.port))
    if parameters.is_published:
        needs.append(_of_machine(table, parameters))
    return [*needs, _Need(f"counter {counter!r}", "counter", table.counter == counter)]


def _of_tests(backend: Backend, parameters: Parameters, name: str) -> list[_Need]:
    table = backend.table("ndt")
    change = parameters.change
    metros, spans = parameters.metros, [parameters.days]
    if name == "client_speeds" and change is not None:
        metros, spans = change.metros, [change.before, change.after]
    elif name in ("contacts", "contact_days"):
        metros = parameters.contact.metros
    needs = _of_place_and_days(table, metros, spans)
    needs.append(_Need("direction 'download'", "direction", table.direction == "download"))
    if parameters.is_published and name in ("contacts", "contact_days"):
        needs.append(_of_machine(table, parameters))
    return needs


def _of_machine(table: Any, parameters: Parameters) -> _Need:
    """The published definitions take rows of one machine, and none that name no machine."""
    machine = parameters.published_machine
    return _Need(f"machine {machine!r}, the only one that counts as published", "machine", table.machine == machine)


def _of_place_and_days(table: Any, metros: tuple[str, ...], spans: list[Days]) -> list[_Need]:
    needs = []
    if metros:
        words = f"metro {metros[0]!r}" if len(metros) == 1 else f"metros {', '.join(metros)}"
        needs.append(_Need(words, "metro", table.metro.isin(list(metros))))
    within = table.day.between(str(spans[0].first), str(spans[0].last))
    for span in spans[1:]:
        within |= table.day.between(str(span.first), str(span.last))
    words = " or ".join(f"{span.first} to {span.last}" for span in spans)
    needs.append(_Need(f"days {words}", "day", within))
    return needs


def _lacking(backend: Backend, name: str, needs: list[_Need], what: str, repair: str) -> str:
    """The first need that no row meets which meets those before it."""
    table = backend.table(name)
    rows = table
    if not _count(backend, rows):
        return f"the store holds no {what}; {repair}"
    for need in needs:
        kept = rows.filter(need.holds)
        if not _count(backend, kept):
            return f"the store holds no {what} of {need.words} ({_there_is(backend, rows, need.column)})"
        rows = kept
    return _NOTHING_LACKING


def _count(backend: Backend, rows: Any) -> int:
    return int(backend.run(rows.limit(1).aggregate(rows=rows.limit(1).count()))["rows"][0])


def _there_is(backend: Backend, rows: Any, column: str) -> str:
    """A phrase on what the rows have instead."""
    if column == "day":
        ends = backend.run(rows.aggregate(first=rows.day.min(), last=rows.day.max()))
        return f"it has days {ends['first'][0]} to {ends['last'][0]}"
    found = backend.run(rows.select(column).distinct().order_by(column).limit(_MOST_NAMES + 1))
    if found[column].null_count() == found.height:
        return f"its rows name no {column}"
    names = [repr(value) if value is not None else "none" for value in found[column]]
    more = ", ..." if len(names) > _MOST_NAMES else ""
    return f"it has {', '.join(names[:_MOST_NAMES])}{more}"


_TABLES = ("counters", "ndt")


def fitted(backend: Backend, parameters: Parameters) -> tuple[Parameters, list[str]]:
    """``parameters``, with the store's own days and metros if it has no rows of the report's, and a note that says so.

    Parameters that were chosen stay as they are. Without the report's days or metros its change of configuration means
    nothing: no periods are compared.
    """
    chosen = parameters.model_fields_set
    days = None if "days" in chosen else _own_days(backend, parameters.days)
    all_metros = "metros" not in chosen and not _any_of(backend, parameters.metros)
    if days is None and not all_metros:
        return parameters, []
    contact = parameters.contact.model_copy(update={"metros": ()})
    own = parameters.model_copy(
        update={
            **({} if days is None else {"days": days}),
            **({"metros": ()} if all_metros else {}),
            **({} if "change" in chosen else {"change": None}),
            **({} if "metros" in parameters.contact.model_fields_set else {"contact": contact}),
        }
    )
    where = f"at {', '.join(own.metros)}" if own.metros else "at all sites"
    note = (
        "The store has no data of the published report's days and metros "
        f"({parameters.days.first} to {parameters.days.last}; {', '.join(parameters.metros)}). "
        f"The study takes the store's own: {own.days.first} to {own.days.last}, {where}. "
        "Choose others in a parameter file: `whydrop study discards example` prints one."
    )
    return own, [note]


def _own_days(backend: Backend, days: Days) -> Days | None:
    """The days of the store's rows; ``None`` if there are rows of ``days``, or none at all."""
    ends: list[str] = []
    for name in _TABLES:
        table = backend.table(name)
        found = backend.run(table.aggregate(first=table.day.min(), last=table.day.max()))
        ends += [str(day) for day in found.row(0) if day is not None]
    if not ends:
        return None
    own = Days(first=date.fromisoformat(min(ends)), last=date.fromisoformat(max(ends)))
    return own if own.last < days.first or own.first > days.last else None


def _any_of(backend: Backend, metros: tuple[str, ...]) -> bool:
    """True if the store has rows of any of the metros, or no rows at all."""
    own: set[str] = set()
    for name in _TABLES:
        table = backend.table(name)
        own |= set(backend.run(table.select("metro").distinct())["metro"].drop_nulls())
    return not own or bool(own.intersection(metros))

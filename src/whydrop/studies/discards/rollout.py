"""A change that is rolled out in stages, one site, some, all: each stage judged against the sites that did not change.

A stage is a day on which sites were changed. Each site is compared with itself, before and after that day. What all
sites share (a season, a holiday) is in the sites that were not changed too, and is subtracted; how much these differ
among themselves is how much a site changes by itself. So sites, not tests or days, are the observations, and neither
the dependence of days nor the likeness of a client's tests makes a conclusion too certain.

Sites of a metro share more. The rest are sites of the same metros where there are enough; otherwise the mean of each
metro is one observation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from whydrop.recording.statistics.differences import holm
from whydrop.studies.days import LEAST_DAYS

if TYPE_CHECKING:
    from datetime import date

    from whydrop.store.engines import Backend
    from whydrop.studies.discards.changes_file import Noted
    from whydrop.studies.discards.parameters import Parameters

Row = dict[str, Any]
Progress = Callable[[str, int, int], None]

#: Fewer sites (or metros) that were not changed do not show how much a site changes by itself.
LEAST_REST = 4
_LEAST_CLIENTS = 3
# Added to each period's discards, so that a period without any has a logarithm.
_HALF_A_PACKET = 0.5

DISCARDS, SPEED = "discards", "speed"
_WORDS = {DISCARDS: ("more", "fewer"), SPEED: ("faster", "slower")}

# One row for each stage and measure. `changed` sites and `rest` sites (or metros, `unit`) have enough data in both
# periods. `ratio_changed` and `ratio_rest` are geometric means over sites of after / before; `ratio` is the first
# divided by the second, with its 95 % interval; `p` of no difference, adjusted by Holm over all rows.
STAGES = {
    "day": pl.String(), "text": pl.String(), "sites": pl.List(pl.String()), "measure": pl.String(),
    "changed": pl.Int64(), "rest": pl.Int64(), "unit": pl.String(), "ratio_changed": pl.Float64(),
    "ratio_rest": pl.Float64(), "ratio": pl.Float64(), "low": pl.Float64(), "high": pl.Float64(), "p": pl.Float64(),
    # more, fewer (discards), faster, slower (speed), undecided; no-rest: too few sites were not changed; no-data
    "adjusted_p": pl.Float64(), "conclusion": pl.String(),
}  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """Sites that were changed on one day.

    Attributes:
        day: of the change; it belongs to neither period.
        text: in words.
        sites: that were changed; none: all that had not been changed before.
    """

    day: date
    text: str
    sites: tuple[str, ...]


def stages(noted: Iterable[Noted]) -> list[Stage]:
    """The stages of a file of changes, in order of time."""
    by_day: dict[date, list[Noted]] = {}
    for one in noted:
        by_day.setdefault(one.day, []).append(one)
    found = []
    for day, ones in sorted(by_day.items()):
        sites = () if any(not one.site for one in ones) else tuple(sorted({one.site for one in ones}))
        found.append(Stage(day, "; ".join(dict.fromkeys(one.text for one in ones if one.text)), sites))
    return found


def judged_stages(
    backend: Backend,
    parameters: Parameters,
    noted: Sequence[Noted],
    days: int,
    progress: Progress | None = None,
) -> pl.DataFrame:
    """A frame of `STAGES`.

    Args:
        backend: an open store.
        parameters: which tests and which port; ``metros`` and ``days`` are not used.
        noted: the changes.
        days: how many days before and after each stage are compared.
        progress: called before each stage.
    """
    rows: list[Row] = []
    planned = stages(noted)
    for number, stage in enumerate(planned):
        if progress is not None:
            progress(f"stage of {stage.day}", number, len(planned))
        asked = _parameters(parameters, stage, days)
        for measure, values in ((DISCARDS, _discards(backend, asked)), (SPEED, _speeds(backend, asked))):
            rows.append(_row(stage, measure, values, planned, days))
    for row, p in zip(rows, holm([row.get("p") for row in rows]), strict=True):
        row["adjusted_p"] = p
        if row["conclusion"] is None:
            significant = p is not None and p < _significance(parameters)
            row["conclusion"] = _WORDS[row["measure"]][row["ratio"] < 1] if significant else "undecided"
    return pl.DataFrame(rows, schema=STAGES)


def _significance(parameters: Parameters) -> float:
    return 0.01 if parameters.change is None else parameters.change.significance


def _parameters(parameters: Parameters, stage: Stage, days: int) -> Parameters:
    from whydrop.studies.discards.parameters import Change, Days

    length, day = timedelta(days=days), timedelta(days=1)
    before = Days(first=stage.day - length, last=stage.day - day)
    after = Days(first=stage.day + day, last=stage.day + length)
    given = parameters.change or Change()
    change = given.model_copy(update={"before": before, "after": after, "metros": ()})
    both = Days(first=before.first, last=after.last)
    return parameters.model_copy(update={"definitions": "corrected", "metros": (), "days": both, "change": change})


# From a site to its metro, and the decimal logarithm of its after / before.
Values = Mapping[str, tuple[str, float]]


def _discards(backend: Backend, asked: Parameters) -> Values:
    from whydrop.studies.discards import queries

    frame = queries.compute(backend, asked, only=["discard_ratio"])["discard_ratio"]
    change = asked.change
    assert change is not None
    found = {}
    for (metro, site), own in frame.filter(pl.col("packets") > 0).group_by("metro", "site"):
        logs = []
        for period in (change.before, change.after):
            part = own.filter(pl.col("day").is_between(pl.lit(str(period.first)), pl.lit(str(period.last))))
            if part.height >= LEAST_DAYS:
                discards, packets = (float(part[name].sum()) for name in ("discards", "packets"))
                logs.append(math.log10((discards + _HALF_A_PACKET) / packets))
        if len(logs) == 2:
            found[str(site)] = (str(metro), logs[1] - logs[0])
    return found


def _speeds(backend: Backend, asked: Parameters) -> Values:
    from whydrop.studies.discards import queries

    frame = queries.compute(backend, asked, only=["client_speeds"])["client_speeds"]
    of = {name: pl.col("mean_bps").filter(pl.col("period") == name).first().log10() for name in ("before", "after")}
    clients = frame.group_by("metro", "site", "client").agg(shift=of["after"] - of["before"]).drop_nulls("shift")
    by_site = clients.group_by("metro", "site").agg(pl.col("shift").median(), clients=pl.len())
    enough = by_site.filter(pl.col("clients") >= _LEAST_CLIENTS)
    return {
        str(site): (str(metro), shift) for metro, site, shift in enough.select("metro", "site", "shift").iter_rows()
    }


def _row(stage: Stage, measure: str, values: Values, planned: Sequence[Stage], days: int) -> Row:
    changed, rest = parted(stage, values, planned, days)
    row: Row = {
        "day": str(stage.day), "text": stage.text, "sites": sorted(stage.sites or changed), "measure": measure,
        "changed": len(changed), "conclusion": None, **compared(changed, rest),
    }  # fmt: skip
    if not changed:
        row["conclusion"] = "no-data"
    elif row["ratio"] is None:
        row["conclusion"] = "no-rest"
    return row


def parted(stage: Stage, values: Values, planned: Sequence[Stage], days: int) -> tuple[Values, Values]:
    """The sites that were changed at a stage, and those that no stage changed in the days that are compared."""
    length = timedelta(days=days)
    earlier = {site for one in planned if one.day < stage.day for site in one.sites}
    changed = set(stage.sites) if stage.sites else set(values) - earlier
    near = {
        site
        for one in planned
        if abs(one.day - stage.day) <= length
        for site in (
            one.sites or set(values) - {site for other in planned if other.day < one.day for site in other.sites}
        )
    }
    return (
        {site: value for site, value in values.items() if site in changed},
        {site: value for site, value in values.items() if site not in near | changed},
    )


def compared(changed: Values, rest: Values) -> Row:
    """The changed sites against the rest: ratios, interval and p, none where the rest are too few.

    A new observation's interval (Student): the changed sites vary by themselves as the rest do.
    """
    from scipy import special

    metros = {metro for metro, _ in changed.values()}
    near = {site: value for site, value in rest.items() if value[0] in metros}
    unit = "site"
    if changed and len(near) >= LEAST_REST and metros == {metro for metro, _ in near.values()}:
        rest = near
        ones, others = ([shift for _, shift in values.values()] for values in (changed, rest))
    elif len({metro for metro, _ in (*changed.values(), *rest.values())}) > 1:
        unit = "metro"
        ones, others = _by_metro(changed), _by_metro({s: v for s, v in rest.items() if v[0] not in metros})
    else:
        ones, others = ([shift for _, shift in values.values()] for values in (changed, rest))
    row: Row = {
        "rest": len(others), "unit": unit, "ratio_changed": 10 ** float(np.mean(ones)) if ones else None,
        "ratio_rest": 10 ** float(np.mean(others)) if others else None, "ratio": None, "low": None, "high": None,
        "p": None,
    }  # fmt: skip
    if not ones or len(others) < LEAST_REST:
        return row
    shift = float(np.mean(ones) - np.mean(others))
    error = float(np.std(others, ddof=1)) * math.sqrt(1 / len(ones) + 1 / len(others))
    row["ratio"] = 10**shift
    if error > 0:
        freedom = len(others) - 1
        reach = float(special.stdtrit(freedom, 0.975)) * error
        row |= {"low": 10 ** (shift - reach), "high": 10 ** (shift + reach)}
        row["p"] = float(2 * special.stdtr(freedom, -abs(shift) / error))
    return row


def _by_metro(values: Values) -> list[float]:
    by: dict[str, list[float]] = {}
    for metro, shift in values.values():
        by.setdefault(metro, []).append(shift)
    return [float(np.mean(shifts)) for shifts in by.values()]


def sentences(frame: pl.DataFrame) -> list[str]:
    """A sentence for each stage and measure: what became of the changed sites beside the rest."""
    from whydrop.text import quantities

    found = []
    for row in frame.iter_rows(named=True):
        names = ", ".join(row["sites"][:6]) + (" and others" if len(row["sites"]) > 6 else "")
        where = f"{row['day']}, {names or 'all sites'}{': ' + row['text'] if row['text'] else ''}"
        what = "Discards" if row["measure"] == DISCARDS else "Clients' speeds"
        if row["conclusion"] == "no-data":
            why = (
                f"{LEAST_DAYS} days with packets"
                if row["measure"] == DISCARDS
                else f"{_LEAST_CLIENTS} clients with enough tests (change.more_tests_than)"
            )
            found.append(f"{where}. {what}: unknown, as no changed site has {why} in both periods.")
            continue
        own = f"{what} changed by a factor of {quantities.significant(row['ratio_changed'])}"
        if row["conclusion"] == "no-rest":
            unit = "metros" if row["unit"] == "metro" else "sites"
            found.append(
                f"{where}. {own}. Whether the change is the reason is unknown: {row['rest']} {unit} without a change "
                f"have data of these days, and at least {LEAST_REST} are needed."
            )
            continue
        interval = (
            ""
            if row["low"] is None
            else (f" (95 %: {quantities.interval(quantities.significant, row['low'], row['high'])})")
        )
        beside = f"{quantities.significant(row['ratio'])} times that of the rest{interval}"
        found.append(f"{where}. {own}, {beside}: {row['conclusion']}.")
    return found

"""The truth that a study of the fleet ought to find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .clients import EXCLUDED, any_in, windows
from .plan import BIN_NS, Plan

if TYPE_CHECKING:
    from .fleet import Contacts, Fleet


def of_tests(plan: Plan, tests: pl.DataFrame, contacts: dict[str, Contacts]) -> pl.DataFrame:
    """A row for each test.

    Columns:
        kind: what it was meant to be.
        counts, counts_published: whether it is one of the study's downloads.
        counts_everybody: the same as published, for any client (figure 7).
        touched: its uplink truly dropped packets in a ten-second window that it overlaps.
        class: what telemetry lets one know of that: zero, non-zero, unknown.
        class_published: by the published rule, for tests of mlab1.
    """
    size = len(tests)
    touched, seen, known, published = (np.zeros(size, dtype=bool) for _ in range(4))
    start_ns, duration_ns = (tests[name].to_numpy() for name in ("start_ns", "duration_ns"))
    for (site,), rows in tests.with_row_index("row").partition_by("site", as_dict=True).items():
        here = rows["row"].to_numpy()
        first, last = windows(plan, start_ns[here], duration_ns[here])
        of = contacts[str(site)]
        touched[here] = any_in(of.dropped > 0, first, last)
        seen[here] = any_in(of.seen, first, last)
        known[here] = ~_any_unknown(of.known, first, last)
        # Samples that end one or two windows after the window in which the test began.
        bin_number = (start_ns[here] - plan.start_ns) // BIN_NS
        published[here] = any_in(of.first_machine, bin_number + 1, bin_number + 2)
    return tests.select(
        "test_id", "site", "machine", "start_ns", "kind",
        counts=counts(60, published=False) & COUNTED_CLIENT,
        counts_published=counts(600, published=True) & COUNTED_CLIENT,
        counts_everybody=counts(600, published=True),
        touched=pl.lit(pl.Series(touched)),
        **{"class": pl.lit(pl.Series(np.where(seen, "non-zero", np.where(known, "zero", "unknown"))))},
        class_published=pl.lit(pl.Series(np.where(published, "non-zero", "zero"))),
    )  # fmt: skip


COUNTED_CLIENT = ~pl.col("remote_address").is_in(list(EXCLUDED))


def counts(most_s: int, *, published: bool) -> pl.Expr:
    """The study's rule for downloads."""
    limited = pl.col("receiver_limited_ns") + pl.col("congestion_limited_ns") + pl.col("sender_limited_ns")
    duration = limited if published else pl.coalesce(limited, "duration_ns")
    return (
        (pl.col("direction") == "download")
        & (pl.col("acked_bytes") >= 1_000_000)
        & (duration >= 9 * 10**9).fill_null(False)
        & (duration < most_s * 10**9).fill_null(False)
    )


def _any_unknown(known: NDArray[np.bool_], first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.bool_]:
    outside = (first < 0) | (last >= len(known))
    return outside | any_in(~known, first, last)


def of_fleet(fleet: Fleet) -> dict[str, Any]:
    """The plan and the sites' nature, for people and for JSON."""
    plan = fleet.plan
    return {
        "plan": {name: _plain(getattr(plan, name)) for name in plan.__dataclass_fields__},
        "change": {
            "day": _plain(plan.change_day),
            "sites": sorted(site for site in plan.sites if plan.is_changed(site, plan.days - 1)),
            "speed_ratio": plan.speed_ratio,
            "discards_kept": plan.discards_kept,
        },
        "sites": {
            site.name: {
                "speed_bps": site.speed_bps,
                "peak_utilisation": site.peak_utilisation,
                "buffer_bytes": site.buffer_bytes,
            }
            for site in fleet.sites
        },
    }


def _plain(value: object) -> object:
    if value is None or isinstance(value, (int, float, str)):
        return value
    return [_plain(item) for item in value] if isinstance(value, tuple) else str(value)

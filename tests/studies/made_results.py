"""Results of the study written by hand, so that figures and report are tested apart from queries and inference."""

from __future__ import annotations

from typing import Any

import polars as pl

from whydrop.studies.discards.parameters import Parameters
from whydrop.studies.discards.results import TABLES
from whydrop.studies.discards.study import Results

DAYS = ("2018-02-11", "2018-02-12")


def results(definitions: str = "corrected", site: str = "dfw01", **tables: list[dict[str, Any]]) -> Results:
    """Two days of one site of dfw: discards on one of them; four clients; and of lga nothing."""
    here = {"metro": "dfw", "site": site}
    rows: dict[str, list[dict[str, Any]]] = {
        "utilisation": [
            {**here, "day": day, "rate_bps": 1e6 * (n + 1), "samples": 8640, "coverage": 1.0 - n / 4}
            for n, day in enumerate(DAYS)
        ],
        "download_speed": [{**here, "day": day, "speed_bps": 20e6, "clients": 4, "tests": 9} for day in DAYS],
        "discard_ratio": [
            {**here, "day": DAYS[0], "ratio": 2e-4, "discards": 200.0, "packets": 1e6, "samples": 8640},
            {**here, "day": DAYS[1], "ratio": 0.0, "discards": 0.0, "packets": 1e6, "samples": 8640},
            {**here, "site": "dfw02", "day": DAYS[0], "ratio": None, "discards": 0.0, "packets": 0.0, "samples": 3},
        ],
        "retransmission_ratio": [
            {**here, "machine": None, "day": DAYS[0], "ratio": 1e-2, "retransmitted": 10, "segments": 1000,
             "clients": 4, "tests": 9},
        ],
        "client_speeds": [
            {**here, "machine": None, "client": f"192.0.2.{n}", "period": period, "tests": 11, "mean_bps": speed * 5e5,
             "max_bps": speed * 1e6, "sd_bps": 1e5, "min_bps": speed * 2e5, "cv": 0.2 / speed}
            for period in ("before", "after")
            for n, speed in enumerate((1.0, 1.0, 10.0, 100.0))
        ],
        "client_spread": [
            {**here, "period": period, "clients": 4, "tests": 11.0, "min_bps": 1.1e6, "mean_bps": 2.75e6,
             "max_bps": 5.5e6, "sd_bps": 1e5, "cv": 0.11}
            for period in ("before", "after")
        ],
        "comparisons": [
            {**here, "statistic": statistic, "before": 4, "after": 4, "ks_distance": 0.0, "ks_p": p, "adjusted_p": 1.0,
             "ratio": 1.0, "ratio_low": 0.9, "ratio_high": 1.2, "paired_p": 0.5, "adjusted_paired_p": 1.0,
             "equivalence_low": 0.8, "equivalence_high": 1.3, "conclusion": "undecided", "detectable_ratio": 2.5}
            for statistic, p in (("max", 0.7654), ("mean", 0.00004))
        ],
        "discard_changes": [
            {**here, "days_before": 1, "days_after": 1, "ratio_before": 2e-4, "ratio_after": 0.0, "ratio": 0.0,
             "ratio_low": None, "ratio_high": None, "p": 0.2, "adjusted_p": 0.2, "conclusion": "undecided"},
        ],
        "contact_days": [
            {**here, "day": DAYS[0], "class": "zero", "tests": 90},
            {**here, "day": DAYS[0], "class": "non-zero", "tests": 6},
            {**here, "day": DAYS[0], "class": "unknown", "tests": 4},
        ],
        "discard_bins": [
            {**here, "month": month, "direction": direction, "bin_s": 10.0, "days": 20, "bins": 172800,
             "with_discards": some, "share": some / 172800, "low": None, "high": None, "discards": 5.0 * some}
            for month in ("2018-02", "all")
            for direction, some in (("rx", 0), ("tx", 346))
        ],
    }  # fmt: skip
    if definitions == "published":
        rows["contact_days"] = [row for row in rows["contact_days"] if row["class"] != "unknown"]
        rows["discard_changes"] = []
    rows |= tables
    return Results(
        Parameters(definitions=definitions, metros=("dfw", "lga")),  # type: ignore[arg-type]
        {name: pl.DataFrame(rows.get(name, []), schema=schema) for name, schema in TABLES.items()},
        ["The store holds no telemetry of lga."],
        {"missing": {"contacts": "no tests"}, "failed": {}, "backend": "duckdb", "placebo": None},
    )

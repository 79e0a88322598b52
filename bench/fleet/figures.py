"""Figures 1 and 3 of the study over a store, with whydrop on DuckDB or by hand in pandas: one process for each run.

    python bench/fleet/figures.py duckdb STORE --figure 1 --first 2018-01-01 --last 2018-01-31 --out result.parquet

Both do what `whydrop.studies.discards.results` says: of each site, switch and day the machine with most samples.
"""

from __future__ import annotations

import argparse
from datetime import date, timedelta
from pathlib import Path
from typing import Any

TABLES = {1: "utilisation", 3: "discard_ratio"}
COUNTERS = {1: ("octets.tx",), 3: ("discards.tx", "unicast.tx")}
PLACE = ["metro", "site", "switch", "day", "machine"]


def main() -> None:
    """Compute one figure and write its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=("duckdb", "pandas"))
    parser.add_argument("store", type=Path)
    parser.add_argument("--figure", type=int, choices=tuple(TABLES), required=True)
    parser.add_argument("--definitions", choices=("corrected", "published"), default="corrected", help="of duckdb")
    parser.add_argument("--first", type=date.fromisoformat, required=True)
    parser.add_argument("--last", type=date.fromisoformat, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.engine == "duckdb":
        with_duckdb(options)
    else:
        (utilisation if options.figure == 1 else discard_ratio)(options).to_parquet(options.out)


def with_duckdb(options: argparse.Namespace) -> None:
    """As `whydrop study discards` does."""
    from whydrop.store.engines import open_backend
    from whydrop.studies.discards import queries
    from whydrop.studies.discards.parameters import Days, Parameters

    parameters = Parameters(
        definitions=options.definitions, metros=(), days=Days(first=options.first, last=options.last)
    )
    table = TABLES[options.figure]
    with open_backend(str(options.store)) as backend:
        queries.compute(backend, parameters, only=[table])[table].write_parquet(options.out)


def samples(options: argparse.Namespace, counter: str, *columns: str) -> Any:
    """Samples of a counter as a frame: only what is needed of the files is read, and text as categories."""
    from pyarrow import dataset

    days = [options.first + timedelta(days=number) for number in range((options.last - options.first).days + 1)]
    files = [str(path) for day in days for path in sorted((options.store / f"counters/day={day}").glob("*.parquet"))]
    text = [column for column in PLACE if column != "day"]
    reading = dataset.ParquetFileFormat(dictionary_columns=set(text))
    found = dataset.dataset(
        files, format=reading, partitioning=dataset.HivePartitioning.discover(infer_dictionary=True)
    )
    wanted = (
        (dataset.field("counter") == counter) & (dataset.field("port") == "uplink") & dataset.field("value").is_valid()
    )
    return found.to_table(columns=[*text, "day", *columns], filter=wanted).unify_dictionaries().to_pandas()


def best(series: Any) -> Any:
    """Of each site, switch and day the machine with most samples, of several the first by name."""
    # Categories are in no order of their own.
    named = series.reset_index().astype({"machine": str})
    ordered = named.sort_values(["samples", "machine"], ascending=[False, True])
    return ordered.groupby(PLACE[:-1], observed=True, as_index=False).first()


def utilisation(options: argparse.Namespace) -> Any:
    """Figure 1 in pandas."""
    frame = samples(options, "octets.tx", "value", "span_ns")
    frame = frame[frame.span_ns > 0]
    frame["rate_bps"] = 8e9 * frame.value / frame.span_ns
    groups = frame.groupby(PLACE, observed=True, sort=False)
    series = groups.agg(samples=("value", "size"), span_ns=("span_ns", "sum"))
    series["rate_bps"] = groups["rate_bps"].quantile(0.5)
    chosen = best(series)
    chosen["coverage"] = chosen.span_ns / 86_400e9
    return chosen[["metro", "site", "day", "rate_bps", "samples", "coverage"]]


def discard_ratio(options: argparse.Namespace) -> Any:
    """Figure 3 in pandas."""
    dropped = samples(options, "discards.tx", "end_ns", "value")
    packets = samples(options, "unicast.tx", "end_ns", "value")
    windows = dropped.merge(packets, on=[*PLACE, "end_ns"], suffixes=("", "_packets"))
    groups = windows.groupby(PLACE, observed=True, sort=False)
    series = groups.agg(samples=("value", "size"), discards=("value", "sum"), packets=("value_packets", "sum"))
    chosen = best(series)
    chosen["ratio"] = chosen.discards / chosen.packets
    return chosen[["metro", "site", "day", "ratio", "discards", "packets", "samples"]]


if __name__ == "__main__":
    main()

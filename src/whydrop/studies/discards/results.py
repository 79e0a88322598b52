"""The results of the study: its tables, their columns and units, and what each row means.

One definition for both computations. ``published`` and ``corrected`` say where the two differ; the numbers in
brackets are the faults that `docs/discards.md` lists. ``day`` is a UTC day as text (``2018-02-11``) everywhere.
Shares and ratios are 0 to 1. Frames are sorted by their first columns up to the first number.

The study's ``dl`` are the rows of ``ndt`` with direction download, ``acked_bytes`` at least ``least_acked_bytes``, a
duration of ``receiver_limited + congestion_limited + sender_limited`` in [least, most) (for rows that lack these three,
corrected only: ``duration_ns``), and a client that is not excluded. ``speed`` is 8 x acked bytes / that duration.

``quantile``: published 49/101 = 0.485 (APPROX_QUANTILES(x, 101)[ORDINAL(50)] has 102 entries of which it takes the
50th), corrected 0.5. Both exact. BigQuery's function gives one of the values: published is the smallest that a share of
at least q does not exceed (PERCENTILE_DISC). Corrected is interpolated between ranks q x (n - 1) (PERCENTILE_CONT).

Which samples (figures 1 and 3): published those of ``published_machine`` alone. Corrected: an uplink is polled by each
machine of its site, and each machine's series is the same; of each site, switch and day the machine with the most
samples is taken (of several the first by name).
"""

from __future__ import annotations

import polars as pl

Schema = dict[str, pl.DataType]

# Behind a conclusion about speeds without placebos to compare with.
UNSURE = "?"

_I64, _F64, _TEXT = pl.Int64(), pl.Float64(), pl.String()

# Figure 1. Published: y = quantile of octets.tx of the port x 8 / 10 [s]: the column is called Mbps and is bit/s (6).
# Corrected: each sample's rate is 8 x value / span, samples without value (resets) or span are left out.
# `coverage` is the share of the day that samples cover (sum of spans / 86400 s, over the number of switches if a site
# has several; published: samples x bin / 86400 s).
UTILISATION: Schema = {
    "metro": _TEXT, "site": _TEXT, "day": _TEXT, "rate_bps": _F64, "samples": _I64, "coverage": _F64,
}  # fmt: skip

# Figure 2. Per site, day and client the largest speed, then the quantile over clients. Both alike but for the
# quantile and dl.
DOWNLOAD_SPEED: Schema = {
    "metro": _TEXT, "site": _TEXT, "day": _TEXT, "speed_bps": _F64, "clients": _I64, "tests": _I64,
}  # fmt: skip

# Figure 3. Published: sum(discards.tx) / sum(unicast.tx) of the port; only days with discards < packets and ratio <
# 0.01 (7). Corrected: packets are unicast + multicast + broadcast as far as they are counted (RFC 2863 counts
# discarded packets among them); only samples of those windows (machine, end) for which both a discard and a unicast
# value exist; every day with packets > 0 is kept, zeros and large ratios too; a day without packets has ratio null.
# `samples` are those windows, and the machine is the one with most of them; published: samples of discards.
DISCARD_RATIO: Schema = {
    "metro": _TEXT, "site": _TEXT, "day": _TEXT, "ratio": _F64, "discards": _F64, "packets": _F64, "samples": _I64,
}  # fmt: skip

# Figure 4. Published: per host, day and client the largest retransmitted / sent segments, then the quantile over
# clients, one row for each machine (8). Corrected: sum of retransmitted / sum of sent segments of all tests of the site
# and day; `machine` null.
RETRANSMISSION_RATIO: Schema = {
    "metro": _TEXT, "site": _TEXT, "machine": _TEXT, "day": _TEXT, "ratio": _F64, "retransmitted": _I64,
    "segments": _I64, "clients": _I64, "tests": _I64,
}  # fmt: skip

# Figure 5 overlays 3 and 4 and has no table of its own.

# Figure 6. One row for each site, machine, client and period; cohorts of clients with more than `more_tests_than` dl
# rows in each period. Published: counted over the whole metro, rows by host and client, those with one test (sd null)
# dropped. Corrected: counted at the site, rows by site and client (machine null), so that each client of a site has
# exactly two rows (9); a client with one test in a period has no sd. `cv` is sd / mean, null where there is no sd or
# the mean is 0.
CLIENT_SPEEDS: Schema = {
    "metro": _TEXT, "site": _TEXT, "machine": _TEXT, "client": _TEXT, "period": _TEXT, "tests": _I64,
    "mean_bps": _F64, "max_bps": _F64, "sd_bps": _F64, "min_bps": _F64, "cv": _F64,
}  # fmt: skip

# Medians over the clients of CLIENT_SPEEDS (as published: its rows), of each site and period; of `sd` and `cv` over
# those that have one.
CLIENT_SPREAD: Schema = {
    "metro": _TEXT, "site": _TEXT, "period": _TEXT, "clients": _I64, "tests": _F64, "min_bps": _F64, "mean_bps": _F64,
    "max_bps": _F64, "sd_bps": _F64, "cv": _F64,
}  # fmt: skip

# Figure 6's conclusions: one row for each site (published: `site`; cohorts as above) and statistic (mean, max), of
# log10 of the speeds, made by `inference` from CLIENT_SPEEDS.
COMPARISONS: Schema = {
    "metro": _TEXT, "site": _TEXT, "statistic": _TEXT, "before": _I64, "after": _I64,
    "ks_distance": _F64, "ks_p": _F64,  # two-sample Kolmogorov-Smirnov
    "adjusted_p": _F64,  # Holm, over all rows; published: as ks_p
    # Corrected only, from clients' paired differences: median ratio after / before, its interval (95 %, bootstrap),
    # the signed-rank test, and its p adjusted by Holm over all rows
    "ratio": _F64, "ratio_low": _F64, "ratio_high": _F64, "paired_p": _F64, "adjusted_paired_p": _F64,
    # Corrected, with enough placebos: the variation of a site's median without a change (one standard deviation, as a
    # ratio, in excess of sampling error), and p of no change beyond it. The intervals are then wider by it, and
    # adjusted_paired_p is of the larger of the two p.
    "own_change": _F64, "placebo_p": _F64,
    # The interval at 1 - 2 x significance that the test of equivalence uses (TOST)
    "equivalence_low": _F64, "equivalence_high": _F64,
    # slower, faster, same (equivalent within the margin), undecided; slower?, faster? and same? (UNSURE) where
    # placebo_p is null, so that speeds may vary as much without a change. Published: rejected, fail to reject
    "conclusion": _TEXT,
    "detectable_ratio": _F64,  # the smallest ratio above 1 that these many clients would show with power 0.8
}  # fmt: skip

# Each test's exposure to discards. Published: the bin b = floor(start / bin) x bin, the window [b, b + 2 bins), a test
# is non-zero if a sample of `published_machine` with discards > 0 ends at b + bin or b + 2 bins; only tests of
# `published_machine`; no sample counts as zero. dl without the exclusion of clients. With `contact.recorded = "starts"`
# the samples' recorded times are taken for their windows' starts, as the table had them in 2018, so that those one bin
# later are joined (1). Ends count as those of the nearest bin: collectors poll some milliseconds beside the tick.
# Corrected: samples of the port with sample.start < test.end and sample.end > test.start, the test's end being
# start + duration; of all machines of the site; any sample with discards > 0 makes it non-zero; otherwise zero if
# samples cover the whole test, else unknown. `covered` is the share of the test's time that samples with a value cover.
# Samples of different machines of one switch and port are the same: the union of their windows counts, and `discards`
# is the largest over machines of the sum over windows. Of several switches the one a test passed is unknown: all
# that have samples on its day, or on the days beside it, must be known, `covered` is the least and `discards` the sum.
# Samples of more than half a day are left out: they say nothing of a moment. Published: `covered` is null.
CONTACTS: Schema = {
    "metro": _TEXT, "site": _TEXT, "machine": _TEXT, "test_id": _TEXT, "start_ns": _I64, "end_ns": _I64,
    "client": _TEXT, "speed_bps": _F64, "day": _TEXT, "class": _TEXT, "discards": _F64, "covered": _F64,
}  # fmt: skip

# Figure 7. Tests in each class: zero, non-zero, unknown (corrected only).
CONTACT_DAYS: Schema = {"metro": _TEXT, "site": _TEXT, "day": _TEXT, "class": _TEXT, "tests": _I64}

# The same between pairs of periods before the change, as long and as far apart: what is found when nothing changed
PLACEBO_COMPARISONS: Schema = {"before_first": _TEXT, "after_first": _TEXT, **COMPARISONS}  # the periods' first days

# Whether the switch itself discards more or less since the change: one row for each site (published: its machine) of
# DISCARD_RATIO, over the days of the change's periods. Made by `changes`; both computations alike.
DISCARD_CHANGES: Schema = {
    "metro": _TEXT, "site": _TEXT, "days_before": _I64, "days_after": _I64,  # days with packets
    "ratio_before": _F64, "ratio_after": _F64,  # sum of discards / sum of packets over the period's days
    "ratio": _F64, "ratio_low": _F64, "ratio_high": _F64,  # after / before, 95 %; null where there is none to be had
    "p": _F64, "adjusted_p": _F64,  # of no change, days as units in blocks; adjusted by Holm over sites
    # fewer, more, undecided, none-seen (no discard in either period), no-data (a period without days)
    "conclusion": _TEXT,
}  # fmt: skip

# The bins that figure 8 counts, both computations alike: samples of discards of the port with a value and a span, by
# series, day and length. `bin_ns` is the span to the second (below 5 s: to 10 ms).
DISCARD_BIN_DAYS: Schema = {
    "metro": _TEXT, "site": _TEXT, "switch": _TEXT, "machine": _TEXT, "day": _TEXT, "direction": _TEXT,
    "bin_ns": _I64, "bins": _I64, "with_discards": _I64, "discards": _F64,
}  # fmt: skip

# Figure 8. One row for each site, month (`2018-02`, or `all`) and direction (`tx`, `rx`, seen from the switch): the
# share of bins in which the port discarded packets. Bins are samples of at most 1.5 times the day's usual length; of
# each switch and day those of the machine with most of them. `bin_s` is the usual length. `low` and `high` are 95 %,
# with days as units; null with fewer than five days, or without any discard.
DISCARD_BINS: Schema = {
    "metro": _TEXT, "site": _TEXT, "month": _TEXT, "direction": _TEXT, "bin_s": _F64, "days": _I64, "bins": _I64,
    "with_discards": _I64, "share": _F64, "low": _F64, "high": _F64, "discards": _F64,
}  # fmt: skip

# What all figures draw: the report's plot_df. `x` and `y` in the figure's units, `low` and `high` where there is an
# interval.
PLOT: Schema = {
    "figure": _TEXT, "panel": _TEXT, "group": _TEXT, "x": _F64, "y": _F64, "low": _F64, "high": _F64,
}  # fmt: skip

# For `study discards watch`: ports that exceed the ratio. A window is the last `window_s` before `now`.
ALERTS: Schema = {
    # machine: of this series; behind a port such as `local`, or the one that was read where all see the same uplink
    "site": _TEXT, "switch": _TEXT, "machine": _TEXT, "port": _TEXT, "direction": _TEXT,
    "state": _TEXT,  # new, ongoing
    "since_ns": _I64,  # the start of the first sample with discards of the window in which it first exceeded
    "ratio": _F64, "ratio_before": _F64,  # before: of as long a window before; null where there is no sample in it
    "discards": _F64, "packets": _F64,
    # of the discards, those in bins with a low mean utilisation: bursts shorter than a bin; null if unknown
    "in_quiet_bins": _F64, "median_utilisation_at_discards": _F64,
    "speed_bps": _F64,  # what utilisation relates to
    "speed_from": _TEXT,  # parameters; rates (the smallest usual speed above the highest rate seen)
}  # fmt: skip

TABLES: dict[str, Schema] = {
    "utilisation": UTILISATION,
    "download_speed": DOWNLOAD_SPEED,
    "discard_ratio": DISCARD_RATIO,
    "retransmission_ratio": RETRANSMISSION_RATIO,
    "client_speeds": CLIENT_SPEEDS,
    "client_spread": CLIENT_SPREAD,
    "comparisons": COMPARISONS,
    "placebo_comparisons": PLACEBO_COMPARISONS,
    "discard_changes": DISCARD_CHANGES,
    "contacts": CONTACTS,
    "contact_days": CONTACT_DAYS,
    "discard_bin_days": DISCARD_BIN_DAYS,
    "discard_bins": DISCARD_BINS,
    "alerts": ALERTS,
}

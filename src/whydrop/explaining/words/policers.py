"""Policers, and losses by chance: headlines, evidence for and against, and advice."""

from __future__ import annotations

import math

from whydrop.explaining.words.common import BBR, PACED_SHARE, Advice, Derived, Values, kbit
from whydrop.text.phrases import table

HEADLINES = table("""
    dropped-by-policer: A policer at {rate_bps} with a {burst_bytes} bucket dropped {losses}.
    dropped-at-random: [mean_burst_packets?Bursty random|Random] loss of {loss_share} explains {losses}; [link_is_full?a
        full link of {link_rate_bps} set the goodput, not the loss.|the losses follow neither load nor time.]
""")


EVIDENCE = table("""
    bucket-followed: a token bucket, computed packet by packet over {data_packets|data packet}, predicts {expected} of
        {lost|loss} to within one packet; prediction score {certainty_share} (0 % is chance, 100 % is perfect)
    bucket-replayed: a simulation of this bucket, without the observed losses as input, drops {dropped|packet}; {hits}
        of these were lost
    delay-at-spent-bucket: packets that found the bucket nearly empty took [more_s?{more_s} longer than others|no
        longer than others]; a queue as large as the bucket would have added {queue_s}
    waited-before-losses: the queueing delay just before a loss was {median_s} (median)
    best-bucket-poor: no policer fits: the prediction score of the best token bucket is only {certainty_share} (0 % is
        chance, 100 % is perfect)
    bucket-explains-little: no policer fits: over {lost|loss}, the best token bucket has a prediction score of
        {certainty_share} (0 % is chance, 100 % is perfect)
    fits-some-bucket: {lost|loss} in {runs|run} of consecutive packets: too few to prove a policer, because some token
        bucket fits them by chance
    bucket-had-room: no policer fits: the best token bucket had room for {room_bytes} on average when packets were
        lost
    no-bucket-better-than-chance: no policer fits: random loss explains these losses as well as any token bucket
    chance-less-likely: this pattern of losses is {gain_nats} less likely under random loss
    two-buckets: a dual-rate policer has two buckets: {committed_alone|lost packet} found too few tokens only in the
        bucket of {rate_bps}, and {peak_alone} only in that of {peak_rate_bps}
    queue-not-ruled-out: a queue that drains at {rate_bps} would drop the same packets, and the capture does not show
        queueing delay
    no-such-bucket: no policer fits: the best-fitting token bucket, of {packets|packet}, has no room for a burst, or
        fills faster than any sender can empty it
    drains-as-drops: packets left a queue at {drain_rate_bps}, the rate of the bucket: the queue dropped them
    drains-unlike-drops: a queue drains at {drain_rate_bps}, and the bucket that drops packets fills at {rate_bps}
    policer-before-queue: behind the policer is a queue that drains at {drain_rate_bps} and delays packets by up to
        {long_wait_s}
    policer-behind-queue: before the policer is a queue that drains at {drain_rate_bps} and delays packets by up to
        {long_wait_s}
    packets-waited: a policer delays nothing; the queueing delay just before a loss was {waited_s}
    packets-queued-between: a policer delays nothing; packets were queued {waited_s} before a loss, and each lost one
        found {inside} packets in the queue
    queueing-delay-measured: a policer at {rate_bps} delays nothing; queueing delays of up to {seen_longest_wait_s} were
        seen
    # random loss
    losses-follow-no-queue: the delay just before a loss was longer than {longer_than_share} of all delays: losses do
        not follow the queue
    lost-in-runs: losses came in runs of {mean_run:decimal} packets on average; independent losses at the same rate
        would come in runs of {by_chance:decimal}
    most-were-lost: {lost} of {sent|packet} were lost: random loss on a path does not take most packets
    too-few-clumps: [one_loss?1 loss is too few to call the loss random|[one_clump?all {lost|loss} came close together:
        random losses come singly|{lost|loss} in {clumps|group} are too few to call the loss random]]
    losses-in-runs: losses came in runs of {mean_run:decimal} packets on average, but random losses come singly; where
        no delays are known, random bursts of loss look like a full queue
    losses-in-runs-without-queue: losses came in runs of {mean_run:decimal} packets on average, but random losses come
        singly; a policer leaves the same gaps in place of the lost packets
""")

# So many losses would show chance, if they came singly.
_ENOUGH_LOSSES = 4


def with_clumps(v: Values) -> Derived:
    """The values of ``too-few-clumps`` with what distinguishes its cases."""
    return {"one_loss": v.get("lost") == 1, "one_clump": v.get("clumps") == 1 and v["lost"] >= _ENOUGH_LOSSES}


def _policer(v: Values) -> Derived:
    if "rate_bps" not in v or "burst_bytes" not in v:
        return {"is_unknown": True}
    policed, burst = v["rate_bps"], v["burst_bytes"]
    needed = sawtooth_burst_bytes(policed, v["base_rtt_s"], v["mss_bytes"]) if v["base_rtt_s"] > 0 else None
    return {
        "paced_bps": policed * PACED_SHARE,
        "kbit": kbit(policed),
        "tbf_burst": f"{min(max(burst, 3e3), 32e3):.0f}",
        "needed_bytes": needed,
        "is_too_small": needed is not None and burst < needed,
        "one_bucket": "peak_rate_bps" not in v,
    }


def sawtooth_burst_bytes(rate_bps: float, rtt_s: float, mss_bytes: float) -> float:
    """Tokens that the sawtooth of one Reno flow (RFC 5681) spends above its mean rate.

    The window swings between 2/3 and 4/3 of the bandwidth-delay product P, growing by one segment a round trip; its
    upper half lasts P/(3 MSS) round trips and exceeds the mean by P/6 in each, together P^2 / (18 MSS). At least P
    itself, for slow start.

    >>> round(sawtooth_burst_bytes(20e6, 0.040, 1448)), sawtooth_burst_bytes(1e6, 0.010, 1448)
    (383671, 1250.0)
    """
    product = rate_bps / 8.0 * rtt_s
    return max(product * product / (18.0 * max(mss_bytes, 1.0)), product)


# An interval of rates that spans more than this says nothing.
_WIDEST_RATES = 4.0


def _random_loss(v: Values) -> Derived:
    """Rates that a loss-based sender gets at this loss rate; nothing where losses do not limit it."""
    low, high = v.get("loss_probability_low"), v.get("loss_probability_high")
    if v.get("link_is_full") or not low or not high or v["base_rtt_s"] <= 0:
        return {}
    segment_bits = v["mss_bytes"] * 8.0
    least_bps = segment_bits / _reno_segment_s(high, v["base_rtt_s"])
    most_bps = segment_bits * max(_reno_window(low), _cubic_window(low, v["base_rtt_s"])) / v["base_rtt_s"]
    most_bps = min(most_bps, v.get("link_rate_bps") or math.inf)
    # A sender that gets more does not follow its losses, or the round trip differs from the one that was seen.
    if v["goodput_bps"] > most_bps:
        return {}
    return {"least_bps": least_bps, "most_bps": most_bps, "limited": True, "wide": most_bps > _WIDEST_RATES * least_bps}


def _reno_window(loss_share: float) -> float:
    """Segments of the mean window of Reno without timeouts: Mathis et al. 1997, an acknowledgment for each segment.

    >>> round(_reno_window(0.01), 1)
    12.2
    """
    return math.sqrt(1.5 / loss_share)


def _cubic_window(loss_share: float, rtt_s: float) -> float:
    """Segments of the mean window of CUBIC, beyond its region of Reno: RFC 9438, section 5.1, with its constants.

    >>> round(_cubic_window(1e-4, 0.1))
    187
    """
    return 1.054 * math.pow(rtt_s / loss_share, 0.75)


def _reno_segment_s(loss_share: float, rtt_s: float) -> float:
    """Time that Reno takes for each segment: equation 30 of Padhye et al. 1998, with Linux's timer."""
    timer_s = rtt_s + 0.2
    repeats = min(1.0, 3.0 * math.sqrt(3.0 * loss_share / 8.0))
    by_timers_s = timer_s * repeats * loss_share * (1.0 + 32.0 * loss_share**2)
    return rtt_s * math.sqrt(2.0 * loss_share / 3.0) + by_timers_s


ADVICE: Advice = {
    ("policer", None): (
        "Pace the sender below the policer, at {paced_bps}, so that it drops nothing. DEV is the sender's interface. "
        "fq paces each flow: divide the rate by the number of flows that share the policer:",
        "$ tc qdisc replace dev DEV root fq maxrate {kbit}",
        "Or shape all flows together, with a queue instead of drops:",
        "$ tc qdisc replace dev DEV root tbf rate {kbit} burst {tbf_burst} latency 50ms",
        "[one_bucket?One bucket was seen to limit the flow. A second bucket, with a higher rate and a smaller burst, "
        "shows only in faster bursts. Even pacing stays below both.]",
        "[needed_bytes?Ask the operator of the policer for a shaper or a larger bucket: one TCP (Reno) flow with a "
        "round trip of {base_rtt_s} needs {needed_bytes} to fill {rate_bps}; {burst_bytes} is [is_too_small?too "
        "small|large enough].]",
    ),
    ("random-loss", None): (
        "Losses that follow neither load nor time point to a damaged link, not to a full one. Look for errors on each "
        "hop's interfaces, optical power, duplex, radio:",
        "$ ethtool -S DEV | grep -Ei 'err|drop|crc|fcs'",
        "$ ip -s -s link show DEV",
        "[mean_burst_packets?Runs of losses are typical of interference and of a radio signal that fades: compare "
        "their times with the signal level.]",
        "[link_is_full?The link of {link_rate_bps} is full: without the losses a transfer gets no more than that.]",
        "[limited?[wide?Loss-based congestion control takes each loss for congestion. BBR depends on loss far less:|At "
        "this loss rate and a round trip of {base_rtt_s}, loss-based congestion control gets {least_bps to most_bps} "
        "in the long run (Mathis et al. 1997, Padhye et al. 1998, RFC 9438). BBR depends on loss far less:]]",
        "[limited?" + BBR + "]",
    ),
}

DERIVED = {"policer": _policer, "random-loss": _random_loss}

"""Every threshold that findings from recordings stand on, with its reason.

`CEILING_SHARE` was chosen on synthetic paths; the others follow from what their comments say.
"""

from __future__ import annotations

# --- Time ---

# Slow start doubles the window each round trip (RFC 5681): from 10 packets to 10 000 takes ten round trips, which is
# 5 s at 500 ms. What flows do until then is no steady state.
SETTLING_S = 5.0
# Of a short test at most this share is left out as settling, so that most of it counts.
MOST_SETTLING = 0.25
# After the load the queue drains for as long as it made packets wait. Idle again is what comes later than this, which
# is also the least retransmission timeout of RFC 6298: by then no flow's last segments are in flight.
DRAINING_S = 1.0
# Below so many samples a median is no more than one of them.
FEWEST_SAMPLES = 5

# --- Delay ---

# A full-size packet in bytes on the IP layer (Ethernet's MTU), where the size is not known.
MTU_BYTES = 1500
# A packet that meets another one in service is delayed by up to one packet's time, in each direction. That is no queue.
PACKETS_NO_QUEUE = 2
# Timers of hosts and of the schedulers below them are no better than this.
TIMER_S = 0.001
# A buffer that holds more than one round trip's worth of its rate is more than a loss-based flow needs to fill the
# link (C. Villamizar, C. Song, "High Performance TCP in ANSNET", 1994): its queue is deep. But at least CoDel's target
# (RFC 8289: 5 ms is a good queue), and no more than CoDel's interval (100 ms: the round trip of a long path on earth).
DEEP_LEAST_S, DEEP_MOST_S = 0.005, 0.100
# Quantiles of the delay for "never empties" and for "as high as it gets".
LOW_QUANTILE, HIGH_QUANTILE = 0.05, 0.95

# --- Active queue management ---

# Chance that a flow sees congestion marks that no queue made: a host or middlebox that rewrites the former
# type-of-service byte. One flow in a hundred is caution, not a measurement.
FALSE_MARKS = 0.01
# RFC 9438 (cubic) and RFC 5681 (reno) reduce the window to 0.7 and 0.5 of what it was. A FIFO that once contained this
# many times the standing delay would be filled again by such flows before anything is dropped: 0.5 twice over.
PROVEN_DEPTH = 4.0
# A queue of fixed length stands at its limit while flows fill it: its median is above this share of its highest. A
# managed one lets bursts pass that are far above what it holds.
CEILING_SHARE = 0.5
# No queue management lets half of all packets wait longer than this, nor than twice the round trip: three times the
# interval of CoDel (RFC 8289), twice the burst allowance of PIE (RFC 8033). The engine's judge of captures has the same
# limit.
LONGEST_MANAGED_S = 0.3
# Queue management holds the flows that it is made for, those that answer losses, far below CoDel's interval: its
# targets are 5 ms (CoDel, RFC 8289) and 15 ms (PIE, RFC 8033).
STANDING_MANAGED_S = 0.1
# Twice PIE's target, six times CoDel's. A managed queue in which packets wait longer drops some of them, within a
# second at the latest: ten of CoDel's intervals, sixty updates of PIE's probability.
WAITS_UNDROPPED_S, DROPS_WITHIN_S = 0.03, 1.0
# Losses that drop nothing less than once in so many periods of the control are chance.
FEWEST_EPISODES = 10
# Congestion controls that fill a queue until it drops (or marks).
LOSS_BASED = frozenset({"cubic", "reno", "newreno", "bic", "htcp", "highspeed", "hybla", "scalable", "illinois"})

# --- Loss ---

# A loss is taken for congestion's if it is this many times rarer without load; a random one is as frequent.
CONGESTION_RATIO = 20.0
# The rule of W. G. Cochran (1954): counts below 5 in a cell say nothing about its share.
FEWEST_EVENTS = 5
# A policer forwards at its rate at all times: the standard deviation of goodput over seconds, beside its mean. Flows
# of TCP through a queue that is too short vary by their sawtooth: a uniform one from 0.7 to 1 by 0.1.
STEADY_VARIATION = 0.1
# So much the rate of one such flow varies by itself, beside its mean: from 0.7 to 1 evenly is (0.3 / sqrt 12) / 0.85.
SAWTOOTH = 0.1

# --- Hosts ---

# What limits a flow for more than half of the time limits it most.
MOST_OF_THE_TIME = 0.5

# A window of which less than this is in use is not validated: the sender had less to send (RFC 7661, section 4.2).
VALIDATED = 0.5
# Beyond this the limit is met at all times but for the beginning, and a queue that probes find is not of these flows.
ALL_BY_FAR_LIMIT = 0.9
# A buffer of which less than this is in use has not just been refilled too late.
BUFFER_IN_USE = 1 / 3
# A pacing rate at the most that is set, but for its rounding.
AT_MOST = 0.99

# --- Throughput by congestion window ---

# A line and a level need no fewer samples than a median does.
FEWEST_ON_A_SIDE = FEWEST_SAMPLES
# Of longer flows so many round trips, evenly: more cost time, and make the interval no narrower than the model is true.
MOST_WINDOWS = 4000
# A kink that is e^3 times more likely than none, its parameter paid for (R. E. Kass, A. E. Raftery, 1995: strong).
WORTH_A_KINK = 3.0

# Of so many connections of a host verdicts are given one by one.
MOST_CONNECTIONS = 100

# A port that discards while flows lose is theirs only if so many coincidences come by chance less than once in a
# hundred such recordings: a path that was named is no proof.
COMING_TOGETHER = 0.01

# --- Sharing ---

# R. Jain's index of two flows of which one gets half of what the other gets: (1 + 2)^2 / (2 (1 + 4)).
UNFAIR_INDEX = 0.9
# Round trips must differ by this much for a law of them to show beside everything else.
LEAST_SPREAD = 2.0
# Flows share while all of them run: for at least this share of the load.
TOGETHER_SHARE = 0.5

# --- The ends themselves ---

# Busy hosts delay a process by a few tenths of a second without harm to a test; a longer pause changes it.
LEADING_PAUSE_S = 0.5

# --- Outages ---

# The least retransmission timeout (RFC 6298): TCP itself takes a shorter silence for an ordinary loss.
LEAST_OUTAGE_S = 1.0

# --- Likelihood ---

# No evidence from samples is surer than this: beyond are the errors of the model itself (e^-12 is one in 160 000).
MOST_NATS = 12.0
# So many mechanisms are looked for on each subject: chance fits one of them that much more often (C. E.
# Bonferroni). Each that accuses pays the logarithm.
MECHANISMS = 10
# Chance that something else made packets wait from the moment on at which the load began: in one test of a thousand.
COINCIDENCE = 0.001

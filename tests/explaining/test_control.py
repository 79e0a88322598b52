"""The congestion control of a sender is named from its windows."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import cast

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whydrop.explaining.explained import Explained
from whydrop.explaining.predicting.control.laws import LAWS
from whydrop.explaining.predicting.control.laws.cubic import Bic, Cubic
from whydrop.explaining.predicting.control.laws.delay import Vegas, Yeah
from whydrop.explaining.predicting.control.laws.early import Cdg, Lp
from whydrop.explaining.predicting.control.laws.law import Dctcp, Law, Reno, Scalable
from whydrop.explaining.predicting.control.laws.rtt_scaled import Hybla, Westwood, WestwoodOfServer
from whydrop.explaining.predicting.control.model_based import is_bbr, is_paced
from whydrop.explaining.predicting.control.naming import UNKNOWN, named
from whydrop.explaining.predicting.control.observed import Ack, Sender, forget_unfinished, sender

SIZE = 1000
MS = 1_000_000


class Line:
    """A sender with a law over one queue: full-sized segments, one acknowledgment for each."""

    def __init__(
        self, law: Law, rtt_ms: float, service_ms: float, limit: int, lost: frozenset[int] = frozenset()
    ) -> None:
        self.law, self.limit, self.lost = law, limit, lost
        self.rtt_ns, self.service_ns = int(rtt_ms * MS), int(service_ms * MS)
        self.free_ns = 0
        self.on_the_way: deque[tuple[int, int]] = deque()
        self.sent: dict[int, tuple[int, int]] = {}
        self.again: set[int] = set()
        self.missing: set[int] = set()
        self.una = self.nxt = self.high = 0
        self.state = "open"
        self.acks: list[Ack] = []
        self.sends: list[tuple[int, int]] = []

    def send(self, now_ns: int, number: int) -> None:
        begin_ns = max(now_ns, self.free_ns)
        is_full = (begin_ns - now_ns) // self.service_ns >= self.limit
        if is_full or (number in self.lost and number not in self.again):
            self.missing.add(number)
            return
        self.missing.discard(number)
        self.free_ns = begin_ns + self.service_ns
        self.on_the_way.append((self.free_ns + self.rtt_ns, number))

    def fill(self, now_ns: int, window: int) -> int:
        begun = self.nxt
        while self.nxt - self.una < window:
            self.sent[self.nxt] = (now_ns, self.nxt + 1 - self.una)
            self.nxt += 1
            self.sends.append((now_ns, self.nxt * SIZE))
            self.send(now_ns, self.nxt - 1)
        return self.nxt - begun

    def run(self, seconds: float) -> Sender:
        self.fill(0, self.law.window)
        while self.on_the_way and self.on_the_way[0][0] < seconds * 1e9:
            now_ns, number = self.on_the_way.popleft()
            self.arrived(now_ns, number)
        row = {"ecn": "off", "ect0": 0, "ce_marked": 0, "packets": 1, "retransmitted_by_kind": {}}
        return Sender(SIZE, self.acks, self.law.initial_window, row, self.sends)

    def arrived(self, now_ns: int, number: int) -> None:
        before, una = self.nxt, self.una
        holes = [one for one in self.missing if one <= number] + ([number] if number in self.missing else [])
        waiting = min([*self.missing, *(one for _, one in self.on_the_way)], default=self.nxt)
        self.una = max(self.una, min(waiting, self.nxt))
        law, packets = self.law, self.una - una
        law.time_ns, law.una, law.nxt = now_ns, self.una * SIZE, before * SIZE
        law.delivered(SIZE, False)
        sent_ns, flight = self.sent[number]
        rtt_ns = now_ns - sent_ns if packets and number not in self.again else None
        law.acked(packets, rtt_ns, flight * SIZE, self.state)
        window, count = self.next_state(holes, packets)
        if self.state == "open":
            count = self.fill(now_ns, law.window)
            window = law.window if count else None
        else:
            self.repair(now_ns)
        self.acks.append(
            Ack(now_ns, self.una * SIZE, before * SIZE, packets, rtt_ns, flight * SIZE, self.state, window, count, SIZE)
        )

    def next_state(self, holes: list[int], packets: int) -> tuple[int | None, int]:
        law = self.law
        if self.state == "recovery" and self.una >= self.high:
            self.state = "open"
            law.window = law.threshold = max(2, law.reduction() if law.name == "westwood" else self.target)
            law.opened("recovery")
        elif self.state == "open" and holes:
            self.state, self.high = "recovery", self.nxt
            self.target = law.reduction()
            law.reduced("recovery")
            law.count = 0
        elif self.state == "open" and packets:
            law.grow(packets)
        return None, 0

    def repair(self, now_ns: int) -> None:
        for one in sorted(self.missing):
            if one not in self.again:
                self.again.add(one)
                self.send(now_ns, one)
                return


def over_shallow_queue(law: type[Law]) -> Sender:
    return Line(law(SIZE), rtt_ms=40, service_ms=1.5, limit=15).run(20)


DISTINCT = [law for law in LAWS if law.name not in ("reno", "lp", "cdg", "dctcp")]


@pytest.mark.parametrize("law", DISTINCT, ids=lambda law: law.__name__)
def test_a_law_is_named_from_its_own_windows(law: type[Law]) -> None:
    assert named(over_shallow_queue(law)).name == law.name


def test_windows_of_reno_are_named_reno_with_the_controls_that_have_the_same() -> None:
    found = named(over_shallow_queue(Reno))
    assert (found.name, found.candidates) == ("reno", ("reno", "lp", "dctcp"))


@pytest.mark.parametrize(("capable", "candidates"), [(998, ("dctcp",)), (948, ("reno", "lp"))])
def test_retransmissions_that_are_ecn_capable_show_dctcp(capable: int, candidates: tuple[str, ...]) -> None:
    seen = over_shallow_queue(Dctcp)
    seen.row |= {"ecn": "classic", "packets": 1000, "ect0": capable, "retransmitted_by_kind": {"fast": 50}}
    found = named(seen)
    assert (found.name, found.candidates) == (candidates[0], candidates)


def test_chance_alone_does_not_name_cdg() -> None:
    assert "cdg" not in named(over_shallow_queue(Reno)).candidates


def without_queue(law: type[Law]) -> Sender:
    """A sender with packets that are lost at times, and never wait."""
    return Line(law(SIZE), rtt_ms=40, service_ms=0.1, limit=10_000, lost=frozenset(range(150, 100_000, 800))).run(20)


@pytest.mark.parametrize(("law", "name"), [(Yeah, "scalable"), (Cdg, "reno"), (Lp, "reno")])
def test_a_law_that_never_left_a_simpler_one_has_the_name_of_that(law: type[Law], name: str) -> None:
    found = named(without_queue(law))
    assert found.name == name
    assert law.name in found.candidates


def test_a_law_that_left_the_simpler_one_has_its_own_name() -> None:
    for law in (Yeah, Vegas):
        assert named(Line(law(SIZE), rtt_ms=40, service_ms=1.5, limit=15).run(20)).name == law.name


class LpOfDelay(Lp):
    """LP as Linux has it where the one-way delay does not overflow: half at a higher delay, one segment soon after."""

    delay = least = longest = 0

    def acked(self, packets: int, rtt_ns: int | None, flight_bytes: int, state: str) -> None:
        super().acked(packets, rtt_ns, flight_bytes, state)
        if rtt_ns is None:
            return
        sample = rtt_ns // MS
        self.delay += sample - (self.delay >> 3) if self.delay else sample << 3
        self.least = min(self.least or sample, sample)
        self.longest = max(self.longest, sample)
        if self.delay >> 3 <= self.least + 15 * (self.longest - self.least) // 100:
            return
        self.least, self.longest = self.delay >> 3, self.delay >> 2
        is_soon = self.dropped_ns is not None and self.time_ns < self.dropped_ns + 3 * rtt_ns
        self.window = 1 if is_soon else max(self.window >> 1, 1)
        self.dropped_ns = self.time_ns


@pytest.mark.parametrize("limit", [15, 70])
def test_lp_that_reduces_by_delay_is_named(limit: int) -> None:
    assert named(Line(LpOfDelay(SIZE), rtt_ms=60, service_ms=2.4, limit=limit).run(12)).name == "lp"


class UnluckyCdg(Cdg):
    """A sender with CDG that reduces its window in every twelfth round."""

    rounds = 0

    def _round(self) -> None:
        super()._round()
        self.rounds += 1
        if self.rounds % 12 == 0:
            self.shadow = max(self.shadow, self.window)
            self.window = self.threshold = self.window * 724 >> 10


def test_a_mark_in_a_reduction_of_cdg_itself_does_not_reduce_again() -> None:
    law = Cdg(SIZE)
    assert law.marked_drop(100, 70) == 3.0
    assert law.marked_drop(100, 50) is None


def test_reductions_without_loss_name_cdg() -> None:
    assert named(over_shallow_queue(UnluckyCdg)).name == "cdg"


def test_few_reductions_without_loss_do_not_name_reno() -> None:
    assert named(Line(UnluckyCdg(SIZE), rtt_ms=40, service_ms=1.5, limit=100).run(2)).name == UNKNOWN


def explained(
    sent: list[tuple[int, int, str]], acks: list[tuple[int, int, int | None]], last_bytes: int = SIZE
) -> Explained:
    """Segments (time, number, kind) and acknowledgments (time, acknowledged segments, segment of a SACK block)."""
    sizes = [SIZE] * (len(sent) - 1) + [last_bytes]
    tables = {
        "segments": pl.DataFrame(
            [(0, at_ns, number * SIZE, size, kind) for (at_ns, number, kind), size in zip(sent, sizes, strict=True)],
            ("flow", "time_ns", "sequence", "payload_bytes", "kind"),
            orient="row",
        ),
        "acks": pl.DataFrame(
            [(0, time_ns, number * SIZE, 10**6, False) for time_ns, number, _ in acks],
            ("flow", "time_ns", "acknowledged", "window_bytes", "ecn_echo"),
            orient="row",
        ),
        "sacks": pl.DataFrame(
            [(0, time_ns, one * SIZE, (one + 1) * SIZE, False) for time_ns, _, one in acks if one is not None],
            {"flow": pl.Int64, "time_ns": pl.Int64, "start": pl.Int64, "end": pl.Int64, "duplicate": pl.Boolean},
            orient="row",
        ),
        "flows": pl.DataFrame({"ecn": ["off"]}),
    }
    return cast(Explained, SimpleNamespace(table=tables.__getitem__))


def test_a_loss_in_a_recovery_begins_the_next_one_at_its_end() -> None:
    # Segments 2 and 7 are lost; 7 was sent in the recovery of 2.
    sent = [(at, at, "new") for at in range(6)] + [(20, 2, "fast"), (21, 6, "new"), (22, 7, "new"), (23, 8, "new")]
    sent += [(33, 7, "fast")]
    acks = [(10, 1, None), (11, 2, None), (13, 2, 3), (14, 2, 4), (15, 2, 5), (30, 6, None), (31, 7, None)]
    acks += [(33, 7, 8), (43, 9, None)]
    seen = sender(explained(sent, acks), 0)
    assert seen is not None
    assert [(ack.time_ns, ack.state) for ack in seen.acks if ack.begins] == [(15, "recovery"), (33, "recovery")]


def test_acknowledgments_of_nothing_show_no_sender() -> None:
    assert sender(explained([(0, 0, "new")], [(1, 0, None)]), 0) is None


def test_a_flight_of_less_than_half_a_segment_shows_no_window() -> None:
    sent = [(0, 0, "new"), (20, 1, "new"), (40, 2, "new")]
    seen = sender(explained(sent, [(10, 1, None), (30, 2, None)], last_bytes=SIZE // 4), 0)
    assert seen is not None
    assert [ack.window for ack in seen.acks] == [1, None]


TIMES = st.integers(0, 400)
KINDS = st.sampled_from(["new", "fast", "timeout", "tail-loss-probe"])
SENT = st.lists(st.tuples(TIMES, st.integers(0, 60), KINDS), min_size=1, max_size=120)
ACKED = st.lists(st.tuples(TIMES, st.integers(0, 80), st.none() | st.integers(0, 80)), min_size=1, max_size=120)


@given(SENT, ACKED, st.integers(1, SIZE))
def test_any_packets_and_acknowledgments_have_a_control_or_none_that_is_known(
    sent: list[tuple[int, int, str]], acks: list[tuple[int, int, int | None]], last_bytes: int
) -> None:
    sent = [(at * MS, number, kind) for at, number, kind in sent]
    seen = sender(explained(sent, [(at * MS, number, one) for at, number, one in acks], last_bytes), 0)
    if seen is not None:
        seen.row |= {"ect0": 0, "ce_marked": 0, "packets": len(sent), "retransmitted_by_kind": {}}
        assert named(seen).name


@pytest.mark.parametrize(
    ("windows", "known"),
    [
        ((20, 12, 11, 21, 10, 10), [20, None, None, 21, 10, 10]),
        ((20, 12, 14, 21), [20, None, None, 21]),
        ((10, 12, 14, 16), [10, 12, 14, 16]),
    ],
)
def test_a_window_that_the_sender_had_not_filled_is_forgotten(
    windows: tuple[int, ...], known: list[int | None]
) -> None:
    acks = [Ack(at * MS, 0, 0, 1, None, 0, "open", window) for at, window in enumerate(windows)]
    forget_unfinished(acks)
    assert [ack.window for ack in acks] == known


def test_a_window_that_was_not_filled_at_the_end_of_a_recovery_is_forgotten() -> None:
    acks = [Ack(0, 9 * SIZE, 30 * SIZE, 1, None, 0, "recovery", None)]
    acks += [Ack(at * MS, at * SIZE, 30 * SIZE, 1, None, 0, "open", window) for at, window in ((10, 15), (11, 22))]
    forget_unfinished(acks)
    assert [ack.window for ack in acks] == [None, None, 22]


def test_pulses_that_losses_end_are_the_gain_cycle_only_with_pacing() -> None:
    seen = paced(80, (1.25, 0.75, 1, 1, 1, 1, 1, 1))
    losses = [Ack(50 * MS * (8 * one + 1), 0, 0, 1, None, 0, "recovery", begins=True) for one in range(10)]
    seen.acks += losses
    assert is_bbr(seen)
    assert not is_bbr(answering(seen))


@pytest.mark.parametrize(
    ("law", "estimate", "window"),
    [
        # In 15 ticks, 15 segments arrived; the round-trip time is 13 ticks.
        (WestwoodOfServer(SIZE), 1000, 13),
        # The first estimate is of one segment in 28 ticks; then it moves by an eighth of an eighth.
        (Westwood(SIZE), 50, 2),
    ],
)
def test_the_first_acknowledgment_counts_as_a_segment_where_westwood_opened(
    law: Westwood, estimate: int, window: int
) -> None:
    for number, size in enumerate((37, 15 * SIZE, 15 * SIZE)):
        law.time_ns = 60 * MS * (number + 1)
        law.delivered(size, False)
        law.acked(1, 50 * MS, size, "open")
    assert (law.estimate, law.reduction()) == (estimate, window)


def after_loss(law: Law, window: int) -> int:
    law.window = window
    return law.reduction()


def test_reductions_after_a_loss_are_those_of_the_papers() -> None:
    assert after_loss(Reno(SIZE), 100) == 50
    assert after_loss(Cubic(SIZE), 100) == 70
    assert after_loss(Bic(SIZE), 100) == 79
    assert after_loss(Scalable(SIZE), 100) == 88


def test_dctcp_reduces_by_half_of_the_share_of_marks() -> None:
    law = Dctcp(SIZE)
    law.window, law.alpha = 100, 256
    assert law.marked_reduction() == 88


def test_a_slow_start_of_hybla_is_that_of_a_shorter_path() -> None:
    law = Hybla(SIZE)
    law.acked(1, 50 * MS, SIZE, "open")
    law.window = 10
    law.grow(1)
    assert law.window == 13


def without_window(acks: list[Ack]) -> list[Ack]:
    return [Ack(ack.time_ns, ack.una, ack.nxt, ack.packets, ack.rtt_ns, ack.flight_bytes, ack.state) for ack in acks]


def test_a_sender_without_a_known_window_is_unknown() -> None:
    seen = over_shallow_queue(Reno)
    found = named(Sender(SIZE, without_window(seen.acks), 10, seen.row, seen.sends))
    assert (found.name, found.why) == (UNKNOWN, "0 comparisons of windows")


def test_a_sender_that_its_receiver_limits_is_unknown() -> None:
    seen = over_shallow_queue(Cubic)
    seen.row["limits"] = {"receive-window": 0.8}
    assert named(seen).why == "limited by receive-window"


def test_a_sender_of_l4s_has_none_of_the_names() -> None:
    seen = paced(80, (1.25, 0.75, 1, 1, 1, 1, 1, 1))
    assert named(seen).name == "bbr"
    seen.row |= {"packets": 3000, "ect1": 2990}
    found = named(seen)
    assert (found.name, "ECT(1)" in found.why) == (UNKNOWN, True)


def paced(rounds: int, gains: tuple[float, ...]) -> Sender:
    """A sender with a rate for each round trip of 50 ms: so many segments for a gain of 1."""
    sends: list[tuple[int, int]] = []
    for number in range(rounds):
        count = round(40 * gains[number % len(gains)])
        sends += [(50 * MS * number + 50 * MS * one // count, 0) for one in range(count)]
    row = {"ecn": "off", "ect0": 0, "ce_marked": 0, "packets": 1, "retransmitted_by_kind": {}}
    return Sender(SIZE, [Ack(50 * MS, SIZE, 40 * SIZE, 1, 50 * MS, SIZE, "open")], 10, row, sends)


def answering(seen: Sender) -> Sender:
    """The same sender with an acknowledgment just before each segment, but those that begin a recovery."""
    others = [Ack(time_ns - 1000, 0, 0, 1, 50 * MS, SIZE, "open") for time_ns, _ in seen.sends]
    seen.acks = sorted([*others, *seen.acks], key=lambda ack: ack.time_ns)
    return seen


def test_a_sender_is_paced_unless_it_answers_acknowledgments() -> None:
    seen = paced(80, (1,))
    seen.acks = [Ack(time_ns + MS, 0, 0, 1, 50 * MS, SIZE, "open") for time_ns in range(0, 4_000 * MS, 3 * MS)]
    assert is_paced(seen)
    assert not is_paced(answering(paced(80, (1,))))


def test_the_gain_cycle_of_bbr_is_seen() -> None:
    assert is_bbr(paced(80, (1.25, 0.75, 1, 1, 1, 1, 1, 1)))


def test_a_sender_that_paces_below_its_window_is_bbr_only_with_the_gain_cycle() -> None:
    for gains, name in (((1.25, 0.75, 1, 1, 1, 1, 1, 1), "bbr"), ((1,), UNKNOWN)):
        seen = paced(80, gains)
        seen.row["limits"] = {"application": 0.5}
        assert named(seen).name == name


def test_a_rate_that_is_kept_twice_with_losses_between_is_bbr_only_with_pacing() -> None:
    rates = (*(1,) * 48, 1.25, 1.4, 1.3, 1.2, 0.7, *(1,) * 48)
    seen = paced(len(rates), rates)
    seen.acks += [Ack(time_ns + MS, 0, 0, 1, None, 0, "open") for time_ns in range(50 * MS, 5_050 * MS, 3 * MS)]
    assert not is_bbr(seen)
    loss = Ack(2_550 * MS, 0, 0, 1, None, 0, "recovery", begins=True)
    seen.acks = sorted([*seen.acks, loss], key=lambda ack: ack.time_ns)
    assert is_bbr(seen)
    assert not is_bbr(answering(seen))


def test_a_sender_of_one_round_trip_is_not_bbr() -> None:
    assert not is_bbr(paced(1, (1,)))


def test_a_steady_rate_is_not_bbr() -> None:
    assert not is_bbr(paced(80, (1,)))


def test_a_sawtooth_of_eight_round_trips_is_not_bbr() -> None:
    assert not is_bbr(paced(80, (0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4)))

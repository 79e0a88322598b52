"""Mutations of captures, packet by packet: what a broken clock, a cut file, an odd stack or a hostile peer makes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random

from fuzzing.frames import Frame, Frames, Headers, headers

_S = 1_000_000_000
_SPANS_NS = (1, 1000, 1_000_000, 500_000_000, _S, 60 * _S, 3600 * _S, 86_400 * _S, 63 * 365 * 86_400 * _S)
_NUMBERS = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_STEPS = (-1, 1, -1448, 1448, 65535, -65535, 1 << 20, -(1 << 20), 1 << 27, 1 << 30, 1 << 31)
_LENGTHS = (0, 1, 20, 40, 52, 53, 576, 1500, 9000, 65535)
_FEW = (1, 2, 3, 4, 5, 8, 12, 17, 25, 40)


def mutated(capture: Frames, random: Random) -> Frames:
    """Give a copy of a capture with a few mutations, most often of few packets."""
    capture = Frames(capture.link_type, _stretch(capture.frames, random))
    for _ in range(random.choice((0, 1, 1, 2, 3, 6, 20))):
        if capture.frames:
            random.choice(_MUTATIONS)(capture, random)
    return capture


def _stretch(frames: list[Frame], random: Random) -> list[Frame]:
    """Copy a stretch of packets: starts and ends of flows are cut."""
    most = len(frames) if random.random() < 0.3 else min(random.choice(_FEW), len(frames))
    first = random.choice((0, random.randrange(len(frames) - most + 1)))
    return [frame.copy() for frame in frames[first : first + most]]


def second_point(capture: Frames, random: Random) -> Frames:
    """The same packets at another point of the path: later, some of them lost, some mutated."""
    other = capture.copy()
    delay_ns = random.choice((0, 1000, 5_000_000, 100_000_000))
    offset_ns = random.choice((0, 0, *_SPANS_NS))
    loss = random.choice((0.0, 0.02, 0.5))
    other.frames = [frame for frame in other.frames if random.random() >= loss]
    for frame in other.frames:
        frame.time_ns += delay_ns + offset_ns + random.randrange(1 + random.choice((0, 1_000_000)))
    for _ in range(random.choice((0, 0, 1, 3))):
        if other.frames:
            random.choice(_MUTATIONS)(other, random)
    return other


def _segment(capture: Frames, random: Random) -> tuple[Frame, Headers] | None:
    frame = random.choice(capture.frames)
    found = headers(capture.link_type, frame)
    return None if found is None else (frame, found)


def _drop(capture: Frames, random: Random) -> None:
    first = random.randrange(len(capture.frames))
    del capture.frames[first : first + random.choice((1, 1, 2, 10))]


def _keep_one_way(capture: Frames, random: Random) -> None:
    chosen = _segment(capture, random)
    if chosen is None:
        return
    frame, at = chosen
    ports = frame.data[at.tcp : at.tcp + 4]
    capture.frames = [
        frame
        for frame in capture.frames
        if (found := headers(capture.link_type, frame)) is None or frame.data[found.tcp : found.tcp + 4] == ports
    ]


def _repeat(capture: Frames, random: Random) -> None:
    frame = random.choice(capture.frames).copy()
    frame.time_ns += random.choice((0, *_SPANS_NS))
    capture.frames.insert(random.randrange(len(capture.frames) + 1), frame)


def _swap(capture: Frames, random: Random) -> None:
    one, other = (random.randrange(len(capture.frames)) for _ in range(2))
    frames = capture.frames
    frames[one], frames[other] = frames[other], frames[one]


def _disturb_order(capture: Frames, random: Random) -> None:
    by_ns = random.choice((1_000_000, 50_000_000, 500_000_000))
    for frame in capture.frames:
        frame.time_ns += random.randrange(-by_ns, by_ns)


def _shift_one(capture: Frames, random: Random) -> None:
    random.choice(capture.frames).time_ns += random.choice((-1, 1)) * random.choice(_SPANS_NS)


def _shift_rest(capture: Frames, random: Random) -> None:
    by_ns = random.choice((-1, 1)) * random.choice(_SPANS_NS)
    for frame in capture.frames[random.randrange(len(capture.frames)) :]:
        frame.time_ns += by_ns


def _stretch_time(capture: Frames, random: Random) -> None:
    factor = random.choice((0, 0.001, 0.5, 10, 1000))
    first_ns = capture.frames[0].time_ns
    for frame in capture.frames:
        frame.time_ns = first_ns + round((frame.time_ns - first_ns) * factor)


def _flags(capture: Frames, random: Random) -> None:
    if chosen := _segment(capture, random):
        frame, at = chosen
        flipped = frame.data[at.tcp + 13] ^ 1 << random.randrange(8)
        frame.data[at.tcp + 13] = random.choice((flipped, 2, 18, 16, 17, 4, 0))


def _window(capture: Frames, random: Random) -> None:
    window = random.choice((0, 0, 1, 100, 65535))
    whole = random.random() < 0.3
    chosen = [_segment(capture, random)]
    if whole:
        chosen = [(frame, at) for frame in capture.frames if (at := headers(capture.link_type, frame))]
    for one in chosen:
        if one is not None:
            struct.pack_into("!H", one[0].data, one[1].tcp + 14, window)


def _number(offset: int) -> Callable[[Frames, Random], None]:
    """Change the sequence number (at 4) or the acknowledgment (at 8) of one segment, or of all from there."""

    def mutate(capture: Frames, random: Random) -> None:
        step = random.choice((*_STEPS, random.getrandbits(32)))
        to = random.choice((None, None, None, *_NUMBERS))
        first = random.randrange(len(capture.frames))
        last = len(capture.frames) if random.random() < 0.2 else first + 1
        for frame in capture.frames[first:last]:
            if (at := headers(capture.link_type, frame)) is not None:
                (now,) = struct.unpack_from("!I", frame.data, at.tcp + offset)
                struct.pack_into("!I", frame.data, at.tcp + offset, (now + step if to is None else to) & 0xFFFFFFFF)

    return mutate


def _length(capture: Frames, random: Random) -> None:
    """Change what the headers say of the length, and what was on the wire."""
    if chosen := _segment(capture, random):
        frame, at = chosen
        length = random.choice(_LENGTHS)
        struct.pack_into("!H", frame.data, at.ip + (4 if at.is_ipv6 else 2), length)
        if random.random() < 0.7:
            frame.wire_bytes = at.ip + length + (40 if at.is_ipv6 else 0)


def _cut(capture: Frames, random: Random) -> None:
    keep = random.choice((0, 14, 34, 54, 60, 66, random.randrange(200)))
    chosen = capture.frames if random.random() < 0.2 else [random.choice(capture.frames)]
    for frame in chosen:
        del frame.data[keep:]


def _option(capture: Frames, random: Random) -> None:
    """One byte or word among the options: timestamps, SACK blocks, scales, sizes."""
    if not (chosen := _segment(capture, random)):
        return
    frame, at = chosen
    if at.options_end > at.tcp + 24:
        where = random.randrange(at.tcp + 20, at.options_end - 3)
        if random.random() < 0.5:
            struct.pack_into("!I", frame.data, where, random.choice((*_NUMBERS, random.getrandbits(32))))
        else:
            frame.data[where] = random.choice((0, 1, 2, 3, 4, 5, 8, 255))


def _timestamps(capture: Frames, random: Random) -> None:
    """The clocks of all options from a packet on: set, or standing still."""
    step = random.choice((*_STEPS, random.getrandbits(32)))
    stands = random.random() < 0.3
    for frame in capture.frames[random.randrange(len(capture.frames)) :]:
        at = headers(capture.link_type, frame)
        where = frame.data.find(b"\x08\x0a", at.tcp + 20, at.options_end) if at is not None else -1
        if where >= 0 and where + 10 <= len(frame.data):
            (value,) = struct.unpack_from("!I", frame.data, where + 2)
            struct.pack_into("!I", frame.data, where + 2, 7 if stands else (value + step) & 0xFFFFFFFF)


def _turn_round(capture: Frames, random: Random) -> None:
    """Exchange the ends of a segment."""
    if chosen := _segment(capture, random):
        frame, at = chosen
        addresses, size = (at.ip + 8, 16) if at.is_ipv6 else (at.ip + 12, 4)
        for first, length in ((addresses, size), (at.tcp, 2)):
            one, other = slice(first, first + length), slice(first + length, first + 2 * length)
            frame.data[one], frame.data[other] = frame.data[other], frame.data[one]


def _flip(capture: Frames, random: Random) -> None:
    frame = random.choice(capture.frames)
    if frame.data:
        frame.data[random.randrange(len(frame.data))] ^= 1 << random.randrange(8)


_MUTATIONS: tuple[Callable[[Frames, Random], None], ...] = (
    _drop,
    _keep_one_way,
    _repeat,
    _swap,
    _disturb_order,
    _shift_one,
    _shift_rest,
    _stretch_time,
    _flags,
    _window,
    _number(4),
    _number(8),
    _length,
    _cut,
    _option,
    _timestamps,
    _turn_round,
    _flip,
)

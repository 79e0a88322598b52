"""Captures of floods: millions of TCP 5-tuples that each carry next to nothing.

.venv/bin/python bench/floods.py FILE --tuples 5000000 --exchange syn --sources spoofed
"""

from __future__ import annotations

import argparse
import struct
import sys
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

SYN, PUSH, ACK = 0x02, 0x08, 0x10
# What crosses the wire of each 5-tuple: flags, payload bytes, whether the victim sends it.
EXCHANGES = {
    "data": ((PUSH | ACK, 1, False),),
    "syn": ((SYN, 0, False), (PUSH | ACK, 1, False)),
    "repeated": ((SYN, 0, False), (PUSH | ACK, 1, False), (PUSH | ACK, 1, False)),
    "answered": ((SYN, 0, False), (SYN | ACK, 0, True), (PUSH | ACK, 1, False), (PUSH | ACK, 1, True)),
}
SOURCES = ("ports", "spoofed")

_INTERVAL_NS = 2_000
_START_S = 1_700_000_000
_TUPLES_AT_ONCE = 100_000
# 192.0.2.1 and 198.51.100.1 (RFC 5737).
_VICTIM, _SENDER = 0xC0000201, 0xC6336401
_VICTIM_PORT = 80

_HEADERS = [
    ("time_s", "<u4"),
    ("time_ns", "<u4"),
    ("captured_bytes", "<u4"),
    ("wire_bytes", "<u4"),
    ("macs", "V12"),
    ("ethertype", ">u2"),
    ("version", "u1"),
    ("tos", "u1"),
    ("ip_bytes", ">u2"),
    ("identification", ">u2"),
    ("fragment", ">u2"),
    ("ttl", "u1"),
    ("protocol", "u1"),
    ("ip_checksum", ">u2"),
    ("source", ">u4"),
    ("destination", ">u4"),
    ("source_port", ">u2"),
    ("destination_port", ">u2"),
    ("sequence", ">u4"),
    ("acknowledgment", ">u4"),
    ("offset", "u1"),
    ("flags", "u1"),
    ("window", ">u2"),
    ("tcp_checksum", ">u2"),
    ("urgent", ">u2"),
]


def write(path: Path, tuples: int, exchange: str, sources: str) -> int:
    """Write a pcap file of so many 5-tuples, one after the other, a packet each 2 µs; return its packets.

    Args:
        path: the file to write.
        tuples: how many.
        exchange: a key of ``EXCHANGES``: what each of them sends.
        sources: ``ports``: all are of one host, with 65 535 source ports to each port of the victim; ``spoofed``: each
            is of another host.
    """
    packets = EXCHANGES[exchange]
    records = [_record(payload_bytes) for _, payload_bytes, _ in packets]
    one = np.dtype([(f"packet{number}", record) for number, record in enumerate(records)])
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 1))
        for first in range(0, tuples, _TUPLES_AT_ONCE):
            numbers = np.arange(first, min(first + _TUPLES_AT_ONCE, tuples), dtype=np.int64)
            _write_some(file, numbers, one, exchange, sources)
    return tuples * len(packets)


def _record(payload_bytes: int) -> np.dtype[Any]:
    return np.dtype([*_HEADERS, ("payload", f"V{payload_bytes}")] if payload_bytes else _HEADERS)


def _write_some(file: BinaryIO, numbers: NDArray[np.int64], one: np.dtype[Any], exchange: str, sources: str) -> None:
    rows = np.zeros(len(numbers), dtype=one)
    packets = EXCHANGES[exchange]
    ports = (1 + numbers % 65_535, _VICTIM_PORT + numbers // 65_535)
    hosts = np.full(len(numbers), _SENDER)
    if sources == "spoofed":
        # A bijection of 32 bits (an odd factor), so that no two are the same.
        hosts = numbers * 0x9E3779B1 % (1 << 32)
        ports = (1024 + numbers % 60_000, np.full(len(numbers), _VICTIM_PORT))
    sequence = numbers * 0x85EBCA6B % (1 << 32)
    began = False
    for position, (flags, payload_bytes, is_answer) in enumerate(packets):
        packet = rows[f"packet{position}"]
        time_ns = (numbers * len(packets) + position) * _INTERVAL_NS
        packet["time_s"], packet["time_ns"] = _START_S + time_ns // 10**9, time_ns % 10**9
        packet["captured_bytes"] = packet["wire_bytes"] = 54 + payload_bytes
        packet["ethertype"], packet["version"], packet["ip_bytes"] = 0x0800, 0x45, 40 + payload_bytes
        packet["identification"] = (numbers * len(packets) + position) % 65_536
        packet["ttl"], packet["protocol"] = 64 if is_answer else 51, 6
        near, far = ("destination", "source") if is_answer else ("source", "destination")
        packet[near], packet[far] = hosts, _VICTIM
        packet[f"{near}_port"], packet[f"{far}_port"] = ports
        own, other = (0, sequence + began) if is_answer else (sequence + began, 0)
        packet["sequence"] = (own + (is_answer and not flags & SYN)) % (1 << 32)
        acknowledged = position and packets[position - 1][1]
        packet["acknowledgment"] = (other + acknowledged if is_answer else np.int64(began)) % (1 << 32)
        packet["offset"], packet["flags"], packet["window"] = 0x50, flags, 65_535
        began = began or bool(flags & SYN)
    rows.tofile(file)


def main() -> None:
    """Write one capture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--tuples", type=int, default=5_000_000)
    parser.add_argument("--exchange", choices=EXCHANGES, default="data")
    parser.add_argument("--sources", choices=SOURCES, default="ports")
    options = parser.parse_args()
    packets = write(options.file, options.tuples, options.exchange, options.sources)
    print(f"{options.file}: {packets} packets", file=sys.stderr)


if __name__ == "__main__":
    main()

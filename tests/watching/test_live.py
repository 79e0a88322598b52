"""Tests of connections as they are now: states of real connections of this host, one after the other."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

import whydrop
from whydrop.monitoring.sockets import limits
from whydrop.monitoring.sockets.live import COLUMNS, VERDICTS

pytestmark = pytest.mark.slow


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection on the loopback interface."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sending = socket.create_connection(listening.getsockname())
        receiving, _ = listening.accept()
    with sending, receiving:
        yield sending, receiving


def test_states_follow_a_connection_from_its_data_to_its_end(pair: tuple[socket.socket, socket.socket]):
    sending, receiving = pair
    port = sending.getsockname()[1]
    with whydrop.watch_live(ports=[port], every_s=0.2) as watch:
        states = iter(watch)
        first = next(states)
        assert first.connections.schema == COLUMNS
        sending.sendall(bytes(50_000))
        assert len(receiving.recv(50_000, socket.MSG_WAITALL)) == 50_000
        busy = next(states).connections
        assert busy["local"][0] == f"127.0.0.1:{port}"
        assert busy["pid"].to_list() == [os.getpid()] * 2
        rate_bps = busy["sent_bps"][0]
        assert rate_bps is not None
        assert rate_bps > 0
        # Nothing moves: both ends are idle in one of the next states.
        while set(next(states).connections["limit"]) != {limits.IDLE}:
            pass
        sending.close()
        receiving.close()
        while next(states).connections.height:
            pass
    assert list(watch) == []


def test_times_of_states_grow(pair: tuple[socket.socket, socket.socket]):
    with whydrop.watch_live(ports=[pair[0].getsockname()[1]], every_s=0.1) as watch:
        times = [state.time_ns for state, _ in zip(watch, range(3), strict=False)]
    assert times == sorted(set(times))


def test_each_limit_has_a_sentence():
    named = {value for name, value in vars(limits).items() if name.isupper() and isinstance(value, str)}
    assert set(VERDICTS) == named
    assert all(sentence.endswith(".") for sentence in VERDICTS.values())


def test_a_selection_that_cannot_be_is_refused():
    with pytest.raises(whydrop.Error, match="expected a port"):
        whydrop.watch_live(ports=[0])
    with pytest.raises(ValueError, match="above 0"):
        whydrop.watch_live(every_s=0)

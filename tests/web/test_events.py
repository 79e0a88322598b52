"""Tests of server-sent events: fan-out, what a reconnect gets, and idle readers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import anyio
import pytest

from whydrop.web import events
from whydrop.web.events import Events, TooManyReadersError

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def next_event(reading: AsyncIterator[str]) -> tuple[str, object]:
    """The identifier and the data of the next event that is none of the stream's own."""
    while True:
        with anyio.fail_after(5):
            text = await anext(reading)
        fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        if "data" in fields:
            return fields["id"], fields.get("event") or json.loads(fields["data"])["data"]


async def test_every_reader_of_a_topic_gets_its_events_in_order():
    sent = Events()
    readers = [sent.read(["jobs"]), sent.read(["jobs/7", "library"])]
    for reading in readers:
        await anext(reading)
    for number, topic in enumerate(["jobs/7", "other", "jobs/8", "library", "jobsx"]):
        sent.publish(topic, number)
    assert [(await next_event(readers[0]))[1] for _ in range(2)] == [0, 2]
    assert [(await next_event(readers[1]))[1] for _ in range(2)] == [0, 3]


async def test_a_reconnect_reads_what_was_missed():
    sent = Events()
    reading = sent.read(["t"])
    await anext(reading)
    sent.publish("t", 1)
    last, _ = await next_event(reading)
    await reading.aclose()
    sent.publish("t", 2)
    sent.publish("t", 3)
    again = sent.read(["t"], after=last)
    assert [(await next_event(again))[1] for _ in range(2)] == [2, 3]


@pytest.mark.parametrize("after", ["deadbeef-3", "nonsense", "-1", "x-99999999999999999999"])
async def test_a_reader_from_before_a_restart_is_asked_to_start_over(after: str):
    sent = Events()
    reading = sent.read(["t"], after=after)
    assert (await next_event(reading))[1] == "reset"


async def test_a_reader_that_was_away_too_long_is_asked_to_start_over(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(events, "_KEPT", 3)
    sent = Events()
    first = sent.mark()
    for number in range(5):
        sent.publish("t", number)
    assert (await next_event(sent.read(["t"], after=first)))[1] == "reset"


async def test_a_silent_stream_shows_that_it_lives(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(events, "_HEARTBEAT_S", 0.01)
    reading = Events().read(["t"])
    assert [(await anext(reading))[:5] for _ in range(3)] == ["retry", ": wai", ": wai"]


async def test_a_thousand_idle_readers_cost_no_event_and_one_too_many_is_refused():
    sent = Events(most_readers=1000)
    readers = [sent.read(["idle"]) for _ in range(1000)]
    for reading in readers:
        await anext(reading)
    with pytest.raises(TooManyReadersError):
        await anext(sent.read(["idle"]))
    await readers[0].aclose()
    reading = sent.read(["t"])
    await anext(reading)
    sent.publish("t", "still here")
    assert (await next_event(reading))[1] == "still here"

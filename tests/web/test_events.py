"""Tests of server-sent events: fan-out, what a reconnect gets, and idle readers."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

import anyio
import pytest

from whydrop.web import events
from whydrop.web.events import Events, TooManyReadersError

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def next_event(reading: AsyncGenerator[str, None]) -> tuple[str, object]:
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


async def test_an_event_is_encoded_once_whatever_the_number_of_its_readers(monkeypatch: pytest.MonkeyPatch):
    encoded: list[object] = []
    original = json.dumps

    def counting(data: object, **options: object) -> str:
        encoded.append(data)
        return original(data, **options)  # type: ignore[arg-type]

    sent = Events()
    readers = [sent.read(["t"]) for _ in range(20)]
    for reading in readers:
        await anext(reading)
    monkeypatch.setattr(events.json, "dumps", counting)
    sent.publish("t", {"a": 1})
    texts = [await anext(reading) for reading in readers]
    assert encoded.count({"a": 1}) == 1
    assert all(text is texts[0] for text in texts)


async def test_a_number_that_json_has_not_is_null_and_ends_no_stream():
    sent = Events()
    reading = sent.read(["t"])
    await anext(reading)
    sent.publish("t", {"rates": [1.5, float("nan"), (float("inf"),)]})
    assert (await next_event(reading))[1] == {"rates": [1.5, None, [None]]}


async def test_long_events_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(events, "_KEPT_CHARS", 1000)
    sent = Events()
    first = sent.mark()
    for number in range(5):
        sent.publish("t", [number, "x" * 400])
    late = sent.mark()
    sent.publish("t", 5)
    assert (await next_event(sent.read(["t"], after=first)))[1] == "reset"
    assert (await next_event(sent.read(["t"], after=late)))[1] == 5


async def test_the_readers_of_a_topic_are_counted_until_they_go():
    sent = Events()
    readers = [sent.read(["watch"]), sent.read(["watch/connections", "jobs"]), sent.read(["library"])]
    for reading in readers:
        await anext(reading)
    assert [sent.readers_of(topic) for topic in ("watch/connections", "watch", "jobs/7", "other")] == [2, 1, 1, 0]
    for reading in readers:
        await reading.aclose()
    assert sent.readers_of("watch/connections") == 0

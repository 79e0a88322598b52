"""Words for what is not TCP data."""

from __future__ import annotations

from typing import Any

from plain_text import plain
from whydrop.explaining import completing


def worded(cause: str, detail: str | None, code: str, **values: Any) -> dict[str, Any]:
    fact = {"code": code, "values": values}
    found = {"cause": cause, "detail": detail, "flows": [], "lost": 0, "explained": 1.0, "parameters": {}}
    return completing.verdict({**found, "facts": [fact], "against": []})


REQUESTS = {
    "service": "DNS",
    "responder": "192.0.2.53:53",
    "other_responders": 0,
    "requests": 1,
    "attempts": 3,
    "answered": 0,
    "unanswered": 1,
    "waited_s": 2.0,
    "names": ["a.example"],
}


def test_a_request_without_an_answer_names_server_question_and_wait() -> None:
    found = worded("no-answer", "requests", "requests-unanswered", **REQUESTS)
    assert plain(found["sentence"]) == (
        "192.0.2.53:53 did not answer 1 DNS request for a.example, in 3 attempts over 2.00 s. The server is down, or a "
        "filter drops requests or answers."
    )
    assert "$ nmap -sU -p 53 SERVER" in found["advice"]


def test_answers_from_another_address_are_the_reason() -> None:
    found = worded("no-answer", "requests", "requests-unanswered", **REQUESTS, stranger="192.0.2.99")
    assert "Answers came from 192.0.2.99 instead" in found["sentence"]


ERROR = {
    "responder": "192.0.2.7:1812",
    "other_responders": 0,
    "messages": 3,
    "what": "datagram",
    "router": "192.0.2.7",
    "sender": "192.0.2.1",
    "lasted_s": 0.8,
}


def test_a_closed_port_is_looked_for_on_its_host_and_a_filter_at_the_router() -> None:
    own = {**ERROR, "error": "port-unreachable", "router_is_responder": True, "router_is_sender": False}
    assert "$ ss -lunp" in worded("refused", "icmp", "datagrams-rejected", **own)["advice"]
    other = {**own, "error": "prohibited", "router": "203.0.113.1", "router_is_responder": False}
    found = worded("refused", "icmp", "datagrams-rejected", **other)
    assert found["sentence"].startswith("203.0.113.1, on the path, rejected 3 datagrams to 192.0.2.7:1812")
    assert "203.0.113.1" in found["advice"][0]
    assert not any("$ ss" in line for line in found["advice"])


def test_a_sender_that_says_itself_that_there_is_no_way_looks_at_its_neighbours() -> None:
    own = {**ERROR, "error": "host-unreachable", "router_is_responder": False, "router_is_sender": True}
    found = worded("no-answer", "unreachable", "datagrams-unreachable", **own)
    assert "the sender itself reported by ICMP" in found["sentence"]
    assert "$ ip neigh show" in found["advice"]


def test_a_capture_without_a_failure_says_what_it_holds() -> None:
    names = ("connections_without_data", "udp_flows", "udp_flows_one_way", "requests", "answered", "rtp_streams")
    held = dict.fromkeys((*names, "pings", "pings_answered", "icmp_errors", "unread"), 0)
    found = worded("none", None, "nothing-failed", **{**held, "udp_flows": 2, "requests": 1, "answered": 1})
    assert found["sentence"].endswith("nothing in it shows a failure: 2 UDP flows.")
    assert found["evidence"] == ["1 of 1 request over UDP answered"]

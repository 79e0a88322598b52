"""Tests of who may talk to the server: attacks by pages of other sites, by other names, and by guessing."""

from __future__ import annotations

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from whydrop.web.access import Access, Guard

ACCESS = Access("the-token", frozenset({"127.0.0.1:8000", "localhost:8000"}), port=8000)


async def echo(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{request.method} {request.url.path}")


APP = Guard(
    Starlette(routes=[Route("/{path:path}", echo, methods=["GET", "POST", "DELETE"])]), ACCESS, open_paths=["/health"]
)


async def ask(method: str, path: str, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(APP)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        return await client.request(
            method, path, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )


@pytest.fixture
async def cookie() -> str:
    answer = await ask("GET", "/?token=the-token")
    return answer.headers["set-cookie"].partition(";")[0]


pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_the_address_with_the_token_sets_a_cookie_and_leads_to_one_without_it():
    answer = await ask("GET", "/open?source=1&token=the-token&filter=tcp")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/open?source=1&filter=tcp"
    given = answer.headers["set-cookie"]
    assert "HttpOnly" in given
    assert "SameSite=strict" in given
    assert "the-token" not in given


async def test_the_address_with_the_token_leads_to_no_other_site():
    answer = ACCESS.let_in("//evil.example/", "token=the-token")
    assert answer.headers["location"] == "/evil.example/"


async def test_the_cookie_lets_its_holder_in(cookie: str):
    assert (await ask("GET", "/browse", cookie=cookie)).text == "GET /browse"


async def test_a_script_is_let_in_by_its_bearer_token():
    assert (await ask("POST", "/api/x", authorization="Bearer the-token")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"cookie": "whydrop-8000=guess"},
        {"cookie": "whydrop-8000=the-token"},
        {"cookie": "whydrop-9000=x; whydrop-8000"},
        {"cookie": "\x7f=;;;==="},
        {"authorization": "Bearer the-toke"},
        {"authorization": "Basic the-token"},
    ],
)
async def test_without_the_token_nothing_is_answered(headers: dict[str, str]):
    assert (await ask("GET", "/api/library", **headers)).status_code == 401


async def test_a_wrong_token_in_the_address_sets_no_cookie():
    answer = await ask("GET", "/?token=wrong")
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


async def test_health_needs_no_token():
    assert (await ask("GET", "/health")).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1", "127.0.0.1:8001", "localhost.evil:8000", ""]
)
async def test_a_name_that_is_not_this_servers_is_refused_even_with_the_cookie(cookie: str, host: str):
    # DNS rebinding: the name of another site leads here.
    assert (await ask("GET", "/api/library", cookie=cookie, host=host)).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8001"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_a_page_of_another_site_cannot_change_anything(cookie: str, method: str, headers: dict[str, str]):
    assert (await ask(method, "/api/library", cookie=cookie, **headers)).status_code == 403


async def test_an_own_page_may_change_things(cookie: str):
    answer = await ask("POST", "/api/x", cookie=cookie, origin="http://127.0.0.1:8000", sec_fetch_site="same-origin")
    assert answer.status_code == 200


async def test_every_answer_forbids_scripts_of_others_and_frames(cookie: str):
    for answer in (await ask("GET", "/browse", cookie=cookie), await ask("GET", "/browse")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers

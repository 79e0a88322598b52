"""Tests of endpoints: arguments that are checked, errors in words, and defects that show nothing from inside."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Optional

import httpx
import pytest
from pydantic import BaseModel, Field, create_model
from starlette.applications import Starlette

from whydrop.errors import Error
from whydrop.web.endpoints import Endpoint, Nothing, RequestError, openapi
from whydrop.web.workers import WorkerDefectError, WorkerError

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Given(BaseModel):
    one: list[str] = Field(default_factory=list)
    maybe: list[str] | None = None
    old: Optional[list[str]] = None  # noqa: UP045 (as others write it)
    noted: Annotated[list[str], "a note"] = Field(default_factory=list)
    mapping: dict[str, list[str]] = Field(default_factory=dict)
    text: str = ""
    listed: str = ""
    number: float | None = None
    whole: int = 0
    anything: Any = None


class Answer(BaseModel):
    found: dict[str, Any]


async def echo(given: Given) -> Answer:
    return Answer(found=given.model_dump())


async def ask(
    method: str, call: Callable[[Given], Awaitable[Answer]] = echo, path: str = "/x", **request: Any
) -> httpx.Response:
    app = Starlette(routes=[Endpoint(method, path, Given, Answer, call, "Something.").route()])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
        return await client.request(method, "/x", **request)


async def test_lists_are_known_however_they_are_written():
    values = {"one": ["a"], "maybe": ["a"], "old": ["a"], "noted": ["a", "b"], "text": "a", "listed": "b"}
    found = (await ask("GET", params=values)).json()["found"]
    assert {name: found[name] for name in values} == values


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("number=nan", "number: a number is not finite"),
        ("number=-inf", "number: a number is not finite"),
        ("number=1e999", "number: a number is not finite"),
        ("whole=99999999999999999999", "whole: an integer is beyond 64 bits"),
        ("text=%00", "text: a text has a NUL character"),
        ("one=a&one=%00", "one: a text has a NUL character"),
        ("number=x", "number: Input should be a valid number"),
    ],
)
async def test_values_that_the_program_cannot_hold_are_refused_in_words(query: str, words: str):
    answer = await ask("GET", params=query)
    assert answer.status_code == 400
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"anything": NaN}', "not finite"),
        (b'{"anything": [1e999]}', "not finite"),
        (b'{"anything": {"a": "\\ud800"}}', "surrogate"),
        (b'{"\\ud800": 1}', "surrogate"),
        (b'{"anything": ' + b"[" * 100 + b"]" * 100 + b"}", "nested deeper"),
        (b"[" * 200_000, "no JSON"),
        (b'{"whole": ' + b"9" * 5000 + b"}", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[]", "no JSON object"),
    ],
    ids=range(9),
)
async def test_bodies_that_the_program_cannot_hold_are_refused_in_words(content: bytes, words: str):
    answer = await ask("POST", content=content)
    assert answer.status_code == 400
    assert words in answer.json()["error"]


def raising(reason: BaseException) -> Callable[[Given], Awaitable[Answer]]:
    async def call(_given: Given) -> Answer:
        raise reason

    return call


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (RequestError("words", 409), 409),
        (WorkerError("words"), 422),
        (WorkerDefectError("words"), 500),
        (Error("words"), 400),
        (ValueError("words"), 400),
        (OSError(2, "words"), 400),
    ],
)
async def test_an_error_for_the_user_is_answered_by_its_words(reason: Exception, status: int):
    answer = await ask("GET", raising(reason))
    assert answer.status_code == status
    assert "words" in answer.json()["error"]


async def wrong_answer(_given: Given) -> Answer:
    return Answer(found="secret")  # type: ignore[arg-type]


async def unwritable(_given: Given) -> Answer:
    return Answer(found={"secret": "\ud800"})


@pytest.mark.parametrize(
    "call",
    [
        raising(KeyError("secret")),
        raising(TypeError("secret")),
        raising(AssertionError("secret")),
        wrong_answer,
        unwritable,
    ],
    ids=["KeyError", "TypeError", "AssertionError", "of another model", "not writable"],
)
async def test_a_defect_is_logged_under_the_reference_that_the_page_gets(
    call: Callable[[Given], Awaitable[Answer]], caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.ERROR, "whydrop.web"):
        answer = await ask("GET", call, params="text=a%0Ab")
    assert answer.status_code == 500
    said = answer.json()["error"]
    for inside in ("secret", "Traceback", "Error", ".py"):
        assert inside not in said
    (reference,) = re.findall(r"reference ([0-9a-f]{8})", said)
    (record,) = caplog.records
    assert reference in record.getMessage()
    assert "\n" not in record.getMessage()
    assert record.exc_info


async def test_an_answer_of_any_length_of_words_is_cut(caplog: pytest.LogCaptureFixture):
    answer = await ask("GET", raising(RequestError("x" * 100_000)))
    assert len(json.dumps(answer.json())) < 5000


def test_two_models_of_one_name_are_no_description():
    def made(kind: type) -> type[BaseModel]:
        return create_model("RowsAnswer", rows=(kind, ...))

    async def call(_given: Nothing) -> BaseModel:
        raise NotImplementedError

    first, second = (Endpoint("GET", path, Nothing, made(kind), call, "") for path, kind in (("/a", int), ("/b", str)))
    with pytest.raises(ValueError, match="two models of the API are called RowsAnswer"):
        openapi([first, second], "1")
    assert (
        openapi([first, first], "1")["components"]["schemas"]["RowsAnswer"]["properties"]["rows"]["type"] == "integer"
    )

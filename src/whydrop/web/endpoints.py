"""Endpoints of the API as data: each checks its arguments by a model, and all of them make the OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

import anyio
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from whydrop.errors import Error
from whydrop.web import defects
from whydrop.web.library.library import NotInLibraryError
from whydrop.web.plain_values import unfit
from whydrop.web.workers import WorkerDefectError, WorkerError

# Bodies of the API are a few words; uploads.py takes files.
_LONGEST_BODY = 1 << 20
_LONGEST_WORDS = 4000
# A body of a few words that takes longer is delayed on purpose, or its connection is dead.
_BODY_S = 30.0

Given = TypeVar("Given", bound=BaseModel)


class Nothing(BaseModel):
    """No arguments."""


class Problem(BaseModel):
    """Why a request failed, and what to do."""

    error: str
    fields: dict[str, str] = {}


class RequestError(Error):
    """A request that cannot be answered."""

    def __init__(self, words: str, status: int = 400, *, fields: Mapping[str, str] | None = None) -> None:
        """With the HTTP status of the answer, and what is wrong with each field of what was sent."""
        super().__init__(words)
        self.status = status
        self.fields = dict(fields or {})


@dataclass(frozen=True)
class Endpoint(Generic[Given]):
    """One method of one path.

    Attributes:
        method: of HTTP.
        path: with names in braces, which are arguments too.
        given: the model of all arguments: those of the path, the query, and the body's JSON.
        returns: the model of the answer, or ``bytes`` with their media type in ``media``.
        call: does it; it returns an instance of ``returns``, or a response.
        summary: one line.
        media: the media type of an answer that is not JSON.
    """

    method: str
    path: str
    given: type[Given]
    returns: type[BaseModel] | type[bytes]
    call: Callable[[Given], Awaitable[BaseModel | Response]]
    summary: str
    media: str = "application/json"

    def route(self) -> Route:
        """The endpoint as Starlette has it."""
        return Route(self.path, self._answer, methods=[self.method])

    async def _answer(self, request: Request) -> Response:
        try:
            found = await self.call(await self._arguments(request))
            return found if isinstance(found, Response) else Response(found.model_dump_json(), media_type=self.media)
        except ClientDisconnect:
            return _problem(400, "the connection ended before the request did")
        except Exception as reason:
            return _expected(reason) or defects.answer(request, reason)

    async def _arguments(self, request: Request) -> Given:
        fields = self.given.model_fields
        values: dict[str, Any] = {}
        for name in request.query_params:
            several = name in fields and _is_list(fields[name].annotation)
            values[name] = request.query_params.getlist(name) if several else request.query_params[name]
        if self.method not in ("GET", "DELETE"):
            values |= await _body(request)
        try:
            given = self.given.model_validate({**values, **request.path_params})
        except ValidationError as reason:
            wrongs = {".".join(map(str, one["loc"])): str(one["msg"]) for one in reason.errors()}
            raise RequestError("; ".join(_in_words(one) for one in reason.errors()), fields=wrongs) from None
        for name in fields:
            if wrong := unfit(getattr(given, name)):
                raise RequestError(f"{name}: {wrong}", fields={name: wrong})
        return given


def _expected(reason: Exception) -> Response | None:
    """The answer to an error that says in words what is wrong with a request; ``None`` for any other error."""
    match reason:
        case ValidationError() | PydanticSerializationError() | UnicodeError():
            # Not of the arguments, which were checked before: the answer does not fit.
            return None
        case RequestError():
            return _problem(reason.status, str(reason), reason.fields)
        case NotInLibraryError():
            return _problem(404, str(reason))
        case WorkerDefectError():
            return _problem(500, str(reason))
        case WorkerError():
            return _problem(422, str(reason))
        case Error() | ValueError() | OSError():
            return _problem(400, str(reason))
    return None


def _is_list(annotation: Any) -> bool:
    """True if a field takes a list: ``list[str]``, ``list[str] | None``, ``Annotated[list[str], ...]``."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType, Annotated):
        return any(map(_is_list, get_args(annotation)))
    found = origin or annotation
    return isinstance(found, type) and issubclass(found, (list, tuple, set, frozenset))


async def _body(request: Request) -> dict[str, Any]:
    raw = bytearray()
    with anyio.move_on_after(_BODY_S) as waited:
        async for chunk in request.stream():
            raw += chunk
            if len(raw) > _LONGEST_BODY:
                raise RequestError(f"the body is longer than {_LONGEST_BODY} bytes", 413)
    if waited.cancelled_caught:
        raise RequestError(f"the body did not come within {_BODY_S:g} s", 408)
    try:
        found = json.loads(raw or b"{}")
    except (ValueError, RecursionError) as reason:
        raise RequestError(f"the body is no JSON: {reason}") from None
    if not isinstance(found, dict):
        raise RequestError("the body is no JSON object")
    if wrong := unfit(found):
        raise RequestError(f"the body: {wrong}")
    return found


def _problem(status: int, words: str, fields: Mapping[str, str] | None = None) -> JSONResponse:
    wrong = {name: _shortened(of) for name, of in (fields or {}).items()}
    return JSONResponse({"error": _shortened(words), **({"fields": wrong} if wrong else {})}, status)


def _shortened(words: str) -> str:
    # What was asked for may be in it, at any length.
    return words if len(words) <= _LONGEST_WORDS else f"{words[:_LONGEST_WORDS]}…"


def _in_words(one: Mapping[str, Any]) -> str:
    return f"{'.'.join(map(str, one['loc'])) or 'the request'}: {one['msg']}"


def openapi(
    endpoints: Sequence[Endpoint[Any]], version: str, others: Mapping[str, dict[str, Any]] | None = None
) -> dict[str, Any]:
    """The OpenAPI 3.1 document of endpoints.

    Args:
        endpoints: of the API.
        version: of the program.
        others: operations by method and path that are no endpoints, as they send or receive pieces.
    """
    schemas: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {path: dict(operations) for path, operations in (others or {}).items()}
    _reference(Problem, schemas)
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "whydrop", "version": version},
        "paths": paths,
        "security": [{"token": []}],
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "Of `whydrop web`."}},
        },
    }


def _operation(one: Endpoint[Any], schemas: dict[str, Any]) -> dict[str, Any]:
    given = _schema(one.given, schemas, keep=False)
    required, in_path = (
        set(given.get("required", ())),
        {name for name in one.given.model_fields if f"{{{name}}}" in one.path},
    )
    in_query = set(one.given.model_fields) - in_path if one.method in ("GET", "DELETE") else set()
    properties = given.get("properties", {})
    operation: dict[str, Any] = {
        "operationId": "_".join(re.findall(r"\w+", f"{one.method.lower()} {one.path.removeprefix('/api/')}")),
        "summary": one.summary,
        "parameters": [
            {
                "name": name,
                "in": "path" if name in in_path else "query",
                "required": name in in_path or name in required,
                "schema": properties[name],
            }
            for name in one.given.model_fields
            if name in in_path | in_query
        ],
        "responses": {
            "200": {"description": "The answer.", "content": {_media(one): {"schema": _answer_schema(one, schemas)}}},
            "default": {
                "description": "Why it failed.",
                "content": {"application/json": {"schema": _reference(Problem, schemas)}},
            },
        },
    }
    body = {name: of for name, of in properties.items() if name not in in_path | in_query}
    if body:
        schema = {"type": "object", "properties": body, "required": sorted(required & body.keys())}
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return operation


def _media(one: Endpoint[Any]) -> str:
    """The media type of an answer; bytes of several kinds say theirs when they are sent."""
    return "*/*" if one.returns is bytes and one.media == "application/json" else one.media


def _answer_schema(one: Endpoint[Any], schemas: dict[str, Any]) -> dict[str, Any]:
    if issubclass(one.returns, BaseModel):
        return _reference(one.returns, schemas)
    return {"type": "string", "format": "binary"}


def _reference(model: type[BaseModel], schemas: dict[str, Any]) -> dict[str, Any]:
    _schema(model, schemas, keep=True)
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _schema(model: type[BaseModel], schemas: dict[str, Any], *, keep: bool) -> dict[str, Any]:
    """The JSON schema of a model; those of models within it, and its own if kept, are put into ``schemas``."""
    found = model.model_json_schema(ref_template="#/components/schemas/{model}")
    kept = found.pop("$defs", {}) | ({model.__name__: found} if keep else {})
    for name, schema in kept.items():
        # One of them would be described by the other.
        if schemas.setdefault(name, schema) != schema:
            raise ValueError(f"two models of the API are called {name}: expected a name for each")
    return found

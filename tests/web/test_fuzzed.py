"""Every request that the API describes, with values that it does not expect: each is answered, and none by a defect."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patience import wait_until
from recordings import rrul
from web.conftest import EXAMPLES, Server, started

pytestmark = pytest.mark.slow

TEXTS = st.sampled_from(
    ["", "x", "0", "-1", "nan", "inf", "1e999", "../../etc/passwd", "\0", "\u202e", "<b>", "' OR 1", "a:b", "x" * 3000,
     "99999999999999999999999", "true", "[", "(", "rtt>", "tcp and (", "9" * 5000, "0x10", "null", "%00", "*", "\n"]
) | st.text(max_size=20)  # fmt: skip

NUMBERS = st.sampled_from([0, -1, 1, 1.5, 1e308, -1e308, 1 << 62, 1 << 64, 10**400, 20_000, 2**31]) | st.integers()

DEEP: Any = []
for _ in range(400):
    DEEP = [DEEP]


def anything() -> st.SearchStrategy[Any]:
    """Values of JSON, and what Python's JSON has beyond it."""
    plain = st.none() | st.booleans() | NUMBERS | TEXTS | st.floats() | st.just("\ud800") | st.just(DEEP)
    return st.recursive(
        plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=5
    )


def meant(schema: dict[str, Any], schemas: dict[str, Any], known: list[str]) -> st.SearchStrategy[Any]:
    """Values of a schema, at its limits and beyond them; identifiers are often those of something."""
    if reference := schema.get("$ref"):
        return meant(schemas[reference.rpartition("/")[2]], schemas, known)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return st.one_of([meant(one, schemas, known) for one in schema[several]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "string":
            return st.sampled_from(known) | TEXTS
        case "integer":
            return st.integers(-2, 20) | NUMBERS
        case "number":
            return st.floats() | NUMBERS
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(meant(schema.get("items", {}), schemas, known), max_size=4)
        case "object":
            inner = schema.get("properties", {})
            return st.fixed_dictionaries({}, optional={name: meant(of, schemas, known) for name, of in inner.items()})
        case _:
            return anything()


def one_request(operation: dict[str, Any], schemas: dict[str, Any], known: list[str]) -> st.SearchStrategy[Any]:
    """Parameters by name, and a body."""
    parameters = st.fixed_dictionaries(
        {
            one["name"]: meant(one["schema"], schemas, known) | st.sampled_from(known) | anything()
            for one in operation["parameters"]
            if one["in"] == "path"
        },
        optional={
            one["name"]: meant(one["schema"], schemas, known) | anything()
            for one in operation["parameters"]
            if one["in"] == "query"
        },
    )
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    properties = (body or {}).get("properties", {})
    fitting = {name: meant(of, schemas, known) for name, of in properties.items()}
    required = {name: fitting[name] for name in (body or {}).get("required", ())}
    wild = st.fixed_dictionaries({}, optional={name: fitting[name] | anything() for name in fitting})
    bodies = (
        st.fixed_dictionaries(required, optional={k: v for k, v in fitting.items() if k not in required})
        | wild
        | anything()
    )
    return st.tuples(parameters, bodies)


def as_text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")[:8000]


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.root, headers={"Authorization": f"Bearer {server.token}"}, timeout=120) as asking:
        yield asking


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two captures and a recording."""
    folder = tmp_path_factory.mktemp("fuzzed")
    for name in ("policed-download.pcap.zst", "shallow-queue.pcap.zst"):
        shutil.copy(EXAMPLES / name, folder)
    rrul(folder / "recorded")
    with started(folder) as one:
        yield one


@pytest.fixture(scope="module")
def known(client: httpx.Client) -> dict[str, list[str]]:
    """By the beginning of a path, identifiers of what there is, and further words that it knows."""

    def entries(kind: str) -> list[str]:
        found = client.get("/api/library", params={"q": f"kind:{kind}"}).json()["entries"]
        return [one["id"] for one in found]

    wait_until(lambda: len(entries("capture")) == 2 and entries("recording"), "the entries of the library")
    captures, recordings = entries("capture"), entries("recording")
    analysis = client.post("/api/analyses", json={"source": captures[:1]}).json()["id"]
    comparison = client.post("/api/comparisons", json={"source": recordings}).json()["id"]
    sections = client.get(f"/api/analyses/{analysis}/page").raise_for_status().json()["choices"]
    plots = client.get(f"/api/comparisons/{comparison}/page").raise_for_status().json()["plots"]
    return {
        "/api/analyses/": [analysis, analysis, *sections],
        "/api/comparisons/": [comparison, comparison, *(one["name"] for one in plots[:3])],
        "/api/": [*captures, *recordings, "rtt", "kind:capture", "tcp"],
    }


def operations(described: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]


# What hypothesis draws depends on the server; the number of requests, not of tests, is what finds something.
EACH = settings(max_examples=30, suppress_health_check=list(HealthCheck), deadline=None, database=None)


def check(server: Server, client: httpx.Client, method: str, path: str, request: tuple[dict[str, Any], Any]) -> None:
    """Send a request; fail if its answer is a defect."""
    parameters, body = request
    place, query = path, {}
    for name, value in parameters.items():
        if f"{{{name}}}" in path:
            place = place.replace(f"{{{name}}}", quote(as_text(value), safe="") or "%20")
        else:
            query[name] = list(map(as_text, value)) if isinstance(value, list) else as_text(value)
    content = None if method in ("GET", "DELETE") else json.dumps(body).encode()
    answer = client.request(method, place, params=query, content=content)
    sent = (method, place, query, content, answer.text[:500])
    assert answer.status_code < 500, (sent, server.log.read_text()[-3000:])
    if answer.status_code >= 400 and answer.headers["content-type"] == "application/json":
        assert "defect" not in answer.json()["error"], (sent, server.log.read_text()[-3000:])


def fuzz(requests: st.SearchStrategy[Any], checked: Callable[[Any], None]) -> None:
    @EACH
    @given(requests)
    def each(request: Any) -> None:
        checked(request)

    each()


def test_no_value_makes_a_defect(server: Server, client: httpx.Client, known: dict[str, list[str]]):
    described = client.get("/api").json()
    found = operations(described)
    assert len(found) > 20
    for method, path, operation in found:
        words = next(words for beginning, words in known.items() if path.startswith(beginning))
        fuzz(
            one_request(operation, described["components"]["schemas"], words),
            partial(check, server, client, method, path),
        )
        assert client.get("/health").text == "ok\n", path
    log = server.log.read_text()
    assert "Traceback" not in log, log[-5000:]


@pytest.mark.parametrize(
    "content",
    [b"[" * 500_000, b'{"a":' * 100_000, b'{"source":[NaN]}', b'{"source":["\\ud800"]}', b"\xff\xfe", b"1" * 10_000,
     b'{"begin": 1e999, "source": ["x"]}', b'{"source": ["x"], "begin": NaN}', b"null", b'"x"'],
    ids=range(10),
)  # fmt: skip
def test_a_body_that_is_no_plain_object_is_refused_in_words(client: httpx.Client, content: bytes):
    answer = client.post("/api/analyses", content=content)
    assert 400 <= answer.status_code < 500
    assert answer.json()["error"]

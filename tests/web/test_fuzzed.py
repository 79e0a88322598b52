"""Every request that the API describes, with values that it does not expect: each is answered, and none by a defect."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from patience import wait_until
from recordings import rrul
from web.conftest import EXAMPLES, Server, client_of, started

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
    with client_of(server) as asking:
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


# The same requests each time, so that a failure is one of the change that is tested; many others once before a release.
EACH = settings(max_examples=4, suppress_health_check=list(HealthCheck), deadline=None, database=None, derandomize=True)
MANY = settings(EACH, max_examples=60, derandomize=False)


def conforms(described: dict[str, Any], method: str, path: str, answer: httpx.Response) -> None:
    """Fail if an answer is not as the document says."""
    responses = described["paths"][path][method.lower()]["responses"]
    content = responses[str(answer.status_code) if str(answer.status_code) in responses else "default"]["content"]
    if answer.status_code == 405 or (path.count("{") and answer.headers["content-type"].startswith("text/plain")):
        # Of the router: the values made a path that is another one.
        return
    media = answer.headers["content-type"].partition(";")[0]
    assert media in content or "*/*" in content, (method, path, media)
    if media in content and media == "application/json":
        schema = {**content[media]["schema"], "components": described["components"]}
        Draft202012Validator(schema).validate(answer.json())


def check(
    server: Server,
    client: httpx.Client,
    described: dict[str, Any],
    method: str,
    path: str,
    request: tuple[dict[str, Any], Any],
) -> None:
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
    conforms(described, method, path, answer)
    sent = (method, place, query, content, answer.text[:500])
    assert answer.status_code < 500, (sent, server.log.read_text()[-3000:])
    if answer.status_code >= 400 and answer.headers["content-type"] == "application/json":
        assert "defect" not in answer.json()["error"], (sent, server.log.read_text()[-3000:])


def fuzz(requests: st.SearchStrategy[Any], checked: Callable[[Any], None], how: settings) -> None:
    @how
    @given(requests)
    def each(request: Any) -> None:
        checked(request)

    each()


@pytest.mark.parametrize("how", [EACH, pytest.param(MANY, marks=pytest.mark.exhaustive)], ids=["few", "many"])
def test_no_value_makes_a_defect(server: Server, client: httpx.Client, known: dict[str, list[str]], how: settings):
    described = client.get("/api").json()
    found = operations(described)
    assert len(found) > 20
    for method, path, operation in found:
        if path in ("/api/events", "/api/uploads"):
            # Neither takes nor gives JSON: test_attacks.py and test_hostile_uploads.py ask them.
            continue
        words = next(words for beginning, words in known.items() if path.startswith(beginning))
        fuzz(
            one_request(operation, described["components"]["schemas"], words),
            partial(check, server, client, described, method, path),
            how,
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


def test_the_document_of_the_api_is_openapi(client: httpx.Client):
    described = client.get("/api").json()
    assert described["openapi"].startswith("3.1.")
    assert described["info"].keys() >= {"title", "version"}
    schemas = described["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    references = set(re.findall(r'"\$ref": "([^"]*)"', json.dumps(described)))
    assert references <= {f"#/components/schemas/{name}" for name in schemas}
    own = [operation["operationId"] for _, _, operation in operations(described)]
    assert len(own) == len(set(own))
    for method, path, operation in operations(described):
        assert method in ("GET", "POST", "PUT", "DELETE"), (method, path)
        assert path.startswith("/api/")
        places = [(one["name"], one["in"]) for one in operation["parameters"]]
        assert len(places) == len(set(places)), path
        assert {name for name, place in places if place == "path"} == set(re.findall(r"{(\w+)}", path)), path
        assert all(one["required"] for one in operation["parameters"] if one["in"] == "path"), path
        for one in operation["parameters"]:
            Draft202012Validator.check_schema(one["schema"])
        assert operation["summary"].endswith(".")
        assert operation["responses"].keys() == {"200", "default"}
        assert method not in ("GET", "DELETE") or "requestBody" not in operation, path


def test_what_is_asked_for_is_answered_as_the_document_says(client: httpx.Client, known: dict[str, list[str]]):
    described = client.get("/api").json()
    entry, analysis, comparison = known["/api/"][0], known["/api/analyses/"][0], known["/api/comparisons/"][0]
    recording = client.get("/api/library", params={"q": "kind:recording"}).json()["entries"][0]["id"]
    for method, path, values, body in [
        ("GET", "/api/library", {}, None),
        ("GET", "/api/library", {"q": "rtt>1", "order": "title", "column": ["rtt", "host"]}, None),
        ("GET", "/api/library/keys", {}, None),
        ("GET", "/api/library/{id}", {"id": entry}, None),
        ("GET", "/api/library/differences", {"source": [entry, recording]}, None),
        ("PUT", "/api/library/{id}/marks", {"id": entry}, {"tags": ["a"], "note": "b"}),
        ("GET", "/api/tests", {}, None),
        ("GET", "/api/tests/{name}", {"name": "rrul"}, None),
        ("GET", "/api/runs", {}, None),
        ("POST", "/api/analyses", {}, {"source": [entry]}),
        ("GET", "/api/analyses/{id}", {"id": analysis}, None),
        ("GET", "/api/analyses/{id}/page", {"id": analysis}, None),
        ("GET", "/api/analyses/{id}/document", {"id": analysis}, None),
        ("POST", "/api/comparisons", {}, {"source": [recording]}),
        ("GET", "/api/comparisons/{id}/page", {"id": comparison}, None),
    ]:  # fmt: skip
        place, query = path, {}
        for name, value in values.items():
            if f"{{{name}}}" in path:
                place = place.replace(f"{{{name}}}", str(value))
            else:
                query[name] = value
        answer = client.request(method, place, params=query, json=body)
        assert answer.status_code == 200, (method, place, answer.text)
        conforms(described, method, path, answer)

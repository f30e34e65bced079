"""The API against its own specification: whatever schemathesis makes of it, no answer is an error of the service."""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from starlette.testclient import TestClient

from tests.service.spaces import served

pytestmark = pytest.mark.once

EXAMPLES = int(os.environ.get("UNHUB_API_EXAMPLES", "15"))  # for each operation; the long run takes hundreds
KNOWN = (200, 202, 400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429)


NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.floats(-2, 2)
IDS = st.sampled_from(["i0", "i7", "i59", "nobody", "", 3, -1, 1 << 70])
SEARCHES = st.fixed_dictionaries(
    {},
    optional={
        "vector": st.lists(NUMBERS, min_size=7, max_size=9),
        "vectors": st.lists(st.lists(NUMBERS, min_size=8, max_size=8), min_size=1, max_size=3),
        "sample": st.integers(-2, 72),
        "item": IDS,
        "k": st.integers(-1, 70) | st.integers(),
        "strength": st.floats(-0.1, 1.6) | NUMBERS,
        "combine": st.sampled_from(["sa", "ra", "mf", "head", "x"]),
        "among": st.lists(IDS, max_size=4),
        "exclude": st.lists(IDS, max_size=4),
        "where": st.sampled_from([None, {}, "a = 1"]),
        "raw": st.booleans(),
    },
)


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with served() as (_, client):
        yield client


def operations() -> list[str]:
    with served() as (_, client):
        paths = client.get("/openapi.json").json()["paths"]
    return [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["as told", "otherwise"])
@pytest.mark.parametrize("operation", operations())
def test_no_call_is_an_error_of_the_service(operation: str, mode: GenerationMode, client: TestClient) -> None:
    method, path = operation.split()
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    cases = schema[path][method].as_strategy(generation_mode=mode)

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(case=cases)
    def calls(case: schemathesis.Case[Any]) -> None:
        given = case.as_transport_kwargs(base_url="http://localhost")
        answer = client.request(
            given["method"],
            given["url"],
            params=given.get("params"),
            headers={str(name): str(value) for name, value in (given.get("headers") or {}).items()},
            json=given.get("json"),
            content=given.get("data"),
        )
        assert answer.status_code in KNOWN, (answer.status_code, answer.text)
        if answer.status_code >= 400:
            assert set(answer.json()["error"]) == {"argument", "problem", "remedy"}

    with suppress(*([Unsatisfiable] if mode is GenerationMode.NEGATIVE else [])):  # where nothing can be wrong
        calls()


def test_no_search_that_is_nearly_right_is_an_error_of_the_service(client: TestClient) -> None:
    @settings(max_examples=10 * EXAMPLES, deadline=None, database=None)
    @hypothesis.given(body=SEARCHES)
    def searches(body: dict[str, object]) -> None:
        answer = client.post("/v1/search", json=body)
        assert answer.status_code in (200, 400, 404, 422), (body, answer.text)
        if answer.status_code == 200:
            assert len(answer.json()["hits"]) <= answer.json()["k"]
        elif answer.status_code == 400:
            assert answer.json()["error"]["problem"]

    searches()

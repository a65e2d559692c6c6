"""The API against its own description: no server error, and every answer as described."""

from __future__ import annotations

from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from ioweather.ui.web.app import LOOPBACK, create_app

# Not among them: that what fits the description is taken. Not every text is a time, a query or a log.
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
DESCRIPTION = create_app(Path("/nowhere")).openapi()
OPERATIONS = [(method.upper(), path) for path, methods in DESCRIPTION["paths"].items() for method in methods]


@pytest.fixture(scope="session")
def described(lake):
    app = create_app(lake.root, [lake.root / "no-spool"], hosts=(*LOOPBACK, "testserver"))
    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)


def ask(described, method: str, path: str, mode: schemathesis.GenerationMode, examples: int) -> None:
    @settings(
        max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None,
        phases=[Phase.explicit, Phase.generate],
    )  # fmt: skip
    @given(case=described[path][method].as_strategy(mode))
    def check(case):
        case.call_and_validate(checks=CHECKS, timeout=120)  # on a busy machine, an answer for the first time

    check()


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_answers_are_as_described(described, method, path):
    ask(described, method, path, schemathesis.GenerationMode.POSITIVE, examples=6)


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_many_answers_are_as_described(described, method, path, mode):
    ask(described, method, path, mode, examples=50)


def test_everything_is_described():
    assert DESCRIPTION["info"]["title"] == "ioweather"
    for path, methods in DESCRIPTION["paths"].items():
        assert path.startswith("/api/v1/")
        for operation in methods.values():
            assert operation["description"]
            assert "200" in operation["responses"]
            assert "403" in operation["responses"]

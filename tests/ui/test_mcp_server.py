"""The tools for assistants, asked by the official client: over stdio, and over HTTP as users with tokens."""

from __future__ import annotations

import json
import os
import sys
import time

import anyio
import pytest
from small_facility import make_small_lake

from ioweather.core.facility import parse_visibility
from ioweather.topics.catalogue import QUESTIONS
from ioweather.ui.web.app import bind, create_app, running
from ioweather.ui.web.tokens import create_token

pytest.importorskip("mcp", reason="the MCP library is not installed")

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from ioweather.ui.mcp_server import list_tools, mount


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return make_small_lake(tmp_path_factory.mktemp("mcp"))


@pytest.fixture(scope="module")
def people(lake):
    """Two users with jobs, and a job of each."""
    return lake.sql(
        "SELECT j.user, max(a.job_id) FROM applications a JOIN jobs j ON j.raw_job_id = a.job_id WHERE j.step = '' "
        "GROUP BY 1 ORDER BY count(*) DESC LIMIT 2"
    ).rows


@pytest.fixture(scope="module")
def address(lake):
    app = create_app(lake.root, [], visibility=parse_visibility({"mode": "own", "operators": ["anna"]}))
    mount(app)
    with running(app, bind("127.0.0.1", 0)) as address:
        yield f"{address.rstrip('/')}/mcp"


def call_http(address, headers, calls):
    """Results of these calls (name, arguments), each in its place."""

    async def run():
        async with (
            create_mcp_http_client(headers=headers) as http,
            streamable_http_client(address, http_client=http) as streams,
            ClientSession(streams[0], streams[1]) as session,
        ):
            await session.initialize()
            return [await session.call_tool(name, arguments) for name, arguments in calls]

    return anyio.run(run)


def test_client_lists_and_calls_tools_over_stdio(lake, people):
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "ioweather", "mcp", "--lake", str(lake.root)], env=dict(os.environ)
    )
    job = str(people[0][1])

    async def run():
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            calls = [("why", {"job": job}), ("who", {}), ("health", {}), ("show", {"exhibit": "car11.fig7"})]
            return tools, [await session.call_tool(*call) for call in calls]

    tools, (why, who, health, show) = anyio.run(run)
    assert {tool.name for tool in tools} == {*QUESTIONS, "list_exhibits", "show", "sql"}
    assert all(tool.annotations.read_only_hint for tool in tools)
    assert not any(result.is_error for result in (why, who, health, show))
    assert job in why.structured_content["question"]
    assert show.structured_content["estimates"]
    # What a client passes to the model as text has the intervals and the caveats too.
    text = json.loads(show.content[0].text)
    assert text["estimates"] == show.structured_content["estimates"]
    assert text["caveats"] == show.structured_content["caveats"]


def test_token_of_a_user_shows_only_their_jobs(lake, people, address):
    (user, own_job), (_, other_job) = people
    token = create_token(lake.root, f"assistant{time.time_ns()}", "", user)
    calls = [
        ("why", {"job": str(own_job)}),
        ("why", {"job": str(other_job)}),
        ("sql", {"query": "SELECT * FROM jobs"}),
        ("health", {}),
    ]
    own, other, sql, health = call_http(address, {"Authorization": f"Bearer {token}"}, calls)
    assert not own.is_error
    assert other.is_error
    assert "no Darshan log" in other.content[0].text
    assert sql.is_error
    assert not health.is_error


def test_caller_without_a_token_sees_nothing_of_people(people, address):
    why, health = call_http(address, {}, [("why", {"job": str(people[0][1])}), ("health", {})])
    assert why.is_error
    assert not health.is_error


def test_operator_may_use_sql(address):
    [found] = call_http(address, {"X-Remote-User": "anna"}, [("sql", {"query": "SELECT 1 AS one"})])
    assert found.structured_content == {"columns": ["one"], "rows": [[1]], "truncated": False}


def test_mistakes_are_results_that_an_assistant_can_correct(address):
    wrong_name, wrong_period, no_tool, no_exhibit = call_http(
        address,
        {"X-Remote-User": "anna"},
        [("why", {"jobb": "1"}), ("who", {"from": "the day"}), ("delete", {}), ("show", {"exhibit": "car11.fig99"})],
    )
    assert "Did you mean job?" in wrong_name.content[0].text
    assert all(result.is_error for result in (wrong_name, wrong_period, no_tool, no_exhibit))


def test_parameters_have_types_and_files_of_the_server_cannot_be_named():
    tools = {tool.name: tool for tool in list_tools(with_sql=False)}
    assert "sql" not in tools
    assert tools["why"].input_schema["required"] == ["job"]
    assert tools["why"].input_schema["properties"]["uid"]["type"] == "integer"
    assert "spool" not in tools["now"].input_schema["properties"]

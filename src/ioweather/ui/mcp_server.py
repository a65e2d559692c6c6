"""Questions and exhibits as tools of the Model Context Protocol, so that an assistant can ask them.

Over stdio (`ioweather mcp`) the tools answer from the lake of the person who starts them. Over HTTP (`/mcp` of
`ioweather serve`) each call sees what the API shows to the same token or user. All tools only read.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import anyio
import anyio.to_thread
import mcp_types as types
from fastapi import FastAPI, Request
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from ioweather._version import __version__
from ioweather.core.contracts import Param, Question
from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.results import Answer, Exhibit, result_json
from ioweather.topics.catalogue import QUESTIONS, TITLES
from ioweather.ui.web.queries import listed_exhibits
from ioweather.ui.web.served_lake import ServedLake
from ioweather.ui.web.visible import View, own_view, period_of, public_view

PATH: Final = "/mcp"
INSTRUCTIONS: Final = (
    "ioweather explains the performance of shared HPC storage. `why` tells whether the job or the storage caused a "
    "slow run, `who` which jobs slowed others, and `health` which components are unhealthy. Estimates have an "
    "interval and answers have caveats. Report both. Do not present an uncertain answer as certain."
)
_PERIOD: Final = {
    "from": {"type": "string", "description": "Start of the period: ISO 8601, 'yesterday', '7d'."},
    "to": {"type": "string", "description": "End of the period."},
}
_EXHIBIT: Final = {
    "exhibit": {"type": "string", "description": "An exhibit ID from list_exhibits, such as car11.fig7."},
    "parameters": {"type": "object", "additionalProperties": {"type": "string"}},
}
_QUERY: Final = {"query": {"type": "string", "description": "One SELECT in DuckDB's SQL over the tables of the lake."}}
_JSON_TYPES: Final = {"int": "integer", "float": "number", "flag": "boolean"}
_MOST_ROWS: Final = 1_000
_MOST_SECONDS: Final = 30.0

Schema: TypeAlias = dict[str, Any]

Context: TypeAlias = ServerRequestContext[Any, Any]
# The view of a caller, for a tool that shows rows of people (True) or none (False).
ViewOf: TypeAlias = Callable[[Context, bool], Awaitable[View]]


def list_tools(*, with_sql: bool) -> list[types.Tool]:
    """Return one tool per question, `list_exhibits` and `show` for exhibits, and `sql` if it is allowed."""
    tools = [_question_tool(question) for question in QUESTIONS.values()]
    tools.append(
        _tool("list_exhibits", "List the tables and figures of five papers, and whether the lake has their data.")
    )
    show = "Compute one table or figure of a paper from this site's data, with the published values."
    tools.append(_tool("show", show, _EXHIBIT | _PERIOD, ("exhibit",)))
    if with_sql:
        tools.append(_tool("sql", f"Query the lake: at most {_MOST_ROWS:,} rows.", _QUERY, ("query",)))
    return tools


def _question_tool(question: Question) -> types.Tool:
    """The tool of a question, with its parameters as a JSON Schema."""
    params = [param for param in question.params if param.shown and not param.local]
    properties = {param.name: _property(param) for param in params} | (_PERIOD if question.period else {})
    required = [param.name for param in params if param.required]
    return _tool(question.name, question.help or TITLES[question.name], properties, required)


def _tool(name: str, text: str, properties: Schema | None = None, required: Sequence[str] = ()) -> types.Tool:
    schema = {"type": "object", "properties": properties or {}, "required": [*required], "additionalProperties": False}
    hints = types.ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
    return types.Tool(name=name, description=text, input_schema=schema, annotations=hints)


def _property(param: Param) -> dict[str, Any]:
    """A parameter as a JSON Schema."""
    one: dict[str, Any] = {"type": _JSON_TYPES.get(param.kind, "string")}
    if param.choices:
        one["enum"] = list(param.choices)
    described = {"description": param.help} | ({} if param.default is None else {"default": param.default})
    return described | ({"type": "array", "items": one} if param.many else one)


def call_tool(view: View, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
    """Return the result of one call. Our errors are results too, so that the assistant can correct itself."""
    try:
        made = _call_by_name(view, name, dict(arguments))
    except IoweatherError as error:
        return _refused(error)
    text = types.TextContent(type="text", text=json.dumps(_brief(made)))
    return types.CallToolResult(content=[text], structured_content=made)


def _refused(error: IoweatherError) -> types.CallToolResult:
    text = types.TextContent(type="text", text=f"{error.message} {error.hint}".strip())
    return types.CallToolResult(content=[text], is_error=True)


def _call_by_name(view: View, name: str, typed: dict[str, Any]) -> dict[str, Any]:
    """The result of a tool as JSON data; errors are raised."""
    if name == "sql":
        if view.owner is not None or not view.sees_sql:
            raise IoweatherError("SQL is available only to facility operators.", kind="AccessDenied")
        found = view.lake.sql(str(typed["query"]), rows=_MOST_ROWS, seconds=_MOST_SECONDS)
        return {"columns": list(found.columns), "rows": [list(row) for row in found.rows], "truncated": found.truncated}
    if name == "list_exhibits":
        # Without the published values, which would fill the context of a model.
        every = listed_exhibits(view.lake)
        return {"exhibits": [{key: each[key] for key in each if key != "published"} for each in every]}
    between = str(typed.pop("from", "")), str(typed.pop("to", ""))
    made: Answer | Exhibit
    if name == "show":
        parameters = {key: _text(value) for key, value in (typed.get("parameters") or {}).items()}
        made = view.exhibit(str(typed.get("exhibit", "")), parameters, period_of(between, view.lake.facility))
    elif name in QUESTIONS:
        given = {key: _as_parameter(value) for key, value in typed.items() if value is not None}
        made = view.ask_as_sent(name, given, between)
    else:
        raise UsageError(f"Tool {name!r} does not exist.")
    return result_json(made)


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _as_parameter(value: Any) -> str | tuple[str, ...]:
    return tuple(map(_text, value)) if isinstance(value, list) else _text(value)


def _brief(made: Mapping[str, Any]) -> dict[str, Any]:
    """For clients that pass only text to the model: everything but the data of charts and what is said twice."""
    brief = {key: value for key, value in made.items() if key not in ("charts", "provenance", "blocks")}
    if "exhibits" in made:
        brief["exhibits"] = [_brief(each) for each in made["exhibits"]]
    return brief


def create_server(view_of: ViewOf, *, with_sql: bool) -> Server[Any]:
    """Create the MCP server; `view_of` returns what a caller may see."""

    async def listed(
        _: ServerRequestContext[Any, Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list_tools(with_sql=with_sql))

    async def called(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        is_public = params.name in QUESTIONS and QUESTIONS[params.name].seen_by == "public"
        try:
            view = await view_of(context, not is_public)
        except IoweatherError as error:
            return _refused(error)
        return await anyio.to_thread.run_sync(partial(call_tool, view, params.name, params.arguments or {}))

    return Server(
        "ioweather", version=__version__, instructions=INSTRUCTIONS, on_list_tools=listed, on_call_tool=called
    )


def serve_stdio(lake: Path, spools: tuple[Path, ...]) -> None:
    """Answer one client on standard input and output until it closes them."""
    served = ServedLake(lake, spools)

    async def view_of(_: Context, __: bool) -> View:
        return View(served, None)

    async def run() -> None:
        server = create_server(view_of, with_sql=True)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(run)


def mount(app: FastAPI) -> None:
    """Serve the tools at /mcp of a dashboard, with the same users and tokens as its API."""

    async def view_of(context: Context, needs_person: bool) -> View:
        request = cast(Request, context.request)
        return await (own_view if needs_person else public_view)(request)

    manager = StreamableHTTPSessionManager(create_server(view_of, with_sql=True), json_response=True, stateless=True)

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = app
        await manager.handle_request(scope, receive, send)

    outer = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(running: FastAPI) -> AsyncIterator[Any]:
        async with outer(running) as state, manager.run():
            yield state

    app.router.lifespan_context = lifespan
    app.mount(PATH, handle, name="mcp")

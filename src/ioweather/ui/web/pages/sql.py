"""*SQL*: operators ask the lake; each query runs in a child of its own, few of them at a time."""

from __future__ import annotations

from fastapi import APIRouter

from ioweather.core.cells import as_text
from ioweather.core.errors import IoweatherError
from ioweather.ui.web.parts import failed
from ioweather.ui.web.shell import Html, Listed, page, tables_part
from ioweather.ui.web.sqlpage import SqlQuestion, ask
from ioweather.ui.web.visible import OperatorView

router = APIRouter(include_in_schema=False, default_response_class=Html)
_EXAMPLES = (
    ("Tables and columns", "SELECT table_name, column_name, data_type FROM information_schema.columns"),
    (
        "Bytes per day",
        "SELECT day, metric, sum(value) AS bytes FROM series "
        "WHERE metric IN ('read_bytes', 'write_bytes') AND component_kind = 'ost' GROUP BY ALL ORDER BY day, metric",
    ),
    ("Slowest operations", "SELECT start_ns, host, op, duration_ns FROM responses ORDER BY duration_ns DESC LIMIT 20"),
)


@router.get("/sql")
def sql_page(view: OperatorView, q: str = "") -> Html:
    return page("sql.html", view, "/sql", "SQL", q=q, examples=_EXAMPLES, ranged=False)


@router.post("/fragments/sql")
def sql(view: OperatorView, question: SqlQuestion) -> Html:
    """As a table made here: a browser would round nanoseconds."""
    try:
        result = ask(view, question)
    except IoweatherError as error:
        return failed(error)
    rows = [tuple(map(as_text, row)) for row in result.rows]
    notes = [f"Only the first {len(rows):,} rows."] if result.truncated else []
    columns = [(name, "") for name in result.columns]
    return Html(tables_part(Listed(f"{len(rows):,} rows", columns, rows, empty="No rows."), notes=notes))

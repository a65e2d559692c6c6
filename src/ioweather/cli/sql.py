"""`ioweather sql`."""

from __future__ import annotations

import sys

import click

from ioweather.cli.options import lake_option, open_lake_at, output_form, output_options
from ioweather.cli.screen import say
from ioweather.core.errors import UsageError

EPILOG = """\b
Tables and columns are listed by
  SELECT table_name, column_name FROM information_schema.columns

\b
Example: ioweather sql "SELECT day, count(*) FROM series GROUP BY day"
"""


@click.command(epilog=EPILOG)
@click.argument("query", required=False)
@lake_option
@output_options
@click.option("--timeout", default=30.0, show_default=True, help="Seconds after which the query is stopped.")
@click.option("--rows", default=10_000, show_default=True, help="Most rows to print.")
@click.option("--memory", default="1GiB", show_default=True, help="Most memory to use.")
def sql(
    query: str | None, lake_dir: str | None, as_json: bool, as_csv: bool, timeout: float, rows: int, memory: str
) -> None:
    """Ask the lake in DuckDB's SQL: one SELECT or EXPLAIN, read-only. Without QUERY, it is read from standard input."""
    from ioweather.cli.render import print_rows
    from ioweather.store.usersql import Limits, run_user_sql

    text = query if query is not None else ("" if sys.stdin.isatty() else sys.stdin.read())
    if not text.strip():
        raise UsageError("Give a query.", hint='For example: ioweather sql "SELECT * FROM ingests LIMIT 5"')
    form = output_form(as_json, as_csv)
    with open_lake_at(lake_dir).snapshot() as snapshot:
        result = run_user_sql(snapshot, text, Limits(rows, timeout, memory))
    if form == "text" and result.columns == ("explain_key", "explain_value"):
        say(*(line for _, plan in result.rows for line in plan.splitlines()))  # a drawing in lines of its own
    else:
        print_rows(result.columns, result.rows, form)
    if result.truncated:
        say(f"Only the first {rows:,} rows are shown; --rows for more.", err=True)

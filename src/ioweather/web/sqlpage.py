"""SQL of operators: each query in a child of its own, few of them at a time."""

from __future__ import annotations

import threading
from typing import Final

from pydantic import BaseModel, Field

from ioweather.core.errors import Busy
from ioweather.store.usersql import Limits, SqlResult, run_user_sql
from ioweather.web.visible import View

SQL_LIMITS: Final = Limits(rows=2000, seconds=10.0, memory="512MiB")
_AT_ONCE: Final = threading.BoundedSemaphore(2)
_PATIENCE_SECONDS: Final = 2.0


class SqlQuestion(BaseModel):
    query: str = Field(min_length=1, max_length=20_000)


def ask(view: View, question: SqlQuestion) -> SqlResult:
    if not _AT_ONCE.acquire(timeout=_PATIENCE_SECONDS):
        raise Busy("Other queries are running.", hint="Try again in some seconds.")
    try:
        with view.lake.snapshot() as snapshot:
            return run_user_sql(snapshot, question.query, SQL_LIMITS, apart=True)
    finally:
        _AT_ONCE.release()

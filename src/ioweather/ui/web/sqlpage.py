"""SQL of operators: each query in a child of its own, few of them at a time."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Final

from pydantic import BaseModel, Field

from ioweather.core.cells import plain
from ioweather.core.errors import Busy
from ioweather.lake.sandbox import Limits, SqlResult, run_user_sql
from ioweather.ui.web.visible import View

SQL_LIMITS: Final = Limits(rows=2000, seconds=10.0, memory="512MiB", answer_bytes=32 << 20, must_confine=True)
_AT_ONCE: Final = threading.BoundedSemaphore(2)
_PATIENCE_SECONDS: Final = 2.0


class SqlQuestion(BaseModel):
    query: str = Field(min_length=1, max_length=20_000)


def ask(view: View, question: SqlQuestion) -> SqlResult:
    if not _AT_ONCE.acquire(timeout=_PATIENCE_SECONDS):
        raise Busy("Other queries are running.", hint="Try again in some seconds.")
    try:
        with view.lake.snapshot() as snapshot:
            found = run_user_sql(snapshot, question.query, SQL_LIMITS)
        return replace(found, rows=tuple(tuple(map(plain, row)) for row in found.rows))
    finally:
        _AT_ONCE.release()

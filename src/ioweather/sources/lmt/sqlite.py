"""LMT's database as an SQLite file: a dump of the live one, or an excerpt of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.frames import Frame
from ioweather.sources.lmt.database import NEEDED_TABLES
from ioweather.sources.lmt.readings import read_database

SIGNATURE = b"SQLite format 3\0"


class SqliteDatabase:
    """Opened to read only: nothing is ever written beside it."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        # A file that no other program has open needs no lock, and may lie where none can be made.
        still = "" if path.with_name(path.name + "-wal").exists() else "&immutable=1"
        self._connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro{still}", uri=True)
        self._tables: frozenset[str] | None = None

    def tables(self) -> frozenset[str]:
        if self._tables is None:
            found = self.query("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
            self._tables = frozenset(str(row[0]).upper() for row in found)
        return self._tables

    def query(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[Sequence[Any]]:
        try:
            yield from self._connection.execute(sql, tuple(parameters))
        except (sqlite3.Error, UnicodeDecodeError) as error:  # a damaged schema is quoted in the message as it is
            raise CorruptInput(f"SQLite cannot read {self.where}: {error}.", hint="Make the dump again.") from None

    def close(self) -> None:
        self._connection.close()


class LmtSource:
    """An LMT database in one file; `ioweather.sources.lmt.mysql` reads the live one in the same way."""

    name = "lmt"
    title = "Lustre Monitoring Tool database (SQLite dump; live MySQL)"
    tables = ("series", "components")

    def detect(self, head: bytes, path: Path) -> float:
        if not head.startswith(SIGNATURE):
            return 0.0
        try:
            with closing(SqliteDatabase(path)) as database:
                return 1.0 if database.tables() >= NEEDED_TABLES else 0.0
        except (SourceError, sqlite3.Error):
            return 0.3  # damaged: claimed weakly, so that it is refused with SQLite's own reason

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        with closing(SqliteDatabase(path)) as database:
            yield from read_database(database, context)


SOURCE = LmtSource()

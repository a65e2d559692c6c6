"""LMT's live database by PyMySQL (`pip install ioweather[mysql]`): the same rows as a dump of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import SourceError, UsageError
from ioweather.core.frames import Frame
from ioweather.sources.lmt.readings import read_database


@dataclass(frozen=True)
class MysqlServer:
    """Where an LMT database is. LMT names it filesystem_<fsname>. A password is best left to an option file."""

    database: str
    host: str = "localhost"
    port: int = 3306
    user: str = "lmt"
    password: str = ""
    unix_socket: str | None = None
    option_file: str | None = None

    @classmethod
    def from_url(cls, url: str) -> MysqlServer:
        """mysql://user@host:3306/filesystem_scratch1?option_file=/etc/lmt/lmt.cnf (or unix_socket=/run/mysqld.sock)"""
        parts = urlsplit(url)
        options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        unknown = set(options) - {"unix_socket", "option_file"}
        if parts.scheme != "mysql" or not parts.path.strip("/") or unknown:
            raise UsageError(
                f"{url!r} is not the address of an LMT database.", hint="Expected mysql://user@host/filesystem_NAME."
            )
        return cls(
            unquote(parts.path.strip("/")),
            parts.hostname or "localhost",
            parts.port or 3306,
            unquote(parts.username or "lmt"),
            unquote(parts.password or ""),
            **options,
        )

    def __repr__(self) -> str:
        return f"MysqlServer({self.user}@{self.unix_socket or f'{self.host}:{self.port}'}/{self.database})"


class MysqlDatabase:
    """A connection that streams its rows and changes nothing."""

    def __init__(self, server: MysqlServer) -> None:
        try:
            import pymysql
            from pymysql.cursors import SSCursor
        except ImportError:
            raise UsageError("A live LMT database needs PyMySQL.", hint="pip install 'ioweather[mysql]'") from None
        self.where = f"{server.database} on {server.unix_socket or server.host}"
        self._error: type[Exception] = pymysql.MySQLError
        try:
            self._connection = pymysql.connect(
                host=server.host, port=server.port, user=server.user, password=server.password,
                database=server.database, unix_socket=server.unix_socket, read_default_file=server.option_file,
                cursorclass=SSCursor, connect_timeout=10, read_timeout=300,
            )  # fmt: skip
        except pymysql.MySQLError as error:
            raise SourceError(
                f"{self.where} cannot be reached: {error}.", hint="Check host, user and password."
            ) from None
        self._tables: frozenset[str] | None = None

    def tables(self) -> frozenset[str]:
        if self._tables is None:
            self._tables = frozenset(str(row[0]).upper() for row in self.query("SHOW TABLES"))
        return self._tables

    def query(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[Sequence[Any]]:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql.replace("?", "%s"), tuple(parameters))
                yield from cursor
        except self._error as error:
            raise SourceError(f"{self.where} did not answer: {error}.") from None

    def close(self) -> None:
        self._connection.close()


def read_mysql(
    server: MysqlServer | str, context: ReadContext, *, since_ns: int | None = None, until_ns: int | None = None
) -> Iterator[tuple[str, Frame]]:
    """Rows of the whole minutes of [since_ns, until_ns). Read again from where it ended: polls that adjoin add up.

    Leave the newest minute to the next poll: samples of it may still be on their way.
    """
    with closing(MysqlDatabase(MysqlServer.from_url(server) if isinstance(server, str) else server)) as database:
        yield from read_database(database, context, since_ns=since_ns, until_ns=until_ns)

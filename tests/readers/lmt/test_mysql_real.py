"""A live LMT database in a real MariaDB: the same rows as its dump, streamed, and polled piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from lmt_files import LAYOUT, LOCAL_MIDNIGHT, Read, lmt_tables, write_sqlite

import mariadb_servers
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import SourceError
from ioweather.core.frames import Frame
from ioweather.readers.lmt_database import LMT, MysqlServer, open_mysql, read_database

pymysql = pytest.importorskip("pymysql")
pytestmark = pytest.mark.real
ZONE = ZoneInfo("America/Los_Angeles")


@pytest.fixture(scope="module")
def tables() -> dict[str, list[tuple[object, ...]]]:
    count = 400
    stamps = [(100 + i, f"2018-01-28 00:{i * 5 // 60:02}:{i * 5 % 60:02}") for i in range(count)]
    counters = {ost: {100 + i: (2**53 + 11 * i * ost, 7 * i) for i in range(count) if (i + ost) % 31} for ost in (1, 2)}
    made = lmt_tables(stamps, counters)
    made["MDS_OPS_DATA"] = [(1, 100 + i, op, 3 * i + op) for i in range(count) for op in (1, 2, 3)]
    made["OSS_DATA"] = [(1, 100 + i, 12.5, 25.0) for i in range(count)]
    return made


@pytest.fixture(scope="module")
def server(tables: dict[str, list[tuple[object, ...]]]) -> Iterator[MysqlServer]:
    if why := mariadb_servers.missing():
        pytest.skip(why)
    with mariadb_servers.mariadb_server() as socket:
        _fill(socket, tables)
        yield MysqlServer("filesystem_fs1", user="root", unix_socket=socket)


def _fill(socket: str, tables: dict[str, list[tuple[object, ...]]]) -> None:
    connection = pymysql.connect(user="root", unix_socket=socket)
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE filesystem_fs1")
        cursor.execute("USE filesystem_fs1")
        for name, rows in tables.items():
            cursor.execute(f"CREATE TABLE {name} ({LAYOUT[name]})")
            cursor.executemany(f"INSERT INTO {name} VALUES ({', '.join(['%s'] * len(rows[0]))})", rows)
        connection.commit()


def read_mysql(server: MysqlServer, context: ReadContext, **period: int) -> Iterator[tuple[str, Frame]]:
    with closing(open_mysql(server)) as database:
        yield from read_database(database, context, **period)


def everything(found: Read) -> dict[tuple[str, str], dict[tuple[int, str], tuple[float, int]]]:
    return {(kind, metric): found.rows(metric, kind) for kind, metric in found.metrics()}


def test_live_equals_dump(server: MysqlServer, tables: dict[str, list[tuple[object, ...]]], tmp_path: Path):
    context = ReadContext(zone=ZONE, keep_raw=True)
    dump = write_sqlite(tmp_path / "x.sqlite3", tables)
    live, still = Read(read_mysql(server, context)), Read(LMT.read(dump, context))
    assert everything(live) == everything(still)
    assert live.total("read_bytes") > 0
    assert [frame.records() for frame in live.frames["components"]] == [
        frame.records() for frame in still.frames["components"]
    ]


def test_polls_add_up_to_one_read(server: MysqlServer):
    context = ReadContext(zone=ZONE)
    whole = Read(read_mysql(server, context)).rows("read_bytes")
    joined: dict[tuple[int, str], tuple[float, int]] = {}
    for first, last in ((0, 7), (7, 8), (8, 33)):
        since, until = ((LOCAL_MIDNIGHT + 60 * minute) * 10**9 for minute in (first, last))
        url = f"mysql://root@localhost/filesystem_fs1?unix_socket={server.unix_socket}"
        part = Read(read_mysql(MysqlServer.from_url(url), context, since_ns=since, until_ns=until)).rows("read_bytes")
        assert not set(part) & set(joined)
        joined |= part
    assert joined == {key: value for key, value in whole.items() if key[0] < LOCAL_MIDNIGHT + 33 * 60}


def test_what_cannot_be_reached_is_said(server: MysqlServer):
    nobody = MysqlServer("filesystem_nowhere", user="root", unix_socket=server.unix_socket)
    with pytest.raises(SourceError, match="filesystem_nowhere"):
        next(read_mysql(nobody, ReadContext(zone=ZONE)))

"""`ioweather ingest mysql://...`: a live LMT database in a real MariaDB gives the rows of its dump, and goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from lmt_files import LAYOUT, lmt_tables, write_sqlite

import mariadb_servers
from ioweather.lake.lake import open_lake
from ioweather.ui.cli.main import cli

pymysql = pytest.importorskip("pymysql")
pytestmark = pytest.mark.real
COUNT = 400


def tables_until(count: int) -> dict[str, list[tuple[object, ...]]]:
    """Two targets, a sample each 5 s from just before a midnight of Greenwich on."""
    moments = [86400 - 900 + 5 * i for i in range(count)]
    stamps = [
        (100 + i, f"2018-01-{27 + m // 86400:02} {m % 86400 // 3600:02}:{m % 3600 // 60:02}:{m % 60:02}")
        for i, m in enumerate(moments)
    ]
    counters = {ost: {100 + i: (1000 + 11 * i * ost, 7 * i) for i in range(count) if (i + ost) % 31} for ost in (1, 2)}
    return lmt_tables(stamps, counters)


@pytest.fixture
def socket() -> Iterator[str]:
    if why := mariadb_servers.missing():
        pytest.skip(why)
    with mariadb_servers.mariadb_server() as found:
        yield found


def fill(socket: str, tables: dict[str, list[tuple[object, ...]]]) -> None:
    connection = pymysql.connect(user="root", unix_socket=socket)
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS filesystem_fs1")
        cursor.execute("USE filesystem_fs1")
        for name, rows in tables.items():
            cursor.execute(f"DROP TABLE IF EXISTS {name}")
            cursor.execute(f"CREATE TABLE {name} ({LAYOUT[name]})")
            cursor.executemany(f"INSERT INTO {name} VALUES ({', '.join(['%s'] * len(rows[0]))})", rows)
        connection.commit()


def ingest(lake: Path, *what: str) -> str:
    done = CliRunner().invoke(cli, ["ingest", *what, "--zone", "UTC", "--lake", str(lake), "--json"])
    assert done.exit_code == 0, done.output
    return done.output


def read_bytes(lake: Path) -> list[tuple[object, ...]]:
    with open_lake(lake).snapshot() as snapshot:
        rows = snapshot.rows("series", {"metric": "read_bytes"})
        return snapshot.bare.sql(
            f"SELECT start_ns, interval_ns, component, value FROM ({rows}) ORDER BY ALL"
        ).fetchall()


def test_live_database_by_the_command(socket, tmp_path):
    address = f"mysql://root@localhost/filesystem_fs1?unix_socket={socket}"
    for count in (COUNT // 3, COUNT):
        fill(socket, tables_until(count))
        ingest(tmp_path / "live", address)
    dump = write_sqlite(tmp_path / "x.sqlite3", tables_until(COUNT))
    ingest(tmp_path / "dumped", str(dump))
    live, dumped = read_bytes(tmp_path / "live"), read_bytes(tmp_path / "dumped")
    # The last minute is left to the next poll: its samples may still be on their way.
    last = max(row[0] for row in dumped)
    assert live == [row for row in dumped if row[0] < last]
    assert len(live) > 20
    ingest(tmp_path / "live", address)
    assert read_bytes(tmp_path / "live") == live


def test_a_server_that_is_not_there(tmp_path):
    done = CliRunner().invoke(
        cli,
        ["ingest", "mysql://root@localhost/fs?unix_socket=/nowhere/s", "--zone", "UTC", "--lake", str(tmp_path / "l")],
    )
    assert "Cannot reach" in done.output

"""Addresses of live LMT databases."""

from __future__ import annotations

import pytest

from ioweather.core.errors import UsageError
from ioweather.readers.lmt_database import MysqlServer


def test_an_address():
    server = MysqlServer.from_url("mysql://lmt%40site:p%3Aw@db.example:3307/filesystem_fs1?option_file=/etc/lmt.cnf")
    assert server == MysqlServer("filesystem_fs1", "db.example", 3307, "lmt@site", "p:w", option_file="/etc/lmt.cnf")
    assert MysqlServer.from_url("mysql://db/filesystem_fs1") == MysqlServer("filesystem_fs1", "db")


def test_a_password_is_never_shown():
    assert "secret" not in repr(MysqlServer("x", password="secret"))


@pytest.mark.parametrize("url", ["postgres://x/y", "mysql://host", "mysql://host/db?colour=red", "nonsense"])
def test_what_is_no_address(url: str):
    with pytest.raises(UsageError, match="mysql://"):
        MysqlServer.from_url(url)

"""DuckDB's engine, with and without its relations."""

from __future__ import annotations

import sys

import duckdb

from ioweather.store.database import engine, or_of_duckdb


def test_without_the_module_of_the_engine_the_whole_is_loaded(monkeypatch):
    monkeypatch.setitem(sys.modules, "_duckdb", None)
    assert engine() is duckdb
    assert or_of_duckdb(OSError) == (OSError, duckdb.Error)
    monkeypatch.delitem(sys.modules, "duckdb")
    assert or_of_duckdb(OSError) == (OSError,)


def test_errors_of_the_engine_are_those_of_the_library():
    assert issubclass(engine().IOException, duckdb.Error)

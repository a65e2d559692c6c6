"""A lake of another version: migrated with its rows, or refused in one sentence; never misread."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from store_lakes import DAY, series_frame

from ioweather.core.errors import LakeError
from ioweather.core.tables import TABLES, ColumnSpec
from ioweather.core.units import DAY_NS
from ioweather.lake import layout
from ioweather.lake.copies import backup
from ioweather.lake.lake import open_lake
from ioweather.lake.maintenance import compact
from ioweather.ui.cli.main import run


@pytest.fixture
def lake(tmp_path):
    made = open_lake(tmp_path / "lake", create=True)
    made.append("series", series_frame(np.ones((4, 1))), source="tts")
    return made


def set_version(lake, version: int) -> None:
    layout.lake_marker(lake.root).write_text(json.dumps({"schema_version": version}))


@pytest.mark.parametrize(("version", "word"), [(0, "cannot convert"), (99, "Upgrade ioweather")])
def test_refused_in_a_sentence(lake, capsys, version, word):
    set_version(lake, version)
    for command in (["lake"], ["sql", "SELECT 1"], ["show"]):
        assert run([*command, "--lake", str(lake.root)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"has schema version {version}" in line
        assert word in line


def test_older_software_does_not_seal_what_it_does_not_know(lake, monkeypatch):
    with monkeypatch.context() as newer:
        wider = (*TABLES["series"].columns, ColumnSpec("note", "text", "new", nullable=True))
        newer.setitem(TABLES, "series", dataclasses.replace(TABLES["series"], columns=wider))
        frame = TABLES["series"].frame({**series_frame([[1.0]], start_ns=DAY + DAY_NS), "note": "kept"}, rows=1)
        lake.append("series", frame, source="tts")
    lake.append("series", series_frame([[2.0]], start_ns=DAY + DAY_NS // 2), source="tts")
    with pytest.raises(LakeError, match="unknown column note"):
        compact(lake)
    assert lake.snapshot().scalar("SELECT sum(value) FROM series") == 7


def test_a_wider_table_is_sealed_and_backed_up(lake, tmp_path, monkeypatch):
    wider = dataclasses.replace(
        TABLES["series"], columns=(*TABLES["series"].columns, ColumnSpec("note", "text", "new", nullable=True))
    )
    monkeypatch.setitem(TABLES, "series", wider)
    lake.append("series", series_frame(np.ones((4, 1)), start_ns=DAY + DAY_NS), source="tts")
    compact(lake)
    backup(lake, tmp_path / "copy")
    backup(open_lake(tmp_path / "copy"), tmp_path / "new")
    with open_lake(tmp_path / "new").snapshot() as snapshot:
        assert snapshot.query("SELECT count(*), count(note) FROM series").fetchall() == [(8, 0)]

"""A file that was read wrong is taken out and read again right; nothing else goes."""

from __future__ import annotations

import pytest
from deltalake.exceptions import CommitFailedError

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import LakeError, UsageError
from ioweather.core.units import zone_named
from ioweather.ingestion.ingest import ingest
from ioweather.ingestion.ledger import FileOutcome, record
from ioweather.lake import appends
from ioweather.lake.delta_tables import Table
from ioweather.lake.lake import open_lake
from ioweather.lake.maintenance import find_file, forget_file
from ioweather.ui.cli.main import run

TIMES = "2026-01-02T03:04:05|2026-01-02T03:04:05|2026-01-02T04:00:00"
DUMP = f"JobID|JobIDRaw|State|Submit|Start|End\n{{0}}|{{0}}|COMPLETED|{TIMES}\n"


def submitted(lake):
    with lake.snapshot() as snapshot:
        return dict(snapshot.query("SELECT job_id, submit_ns // 1000000000 FROM jobs ORDER BY 1").fetchall())


def test_a_file_read_with_the_wrong_zone_is_read_again_right(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    wrong, other = tmp_path / "wrong.txt", tmp_path / "other.txt"
    wrong.write_text(DUMP.format(7))
    other.write_text(DUMP.format(8))
    ingest(lake, [other], context=ReadContext(zone=zone_named("UTC")))
    ingest(lake, [wrong], context=ReadContext(zone=zone_named("America/New_York")))
    assert submitted(lake)["7"] - submitted(lake)["8"] == 5 * 3600
    found = find_file(lake, str(wrong))
    assert (list(found[0]), found[1]) == ([str(wrong)], {"jobs": 1})
    forget_file(lake, *found)
    assert list(submitted(lake)) == ["8"]
    assert ingest(lake, [wrong, other], context=ReadContext(zone=zone_named("UTC"))).known == 1
    assert submitted(lake)["7"] == submitted(lake)["8"]


def test_rows_that_another_writer_holds_are_told_and_stay(tmp_path, monkeypatch, capsys):
    lake = open_lake(tmp_path / "lake", create=True)
    (tmp_path / "7.txt").write_text(DUMP.format(7))
    ingest(lake, [tmp_path / "7.txt"], context=ReadContext(zone=zone_named("UTC")))

    def refuses(*_: object) -> None:
        raise CommitFailedError("somebody was faster")

    monkeypatch.setattr(Table, "replace_files", refuses)
    monkeypatch.setattr(appends, "_PATIENCE_SECONDS", 0.1)
    assert run(["lake", "forget", str(tmp_path / "7.txt"), "--yes", "--lake", str(lake.root)]) == 2
    assert "(concurrent writers): somebody was faster" in capsys.readouterr().err
    assert list(submitted(lake)) == ["7"]


def test_what_cannot_be_forgotten(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    with pytest.raises(UsageError, match="has no file"):
        find_file(lake, "nobody.txt")
    record(lake, [FileOutcome("/old.txt", "d1", 1, "sacct", "ok", {"jobs": 1})])
    with pytest.raises(LakeError, match="older ioweather"):
        find_file(lake, "/old.txt")

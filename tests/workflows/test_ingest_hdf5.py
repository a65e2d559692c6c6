"""HDF5 is read apart from the process of a person: damage may end its reader, or keep it for ever."""

from __future__ import annotations

import numpy as np
import pytest
from lmt_files import loop_hdf5, write_h5lmt, write_tts

from ioweather.engine import Processes, Serial
from ioweather.store.lake import open_lake
from ioweather.workflows import ingest as module
from ioweather.workflows.ingest import find_files, ingest

AMOUNTS = np.arange(120.0).reshape(2, 60)


def test_hdf5_is_read_in_another_process_with_one_worker_too_and_however_large(tmp_path, monkeypatch):
    write_h5lmt(tmp_path / "day.h5lmt", AMOUNTS, AMOUNTS)
    pool = module._suited(Serial(), find_files([tmp_path]))
    assert isinstance(pool, Processes)
    monkeypatch.setattr(module, "_STREAM_BYTES", 10)
    monkeypatch.setattr(module, "_stream", None)  # would be in this process
    assert len(ingest(open_lake(tmp_path / "lake", create=True), [tmp_path / "day.h5lmt"]).good) == 1


def test_a_file_on_which_hdf5_loops_for_ever_is_quarantined_and_the_rest_goes_in(tmp_path):
    """The real library, on a real file of which eight bytes are wrong."""
    lake = open_lake(tmp_path / "lake", create=True)
    (lake.root / "facility.toml").write_text('[ingest]\nstuck_after = "2s"\n')
    write_h5lmt(tmp_path / "good.h5lmt", AMOUNTS, AMOUNTS)
    loop_hdf5(write_h5lmt(tmp_path / "bad.h5lmt", AMOUNTS, AMOUNTS))
    report = ingest(open_lake(lake.root), [tmp_path / "bad.h5lmt", tmp_path / "good.h5lmt"])
    assert [outcome.path.name for outcome in report.good] == ["good.h5lmt"]
    (bad,) = report.bad
    if bad.reason != "reader_stuck":
        pytest.skip(f"this HDF5 notices the loop: {bad.message}")
    assert "bad.h5lmt: HDF5 computed for 2.0" in bad.message
    assert "stuck_after" in bad.message
    with lake.snapshot() as snapshot:
        found = snapshot.con.sql("SELECT status, reason FROM ingests ORDER BY status").fetchall()
    assert found == [("ok", None), ("quarantined", "reader_stuck")]


def test_an_archive_that_grows_ends_as_the_whole_one(tmp_path):
    """Its writer lays out the day in advance, -0.0 where it has not been; visits fall into the midst of minutes."""
    values = np.random.default_rng(5).integers(1, 10**6, (240, 2)).astype(float)

    def read_bytes(lake) -> list[tuple[int, str, float, int]]:
        with lake.snapshot() as snapshot:
            wanted = "SELECT start_ns, component, value, quality FROM series WHERE metric = 'read_bytes' ORDER BY ALL"
            return snapshot.con.sql(wanted).fetchall()

    growing = open_lake(tmp_path / "growing", create=True)
    for number, filled in enumerate((20, 90, 95, 240)):
        so_far = np.where(np.arange(240)[:, None] < filled, values, -0.0)
        path = write_tts(tmp_path / f"{number}.hdf5", {"readbytes": so_far})
        assert not ingest(growing, [path]).bad
    whole = open_lake(tmp_path / "whole", create=True)
    ingest(whole, [path])
    assert read_bytes(growing) == read_bytes(whole)
    assert sum(row[2] for row in read_bytes(whole)) == values.sum()

"""HDF5 archives that grow while they are read."""

from __future__ import annotations

import numpy as np
from lmt_files import write_tts

from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import open_lake


def test_an_archive_that_grows_ends_as_the_whole_one(tmp_path):
    """Its writer lays out the day in advance, -0.0 where it has not been; visits fall into the midst of minutes."""
    values = np.random.default_rng(5).integers(1, 10**6, (240, 2)).astype(float)

    def read_bytes(lake) -> list[tuple[int, str, float, int]]:
        with lake.snapshot() as snapshot:
            wanted = "SELECT start_ns, component, value, quality FROM series WHERE metric = 'read_bytes' ORDER BY ALL"
            return snapshot.query(wanted).fetchall()

    growing = open_lake(tmp_path / "growing", create=True)
    for number, filled in enumerate((20, 90, 95, 240)):
        so_far = np.where(np.arange(240)[:, None] < filled, values, -0.0)
        path = write_tts(tmp_path / f"{number}.hdf5", {"readbytes": so_far})
        assert not ingest(growing, [path]).bad
    whole = open_lake(tmp_path / "whole", create=True)
    ingest(whole, [path])
    assert read_bytes(growing) == read_bytes(whole)
    assert sum(row[2] for row in read_bytes(whole)) == values.sum()

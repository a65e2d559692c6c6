"""The lake's directory is removed while somebody works with it: said plainly, and not made again."""

from __future__ import annotations

import shutil

import pytest

from ioweather.core.errors import IoweatherError
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import open_lake


def test_beside_ingest(own_samples, tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    with pytest.raises(IoweatherError):
        ingest(lake, [own_samples / "darshan"], progress=lambda *_: shutil.rmtree(lake.root, ignore_errors=True))
    assert not lake.root.exists()

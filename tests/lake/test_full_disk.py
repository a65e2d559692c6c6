"""A full disk."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from store_lakes import series_frame

from ioweather.core.errors import LakeError
from ioweather.lake.lake import open_lake


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Three megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"cannot mount: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.real
def test_a_full_disk_is_named(small_disk: Path) -> None:
    lake = open_lake(small_disk / "lake", create=True)
    lake.append("series", series_frame([[1.0]]), source="csv", ingest_id="a")
    values = np.random.default_rng(1).random((1000, 600))
    with pytest.raises(LakeError) as told:
        lake.append("series", series_frame(values, start_ns=10**18), source="csv", ingest_id="b")
    assert told.value.message == "No space left on device while writing `series`."
    with lake.snapshot() as snapshot:
        assert snapshot.scalar("SELECT count(*) FROM series") == 1

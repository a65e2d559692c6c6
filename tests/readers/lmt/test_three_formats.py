"""The same five minutes of the same file system from h5lmt, TOKIO time series and the database: they must agree."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from lmt_files import LOCAL_MIDNIGHT, Read

from ioweather.core.contracts import ReadContext
from ioweather.readers.reader_catalogue import SOURCES

SUFFIXES = {"h5lmt": ".h5lmt", "tts": ".hdf5", "lmt": ".sqlite3"}


@pytest.fixture(scope="module")
def files(samples: Path) -> dict[str, Path]:
    return {name: next((samples / "lmt").glob(f"*_2018-01-28{suffix}")) for name, suffix in SUFFIXES.items()}


@pytest.fixture(scope="module")
def formats(files: dict[str, Path]) -> dict[str, Read]:
    context = ReadContext(zone=ZoneInfo("America/Los_Angeles"), keep_raw=True)
    return {name: Read(SOURCES[name].read(path, context)) for name, path in files.items()}


@pytest.fixture(scope="module")
def targets(samples: Path, own_samples: Path) -> int:
    """As many as there are servers, in both systems."""
    return 2 if samples == own_samples else 24


@pytest.mark.parametrize("interval_s", [5, 60])
@pytest.mark.parametrize("metric", ["read_bytes", "write_bytes"])
def test_targets_agree_to_the_byte(formats: dict[str, Read], targets: int, metric: str, interval_s: int):
    rows = {name: found.rows(metric, "ost", interval_s) for name, found in formats.items()}
    assert len(rows["lmt"]) == targets * (60 if interval_s == 5 else 5)
    assert min(start for start, _ in rows["lmt"]) == LOCAL_MIDNIGHT
    assert rows["h5lmt"] == rows["tts"] == rows["lmt"]

"""The same five minutes of the same file system from h5lmt, TOKIO time series and the database: they must agree."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from lmt_files import LOCAL_MIDNIGHT, Read

from ioweather.core.contracts import ReadContext
from ioweather.core.tables import Quality
from ioweather.readers.reader_catalogue import SOURCES

SUFFIXES = {"h5lmt": ".h5lmt", "tts": ".hdf5", "lmt": ".sqlite3"}
OPERATIONS = ("open", "close", "mknod", "link", "unlink", "mkdir", "rmdir", "rename", "getattr", "setattr", "getxattr",
              "statfs")  # fmt: skip


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


def test_servers_agree(formats: dict[str, Read], targets: int):
    rows = {
        name: {
            key: value
            for key, (value, quality) in found.rows("cpu_ratio", "oss").items()
            if not quality & Quality.PARTIAL
        }
        for name, found in formats.items()
    }
    assert len(rows["lmt"]) == len(rows["h5lmt"]) == 5 * targets
    assert rows["h5lmt"] == pytest.approx(rows["lmt"])
    # A time series ends one stamp earlier: its last minute lacks a sample, and says so.
    assert len(rows["tts"]) == 4 * targets
    assert {key: rows["lmt"][key] for key in rows["tts"]} == pytest.approx(rows["tts"])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_metadata_operations_agree(formats: dict[str, Read], operation: str):
    """h5lmt and the time series do not know the MDT's name."""
    series = [
        {start: value for (start, _), value in found.rows(f"{operation}_ops", "mdt").items()}
        for found in formats.values()
    ]
    assert len(series[0]) == 5
    assert series[0] == series[1] == series[2]


def test_fullness_agrees(formats: dict[str, Read], targets: int):
    for metric in ("capacity_bytes", "free_bytes", "capacity_files", "free_files"):
        assert formats["tts"].rows(metric, "ost") == formats["lmt"].rows(metric, "ost")
        assert len(formats["lmt"].rows(metric, "ost")) == targets


def test_only_the_database_knows_the_topology(formats: dict[str, Read], targets: int):
    (frame,) = formats["lmt"].frames["components"]
    servers = {row["component"]: row["server"] for row in frame.records()}
    last = {2: ("fs1-OST0001", "oss1"), 24: ("snx11025-OST0017", "snx11025n027")}[targets]
    assert servers[last[0]] == last[1]
    assert "components" not in formats["tts"].frames

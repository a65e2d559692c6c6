"""Shared fixtures: the sample data beside the project, where it is there."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

# As the command sets it: tests run beside each other, and threads that wait for small matrices only burn the processor.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

from ioweather.core import safe_files

# Builders that several test modules share lie beside this file.
sys.path.insert(0, str(Path(__file__).parent))

# Timings are never asserted: a loaded machine is slow, not wrong.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


# No test takes the power away: what is on its way to the disk need not be waited for. Commands that a test starts do.
safe_files.fsync = lambda fd: None

# Modules and thousands of tests stay to the end: to look through them for garbage again and again finds none.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real sample files; tests that read it skip without it."""
    if not SHARED.is_dir():
        pytest.skip("the sample data (../shared/data) is not here")
    return SHARED


@pytest.fixture(
    scope="session",
    params=["own", *([pytest.param("shared", marks=pytest.mark.shared)] if SHARED.is_dir() else [])],
)
def samples(request: pytest.FixtureRequest, own_samples: Path) -> Path:
    """Files for what holds of every good one: our own, and the real ones where they are here."""
    return own_samples if request.param == "own" else SHARED


@pytest.fixture(scope="session")
def own_samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from sample_files import write_samples

    return write_samples(tmp_path_factory.mktemp("samples"))


@pytest.fixture(scope="session")
def half_day(samples: Path) -> Path:
    """Twelve hours of a file system, as a time series of 5 s."""
    ours, edisons = samples / "lmt/half_day.hdf5", samples / "lmt/snx11025_2018-02-09T12.hdf5"
    return ours if ours.exists() else edisons


@pytest.fixture
def reading_here(monkeypatch):
    """Files are read in this process, where a test can change how."""
    bounded = "ioweather.ingestion.reading"
    for name in ("run_limited", "stream_limited"):
        monkeypatch.setattr(f"{bounded}.{name}", lambda task, *args, wall_seconds: task(*args))

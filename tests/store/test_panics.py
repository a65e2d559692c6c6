"""What native code prints while it fails, and a disk that is full."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from store_lakes import series_frame

from ioweather.core.errors import LakeError
from ioweather.store.lake import open_lake
from ioweather.store.panics import without_panics

PANIC = (
    b"\nthread 'tokio-rt-worker' (117) panicked at /x/buffered.rs:369:41:\nAlready shut down\nstack backtrace:\n"
    b"   0: one\n   1: two\nnote: Some details are omitted, run with `RUST_BACKTRACE=full`.\n"
)
SHORT = b"\nthread 'main' panicked at src/a.rs:1:1:\nno\n"


def test_panics_are_kept_off_and_everything_else_follows(capfd: pytest.CaptureFixture[str]) -> None:
    with without_panics():
        os.write(2, b"before\n" + PANIC)
        with without_panics():
            os.write(2, b"inside\n")
            os.write(2, SHORT)
        os.write(2, b"after\n")
    assert capfd.readouterr().err == "before\ninside\nafter\n"


def test_a_panic_as_an_exception_is_an_error() -> None:
    kind = type("PanicException", (BaseException,), {})
    with pytest.raises(OSError, match="the Delta library failed: index out of bounds"), without_panics():
        raise kind("index out of bounds")


def test_a_closed_standard_error_is_no_trouble() -> None:
    code = (
        "import os; os.close(2)\n"
        "from ioweather.store.panics import without_panics\n"
        "with without_panics(): pass\n"
        "print('done')"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout == b"done\n"


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
def test_a_full_disk_is_one_line(small_disk: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lake = open_lake(small_disk / "lake", create=True)
    lake.append("series", series_frame([[1.0]]), source="csv", ingest_id="a")
    values = np.random.default_rng(1).random((1000, 600))
    with pytest.raises(LakeError) as told:
        lake.append("series", series_frame(values, start_ns=10**18), source="csv", ingest_id="b")
    assert told.value.message == "No space left on device while writing `series`."
    assert capfd.readouterr().err == ""
    with lake.snapshot() as snapshot:
        assert snapshot.scalar("SELECT count(*) FROM series") == 1

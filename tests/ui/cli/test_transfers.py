"""`stripe` and `predict` as a person runs them, on planted response times."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.tables import RESPONSES
from ioweather.core.units import MIB, NS
from ioweather.lake.lake import open_lake
from ioweather.ui.cli.main import run

T = 1_790_000_000 * NS


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Requests of 1 to 64 MiB on four targets: 5 ms and 1 GB/s each, a little spread."""
    lake = open_lake(tmp_path_factory.mktemp("s") / "lake", create=True)
    rng = np.random.default_rng(1)
    for size in (MIB, 4 * MIB, 16 * MIB, 64 * MIB):
        seconds = (0.005 + size / 1e9) * rng.normal(1, 0.05, 120)
        frame = RESPONSES.frame(
            start_ns=T + np.arange(120) * NS + size, host="h", target="/s", op="write", request_bytes=size,
            mode="nocache",
            duration_ns=np.round(seconds * NS).astype(np.int64), system="scratch", status="ok",
            component=[f"OST{n % 4:04x}" for n in range(120)], rows=120,
        )  # fmt: skip
        lake.append("responses", frame, source="spool")
    return lake


def test_a_wrong_size_and_an_empty_lake(lake, tmp_path, capsys):
    assert run(["stripe", "big", "--lake", str(lake.root)]) == 2
    open_lake(tmp_path / "empty", create=True)
    assert run(["predict", "1GiB", "--lake", str(tmp_path / "empty")]) == 1
    assert "ioweather probe" in capsys.readouterr().err

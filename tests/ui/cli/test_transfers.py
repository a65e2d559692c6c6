"""`stripe` and `predict` as a person runs them, on planted response times."""

from __future__ import annotations

import json

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


def test_a_log_gives_the_size_of_its_largest_file(lake, tmp_path, capsys):
    from ioweather.readers.darshan.darshan_reader import DarshanJob
    from ioweather.readers.darshan.writer import new_records, write_log

    records = new_records("POSIX", 2)
    records["id"], records["rank"] = [1, 2], [0, 0]
    records["POSIX_OPENS"], records["POSIX_WRITES"] = 1, 1
    records["POSIX_BYTES_WRITTEN"] = [128 * MIB, 5]
    job = DarshanJob(1, 1, 1, T, T + NS, 1.0, {}, "app", (("/", "ext4"),))
    write_log(tmp_path / "x.darshan", job, {"POSIX": records}, {1: "/a", 2: "/b"})
    assert run(["stripe", str(tmp_path / "x.darshan"), "--lake", str(lake.root), "--targets", "4", "--json"]) == 0
    assert "128 MiB" in json.loads(capsys.readouterr().out)["question"]
    assert run(["stripe", str(tmp_path / "x.darshan"), "--read", "--lake", str(lake.root)]) == 1

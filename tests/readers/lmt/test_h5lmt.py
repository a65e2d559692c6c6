"""pyLMT's daily files: alignment, what is lost on the hour, what was not sent, what is not filled yet."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from lmt_files import LOCAL_MIDNIGHT, OSTS, Read, write_h5lmt

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, TruncatedInput
from ioweather.core.tables import Quality
from ioweather.readers.lmt_hdf5 import H5LMT

PARTIAL = int(Quality.PARTIAL)
T0 = LOCAL_MIDNIGHT


def read(path: Path, **context: object) -> Read:
    return Read(H5LMT.read(path, ReadContext(**context)))  # type: ignore[arg-type]


def amounts(width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 10**9, (2, width)).astype(float)


def test_a_right_stamped_sample_belongs_to_the_interval_it_ends(tmp_path: Path):
    values = amounts(25)
    path = write_h5lmt(tmp_path / "x.h5lmt", values, values)
    found = read(path, keep_raw=True)
    raw = found.rows("read_bytes", "ost", interval_s=5)
    assert len(raw) == 48  # step 0 is the day before's
    assert [raw[T0 + 5 * i, OSTS[1]][0] for i in range(24)] == values[1, 1:].tolist()
    assert found.rows("write_bytes")[T0 + 60, OSTS[0]] == (values[0, 13:25].sum(), 0)


def test_the_step_on_the_hour_is_lost_and_its_minute_partial(tmp_path: Path):
    read_, write = amounts(1441), amounts(1441, 1)
    read_[:, 720] = write[:, 720] = 0
    path = write_h5lmt(tmp_path / "x.h5lmt", read_, write)
    rows = read(path).rows("read_bytes")
    flagged = {start for (start, _), (_, quality) in rows.items() if quality & PARTIAL}
    assert flagged == {T0 + 3540}  # the minute that the lost step would have closed
    # Something moved: then it was no loss, but a quiet target.
    read_[0, 720] = 5
    rows = read(write_h5lmt(tmp_path / "y.h5lmt", read_, write)).rows("read_bytes")
    assert not any(quality for _, quality in rows.values())


def test_what_a_server_did_not_send_is_missing_for_its_targets(tmp_path: Path):
    missing = np.zeros((2, 25))
    missing[1, 4] = 1
    read_, write = amounts(25), amounts(25, 1)
    read_[1, 4] = write[1, 4] = 0
    found = read(write_h5lmt(tmp_path / "x.h5lmt", read_, write, missing=missing, cpu=np.full((2, 25), 3.0)))
    assert found.rows("read_bytes")[T0, OSTS[1]] == (read_[1, 1:13].sum(), PARTIAL)
    assert found.rows("read_bytes")[T0, OSTS[0]] == (read_[0, 1:13].sum(), 0)
    assert found.rows("cpu_ratio", "oss")[T0, "oss1"] == (pytest.approx(0.03), PARTIAL)
    assert found.rows("cpu_ratio", "oss")[T0, "oss0"] == (pytest.approx(0.03), 0)


def test_steps_not_filled_yet_are_absent(tmp_path: Path):
    """The file is laid out for the day; at half past midnight most of it looks idle."""
    width = 1441
    read_, write, cpu = amounts(width), amounts(width, 1), np.full((2, width), 2.0)
    for array in (read_, write, cpu):
        array[:, 367:] = 0
    found = read(write_h5lmt(tmp_path / "x.h5lmt", read_, write, cpu=cpu))
    rows = found.rows("read_bytes", "ost")
    assert max(start for start, _ in rows) == T0 + 30 * 60
    assert rows[T0 + 30 * 60, OSTS[0]] == (read_[0, 361:367].sum(), PARTIAL)
    assert max(start for start, _ in found.rows("cpu_ratio")) == T0 + 30 * 60


def test_an_unfilled_hour_in_between_is_absent_but_an_idle_one_is_zero(tmp_path: Path):
    width = 721
    read_, write, cpu = amounts(width), amounts(width, 1), np.full((2, width), 2.0)
    read_[:, 121:241] = write[:, 121:241] = 0  # idle: the servers are awake
    for array in (read_, write, cpu):
        array[:, 361:481] = 0  # never filled
    rows = read(write_h5lmt(tmp_path / "x.h5lmt", read_, write, cpu=cpu)).rows("read_bytes")
    starts = sorted({(start - T0) // 60 for start, _ in rows})
    assert starts == [*range(30), *range(40, 60)]
    assert rows[T0 + 15 * 60, OSTS[0]] == (0.0, 0)


def test_damage(tmp_path: Path):
    path = write_h5lmt(tmp_path / "x.h5lmt", amounts(2000), amounts(2000))
    data = path.read_bytes()
    (tmp_path / "short.h5lmt").write_bytes(data[:-3000])
    with pytest.raises(TruncatedInput):
        read(tmp_path / "short.h5lmt")
    assert H5LMT.detect(data[:4096], tmp_path / "short.h5lmt") == 0.6
    assert H5LMT.detect(data[:4096], path) == 1.0
    assert H5LMT.detect(b"x", path) == 0.0
    with h5py.File(path, "a") as file:
        del file["OSTReadGroup/OSTBulkReadDataSet"].attrs["OSTNames"]
    with pytest.raises(CorruptInput, match="OSTNames"):
        read(path)
    with h5py.File(path, "a") as file:
        del file["FSStepsGroup"]
    with pytest.raises(CorruptInput, match="FSStepsDataSet"):
        read(path)

"""pyLMT's daily files: alignment, what is lost on the hour, what was not sent, what is not filled yet."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import h5py
import numpy as np
import pytest
from lmt_files import LOCAL_MIDNIGHT, OSTS, Read, write_h5lmt, write_tts

from error_kinds import source_error
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput
from ioweather.core.tables import Quality
from ioweather.readers.lmt_hdf5 import H5LMT, TTS
from ioweather.readers.reader_catalogue import SOURCES

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


def test_damage(tmp_path: Path):
    path = write_h5lmt(tmp_path / "x.h5lmt", amounts(2000), amounts(2000))
    data = path.read_bytes()
    (tmp_path / "short.h5lmt").write_bytes(data[:-3000])
    with source_error("TruncatedInput"):
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


LATE, PARTIAL = int(Quality.LATE), int(Quality.PARTIAL)


def read_of_tts(path: Path, **context: object) -> Read:
    return Read(TTS.read(path, ReadContext(**context)))  # type: ignore[arg-type]


def test_amounts_are_left_aligned_whatever_the_units_say(tmp_path: Path):
    values = np.arange(48.0).reshape(24, 2)
    found = read_of_tts(write_tts(tmp_path / "fs1_2018-01-28.hdf5", {"readbytes": values}))
    assert found.rows("read_bytes", "ost") == {
        (T0, OSTS[0]): (values[:12, 0].sum(), 0),
        (T0, OSTS[1]): (values[:12, 1].sum(), 0),
        (T0 + 60, OSTS[0]): (values[12:, 0].sum(), 0),
        (T0 + 60, OSTS[1]): (values[12:, 1].sum(), 0),
    }
    assert {frame.text("system").categories for frame in found.frames["series"]} == {("fs1",)}


def test_negative_zero_is_missing_and_zero_is_not(tmp_path: Path):
    values = np.ones((36, 2))
    values[3, 0] = -0.0
    values[4, 0] = 2.0  # carries it
    values[5, 1] = 0.0
    values[24:, 0] = -0.0
    found = read_of_tts(write_tts(tmp_path / "x.hdf5", {"readbytes": values}), keep_raw=True)
    minute = found.rows("read_bytes")
    assert minute[T0, OSTS[0]] == (12.0, LATE)
    assert minute[T0, OSTS[1]] == (11.0, 0)
    assert (T0 + 120, OSTS[0]) not in minute  # absent, not zero
    raw = found.rows("read_bytes", interval_s=5)
    assert (T0 + 15, OSTS[0]) not in raw
    assert raw[T0 + 20, OSTS[0]] == (2.0, LATE)
    assert raw[T0 + 25, OSTS[1]] == (0.0, 0)


def test_states_of_lmt_are_stamped_at_the_end_of_their_interval(tmp_path: Path):
    load = np.arange(25.0)[:, None]
    path = write_tts(tmp_path / "x.hdf5", {"cpuload": load, "memused": load}, group="dataservers", columns=("oss0",))
    found = read_of_tts(path)
    assert found.rows("cpu_ratio", "oss") == {
        (T0, "oss0"): (pytest.approx(load[1:13].mean() / 100), 0),
        (T0 + 60, "oss0"): (pytest.approx(load[13:25].mean() / 100), 0),
    }
    assert len(found.rows("memory_ratio")) == 2
    other = write_tts(
        tmp_path / "y.hdf5",
        {"cpuload": load[:24], "memused": load[:24]},
        group="mdservers",
        columns=("m",),
        source="collectd",
    )
    assert read_of_tts(other).rows("cpu_ratio", "mds")[T0, "m"] == (pytest.approx(load[:12].mean() / 100), 0)
    assert read_of_tts(other).rows("memory_ratio") == {}  # not a percentage there


def test_holes_in_the_stamps_are_missing_samples(tmp_path: Path):
    path = write_tts(tmp_path / "x.hdf5", {"readbytes": np.ones((24, 2))})
    with h5py.File(path, "a") as file:
        stamps = file["datatargets/timestamps"][:]
        stamps[6:] += 30  # six steps are not there
        file["datatargets/timestamps"][:] = stamps
    found = read_of_tts(path).rows("read_bytes")
    assert [found[T0 + 60 * i, OSTS[0]] for i in range(3)] == [
        (6.0, PARTIAL),
        (12.0, LATE | PARTIAL),
        (6.0, PARTIAL),
    ]
    assert sum(value for value, _ in found.values()) == 48


# --- damage ---------------------------------------------------------------------------------------------------------


def test_truncated_and_corrupt_files_are_refused_with_a_reason(tmp_path: Path):
    whole = write_tts(tmp_path / "x.hdf5", {"readbytes": np.random.default_rng(0).random((5000, 2))})
    data = whole.read_bytes()
    (tmp_path / "short.hdf5").write_bytes(data[: len(data) // 2])
    with source_error("TruncatedInput", match=r"short\.hdf5 is truncated"):
        read_of_tts(tmp_path / "short.hdf5")
    (tmp_path / "empty.hdf5").write_bytes(b"")
    with source_error("EmptyInput"):
        read_of_tts(tmp_path / "empty.hdf5")
    (tmp_path / "text.hdf5").write_bytes(b"hello" * 1000)
    with pytest.raises(CorruptInput):
        read_of_tts(tmp_path / "text.hdf5")


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda f: f.attrs.__setitem__("version", "9"), "UnsupportedVersion", "version 9"),
        (lambda f: f["datatargets"].__delitem__("timestamps"), "CorruptInput", "no timestamps"),
        (lambda f: f["datatargets/readbytes"].attrs.__delitem__("columns"), "CorruptInput", "no named columns"),
        (lambda f: f["datatargets/timestamps"].__setitem__(3, 5), "CorruptInput", "do not increase"),
        (lambda f: f["datatargets/timestamps"].__setitem__(3, T0 + 16), "CorruptInput", "5 s apart"),
        (lambda f: f["datatargets/timestamps"].__setitem__(11, T0 + 10**6), "CorruptInput", "are missing"),
    ],
)
def test_contradictions_are_named(tmp_path: Path, change, kind, message):
    path = write_tts(tmp_path / "x.hdf5", {"readbytes": np.ones((12, 2))})
    with h5py.File(path, "a") as file:
        change(file)
    with source_error(kind, match=message):
        read_of_tts(path)


# --- the real half day ----------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_half_a_day_of_edison(shared_data: Path):
    path = shared_data / "lmt" / "snx11025_2018-02-09T12.hdf5"
    half_day = read_of_tts(path)
    assert half_day.total("read_bytes") == 16_266_516_840_448
    assert half_day.total("write_bytes") == 13_339_439_495_744
    _check_statistics(half_day, "read_bytes", 36.65, 5.54, 1.10)
    _check_statistics(half_day, "write_bytes", 35.30, 6.78, 1.74)
    _check_that_the_late_burst_is_flagged_and_the_minute_is_fine(path)


def _check_statistics(half_day: Read, metric: str, highest: float, cov: float, imbalance: float):
    rows = half_day.rows(metric)
    per_minute: dict[int, float] = {}
    per_target: dict[str, float] = {}
    for (start, target), (value, _) in rows.items():
        per_minute[start] = per_minute.get(start, 0.0) + value
        per_target[target] = per_target.get(target, 0.0) + value
    totals = np.array(list(per_minute.values()))
    assert len(totals) == 720
    assert totals.max() / 60e9 == pytest.approx(highest, abs=0.005)
    assert totals.std() / totals.mean() == pytest.approx(cov, abs=0.005)
    assert max(per_target.values()) / min(per_target.values()) == pytest.approx(imbalance, abs=0.005)


def _check_that_the_late_burst_is_flagged_and_the_minute_is_fine(path: Path):
    found = read_of_tts(path, keep_raw=True)
    start = 1_518_163_200
    raw = found.rows("read_bytes", interval_s=5)
    burst = {name: raw[start + 2403 * 5, name] for _, name in raw if (start + 2403 * 5, name) in raw}
    assert sum(value for value, _ in burst.values()) / 5 > 140e9  # three times what the system can do
    assert sum(quality & LATE > 0 for _, quality in burst.values()) >= 22
    minute = [value for (begin, _), (value, _) in found.rows("read_bytes").items() if begin == start + 200 * 60]
    assert len(minute) == 24
    assert sum(minute) / 60 < 48e9
    # Every missing sample is absent, and only there.
    assert 8640 * 24 - len(raw) == 120


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

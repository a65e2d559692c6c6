"""Processes without MPI as one run; targets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioweather.core.tables import concat
from ioweather.job_io.advisor.advise import advise
from ioweather.job_io.view import FEWEST_LOGS, are_one_run, as_one_run, target_exhibit
from planted_advice import LARGE, SMALL, own, requests, striped, view_of
from planted_logs import NS, START


def loaders(folder, count, *, apart=0):
    """Each process reads the same 200 files of 16 KiB, five epochs long, opening them each time."""
    views = []
    for number in range(count):
        rows = [
            own(0, file=i + 1, **requests("READ", 5, SMALL, 0.005, OPENS=5, F_META_TIME=0.1, MAX_BYTE_READ=SMALL - 1))
            for i in range(200)
        ]
        start = START + number * apart
        job = {"start_ns": start, "end_ns": start + 100 * NS + number, "exe": "python train.py"}
        views.append(view_of(folder / f"{number}.darshan", {"POSIX": rows}, 1, **job))
    frames = {name: concat([getattr(v, name) for v in views]) for name in ("applications", "files", "job_io")}
    return replace(views[0], **frames, log=None)


def test_logs_of_single_processes_are_one_run(tmp_path):
    view = loaders(tmp_path, 8)
    one = as_one_run(view)
    assert (one.logs, one.separate) == (1, True)
    assert one.applications.ints("nprocs").tolist() == [8]
    assert sorted(set(one.files.ints("rank").tolist())) == list(range(8))
    row = one.job_io.records()[0]
    assert row["read_bytes"] == 8 * 200 * 5 * SMALL
    # The slowest process, not all of them added up.
    assert row["io_seconds"] == pytest.approx(200 * 0.105)


def test_a_file_for_every_sample_is_seen_over_all_loaders(tmp_path):
    advised = advise(loaders(tmp_path, 8))
    found = {advice.name: advice for advice in advised.patterns}
    assert found["small_files"].evidence.startswith("200 files under 1 MiB")
    assert "webdataset" in found["small_files"].fix_lines[0]
    # 200 files of 16 KiB are 3.1 MiB; 8 processes read 125 MiB.
    assert found["redundant_reads"].evidence.startswith("122 MiB of 125 MiB")
    assert not {"no_mpiio", "rank_zero", "file_per_process", "shared_file"} & set(found)


@pytest.mark.parametrize(("count", "apart"), [(FEWEST_LOGS - 1, 0), (8, 200 * NS)], ids=["few", "one after another"])
def test_others_stay_what_they_are(tmp_path, count, apart):
    view = loaders(tmp_path, count, apart=apart)
    assert not are_one_run(view.applications)
    assert as_one_run(view) is view


def test_what_each_target_got(tmp_path):
    view = view_of(
        tmp_path / "a.darshan",
        {"POSIX": [own(0, file=1, **requests("WRITE", 8, LARGE, 4.0))], "LUSTRE": striped(2)}, 1,
    )  # fmt: skip
    (exhibit,) = target_exhibit(view)
    assert sorted(exhibit.tables[0].rows) == [("0", 1, 0, 4 * LARGE, 2.0), ("1", 1, 0, 4 * LARGE, 2.0)]
    plain = view_of(tmp_path / "b.darshan", {"POSIX": [own(0, **requests("WRITE", 8, LARGE, 4.0))]}, 1)
    assert list(target_exhibit(plain)) == []

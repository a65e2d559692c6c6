"""The screen of one job: every number on it, from logs whose answers were planted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from planted_jobs import GIB, planted

from ioweather.core.results import Answer, Fact, to_jsonable
from ioweather.core.tables import TABLES, concat
from ioweather.job_io.summary import job_answer, notes
from ioweather.job_io.view import JobView, main_run_of, view_of_log
from ioweather.readers.darshan.format import NATIVE, fixed_dtype
from ioweather.readers.darshan.log import DarshanJob, DarshanLog, Module
from planted_logs import MIB, NS, START, write_climate


def view(path, paths="keep") -> JobView:
    return view_of_log(path, paths)


def fact(answer: Answer, label: str) -> Fact:
    return next(f for group in answer.facts for f in group.facts if f.label == label)


def labels(answer: Answer) -> list[str]:
    return [f.label for group in answer.facts for f in group.facts]


@pytest.fixture(scope="module")
def climate(tmp_path_factory):
    return view(write_climate(tmp_path_factory.mktemp("logs") / "climate.darshan"))


@pytest.fixture(scope="module")
def answer(climate) -> Answer:
    return job_answer(climate)


def test_the_headline_says_it_all(answer):
    # D: rank 3 spends 4 + 0.5 + 0.25 s on its own file, the slowest rank 5 s on the shared one.
    assert answer.headline == (
        "climate on 4 processes took 100 s; I/O took 9.75 s of it (9.8%): 2.00 MiB read at 1.85 MiB/s, 12 MiB written "
        "at 1.31 MiB/s."
    )


def test_time_of_all_processes(answer):
    # 400 process-seconds; the POSIX calls below MPI-IO do not count again.
    assert [group.title for group in answer.facts][1] == "Time of all processes (4 x 100 s)"
    assert fact(answer, "reading").value == pytest.approx((4 * 0.5 + 0.5) / 400)
    assert fact(answer, "writing").value == pytest.approx((12 + 1 + 2 + 3 + 4) / 400)
    assert fact(answer, "metadata").value == pytest.approx((4 + 4 * 0.25) / 400)
    assert fact(answer, "all else").value == pytest.approx(1 - 29.5 / 400)
    assert "waiting" not in labels(answer)
    assert all(f.share == f.value for f in answer.facts[1].facts)


def test_speed(answer):
    # Reading: rank 0 reads 0.5 s by POSIX (a third of its metadata is of reads) and 0.5 s by STDIO.
    assert fact(answer, "read").value == pytest.approx((2 * MIB + 300) / (1.0 + 0.25 / 3))
    # Writing: rank 3 writes 4 s with two thirds of its metadata; the shared file takes its slowest rank 5 s.
    assert fact(answer, "write").value == pytest.approx(12 * MIB / (4 + 0.25 * 2 / 3 + 5))
    assert fact(answer, "read").share == 1.0
    assert fact(answer, "write").share == pytest.approx(fact(answer, "write").value / fact(answer, "read").value)
    assert "per compute node" not in labels(answer)


def test_files(answer):
    counts = {f.label: (f.value, f.note) for f in answer.facts[3].facts}
    assert counts == {
        "unique": (5, "2.00 MiB read, 4 MiB written"),
        "shared": (1, "8 MiB written"),
        "only read": (1, ""),
        "only written": (1, ""),
        "read and written": (4, ""),
    }
    assert fact(answer, "unique").share == pytest.approx(5 / 6)


def test_accesses(answer):
    size = fact(answer, "100 KiB to 1 MiB")  # eight collective writes, two writes and a read per process
    assert (size.value, size.share, size.note) == (20, 1.0, "4 reads, 16 writes")
    assert fact(answer, "sequential").value == pytest.approx(5 / 14)
    assert fact(answer, "sequential").note == "consecutive 36%"
    assert fact(answer, "aligned in the file").value == pytest.approx(1 - 4 / 14)


def several(tmp_path, gap=10):
    """Two logs of one job, the second `gap` seconds after the first."""
    first = view(write_climate(tmp_path / "1.darshan"))
    later = START + (100 + gap) * NS
    second = view(write_climate(tmp_path / "2.darshan", start_ns=later, end_ns=later + 50 * NS, nprocs=8))
    frames = {
        name: concat([getattr(first, name), getattr(second, name)]) for name in ("applications", "files", "job_io")
    }
    return JobView("job 4711", **frames)


def test_a_job_with_several_runs_is_shown_by_the_one_with_the_most_io_time(tmp_path):
    shown = job_answer(main_run_of(several(tmp_path)))
    assert shown.headline.startswith("Run 1 of 2: climate on 4 processes took 100 s; I/O took 9.75 s of it")
    assert "12 MiB written" in shown.headline
    assert (shown.result.run, shown.result.logs) == (1, 2)
    assert shown.result.all_runs.io_seconds == pytest.approx(19.5)
    texts = [finding.text for finding in shown.findings]
    assert texts[0] == (
        "This is run 1 of 2 of the job, the one with the most I/O time. All runs together: 19.5 s of I/O, "
        "4.00 MiB read, 24 MiB written."
    )


def test_paths_can_be_hidden(tmp_path):
    path = write_climate(tmp_path / "ann_climate.darshan")
    for policy in ("hash", "drop"):
        hidden = job_answer(view(path, policy))
        everything = repr(to_jsonable(hidden))
        for word in ("/opt/bin", "--grid", "state.nc", "/scratch/run", "ann_"):
            assert word not in everything
        assert "climate on 4 processes" in hidden.headline


NO_FILES = TABLES["files"].frame({name: [] for name in TABLES["files"].names}, rows=0)


def log_of(*modules: Module) -> DarshanLog:
    job = DarshanJob(0, 1, 1, 0, 100 * NS, 100.0, {"lib_ver": "3.4"}, "", ())
    return DarshanLog("3.41", "little", "zlib", job, {module.name: module for module in modules}, {}, (), (), "x")


def planted_view(**job: Any) -> JobView:
    """A job given by its metrics alone, with a heat map that is not recorded."""
    frames = planted([job])
    return JobView("x", frames["applications"], NO_FILES, frames["job_io"], log=log_of())


def said(view: JobView) -> list[str]:
    return [finding.text for finding in notes(view, view.row())]


def text(**job: Any) -> str:
    return "\n".join(said(planted_view(**job)))


BUSY = {"nprocs": 64, "written": GIB, "io": 50.0, "files": 64, "write_count": 1024, "fs_write_count": 1024,
        "fs_write_bytes": GIB, "write_seconds": 3000.0, "unique_file_count": 1}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"io": 0.5}, "I/O is 0.5% of the run: faster I/O would make no difference."),
        ({"io_rank_count": 1, "rank0_bytes": GIB},
         "All data goes through rank 0. The other 63 processes move no data."),
        ({"io_rank_count": 1}, "All data goes through one process. The other 63 processes move no data."),
        ({"interfaces": "HDF5,MPI-IO", "collective_count": 256, "independent_count": 768},
         "Interfaces: HDF5, MPI-IO; 25% of 1,024 MPI-IO calls are collective."),
        ({"collective_count": 1024, "fs_write_count": 64},
         "1,024 writes of 1 MiB reached the file system as 64 of 16 MiB."),
        ({"d_write_seconds": 50.0, "write_seconds": 0.25},
         "Writes went to memory (4 GiB/s per process), not storage."),
        ({"d_write_seconds": 50.0, "d_s_definition": "per_file"},
         "The slowest rank is not recorded. Time on shared files is measured from the first open to the last I/O."),
    ],
)  # fmt: skip
def test_what_is_notable_is_said(change, sentence):
    assert sentence in text(**(BUSY | change)).split("\n")
    assert sentence not in text(**BUSY).split("\n")


def test_object_stores_are_not_in_the_figures():
    dtype = fixed_dtype("DFS", 1, NATIVE)
    assert dtype is not None
    records = np.zeros(2, dtype)
    records["DFS_BYTES_READ"], records["DFS_BYTES_WRITTEN"] = 3 * MIB, MIB
    log = log_of(Module("DFS", 1, False, records))
    view = replace(planted_view(**BUSY), log=log)
    assert said(view)[0] == "These figures exclude 8 MiB moved through DFS."

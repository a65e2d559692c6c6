"""What is said about a job, and when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from planted_jobs import GIB, MIB, planted

from ioweather.sources.darshan.layout import NATIVE, fixed_dtype
from ioweather.studies.job.heat_map import SCREEN
from ioweather.studies.job.notes import notes
from ioweather.studies.job.view import JobView, LogFacts, ModuleRecords
from ioweather.tables import TABLES
from ioweather.workflows.job_log import view_of_log
from planted_logs import write_climate

NO_FILES = TABLES["files"].frame({name: [] for name in TABLES["files"].names}, rows=0)
NO_LOG = LogFacts("x", "3.4", 100.0, ())


def planted_view(**job: Any) -> JobView:
    """A job given by its metrics alone, with a heat map that is not recorded."""
    frames = planted([job])
    return JobView("x", frames["applications"], NO_FILES, frames["job_io"], log=NO_LOG)


def said(view: JobView) -> list[str]:
    return [finding.text for finding in notes(view, view.row())]


def text(**job: Any) -> str:
    return "\n".join(said(planted_view(**job)))


BUSY = {"nprocs": 64, "written": GIB, "io": 50.0, "files": 64, "write_count": 1024, "fs_write_count": 1024,
        "fs_write_bytes": GIB, "write_seconds": 3000.0, "unique_file_count": 1}  # fmt: skip


def test_a_quiet_job_has_little_to_say():
    assert said(planted_view(**BUSY)) == ["Heat map: not recorded in this log.", "Interfaces: POSIX."]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"io": 0.5}, "I/O is 0.5% of the run: faster I/O would not be felt."),
        ({"io_rank_count": 1, "rank0_bytes": GIB}, "All data goes through rank 0; 63 processes move none."),
        ({"io_rank_count": 1}, "All data goes through one process; 63 processes move none."),
        ({"io_rank_count": 8}, "8 of 64 processes move all data, not collectively."),
        ({"unique_file_count": 128}, "Every process has files of its own: 2 each, 128 in all."),
        ({"meta_seconds": 9000.0}, "Metadata takes 75% of the I/O time."),
        ({"write_count": 1 << 18}, "Small requests: 4 KiB on average of 262,144."),
        ({"seek_count": 1000}, "A seek with nearly every read or write: 1,000 seeks."),
        ({"interfaces": "HDF5,MPI-IO", "collective_count": 256, "independent_count": 768},
         "Interfaces: HDF5, MPI-IO; 25% of 1,024 MPI-IO calls collective."),
        ({"collective_count": 1024, "fs_write_count": 64},
         "1,024 writes of 1 MiB reached the file system as 64 of 16 MiB."),
        ({"d_write_seconds": 50.0, "first_write_ns": 10**18, "last_write_ns": 10**18 + 80 * 10**9},
         "First to last (of which the slowest process): write 80 s (50 s)."),
        ({"d_write_seconds": 50.0, "write_seconds": 0.25}, "Writing at 4 GiB/s per process is memory, not storage."),
        ({"d_write_seconds": 50.0, "posix_io_seconds": 25.0, "collective_count": 1024},
         "Speeds are of MPI-IO; its POSIX calls alone would give 2.0 times as much."),
        ({"d_write_seconds": 50.0, "d_s_definition": "per_file"},
         "No slowest rank is recorded: time on shared files is first open to last I/O."),
    ],
)  # fmt: skip
def test_what_is_notable_is_said(change, sentence):
    assert sentence in text(**(BUSY | change)).split("\n")
    assert sentence not in text(**BUSY).split("\n")


def test_requests_of_a_mebibyte_are_not_small_for_a_few_tiny_ones():
    job = BUSY | {"write_count": 1030, "common_access_bytes": MIB, "common_access_count": 1024}
    assert "Small requests" not in text(**job)


def test_phases_far_apart_are_no_turns():
    job = BUSY | {"d_write_seconds": 50.0, "first_write_ns": 10**18, "last_write_ns": 10**18 + 5000 * 10**9}
    assert "First to last" not in text(**job)


def test_calls_of_other_interfaces_are_not_compared_with_those_of_mpiio():
    job = BUSY | {"collective_count": 2, "fs_write_count": 2, "posix_io_seconds": 0.1, "d_write_seconds": 50.0}
    assert "reached the file system" not in text(**job)
    assert "Speeds are of MPI-IO" not in text(**job)


def test_both_directions_share_a_line():
    job = BUSY | {"read": GIB, "read_count": 1024, "read_seconds": 0.25, "write_seconds": 0.25, "d_read_seconds": 1.0,
                  "d_write_seconds": 1.0}  # fmt: skip
    assert "Reading at 4 GiB/s and writing at 4 GiB/s per process is memory, not storage." in text(**job)


def test_a_slow_rank_on_a_shared_file_is_named(tmp_path):
    made = view_of_log(write_climate(tmp_path / "a.darshan"), "keep", SCREEN)
    assert "Ranks differ: on state.nc the slowest took 5 s, the fastest 2 s." in said(made)
    hidden = view_of_log(tmp_path / "a.darshan", "drop", SCREEN)
    assert "Ranks differ: on a shared file the slowest took 5 s, the fastest 2 s." in said(hidden)


def test_where_the_heat_map_is(tmp_path):
    made = view_of_log(write_climate(tmp_path / "a.darshan"), "keep", SCREEN)
    assert "Heat map" not in "\n".join(said(made))
    assert "Heat map: the run is shorter than two of its bins." in said(replace(made, heat_maps=()))
    without = view_of_log(write_climate(tmp_path / "b.darshan", without=("HEATMAP",)), "keep", SCREEN)
    assert "Heat map: not recorded in this log." in said(without)
    stored = replace(made, log=None, heat_maps=(), log_paths=("/logs/a.darshan",))
    assert "Heat map: not kept in the lake; the log may have one: ioweather job /logs/a.darshan" in said(stored)


def test_partial_traces_and_partial_counters_differ(tmp_path):
    from ioweather.tables import encode_text

    made = view_of_log(write_climate(tmp_path / "a.darshan"), "keep", SCREEN)
    flagged = made.applications.with_columns(partial_modules=encode_text(["DXT_POSIX,MPI-IO"]))
    assert said(replace(made, applications=flagged))[:2] == [
        "Partial: Darshan ran out of memory for MPI-IO; figures are lower bounds.",
        "Partial: DXT_POSIX was cut short; what is drawn from it is incomplete.",
    ]


def test_object_stores_are_not_in_the_figures():
    dtype = fixed_dtype("DFS", 1, NATIVE)
    assert dtype is not None
    records = np.zeros(2, dtype)
    records["DFS_BYTES_READ"], records["DFS_BYTES_WRITTEN"] = 3 * MIB, MIB
    log = LogFacts("x", "3.5", 100.0, (ModuleRecords("DFS", 1, False, records),))
    view = replace(planted_view(**BUSY), log=log)
    assert said(view)[0] == "8 MiB moved through DFS are not in these figures."

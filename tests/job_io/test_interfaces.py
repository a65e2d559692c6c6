"""What each interface did: planted counters, and Darshan's libraries from their own records."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.tables import TABLES
from ioweather.facts.job_metrics import file_records
from ioweather.job_io.job_page import INTERFACES, counters_of, usages
from ioweather.job_io.view import view_of_log
from ioweather.readers.darshan.format import NATIVE, fixed_dtype
from ioweather.readers.darshan.log import DarshanJob, DarshanLog, Module
from planted_logs import MIB, write_climate


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    view = view_of_log(write_climate(tmp_path_factory.mktemp("logs") / "a.darshan"), "keep")
    return {usage.name: usage for usage in usages(file_records(view.applications, view.files), view.log)}


def made(module: str, version: int, rows: list[dict[str, float]]) -> Module:
    dtype = fixed_dtype(module, version, NATIVE)
    assert dtype is not None
    records = np.zeros(len(rows), dtype)
    for place, row in enumerate(rows):
        for name, value in row.items():
            records[name][place] = value
    return Module(module, version, False, records)


def from_libraries(*modules: Module):
    empty = TABLES["files"].frame({name: [] for name in TABLES["files"].names}, rows=0)
    applications = TABLES["applications"].frame({name: [] for name in TABLES["applications"].names}, rows=0)
    job = DarshanJob(0, 1, 1, 0, 10, 10.0, {}, "", ())
    log = DarshanLog("3.41", "little", "zlib", job, {module.name: module for module in modules}, {}, (), (), "x")
    found = usages(file_records(applications, empty), log)
    return {usage.name: usage for usage in found}


def test_amounts_and_times_of_each_module_alone(planted):
    posix = planted["POSIX"]
    assert (posix.files, posix.read_bytes, posix.write_bytes) == (5, 2 * MIB, 12 * MIB)
    # Rank 3 on its own file, 4.75 s; the slowest rank of the shared file, 2.5 s.
    assert posix.io_seconds == pytest.approx(7.25)
    assert posix.bytes_per_s == pytest.approx(14 * MIB / 7.25)
    mpiio = planted["MPI-IO"]
    assert (mpiio.files, mpiio.read_bytes, mpiio.write_bytes, mpiio.io_seconds) == (1, 0, 8 * MIB, 5.0)
    stdio = planted["STDIO"]
    assert (stdio.files, stdio.read_bytes, stdio.io_seconds) == (1, 300, 0.5)


def test_hdf5_is_files_and_datasets():
    h5f = made("H5F", 3, [{"id": 1, "rank": -1, "H5F_OPENS": 4, "H5F_FLUSHES": 1, "H5F_F_META_TIME": 0.5}])
    h5d = made("H5D", 2, [
        {"id": 7, "rank": 0, "file_id": 1, "H5D_READS": 2, "H5D_BYTES_READ": 2000, "H5D_SIZE_READ_AGG_100_1K": 2,
         "H5D_ACCESS1_ACCESS": 1000, "H5D_ACCESS1_COUNT": 2, "H5D_F_READ_TIME": 1.0, "H5D_F_META_TIME": 0.25},
        {"id": 8, "rank": 1, "file_id": 1, "H5D_WRITES": 1, "H5D_BYTES_WRITTEN": 500, "H5D_SIZE_WRITE_AGG_100_1K": 1,
         "H5D_F_WRITE_TIME": 3.0},
        {"id": 9, "rank": -1, "file_id": 1, "H5D_WRITES": 4, "H5D_F_WRITE_TIME": 2.0, "H5D_F_SLOWEST_RANK_TIME": 1.5},
    ])  # fmt: skip
    hdf5 = from_libraries(h5f, h5d)["HDF5"]
    assert (hdf5.files, hdf5.read_bytes, hdf5.write_bytes) == (1, 2000, 500)
    assert hdf5.io_seconds == pytest.approx(3.0 + 1.5), "rank 1 on its own dataset, the slowest rank of the shared one"
    assert hdf5.read_sizes[1] == 2
    assert hdf5.write_sizes[1] == 1
    assert hdf5.common_sizes == ((1000, 2),)
    assert dict(hdf5.operations) == {
        "file opens": 4, "file flushes": 1, "dataset reads": 2, "dataset writes": 5,
    }  # fmt: skip


def test_pnetcdf_has_files_and_variables():
    files = made("PNETCDF_FILE", 3, [{"id": 1, "PNETCDF_FILE_COLL_WAITS": 3, "PNETCDF_FILE_F_WAIT_TIME": 2.5}])
    variables = made("PNETCDF_VAR", 1, [{"id": 2, "PNETCDF_VAR_NB_WRITES": 3, "PNETCDF_VAR_BYTES_WRITTEN": 30}])
    pnetcdf = from_libraries(files, variables)["PnetCDF"]
    assert pnetcdf.write_bytes == 30
    assert dict(pnetcdf.operations) == {"collective waits": 3, "non-blocking writes": 3}
    assert pnetcdf.io_seconds is None
    assert pnetcdf.bytes_per_s is None


@pytest.mark.parametrize("name", ["DFS", "DAOS"])
def test_object_stores_have_their_own_counters(name):
    rows = [{"id": 1, "rank": 0, f"{name}_BYTES_READ": 100, f"{name}_F_READ_TIME": 2.0, f"{name}_SIZE_READ_0_100": 1}]
    usage = from_libraries(made(name, 1, rows))[name]
    assert (usage.files, usage.read_bytes, usage.bytes_per_s, usage.read_sizes[0]) == (1, 100, 50.0, 1)


def test_every_counter_that_a_library_names_exists_in_some_version():
    from ioweather.readers.darshan.format import FIXED

    known = {name for names in FIXED.values() for name in (*names.counters, *names.fcounters)}
    for name, entry in INTERFACES.items():
        if "data" in entry:
            wanted = {*counters_of(name, entry).values()}
            assert wanted <= known, name

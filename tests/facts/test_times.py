"""Times, bytes and kinds of files against Darshan's own accumulator (the C code behind darshan-parser --perf)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ioweather.facts.job_metrics import file_records, job_io, times
from ioweather.readers.darshan.darshan_reader import MODULES, read_log, rows_of_logs


def accumulated(path: Path, module: str, nprocs: int) -> Any:
    darshan = pytest.importorskip("darshan")
    from darshan.backend.cffi_backend import accumulate_records

    report = darshan.DarshanReport(str(path), read_all=False)
    report.mod_read_all_records(module)
    return accumulate_records(report.records[module].to_df(), module, nprocs).derived_metrics


def kinds(metrics: Any) -> dict[str, int]:
    names = ("all", "read_only", "write_only", "read_write", "unique", "shared", "partially_shared")
    return {name: metrics.category_counters[i].count for i, name in enumerate(names)}


@pytest.mark.parametrize("module", ["POSIX", "MPI-IO"])
def test_one_module_alone_is_what_darshan_says(samples: Path, own_samples: Path, module: str) -> None:
    checked = 0
    if samples == own_samples:
        logs, least = [*(samples / "causes").glob("*0.darshan"), *climates(samples)], 4
    else:
        logs, least = sorted((samples / "darshan").rglob("*.darshan"))[::2], 16
    for path in logs:
        log = read_log(path, modules=MODULES)
        if module not in log.modules or log.longer_records:  # of which Darshan reads garbage
            continue
        applications, files = rows_of_logs([log])
        files = files.take(files.text("module").equals(module))
        if files.array("standard_stream").any():
            continue  # Darshan counts them as files
        records = file_records(applications, files)
        mine = times(records, np.ones(files.rows, np.bool_))
        theirs = accumulated(path, module, log.job.nprocs)
        found = tuple(mine[f"{part}_seconds"][0] for part in ("d_u_m", "d_u_rw", "d_s", "io"))
        expected = (
            theirs.unique_md_only_time_by_slowest, theirs.unique_rw_only_time_by_slowest,
            theirs.shared_io_total_time_by_slowest, theirs.agg_time_by_slowest,
        )  # fmt: skip
        np.testing.assert_allclose(np.nan_to_num(found), expected, rtol=1e-6, atol=1e-6, err_msg=path.name)
        row = job_io(applications, files).records()[0]
        assert row["read_bytes"] + row["write_bytes"] == theirs.total_bytes
        if module == "POSIX" and log.job.nprocs > 1:
            counts = kinds(theirs)
            for kind in ("read_only", "write_only", "read_write"):
                assert row[f"{kind}_file_count"] == counts[kind], (path.name, kind)
        checked += 1
    assert checked >= least


def climates(samples: Path) -> list[Path]:
    """Logs of our writer with MPI-IO above POSIX."""
    names = ("climate", "without_POSIX", "without_STDIO", "without_HEATMAP", "without_MPI-IO")
    return [samples / f"darshan/examples/{name}.darshan" for name in names]


def benchmark_figures(shared_data: Path, folder: str) -> list[tuple[dict[str, Any], dict[str, float]]]:
    truth = json.loads((shared_data / folder / "truth.json").read_text())
    logs = [read_log(shared_data / folder / f"{run['job']}.darshan", modules=MODULES) for run in truth]
    rows = job_io(*rows_of_logs(logs)).records()
    return [(row, run["ior"]) for row, run in zip(rows, truth, strict=True)]


@pytest.mark.shared
def test_runs_of_ior_agree_with_what_it_printed(shared_data: Path) -> None:
    for folder in ("contention", "causes"):
        _check_direct_io(shared_data, folder)
    _check_ior_on_intrepid(shared_data)
    _check_that_posix_times_below_mpiio_overstate(shared_data)


def _check_direct_io(shared_data: Path, folder: str) -> None:
    """152 runs of IOR with O_DIRECT, each with IOR's own figures: none of 304 is over 6% off, and 99% are within 3%."""
    deviations = [
        row[f"{verb}_bytes_per_s"] / 2**20 / ior[verb] - 1
        for row, ior in benchmark_figures(shared_data, folder)
        for verb in ("read", "write")
    ]
    assert np.abs(deviations).max() < 0.06
    assert np.mean(np.abs(deviations) < 0.03) >= 0.99


def _check_ior_on_intrepid(shared_data: Path) -> None:
    """Job 350690: 2,048 processes, one shared file per repetition, 4 x 512 GiB written and read; 40% metadata time."""
    path = next((shared_data / "darshan" / "v2").glob("harms_IOR_id350690*"))
    row = job_io(*rows_of_logs([read_log(path, modules=MODULES)])).records()[0]
    write, read = (2222.96, 2321.09, 2314.76, 2302.51), (2878.55, 2939.11, 2910.44, 2903.94)
    mib = 2**20
    assert row["bytes_per_s"] / mib == pytest.approx(2572.08, rel=1e-4)  # what darshan-parser 2 derives
    assert row["bytes_per_s"] / mib == pytest.approx(np.mean([*write, *read]), rel=0.03)
    assert row["write_bytes_per_s"] / mib == pytest.approx(4 / sum(1 / bw for bw in write), rel=0.03)
    assert row["read_bytes_per_s"] / mib == pytest.approx(4 / sum(1 / bw for bw in read), rel=0.03)


def _check_that_posix_times_below_mpiio_overstate(shared_data: Path) -> None:
    logs = [
        read_log(path, modules=MODULES) for path in sorted((shared_data / "darshan/real").glob("ior_mpiio*.darshan"))
    ]
    rows = job_io(*rows_of_logs(logs)).records()
    assert len(rows) == 8
    assert all(row["posix_io_seconds"] < row["io_seconds"] for row in rows)
    assert max(row["io_seconds"] / row["posix_io_seconds"] for row in rows) > 2

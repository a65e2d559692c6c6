"""Text that Darshan's own library prints of real logs, against the logs themselves."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from darshan_text import printed
from ioweather.derive.jobs.job_io import job_io
from ioweather.sources.darshan.log import read_log
from ioweather.sources.darshan.rows import rows_of_logs
from ioweather.studies.job.heat_map import SCREEN
from ioweather.workflows.job_log import heat_maps

SPEC = importlib.util.find_spec("darshan")
pytestmark = pytest.mark.skipif(SPEC is None, reason="PyDarshan is not installed (it has no wheel for this Python)")
SUMMED = ("read_bytes", "write_bytes", "read_count", "write_count", "open_count", "seek_count", "stat_count",
          "read_100k_1m_count", "write_0_100_count", "sequential_read_count", "collective_write_count")  # fmt: skip
SECONDS = ("meta_seconds", "read_seconds", "write_seconds")


def logs(shared=()):
    """Of the wheel, those that are quickly printed."""
    found = sorted(Path(SPEC.origin).parent.rglob("*.darshan")) if SPEC else []
    return [*{path.name: path for path in found if path.stat().st_size < 60_000}.values(), *shared]


def pairs(form, paths):
    """Each log that the library prints in that form, and its text, both as read."""
    found = []
    for path, text in zip(paths, printed(form, paths), strict=True):
        if any(not line.startswith("#") for line in text.splitlines() if line):
            found.append((read_log(path), read_log(text.encode())))
    return found


def job_row(log):
    return job_io(*rows_of_logs([log])).records()[0]


def check_records(paths):
    found = pairs("base", paths)
    for log, text in found:
        assert text.form == "text"
        assert text.job.start_ns == log.job.start_ns // 10**9 * 10**9
        assert text.job.end_ns == pytest.approx(log.job.end_ns, abs=1.1e9)
        assert not text.unknown_modules or set(text.unknown_modules) <= set(log.modules) | set(log.unknown_modules)
        for name, module in text.modules.items():
            theirs = log.modules[name]
            order, its = (np.lexsort((m.records["rank"], m.records["id"])) for m in (module, theirs))
            # The library reads variances of POSIX 3 as 0.
            known = {field for field in theirs.records.dtype.names if "VARIANCE" not in field}
            for field in known.intersection(module.records.dtype.names):
                mine = module.records[field][order]
                assert np.allclose(mine, theirs.records[field][its], atol=6e-7, rtol=1e-6), (name, field)
        (_, mine), (_, files) = rows_of_logs([text]), rows_of_logs([log])
        for column in ("path", "mount", "osts", "library"):
            assert sorted(map(str, mine.text(column).tolist())) == sorted(map(str, files.text(column).tolist()))
        for one, other in zip(heat_maps(text, SCREEN), heat_maps(log, SCREEN), strict=False):
            if other.origin == "heat map":
                assert np.array_equal(one.write_bytes, other.write_bytes)
                assert np.array_equal(one.read_bytes, other.read_bytes)
    return len(found)


def check_sums(paths):
    found = pairs("total", paths)
    for log, text in found:
        assert text.form == "totals"
        (applications, sums), (_, files) = rows_of_logs([text]), rows_of_logs([log])
        for module in text.modules:
            mine, theirs = (frame.take(frame.text("module").equals(module)) for frame in (sums, files))
            for column in SUMMED:
                assert mine.ints(column).sum() == theirs.ints(column).sum(), (module, column)
            for column in SECONDS:
                total = mine.floats(column)[0]  # null where a log has negative times
                assert np.isnan(total) or total == pytest.approx(np.nansum(theirs.floats(column)), abs=1e-5)
            assert text.file_counts[module]["total"] == len(set(theirs.ints("record_id").tolist()))
        row, whole = job_io(applications, sums).records()[0], job_row(log)
        assert row["partial"]
        for unknown in ("io_rank_count", "shared_file_count", "shared_read_bytes", "create_count", "d_s_seconds"):
            assert row[unknown] is None
        if set(text.modules) == {"POSIX"}:
            assert row["io_seconds"] == pytest.approx(whole["io_seconds"], abs=2e-6)
            assert (row["read_bytes"], row["write_bytes"]) == (whole["read_bytes"], whole["write_bytes"])
    return len(found)


def check_traces(paths):
    found = pairs("dxt", paths)
    for log, text in found:
        assert text.form == "trace"
        for name in ("DXT_POSIX", "DXT_MPIIO"):
            if name not in text.modules:
                continue
            mine, theirs = text.modules[name], log.modules[name]
            traced = theirs.records["writes"] + theirs.records["reads"] > 0
            assert mine.records["id"].tolist() == theirs.records["id"][traced].tolist()
            assert mine.records["hostname"].tolist() == theirs.records["hostname"][traced].tolist()
            for field in ("write", "length"):
                assert mine.segments[field].tolist() == theirs.segments[field].tolist()
            for field in ("start_seconds", "end_seconds"):
                assert np.allclose(mine.segments[field], theirs.segments[field], atol=5.1e-5)
            moved = mine.segments["length"].sum()
            counters = text.modules[{"DXT_POSIX": "POSIX", "DXT_MPIIO": "MPI-IO"}[name]].records
            prefix = {"DXT_POSIX": "POSIX", "DXT_MPIIO": "MPIIO"}[name]
            assert counters[f"{prefix}_BYTES_READ"].sum() + counters[f"{prefix}_BYTES_WRITTEN"].sum() == moved
        row = job_row(text)
        assert row["partial"]
        assert [row[name] for name in ("meta_seconds", "collective_count", "seek_count")] == [None] * 3
        if "DXT_POSIX" in text.modules and "POSIX" in log.modules and not log.modules["DXT_POSIX"].partial:
            check_against_counters(log, text)
    return len(found)


def check_against_counters(log, text):
    """What was made of the trace is what Darshan itself counted of those files."""
    traced = set(text.modules["POSIX"].records["id"].tolist())
    theirs = log.modules["POSIX"].records
    theirs = theirs[np.isin(theirs["id"], list(traced))]
    mine = text.modules["POSIX"].records
    for counter in ("POSIX_READS", "POSIX_WRITES", "POSIX_BYTES_READ", "POSIX_BYTES_WRITTEN", "POSIX_SIZE_WRITE_0_100",
                    "POSIX_SIZE_READ_1K_10K", "POSIX_SIZE_WRITE_1M_4M"):  # fmt: skip
        if mine[counter].sum() != theirs[counter].sum():
            # Darshan counts a shared file after the ranks have traced it: reads at shutdown are in one alone.
            assert abs(int(mine[counter].sum()) - int(theirs[counter].sum())) <= 0.02 * theirs[counter].sum()


def test_records():
    assert check_records(logs()) >= 8


def test_sums():
    assert check_sums(logs()) >= 8


def test_traces():
    assert check_traces(logs()) >= 1


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize(("check", "least"), [(check_records, 60), (check_sums, 60), (check_traces, 10)])
def test_shared_logs(shared_data, check, least):
    paths = sorted((shared_data / "darshan").rglob("*.darshan"))
    paths = [path for path in paths if path.stat().st_size < 200_000 and not {"v1", "v2", "fork"} & set(path.parts)]
    # Of big-endian logs with POSIX before version 4 the library prints garbage for three counters.
    logs = {path: read_log(path) for path in paths}
    whole = [path for path, log in logs.items() if log.byte_order == "little" and not log.partial_modules]
    assert check(whole) >= least

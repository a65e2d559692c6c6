"""The text of darshan-parser: the same rows as the log it was made of."""

from __future__ import annotations

import pytest

from darshan_logs import LogParts, record
from ioweather.core.errors import CorruptInput, TruncatedInput, UnsupportedVersion
from ioweather.derive.jobs.job_io import job_io
from ioweather.sources.darshan.log import read_log
from ioweather.sources.darshan.rows import DARSHAN, rows_of_logs


def parser_text(log) -> str:
    """As darshan-parser 3.4 prints a log."""
    job = log.job
    lines = [
        f"# darshan log version: {log.version}", "# compression method: ZLIB", f"# exe: {job.exe}", f"# uid: {job.uid}",
        f"# jobid: {job.job_id}", f"# start_time: {job.start_ns // 10**9}", "# start_time_asci: Sun Sep 13 12:26:40",
        f"# end_time: {job.end_ns // 10**9}", f"# nprocs: {job.nprocs}", f"# run time: {job.run_seconds:.4f}",
        *(f"# metadata: {key} = {value}" for key, value in job.metadata.items()), "",
        "# log file regions", "# -------------------------------------------------------",
        "# header: 1328 bytes (uncompressed)",
        *(f"# {name} module: 186 bytes (compressed), ver={module.version}" for name, module in log.modules.items()),
        *(f"# mount entry:\t{path}\t{kind}" for path, kind in job.mounts), "",
        "#<module>\t<rank>\t<record id>\t<counter>\t<value>\t<file name>\t<mount pt>\t<fs type>",
    ]  # fmt: skip
    for name, module in log.modules.items():
        for row in module.records:
            for counter in module.records.dtype.names[2:]:
                value = f"{row[counter]:f}" if "_F_" in counter else str(row[counter])
                shown = log.names[int(row["id"])]
                lines.append(f"{name}\t{row['rank']}\t{row['id']}\t{counter}\t{value}\t{shown}\t/scratch\tlustre")
    return "\n".join(lines) + "\n"


@pytest.fixture
def log():
    streams = [record("<", 11, -1, 69, 17) + record("<", 12, 3, 69, 17)]
    return read_log(LogParts(modules=[("POSIX", 4, streams), ("STDIO", 2, [record("<", 12, 0, 14, 15)])]).build())


def test_the_rows_are_those_of_the_log(tmp_path, log):
    path = tmp_path / "job.txt"
    path.write_text(parser_text(log))
    assert DARSHAN.detect(path.read_bytes(), path) == 0.95
    pasted = read_log(path)
    assert (pasted.job.exe, pasted.job.mounts, pasted.job.metadata) == (log.job.exe, log.job.mounts, log.job.metadata)
    for name, module in log.modules.items():
        assert pasted.modules[name].records.tolist() == module.records.tolist()
    (_, mine), (_, its) = rows_of_logs([pasted]), rows_of_logs([log])
    for a, b in zip(mine.records(), its.records(), strict=True):
        moved = {name for name in a if name.endswith("_ns") or name == "log_digest"}  # the start is cut to the second
        assert {k: v for k, v in a.items() if k not in moved} == {k: v for k, v in b.items() if k not in moved}


@pytest.mark.parametrize(
    ("old", "new", "error", "reason"),
    [
        ("version: 3.41", "version: 2.06", UnsupportedVersion, "2.06"),
        ("# nprocs: 4\n", "", CorruptInput, "no nprocs"),
        ("POSIX_OPENS\t1\t", "POSIX_OPENS\tmany\t", CorruptInput, "not a number"),
        ("POSIX\t-1\t11\tPOSIX_READS\t4\t/scratch/a\t/scratch\tlustre\n", "", TruncatedInput, "POSIX_READS"),
        ("POSIX\t3\t12\t", "POSIX\t9\t12\t", CorruptInput, "ranks"),
        ("STDIO\t0\t12\tSTDIO_OPENS", "STDIO\t0\tSTDIO_OPENS", TruncatedInput, "no counter"),
    ],
)
def test_what_is_refused(log, old, new, error, reason):
    text = parser_text(log)
    assert old in text
    with pytest.raises(error, match=reason):
        read_log(text.replace(old, new).encode())


def head(log) -> str:
    return parser_text(log).split("POSIX\t")[0]


def sums_text(log, **perf) -> str:
    """As darshan-parser --total prints a log."""
    lines = [head(log)]
    for name, module in log.modules.items():
        lines.append(f"\n# {name} module data\n")
        for counter in module.records.dtype.names[2:]:
            value = module.records[counter].sum()
            lines.append(f"total_{counter}: {f'{value:f}' if '_F_' in counter else value}")
        lines += [f"# {kind}: {count} 9 9" for kind, count in perf.get("files", {}).items()]
        if "seconds" in perf:
            lines += [f"# unique files: slowest_rank_io_time: {perf['seconds'][0]:f}",
                      f"# shared files: time_by_slowest: {perf['seconds'][1]:f}"]  # fmt: skip
    return "\n".join(lines) + "\n"


TRACE = """
# ***************************************************
# DXT_POSIX module data
# ***************************************************

# DXT, file_id: 11, file_name: /scratch/a b
# DXT, rank: 2, hostname: nid001
# DXT, write_count: 2, read_count: 1
# DXT, mnt_pt: /scratch, fs_type: lustre
# DXT, Lustre stripe_size: 1048576, Lustre stripe_count: 2
# DXT, Lustre OST obdidx: 3 4
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)  [OST]
 X_POSIX       2  write        0               0         1000      1.0000      2.5000  [  3]
 X_POSIX       2  write        1            1000      2000000      3.0000      3.2500  [  3]  [  4]
 X_POSIX       2   read        0              10          100      4.0000      4.0001  [  3]
"""


def job_row(log):
    return job_io(*rows_of_logs([log])).records()[0]


def test_sums_are_one_record_of_all_files(log):
    text = read_log(sums_text(log).encode())
    assert (text.form, text.names, list(text.modules)) == ("totals", {}, ["POSIX", "STDIO"])
    assert text.modules["POSIX"].records["id"].tolist() == [0]
    row, whole = job_row(text), job_row(log)
    for known in ("read_count", "fs_write_bytes", "seek_count", "sequential_count", "write_seconds"):
        assert row[known] == whole[known], known
    unknown = ("file_count", "unique_file_count", "shared_write_bytes", "io_seconds", "bytes_per_s", "io_rank_count",
               "rank0_bytes", "main_mount", "files_per_process", "d_f_w_seconds")  # fmt: skip
    assert {name: row[name] for name in unknown} == dict.fromkeys(unknown)
    assert row["partial"]


def test_file_counts_and_speeds_of_sums(log):
    kinds = {"total": 5, "read_only": 1, "write_only": 3, "read_write": 0, "unique": 4, "shared": 1}
    row = job_row(read_log(sums_text(log, files=kinds, seconds=(1.5, 2.0)).encode()))
    assert (row["file_count"], row["write_only_file_count"], row["unique_file_count"]) == (10, 6, 8)
    assert row["shared_file_count"] is None  # by some or by all: one number
    assert row["io_seconds"] == pytest.approx(2 * 3.5)
    assert row["bytes_per_s"] == pytest.approx((row["read_bytes"] + row["write_bytes"]) / 7.0)


def test_records_count_where_sums_stand_beside_them(log):
    """--all prints both."""
    both = parser_text(log) + sums_text(log, seconds=(1.0, 1.0)).split("\n\n")[-1]
    both += "# POSIX module data\n12345\t/a/path\t4\t0.1\t0.2\n"  # and --file-list
    pasted = read_log(both.encode())
    assert pasted.form == "text"
    assert job_row(pasted)["read_bytes"] == job_row(log)["read_bytes"]


def test_a_trace_gives_what_follows_from_operations(log):
    text = read_log((head(log) + TRACE).encode())
    assert text.form == "trace"
    (segments,) = (text.modules["DXT_POSIX"].segments,)
    assert segments["length"].tolist() == [1000, 2000000, 100]
    assert segments["offset"].tolist() == [0, 1000, 10]
    (_, files) = rows_of_logs([text])
    (row,) = files.records()
    known = {"path": "/scratch/a b", "mount": "/scratch", "rank": 2, "read_count": 1, "write_count": 2,
             "read_bytes": 100, "write_bytes": 2001000, "write_extent_bytes": 2001000, "read_0_100_count": 1,
             "write_100_1k_count": 1, "write_1m_4m_count": 1, "write_seconds": 1.75, "max_write_seconds": 1.5,
             "open_count": None, "seek_count": None, "sequential_read_count": None}  # fmt: skip
    assert {name: row[name] for name in known} == pytest.approx(known, nan_ok=True)
    assert row["meta_seconds"] is None
    assert row["first_write_ns"] == log.job.start_ns // 10**9 * 10**9 + 10**9
    assert read_log((head(log) + TRACE).encode(), modules=["POSIX"]).skipped_modules == ("DXT_POSIX",)


@pytest.mark.parametrize(
    ("old", "new", "error", "reason"),
    [
        (" X_POSIX       2   read", "# cut", TruncatedInput, "2 of 3 operations"),
        ("1.0000      2.5000", "1.0000      soon", CorruptInput, "no operation"),
        ("X_POSIX       2  write        1", "X_POSIX       1  write        1", CorruptInput, "no operation"),
        ("X_POSIX       2   read", "X_MPIIO       2   read", CorruptInput, "lines before"),
        ("rank: 2,", "rank: 9,", CorruptInput, "no operation"),
        ("# DXT, file_id: 11, file_name: /scratch/a b\n", "", TruncatedInput, "before the file"),
        (TRACE[TRACE.index("# DXT, ") :], "", TruncatedInput, "no operation"),
    ],
)
def test_traces_that_are_refused(log, old, new, error, reason):
    assert old in TRACE
    text = head(log).replace("# POSIX module:", "# DXT_POSIX module: 9 bytes, ver=1\n# POSIX module:")
    with pytest.raises(error, match=reason):
        read_log((text + TRACE.replace(old, new)).encode())


@pytest.mark.parametrize(
    ("old", "new", "error", "reason"),
    [
        ("total_POSIX_READS: ", "total_POSIX_READS: x", CorruptInput, "not a number"),
        ("total_POSIX_READS: ", "# ", TruncatedInput, "lack POSIX_READS"),
        ("total_", "# ", TruncatedInput, "file counts or speeds"),
    ],
)
def test_sums_that_are_refused(log, old, new, error, reason):
    text = sums_text(log, seconds=(1.0, 2.0))
    with pytest.raises(error, match=reason) as refused:
        read_log(text.replace(old, new).encode())
    assert error is not TruncatedInput or "darshan-parser" in refused.value.hint


def test_noise_before_the_first_line(tmp_path, log):
    noise = "ERROR: ld.so: object 'x.so' from LD_PRELOAD cannot be preloaded: ignored.\n$ darshan-parser job.darshan\n"
    path = tmp_path / "pasted.txt"
    path.write_bytes((noise + parser_text(log)).replace("\n", "\r\n").encode())
    assert DARSHAN.detect(path.read_bytes(), path) == 0.95
    assert job_row(read_log(path))["write_bytes"] == job_row(log)["write_bytes"]

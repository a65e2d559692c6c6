"""The text of darshan-parser: the same rows as the log it was made of."""

from __future__ import annotations

import pytest

from darshan_logs import LogParts, record
from ioweather.core.errors import SourceError
from ioweather.facts.job_metrics import job_io
from ioweather.readers.darshan.darshan_reader import DARSHAN, read_log, rows_of_logs
from ioweather.ui.cli.main import run


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
    ("old", "new", "kind", "reason"),
    [
        ("version: 3.41", "version: 2.06", "UnsupportedVersion", "2.06"),
        ("# nprocs: 4\n", "", "CorruptInput", "'nprocs'"),
        ("POSIX_OPENS\t1\t", "POSIX_OPENS\tmany\t", "CorruptInput", "not a number"),
        ("POSIX\t-1\t11\tPOSIX_READS\t4\t/scratch/a\t/scratch\tlustre\n", "", "TruncatedInput", "POSIX_READS"),
        ("POSIX\t3\t12\t", "POSIX\t9\t12\t", "CorruptInput", "ranks"),
        ("STDIO\t0\t12\tSTDIO_OPENS", "STDIO\t0\tSTDIO_OPENS", "TruncatedInput", "not a record of darshan-parser"),
    ],
)
def test_damaged_text_is_refused(log, old, new, kind, reason):
    text = parser_text(log)
    assert old in text
    with pytest.raises(SourceError, match=reason) as refused:
        read_log(text.replace(old, new).encode())
    assert refused.value.kind == kind


def job_row(log):
    return job_io(*rows_of_logs([log])).records()[0]


def test_records_count_beside_sums(log):
    """--all prints both."""
    both = parser_text(log) + "# POSIX module data\ntotal_POSIX_OPENS: 4\n# total: 5 9 9\n# total_bytes: 9\n"
    both += "# POSIX module data\n12345\t/a/path\t4\t0.1\t0.2\n"  # and --file-list
    pasted = read_log(both.encode())
    assert pasted.form == "text"
    assert job_row(pasted)["read_bytes"] == job_row(log)["read_bytes"]


@pytest.mark.parametrize(
    "body",
    [
        "# DXT, file_id: 11, file_name: /a\n X_POSIX       2  write        0               0         1000\n",
        "# POSIX module data\ntotal_POSIX_OPENS: 4\n",
        "# POSIX module data\n# total: 5 9 9\n# unique: 4 9 9\n",
        "# POSIX module data\n# performance\n# total_bytes: 9\n",
    ],
)
def test_text_without_records_is_refused_with_the_command(log, tmp_path, capsys, body):
    (tmp_path / "job.txt").write_text(parser_text(log).split("POSIX\t")[0] + body)
    assert run(["ingest", "--lake", str(tmp_path / "lake"), str(tmp_path / "job.txt"), "--csv"]) == 1
    assert "darshan-parser JOB.darshan > job.txt" in capsys.readouterr().out


def test_noise_before_the_first_line(tmp_path, log):
    noise = "ERROR: ld.so: object 'x.so' from LD_PRELOAD cannot be preloaded: ignored.\n$ darshan-parser job.darshan\n"
    path = tmp_path / "pasted.txt"
    path.write_bytes((noise + parser_text(log)).replace("\n", "\r\n").encode())
    assert DARSHAN.detect(path.read_bytes(), path) == 0.95
    assert job_row(read_log(path))["write_bytes"] == job_row(log)["write_bytes"]

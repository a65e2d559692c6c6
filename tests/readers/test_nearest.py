"""A file that is refused is called what it is, with the command that makes a readable one."""

from __future__ import annotations

import gzip
import io
import tarfile

import pytest

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import SourceError
from ioweather.ingestion.reading import FileOutcome, Reading, choose_source, read_file
from ioweather.readers.reader_catalogue import nearest

NOISE = "ERROR: ld.so: object '/opt/lib/libdarshan.so' from LD_PRELOAD cannot be preloaded: ignored.\n"
SAR = """Linux 6.1.0 (oss1) \t11/15/26 \t_x86_64_\t(2 CPU)

23:59:00          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util
23:59:30          sda     10.00    100.00    200.00      0.00     30.00      0.41      0.66     24.00
"""


@pytest.mark.parametrize(
    ("text", "what", "remedy"),
    [
        ("####\n# Collectl:   V4.3.1\n>>> 1794726355.242 <<<\ncpu 1 2 3\n", "raw file of collectl", "collectl -p"),
        (
            "JobID           JobName  Partition\n------------ ---------- ----------\n",
            "cut to their width",
            "sacct -a -P",
        ),
        ("             JOBID PARTITION     NAME\n", "not accounting", "sacct -a -P"),
        ("==============\nqname        all.q\nhostname     n1\n", "qacct", "common/accounting"),
        ("#\n# LMT2\n#\ncreate table OST_INFO (\n", "text of a database", "mysql://"),
        ("# DXT, file_id: 11, file_name: /a\n", "trace of darshan-dxt-parser", "darshan-parser JOB"),
        ("total_POSIX_OPENS: 4\n", "sums of darshan-parser", "darshan-parser JOB"),
        ("procs -----------memory---------- ---swap--\n", "vmstat", "iostat -xtky"),
        ("Linux 6.1.0 (n1) \t11/15/26\n\n10:00:00  kbmemfree\n", "text of sar", "sadf -j FILE -- -d -b -u > file.json"),
        (SAR, "text of sar", "sadf -j FILE -- -d -b -u > file.json"),
    ],
)
def test_what_it_is_and_what_to_run(tmp_path, text, what, remedy):
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(SourceError, match=what) as refused:
        choose_source(text.encode(), path)
    assert remedy in str(refused.value)
    packed = gzip.compress(text.encode())
    assert nearest(packed) == nearest(text.encode())


def test_archives(tmp_path):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("a"))
    assert nearest(packed.getvalue()) == ("a tar archive", "unpack it, then ingest its folder")
    assert nearest(b"some text\n") is None


def test_thousands_of_warnings_before_the_file_begins(tmp_path):
    """A line each of 4,000 processes: far beyond what is looked at."""
    path = tmp_path / "jobs.txt"
    path.write_text(NOISE * 4000 + "JobID|State|Submit|Start|End\n7|COMPLETED|100|101|110\n8|COMPLETED|100|101|x\n")
    *_, outcome = read_file(path, path.stat().st_size, Reading(ReadContext()))
    assert isinstance(outcome, FileOutcome)
    assert (outcome.source, outcome.status, dict(outcome.rows)) == ("sacct", "partial", {"jobs": 1})
    assert "line 4003" in (outcome.message or "")

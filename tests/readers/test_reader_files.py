"""A module registers its readers by constants, which are found without importing it."""

from __future__ import annotations

import gzip
import importlib
import io
import pkgutil
import tarfile
from pathlib import Path

import pytest

import ioweather.readers
from ioweather.core.contracts import Source
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.ingestion.reading import choose_source
from ioweather.readers.reader_catalogue import SOURCES, FileReader, nearest, registered_readers
from ioweather.readers.text_files import numbered_lines, plain_head, text_blocks


def test_every_reader_of_every_module_is_registered_under_its_name() -> None:
    found: dict[str, Source] = {}
    for module in pkgutil.walk_packages(ioweather.readers.__path__, "ioweather.readers."):
        constants = vars(importlib.import_module(module.name)).values()
        found |= {value.name: value for value in constants if isinstance(value, FileReader)}
    assert {name: SOURCES[name] for name in SOURCES if SOURCES.is_ours(name)} == found


def test_a_new_module_needs_no_other_file(tmp_path) -> None:
    (tmp_path / "fsmon").mkdir()
    (tmp_path / "fsmon/fsmon_log.py").write_text('FSMON = FileReader(\n    "fsmon",\n    "Lines of fsmon",\n)\n')
    (tmp_path / "short.py").write_text('X2 = OwnReader("x2", "Files of x2", ("series",), detect, read)\n')
    expected = {"fsmon": "package.fsmon.fsmon_log:FSMON", "x2": "package.short:X2"}
    assert registered_readers(tmp_path, "package") == expected


NOISE = "ERROR: ld.so: object '/opt/lib/libdarshan.so' from LD_PRELOAD cannot be preloaded: ignored.\n"
SAR = """Linux 6.1.0 (oss1) \t11/15/26 \t_x86_64_\t(2 CPU)

23:59:00          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util
23:59:30          sda     10.00    100.00    200.00      0.00     30.00      0.41      0.66     24.00
"""


@pytest.mark.parametrize(
    ("text", "what", "remedy"),
    [
        ("####\n# Collectl:   V4.3.1\n>>> 1794726355.242 <<<\ncpu 1 2 3\n", "raw collectl file", "collectl -p"),
        (
            "JobID           JobName  Partition\n------------ ---------- ----------\n",
            "truncated columns",
            "sacct -a -P",
        ),
        ("             JOBID PARTITION     NAME\n", "not accounting", "sacct -a -P"),
        ("==============\nqname        all.q\nhostname     n1\n", "qacct", "common/accounting"),
        ("#\n# LMT2\n#\ncreate table OST_INFO (\n", "database text dump", "SQLite copy"),
        ("# DXT, file_id: 11, file_name: /a\n", "darshan-dxt-parser trace", "darshan-parser JOB"),
        ("total_POSIX_OPENS: 4\n", "darshan-parser sums", "darshan-parser JOB"),
        ("procs -----------memory---------- ---swap--\n", "vmstat", "iostat -xtky"),
        (
            "Linux 6.1.0 (n1) \t11/15/26\n\n10:00:00  kbmemfree\n",
            "text output of sar",
            "sadf -j FILE -- -d -b -u > file.json",
        ),
        (SAR, "text output of sar", "sadf -j FILE -- -d -b -u > file.json"),
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
    assert nearest(packed.getvalue()) == ("a tar archive", "unpack it and ingest its folder")
    assert nearest(b"some text\n") is None


def test_what_a_cut_gzip_file_still_holds(tmp_path: Path) -> None:
    text = "".join(f"line {i} {i * 7919 % 10007}\n" for i in range(20_000))
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(text.encode())[:-2000])
    found = "".join(text_blocks(path))
    assert text.startswith(found)
    assert len(found) > len(text) // 2


def test_damage_and_endless_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + b"\xff" * 100)
    with pytest.raises(CorruptInput, match="cannot unzip"):
        list(numbered_lines(path))
    monkeypatch.setattr("ioweather.readers.text_files._LONGEST_LINE", 1000)
    path.write_bytes(b"\n" + b"x" * 2000)
    with pytest.raises(CorruptInput, match="line 2"):
        list(numbered_lines(path))


def test_heads_never_fail() -> None:
    assert plain_head(b"\xff\xfeabc") == "\ufffd\ufffdabc"
    assert plain_head(gzip.compress(b"hello\n" * 100)[:40]).startswith("hello")
    assert plain_head(b"\x1f\x8bnonsense") == ""
    assert plain_head(b"") == ""


def test_what_unzips_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"\n" * (90 << 20)))
    with pytest.raises(CorruptInput, match="100 times its size"):
        for _ in text_blocks(path):
            pass

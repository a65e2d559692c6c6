"""What mutations found, each once and as small as it gets: refused with a reason, or read as if it were not there."""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from fuzz_seeds import SEEDS, T0, reader_of, seeds_of
from fuzzing import absurd, distinct, put, run_source, share_of

from ioweather.core.contracts import ReadContext
from ioweather.ingestion.ledger import FileOutcome
from ioweather.ingestion.reading import Reading, read_batch, read_file
from ioweather.readers.reader_catalogue import SOURCES

CONTEXT = ReadContext(zone=ZoneInfo("UTC"), start_ns=T0 * 10**9, host="h", system="fs", keep_raw=True)
LONG = b"9" * 5000
DEEP = b"[" * 100_000

# Source, number of its seed, what is replaced, by what (once), and the reason of the refusal; None where it is read.
TEXTS: list[tuple[str, int, bytes, bytes, str | None]] = [
    ("diskstats", 2, b"2024-03-09T16:00:01Z", b"9999-03-09T16:00:01Z", "corrupt_input"),
    ("collectl", 3, b",[CPU]Wait%", b",,[CPU]Wait%", "corrupt_input"),
    ("collectl", 1, b"20240309 16:00:20", b"29990309 16:00:20", "corrupt_input"),
    ("find", 1, b" 2049 90 ", b" 2049 99999999999999999999 ", "impossible_rows"),
    ("find", 2, b"\0", b"\0" * 200_000, "corrupt_input"),
    ("find", 0, b"512 1 ", b"512 999999999999999999 ", "impossible_rows"),
    ("ior", 0, b"access    bw(MiB/s)", b"access   xbw(MiB/s)", "truncated_input"),
    ("ior", 1, b": 64 MiB", b": 1e308 MiB", None),
    ("iostat", 3, b'"r/s": 0.0', b'"r/s": ' + LONG, "truncated_input"),
    ("iostat", 3, b'"r/s": 0.0', b'"r/s": 1' + b"0" * 400, "corrupt_input"),
    ("iostat", 3, b'"nodename": "oss1"', b'"nodename": "\\ud800"', None),
    ("iostat", 3, b'"disk_device": "sda"', b'"disk_device": "\\ud800"', "corrupt_input"),
    ("spool", 0, b'"component": "sda"', b'"component": "\\ud800"', "corrupt_input"),
    ("lustre", 0, b" 0 samples [bytes] 1 1048576 0", b" 0 samples [bytes] 1 1048576 " + LONG, "corrupt_input"),
    ("lustre", 0, b"kbytestotal=123456", b"kbytestotal=" + LONG, "corrupt_input"),
    ("lustre", 0, b"kbytestotal=123456", "kbytestotal=²".encode(), "corrupt_input"),
    ("lustre", 1, b"1710000060.", b"9999999999.", "corrupt_input"),
    ("lustre", 1, b"1710000060.", LONG + b".", "corrupt_input"),
    ("mdtest", 0, b"on 1 node(s)", b"on " + LONG + b" node(s)", None),
    ("mdtest", 0, b"(of 1 iterations)", b"(of " + LONG + b" iterations)", None),
    ("io500", 0, b"procs           =", b"procs" + b" " * 200_000 + b"x =", None),
    ("io500", 0, b"procs           = 640", b"procs           = \xc2\xb2", None),
    ("sacct", 0, b"\n7|7|", b"\n" + LONG + b"|7|", "corrupt_input"),
    ("sacct", 0, b"|2|8|n[1-2]", b"|" + LONG + b"|8|n[1-2]", None),
    ("sacct", 0, b"|2|8|n[1-2]", "|²|8|n[1-2]".encode(), None),
    ("sacct", 3, b"1710000000", b"99999999999", "corrupt_input"),
    ("sacct", 0, b"2024-03-09T16:27:47", b"9999-12-31T23:59:59", "corrupt_input"),
    ("sacct", 4, b'"jobs": [', b'"jobs": ' + DEEP, "corrupt_input"),
    ("sacct", 4, b'"account": "climate"', b'"account": {"number": 5}', "corrupt_input"),
    ("sacct", 4, b'"count": 64', b'"count": 1e999', "corrupt_input"),
    ("sacct", 4, b'"job_id": 7', b'"job_id": 9223372036854775808', "corrupt_input"),
    ("sacct", 4, b'"submission": 1710000000', b'"submission": 99999999999', "corrupt_input"),
    ("sacct", 4, b'"current": "FAILED"', b'"current": []', "corrupt_input"),
    ("sadf", 0, b"vm;60;", "vm;²;".encode(), "corrupt_input"),
    ("sadf", 3, b"vm\t60\t", "vm\t²\t".encode(), "corrupt_input"),
    ("spool", 0, b'"value": 512.5', b'"value": 1' + b"0" * 400, "corrupt_input"),
    ("spool", 0, b'"value": 512.5', b'"value": ' + DEEP, "corrupt_input"),
]


def outcome_of(path: Path, source: str | None, select: Any = None) -> FileOutcome:
    *_, outcome = read_file(path, path.stat().st_size, Reading(CONTEXT, source=source, select=select))
    assert isinstance(outcome, FileOutcome)
    return outcome


@pytest.mark.parametrize(("source", "number", "before", "after", "reason"), TEXTS)
def test_texts(source: str, number: int, before: bytes, after: bytes, reason: str | None, tmp_path: Path) -> None:
    seed = seeds_of(source)[number]
    assert isinstance(seed.data, bytes)
    assert before in seed.data
    outcome = outcome_of(put(tmp_path, seed, seed.data.replace(before, after, 1)), source)
    assert outcome.reason == reason, outcome.message


READ, WRITTEN = "OSTReadGroup/OSTBulkReadDataSet", "OSTWriteGroup/OSTBulkWriteDataSet"


def test_a_job_that_did_more_than_64_bits_hold(tmp_path: Path) -> None:
    line = 'lustre_job_write_bytes_total{{component="ost",jobid="7",target="fs-OST0001"}} {} {}000\n'
    path = tmp_path / "metrics.prom"
    path.write_text(line.format(1, 1_710_000_000) + line.format("9" * 30, 1_710_000_010))
    assert outcome_of(path, "prometheus").reason == "corrupt_input"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE OSS_DATA SET PCT_CPU = 'x'",
        "UPDATE OST_DATA SET READ_BYTES = 1e999",
        "UPDATE OST_INFO SET OST_ID = 'x'",
        "UPDATE OST_INFO SET OST_ID = NULL",
        "INSERT INTO TIMESTAMP_INFO VALUES (NULL, '2018-01-28 00:00:00')",
    ],
)
def test_databases(change: str, tmp_path: Path) -> None:
    seed = seeds_of("lmt")[0]
    path = put(tmp_path, seed, seed.data)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(change)
    connection.close()
    assert outcome_of(path, "lmt").reason == "corrupt_input"


CONTEXT_FUZZ_SOURCES = ReadContext(zone=ZoneInfo("UTC"), start_ns=T0 * 10**9, interval_ns=10**9, host="h", system="fs")


def test_every_source_is_attacked() -> None:
    """By damaged seeds, or by `check_source` in the test of its own."""
    assert set(SEEDS) - {*SOURCES} == {"darshan_text", "mapped_csv", "mapped_parquet"}
    tests = "".join(file.read_text(encoding="utf-8") for file in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name in SOURCES if name not in SEEDS and f"check_source({name.upper()}," not in tests] == []


@pytest.mark.parametrize("source", SEEDS)
def test_seeds_are_good(source: str, tmp_path: Path) -> None:
    for seed in seeds_of(source):
        path = put(tmp_path, seed, seed.data)
        (outcome,), frames = read_batch([(path, 1)], Reading(CONTEXT_FUZZ_SOURCES, select=seed.select))
        assert (outcome.status, outcome.message) == ("ok", None)
        assert outcome.source == reader_of(source)
        assert [absurd(table, frame) for (_, table), pieces in frames.items() for frame in pieces if frame.rows] == [
            None for (_, _), pieces in frames.items() for frame in pieces if frame.rows
        ]


SEED = os.environ.get("IOWEATHER_FUZZ_SEED") or dt.datetime.now(dt.UTC).date().isoformat()
COUNT = int(os.environ.get("IOWEATHER_FUZZ_COUNT") or 80_000)  # 60,000 of files made here


def check(source: str, count: int, sample_data: Path | None) -> None:
    done = run_source(source, SEED, count, sample_data)
    assert not done.failures, "".join(distinct(done.failures))
    assert done.counted == count


@pytest.mark.slow
@pytest.mark.parametrize("source", SEEDS)
def test_no_mutation_fails(source: str) -> None:
    check(source, share_of(source, COUNT * 3 // 4), None)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("source", SEEDS)
def test_no_mutation_of_real_files_fails(source: str, shared_data: Path) -> None:
    check(source, share_of(source, COUNT // 4), shared_data)

"""Figures of ranks, as IOR and mdtest write them: the whole is what the ranks add up to."""

from __future__ import annotations

import json

import pytest

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, TruncatedInput
from ioweather.readers.ior import RANK_DETAILS

HEAD = "access,rank,runtime-with-openclose,runtime,throughput-withopenclose,throughput\n"
MDTEST = (
    "rank,items,rate-Directory creation,time-Directory creation,rate-File creation,time-File creation,"
    "rate-File removal,time-File removal\n"
    "all,100,,,2.0000000000e+03,5.0000000000e-01,1.0000000000e+03,1.0000000000e+00\n"
    "0,,,,1.1000000000e+03,4.5454545455e-01,,\n1,,,,9.0000000000e+02,5.0000000000e-01,,\n"
)


def ior(ranks=4, access="write", head=HEAD):
    """Each rank moved 800 bytes, rank i in 10 + i seconds."""
    lines = (
        f"{access},{i},{10 + i:.10e},{9 + i:.10e},{800 / (10 + i):.10e},{800 / (9 + i):.10e}\n" for i in range(ranks)
    )
    return head + "".join(lines)


def read(path):
    assert RANK_DETAILS.detect(path.read_bytes(), path) > 0.5
    return [
        row
        for table, frame in RANK_DETAILS.read(path, ReadContext())
        if table == "benchmarks"
        for row in frame.records()
    ]


@pytest.mark.parametrize("head", [HEAD, ""])
def test_ior(tmp_path, head):
    path = tmp_path / "ior-easy-write.csv"
    path.write_text(ior(head=head))
    (row,) = read(path)
    assert (row["phase"], row["operation"]) == ("ior-easy-write/ranks", "write")
    assert row["bytes_per_s"] == pytest.approx(4 * 800 / 13)
    details = json.loads(row["parameters"])
    assert (details["ranks"], details["fastest_rank_seconds"]) == (4, 10.0)


def test_mdtest(tmp_path):
    path = tmp_path / "mdtest-hard-write.csv"
    path.write_text(MDTEST)
    rows = read(path)
    assert [(row["phase"], row["operation"], row["ops_per_s"]) for row in rows] == [
        ("mdtest-hard-write/File creation", "create", 2000.0), ("mdtest-hard-write/File removal", "delete", 1000.0),
    ]  # fmt: skip


def test_cut_and_wrong(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(ior(4)[:-20])
    pieces = RANK_DETAILS.read(path, ReadContext())
    assert next(pieces)[0] == "benchmarks"
    with pytest.raises(TruncatedInput):
        list(pieces)
    path.write_text(HEAD + "write,0,1,2\n")
    with pytest.raises(CorruptInput):
        list(RANK_DETAILS.read(path, ReadContext()))
    path.write_text(HEAD)
    with pytest.raises(TruncatedInput):
        list(RANK_DETAILS.read(path, ReadContext()))

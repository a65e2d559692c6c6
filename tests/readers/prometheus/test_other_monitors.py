"""Line protocol of telegraf: counters and states as they were planted."""

from __future__ import annotations

import pytest

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, UndatedInput
from ioweather.core.units import NS
from ioweather.readers.prometheus.exposition import TELEGRAF

T0 = 1_710_000_000


def read(source, path, **context):
    assert source.detect(path.read_bytes()[: 64 << 10], path) > 0.5
    rows = [row for _, frame in source.read(path, ReadContext(**context)) for row in frame.records()]
    return sorted(rows, key=lambda row: (row.get("metric") or "", row["start_ns"]))


@pytest.mark.parametrize("digits", ["", "000", "000000", "000000000"])
def test_line_protocol(tmp_path, digits):
    path = tmp_path / "metrics.out"
    path.write_text(
        "".join(
            f"diskio,host=oss\\ 1,name=sda,serial=a\\,b read_bytes={100 * i}i,reads={i}u,io_time={500 * i}i,"
            f'x="a, b=c",y=true {T0 + 10 * i}{digits}\n# comment\n'
            for i in range(3)
        )
    )
    rows = read(TELEGRAF, path)
    assert {(r["system"], r["component"]) for r in rows} == {("oss 1:sda", "sda")}
    assert [(r["metric"], r["value"]) for r in rows] == [
        ("busy_ratio", 0.05), ("busy_ratio", 0.05), ("read_bytes", 100.0), ("read_bytes", 100.0), ("read_ops", 1.0),
        ("read_ops", 1.0),
    ]  # fmt: skip
    assert (rows[2]["start_ns"], rows[2]["interval_ns"]) == (T0 * NS, 10 * NS)


def test_line_protocol_that_is_none(tmp_path):
    path = tmp_path / "a"
    path.write_text("diskio,name=sda reads=1i 1710000000\nthis is not one\n")
    with pytest.raises(CorruptInput, match="line 2"):
        list(TELEGRAF.read(path, ReadContext(host="n")))
    path.write_text("diskio,name=sda reads=1i\n")
    with pytest.raises(UndatedInput):
        list(TELEGRAF.read(path, ReadContext()))
    path.write_text("weather,place=x temperature=1 1710000000\n")
    with pytest.raises(EmptyInput, match="no mapping"):
        list(TELEGRAF.read(path, ReadContext()))
    for text in (b"a b\n", b"hello world 5\n", b'a{b="c"} 1\n', b"1 2 3\n"):
        assert TELEGRAF.detect(text, path) == 0.0


def test_telegraf_counts_what_a_job_did_to_the_metadata_server(tmp_path):
    path = tmp_path / "metrics.out"
    path.write_text(
        "lustre2,host=mds1,jobid=42990218,name=wrk-MDT0000 jobstats_open=800i,jobstats_unlink=3i 1465914450000000000\n"
        "lustre2,host=mds1,jobid=42990218,name=wrk-MDT0000 jobstats_open=900i,jobstats_unlink=4i 1465914460000000000\n"
        "lustre2,host=oss2,jobid=7,name=wrk-OST0041 jobstats_ost_sync=1i,jobstats_punch=0i 1465914450000000000\n"
        "lustre2,host=oss2,jobid=7,name=wrk-OST0041 jobstats_ost_sync=6i,jobstats_punch=2i 1465914460000000000\n"
    )
    found = {(r["job_id"], r["component"], r["operation"]): r["count"] for r in read(TELEGRAF, path)}
    assert found == {
        (42990218, "wrk-MDT0000", "open"): 100, (42990218, "wrk-MDT0000", "unlink"): 1,
        (7, "wrk-OST0041", "sync"): 5, (7, "wrk-OST0041", "punch"): 2,
    }  # fmt: skip

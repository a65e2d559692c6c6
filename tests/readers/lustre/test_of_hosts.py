"""What pdsh prints of many servers: lines of several hosts among each other, each behind the name of its host."""

from __future__ import annotations

from ioweather.core.contracts import ReadContext
from ioweather.readers.lustre import LUSTRE

T0 = 1_710_000_000


def look(target: str, i: int) -> list[str]:
    return [
        f"obdfilter.{target}.job_stats=",
        "job_stats:",
        "- job_id:          4711",
        f"  snapshot_time:   {T0 + 60 * i}",
        f"  read_bytes:      {{ samples: {5 + 3 * i:11}, unit: bytes, min: 1, max: 9, sum: {1000 + 500 * i:11} }}",
        f"  write_bytes:     {{ samples: {0:11}, unit: bytes, min: 0, max: 0, sum: {0:11} }}",
        f"obdfilter.{target}.stats=",
        f"snapshot_time             {T0 + 60 * i}.0 secs.usecs",
        f"read_bytes                {5 + 3 * i} samples [bytes] 1 9 {1000 + 500 * i}",
    ]


def test_lines_of_several_hosts(tmp_path):
    first = [f"oss1: {line}" for i in range(2) for line in look("fs1-OST0000", i)]
    second = [f"oss2.site: {line}" for i in range(2) for line in look("fs1-OST0001", i)]
    mixed = [line for pair in zip(first, second, strict=True) for line in pair]
    path = tmp_path / "dump.txt"
    path.write_text("\n".join([*mixed, ""]))
    assert LUSTRE.detect(path.read_bytes(), path) > 0.9
    tables: dict[str, list[dict]] = {}
    for table, frame in LUSTRE.read(path, ReadContext()):
        tables.setdefault(table, []).extend(frame.records())
    jobs = tables["job_operations"]
    assert [(row["component"], row["job_id"], row["count"], row["bytes"]) for row in jobs] == [
        ("fs1-OST0000", 4711, 3, 500), ("fs1-OST0001", 4711, 3, 500),
    ]  # fmt: skip
    reads = {row["component"]: row["value"] for row in tables["series"] if row["metric"] == "read_bytes"}
    assert reads == {"fs1-OST0000": 500.0, "fs1-OST0001": 500.0}

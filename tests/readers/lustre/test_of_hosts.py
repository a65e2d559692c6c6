"""What pdsh prints of many servers: lines of several hosts among each other, each behind the name of its host."""

from __future__ import annotations

import pytest

from ioweather.core.contracts import ReadContext
from ioweather.readers.server_counters import LUSTRE

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
    homes = {row["component"]: row["server"] for row in tables["components"]}
    assert homes == {"fs1-OST0000": "oss1", "fs1-OST0001": "oss2.site"}


CONNECTIONS = {
    "conn.txt": (
        "osc.fs1-OST0000-osc-ffff8803ab.ost_conn_uuid=10.1.1.1@o2ib\n"
        "mdc.fs1-MDT0000-mdc-ffff8803ab.mds_conn_uuid=10.1.1.9@o2ib\n"
    ),
    "import.txt": (
        "osc.fs1-OST0000-osc-ffff8803ab.import=\nimport:\n    name: fs1-OST0000-osc-ffff8803ab\n    connection:\n"
        "       failover_nids: [10.1.1.1@o2ib, 10.1.1.2@o2ib]\n       current_connection: 10.1.1.1@o2ib\n"
        "mdc.fs1-MDT0000-mdc-ffff8803ab.import=\nimport:\n    connection:\n"
        '       current_connection: "10.1.1.9@o2ib"\n'
    ),
    "devices.txt": (
        "  0 UP mgc MGC10.1.1.9@o2ib 1fa3-uuid 5 10.1.1.9@o2ib\n"
        "  1 UP lov fs1-clilov-ffff8803ab 2ab0-uuid 4\n"
        "  3 UP mdc fs1-MDT0000-mdc-ffff8803ab01 2ab0-uuid 5 10.1.1.9@o2ib\n"
        "  4 UP osc fs1-OST0000-osc-ffff8803ab01 2ab0-uuid 5 10.1.1.1@o2ib\n"
    ),
}


@pytest.mark.parametrize("name", CONNECTIONS)
def test_a_client_knows_the_server_of_each_target(tmp_path, name):
    """From `lctl get_param '*.*.*_conn_uuid'`, `lctl get_param '*.*.import'` and `lctl dl -t`."""
    path = tmp_path / name
    path.write_text(CONNECTIONS[name])
    assert LUSTRE.detect(path.read_bytes(), path) > 0.9
    ((table, frame),) = LUSTRE.read(path, ReadContext(start_ns=T0 * 10**9))
    assert table == "components"
    assert [(row["component"], row["kind"], row["server"]) for row in frame.records()] == [
        ("fs1-MDT0000", "mdt", "10.1.1.9@o2ib"), ("fs1-OST0000", "ost", "10.1.1.1@o2ib"),
    ]  # fmt: skip

"""Lustre snapshots to rows: exact intervals, restarts, states once an hour, cut and lone files."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import EmptyInput, SourceError, TruncatedInput
from ioweather.ingestion.reading import FileOutcome, Reading, read_file
from ioweather.readers.server_counters import LUSTRE

NS = 10**9


def block(seconds: float, read: int, ost: str = "fs1-OST0000", more: str = "") -> str:
    whole, fraction = divmod(round(seconds * NS), NS)
    return (
        f"obdfilter.{ost}.stats=\nsnapshot_time             {whole}.{fraction:09} secs.nsecs\n"
        f"read_bytes                {read // 10} samples [bytes] 1 1048576 {read}\n{more}"
    )


def rows(path: Path, **context: object) -> dict[tuple[str, str, int], dict[str, object]]:
    found = {}
    for table, frame in LUSTRE.read(path, ReadContext(**context)):  # type: ignore[arg-type]
        if table != "series":
            continue
        for row in frame.records():
            key = (row["component"], row["metric"], row["start_ns"])
            assert key not in found
            found[key] = row
    return found


def test_amounts_in_the_exact_interval_between_snapshots(tmp_path: Path):
    path = tmp_path / "stats.txt"
    path.write_text(block(1000.25, 100) + block(1060.75, 400) + block(1121.5, 400))
    found = rows(path)
    first = found["fs1-OST0000", "read_bytes", 1000_250_000_000]
    assert (first["value"], first["interval_ns"], first["quality"]) == (300.0, 60_500_000_000, 0)
    assert (first["system"], first["component_kind"]) == ("fs1", "ost")
    assert found["fs1-OST0000", "read_ops", 1000_250_000_000]["value"] == 30.0
    assert found["fs1-OST0000", "read_bytes", 1060_750_000_000]["value"] == 0.0
    assert found["fs1-OST0000", "write_bytes", 1060_750_000_000]["value"] == 0.0  # no line: zero, not missing


def test_states_once_an_hour(tmp_path: Path):
    path = tmp_path / "stats.txt"
    states = "".join(f"obdfilter.fs1-OST0000.{name}\n" for name in ("kbytestotal=8", "kbytesfree={}", "num_exports=3"))
    path.write_text("".join(block(3600 + 30 * i, 10 * i) + states.format(i) for i in range(200)))
    found = rows(path)
    free = {start: row["value"] for (_, metric, start), row in found.items() if metric == "free_bytes"}
    assert free == {3600 * NS: 0.0, 7200 * NS: 120 * 1024.0}
    clients = found["fs1-OST0000", "client_count", 3600 * NS]
    assert (clients["value"], clients["interval_ns"]) == (3.0, 60 * NS)


def test_a_file_that_is_cut_or_growing(tmp_path: Path):
    """Cut at any character: what it gives is what the whole file gives, only less."""
    counts = "sync                      {} samples [reqs]\n"
    whole = "".join(block(1000 + 60 * i, 100 + 70 * i * i, more=counts.format(i + 1)) for i in range(4))
    path = tmp_path / "stats.txt"
    path.write_text(whole)
    expected = rows(path)
    assert len(expected) == 3 * 5
    for cut in range(2 * len(whole) // 4, len(whole)):
        path.write_text(whole[:cut])
        try:
            found = rows(path)
        except (EmptyInput, TruncatedInput):
            assert cut < 3 * len(whole) // 4
            continue
        assert all(expected[key] == row for key, row in found.items())


def test_one_snapshot_alone(tmp_path: Path):
    path = tmp_path / "stats.txt"
    path.write_text(block(1000, 100))
    with pytest.raises(EmptyInput, match="at least two"):
        rows(path)
    path.write_text("")
    with pytest.raises(EmptyInput):
        rows(path)
    lone = tmp_path / "stats"
    lone.write_text("snapshot_time 1000.0 secs.usecs\nread_bytes 1 samples [bytes] 1 1 1\n")
    assert 0 < LUSTRE.detect(lone.read_bytes(), lone) < 0.5
    with pytest.raises(SourceError, match="one snapshot of one target"):
        rows(lone)


WHOLE = """memused=242840621
health_check=healthy
mdt.fs1-MDT0000.exports.0@lo.uuid=
fs1-MDT0000-lwp-OST0000_UUID
osd-ldiskfs.fs1-OST0000.filesfree=39844
osd-ldiskfs.fs1-OST0000.kbytestotal=4108388
osd-ldiskfs.MGS.kbytestotal=491092
osd-ldiskfs.fs1-OST0000.brw_stats=
snapshot_time:            {t}.507700872 secs.nsecs

                           read      |     write
pages per bulk r/w     rpcs  % cum % |  rpcs        % cum %
1:\t\t         {n}   1   1   |    1  11  11
128:\t\t         0   0   1   |    2  22  33
256:\t\t         {n}   1   2   |    8  88 100

                           read      |     write
disk I/O size          ios   % cum % |  ios         % cum %
4K:\t\t        {n}   1   1   |    1   3   3

                           read      |     write
I/O time (1/1000s)     ios   % cum % |  ios         % cum %
128:\t\t         {n}   1   1   |    2  22  33
256:\t\t         {n}   1   2   |    6  66 100
mdt.fs1-MDT0000.exports.0@lo.uuid=
fs1-MDT0000-lwp-OST0000_UUID
obdfilter.fs1-OST0000.stats=
snapshot_time             {t}.508204687 secs.nsecs
read_bytes                {n} samples [bytes] 1 1048576 {n}
obdfilter.fs1-OST0000.num_exports=8
ost.OSS.ost_io.stats=
snapshot_time             {t}.508503457 secs.nsecs
req_waittime              {n} samples [usecs] 4 11382 {n}000000 467088731
ost.OSS.ost_seq.stats=snapshot_time             {t}.508587755 secs.nsecs
mdt.fs1-MDT0000.md_stats=
snapshot_time             {t}.508900000 secs.nsecs
open                      {n} samples [usecs] 1 9 {n}000000 81
ldlm.namespaces.mdt-fs1-MDT0000_UUID.lock_count=96
"""


def test_whole_dumps_with_all_there_is(tmp_path: Path):
    """Parameters come twice in one dump; states have no time; some are of no interest."""
    path = tmp_path / "dumps.txt"
    path.write_text(WHOLE.format(t=1000, n=10) + WHOLE.format(t=1060, n=15))
    found = rows(path, host="oss1")
    told = {(name, metric): row["value"] for (name, metric, _), row in found.items()}
    ost = {metric: value for (name, metric), value in told.items() if name == "fs1-OST0000"}
    assert ost["read_bytes"] == ost["read_ops"] == 5
    assert (ost["bulk_read_ops"], ost["small_bulk_read_ops"], ost["disk_read_ops"], ost["slow_disk_read_ops"]) == (
        10, 5, 5, 5,
    )  # fmt: skip
    assert (ost["bulk_write_ops"], ost["capacity_bytes"], ost["free_files"], ost["client_count"]) == (
        0, 4108388 * 1024, 39844, 8,
    )  # fmt: skip
    assert (told["oss1:ost_io", "request_ops"], told["oss1:ost_io", "request_wait_seconds"]) == (5, 5.0)
    assert (told["fs1-MDT0000", "open_ops"], told["fs1-MDT0000", "metadata_busy_seconds"]) == (5, 5.0)
    assert {row["system"] for row in found.values()} == {"fs1"}
    kinds = {row["component"]: row["component_kind"] for row in found.values()}
    assert kinds["oss1:ost_io"] == "oss"


def test_clients(tmp_path: Path):
    text = (
        "llite.fs1-ff47bce9ca35d800.stats=\nsnapshot_time {t}.0 secs.nsecs\nwrite_bytes {n} samples [bytes] 1 9 {n}00\n"
        "open {n} samples [usecs] 0 9 {n}000000 8\ninode_permission 7{n} samples [usecs] 0 1 2 3\n"
        "osc.fs1-OST0001-osc-ff47bce9ca35d800.rpc_stats=\nsnapshot_time:         {t}.0 (secs.nsecs)\n"
        "read RPCs in flight:  0\n\n\t\t\tread\t\t\twrite\n"
        "pages per rpc         rpcs   % cum % |       rpcs   % cum %\n"
        "256:\t\t         {n}   0   0   |          0   0   0\n"
        "osc.fs1-OST0001-osc-MDT0000.rpc_stats=\nsnapshot_time:         {t}.0 (secs.nsecs)\n"
    )
    path = tmp_path / "client.txt"
    path.write_text(text.format(t=1000, n=10) + text.format(t=1060, n=15))
    found = rows(path, host="node7")
    told = {(name, metric): row["value"] for (name, metric, _), row in found.items()}
    assert (told["node7", "write_bytes"], told["node7", "open_ops"], told["node7", "metadata_busy_seconds"]) == (
        500, 5, 5.0,
    )  # fmt: skip
    assert told["node7:OST0001", "bulk_read_ops"] == 5
    assert {row["component_kind"] for row in found.values()} == {"host"}
    assert {name for name, _, _ in rows(path)} == {"fs1-ff47bce9ca35d800", "fs1-ff47bce9ca35d800:OST0001"}


def outcome_of(path: Path, **context: object) -> FileOutcome:
    reading = Reading(ReadContext(**context))  # type: ignore[arg-type]
    return next(item for item in read_file(path, 0, reading) if isinstance(item, FileOutcome))


# --- real servers ---------------------------------------------------------------------------------------------------


def test_two_trees_of_every_version_give_amounts(samples: Path, tmp_path: Path):
    trees = [path for path in (samples / "lustre").iterdir() if path.name != "get_param"]
    assert trees
    for tree in trees:
        _check_amounts(tree, tmp_path / tree.name)


def _check_amounts(tree: Path, tmp_path: Path) -> None:
    """The second copy is a minute later and has read or written a known amount more."""
    for name in ("a", "b"):
        shutil.copytree(tree, tmp_path / name)
    changed = 0
    for path in (tmp_path / "b").rglob("*stats"):
        if path.name not in ("stats", "md_stats") or "lnet" in path.parts:
            continue
        path.chmod(0o644)
        lines = []
        for line in path.read_text().splitlines():
            fields = line.split()
            if fields[0] == "snapshot_time":
                whole, _, fraction = fields[1].partition(".")
                fields[1] = f"{int(whole) + 60}.{fraction}"
            elif fields[0] == "write_bytes":
                fields[1], fields[6] = str(int(fields[1]) + 3), str(int(fields[6]) + 4096)
                changed += "exports" not in path.parts
            lines.append(" ".join(fields))
        path.write_text("\n".join(lines) + "\n")
    found = rows(tmp_path)
    written = [row for (_, metric, _), row in found.items() if metric == "write_bytes"]
    assert sorted({row["value"] for row in written}) == (
        [0.0, 4096.0] if 0.0 in {r["value"] for r in written} else [4096.0]
    )
    assert sum(row["value"] == 4096.0 for row in written) == changed > 0
    assert {row["interval_ns"] for row in written} == {60 * NS}
    assert {row["quality"] for row in found.values()} == {0}


def test_every_whole_dump_gives_its_states(samples: Path):
    """Against a plain look at the lines: each state of each target once."""
    for path in sorted((samples / "lustre" / "get_param").glob("*.txt")):
        outcome = outcome_of(path, host="server")
        lines = path.read_text().splitlines()
        states = {
            line.partition(".")[2].partition("=")[0]
            for line in lines
            if re.match(
                r"(obdfilter|mdt|osd-\w+)\.[^.]+-(OST|MDT)\d+\.(kbytestotal|kbytesfree|files\w+|num_exports)=", line
            )
        }
        jobs = sum(line.startswith("- job_id") for line in lines)
        assert outcome.rows.get("series", 0) == len(states), path
        assert (outcome.rows.get("job_operations", 0) >= jobs) if jobs else "job_operations" not in outcome.rows
        assert outcome.status == ("ok" if states or jobs else "quarantined"), outcome.message
        assert outcome.source == "lustre"

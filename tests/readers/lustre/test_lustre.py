"""Lustre snapshots to rows: exact intervals, restarts, states once an hour, cut and lone files."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest

from error_kinds import source_error
from ioweather.core.contracts import ReadContext
from ioweather.core.counters.growth import Target
from ioweather.core.counters.lustre_text import TargetJobs, identity_of, parse_number, parse_stats
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.tables import Quality
from ioweather.ingestion.ledger import FileOutcome
from ioweather.ingestion.reading import Reading, read_file
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
        except SourceError:
            assert cut < 3 * len(whole) // 4
            continue
        assert all(expected[key] == row for key, row in found.items())


def test_one_snapshot_alone(tmp_path: Path):
    path = tmp_path / "stats.txt"
    path.write_text(block(1000, 100))
    with source_error("EmptyInput", match="only one sample"):
        rows(path)
    path.write_text("")
    with source_error("EmptyInput"):
        rows(path)
    lone = tmp_path / "stats"
    lone.write_text("snapshot_time 1000.0 secs.usecs\nread_bytes 1 samples [bytes] 1 1 1\n")
    assert 0 < LUSTRE.detect(lone.read_bytes(), lone) < 0.5
    with pytest.raises(SourceError, match="single snapshot of an unnamed target"):
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
    )
    path = tmp_path / "client.txt"
    path.write_text(text.format(t=1000, n=10) + text.format(t=1060, n=15))
    found = rows(path, host="node7")
    told = {(name, metric): row["value"] for (name, metric, _), row in found.items()}
    assert (told["node7", "write_bytes"], told["node7", "open_ops"], told["node7", "metadata_busy_seconds"]) == (
        500, 5, 5.0,
    )  # fmt: skip
    assert {row["component_kind"] for row in found.values()} == {"host"}
    assert {name for name, _, _ in rows(path)} == {"fs1-ff47bce9ca35d800"}


def outcome_of(path: Path, **context: object) -> FileOutcome:
    reading = Reading(ReadContext(**context))  # type: ignore[arg-type]
    return next(item for item in read_file(path, 0, reading) if isinstance(item, FileOutcome))


# --- real servers ---------------------------------------------------------------------------------------------------


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


OST, MDT = "fs1-OST0000", "fs1-MDT0000"


def entry(job: str, last: int, reads: int = 0, begun: int | None = None, opens: int = 0) -> str:
    """Reads of 1 MiB that took 3 us each; the form of 2.14 where it says when it began."""
    if begun is None:
        return (
            f"- job_id:          {job}\n  snapshot_time:   {last}\n"
            f"  read_bytes:      {{ samples: {reads:11}, unit: bytes, min: 1, max: 1048576, sum: {reads << 20:12} }}\n"
            f"  write_bytes:     {{ samples:           0, unit: bytes, min:     0, max:       0, sum:            0 }}\n"
            f"  open:            {{ samples: {opens:11}, unit:  reqs }}\n"
        )
    sizes = f"1M: {reads}" if reads else ""
    return (
        f'- job_id:          "{job}"\n  snapshot_time:   {last}.500000000 secs.nsecs\n'
        f"  start_time:      {begun}.250000000 secs.nsecs\n  elapsed_time:    {last - begun}.250000000 secs.nsecs\n"
        f"  read_bytes:      {{ samples: {reads:11}, unit: bytes, min: 0, max: 1048576, sum: {reads << 20:15}, "
        f"sumsq: {reads << 40:18}, hist: {{ {sizes} }} }}\n"
        f"  read:            {{ samples: {reads:11}, unit: usecs, min: 3, max: 3, sum: {3 * reads:15}, sumsq: 9 }}\n"
        f"  open:            {{ samples: {opens:11}, unit: usecs, min: 1, max: 1, sum: {opens:15}, sumsq: 9 }}\n"
    )


def jobs(*entries: str, target: str = OST) -> str:
    return f"{'mdt' if 'MDT' in target else 'obdfilter'}.{target}.job_stats=\njob_stats:\n{''.join(entries)}"


def rows_of_job_stats(path: Path, **context: object) -> list[dict[str, object]]:
    found = [
        row
        for table, frame in LUSTRE.read(path, ReadContext(**context))  # type: ignore[arg-type]
        if table == "job_operations"
        for row in frame.records()
    ]
    keys = [
        tuple(row[name] for name in ("start_ns", "interval_ns", "component", "job_key", "operation")) for row in found
    ]
    assert len(set(keys)) == len(keys)
    return found


def told(path: Path, text: str, **context: object) -> list[tuple[object, ...]]:
    """(job, operation, from, to, count, bytes, flags), times in seconds."""
    path.write_text(text)
    return [
        (
            row["job_key"], row["operation"], int(str(row["start_ns"])) / NS,
            (int(str(row["start_ns"])) + int(str(row["interval_ns"]))) / NS, row["count"], row["bytes"], row["quality"],
        )
        for row in rows_of_job_stats(path, **context)
    ]  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.txt"


def test_growth_of_each_job_and_target_is_exact(path: Path):
    path.write_text(
        jobs(entry("7", 1000, 5, 900), entry("8", 1000, 2, 900))
        + jobs(entry("7", 1001, 0, 900, opens=3), target=MDT)
        + jobs(entry("7", 1060, 9, 900), entry("8", 1000, 2, 900))
        + jobs(entry("7", 1061, 0, 900, opens=10), target=MDT)
    )
    read, opened = rows_of_job_stats(path, cluster="big")
    assert read == {
        "start_ns": 1000_500_000_000, "interval_ns": 60 * NS, "system": "fs1", "component_kind": "ost",
        "component": OST, "job_key": "7", "job_id": 7, "cluster": "big", "uid": None, "exe": None, "host": None,
        "operation": "read", "count": 4, "bytes": 4 << 20, "time_ns": 12_000, "histogram": '{"1048576":4}',
        "quality": 0,
    }  # fmt: skip
    assert (opened["component"], opened["operation"], opened["count"]) == (MDT, "open", 7)
    assert (opened["bytes"], opened["time_ns"], opened["histogram"]) == (None, 7_000, None)


def test_a_job_that_comes_later_began_at_zero(path: Path):
    text = jobs(entry("7", 1000, 5, 900)) + jobs(entry("7", 1000, 5, 900), entry("8", 1070, 3, 1050))
    assert told(path, text) == [("8", "read", 1050.25, 1070.5, 3, 3 << 20, 0)]
    old = jobs(entry("7", 1000, 5)) + jobs(entry("7", 1000, 5), entry("8", 1070, 3))
    assert told(path, old) == [("8", "read", 1000, 1070, 3, 3 << 20, 0)]  # it was not there when 7 was last seen


def test_counters_that_fall_began_anew(path: Path):
    assert told(path, jobs(entry("7", 1000, 5)) + jobs(entry("7", 1060, 2)))[-1] == (
        "7", "read", 1000, 1060, 2, 2 << 20, Quality.RESET,
    )  # fmt: skip
    # As many as before, but since another moment: cleared in between.
    text = jobs(entry("7", 1000, 5, 900)) + jobs(entry("7", 1060, 6, 1030))
    assert told(path, text) == [("7", "read", 1030.25, 1060.5, 6, 6 << 20, Quality.RESET)]


@pytest.mark.parametrize("begun", [(900, 1090), (None, None)])
def test_an_entry_that_vanishes_and_comes_back(path: Path, begun: tuple[int | None, int | None]):
    other = entry("8", 1050, 1, begun and begun[0])
    text = jobs(entry("7", 1000, 5, begun[0]), other) + jobs(other) + jobs(other, entry("7", 1100, 8, begun[1]))
    ((job, operation, start, _, count, _, quality),) = told(path, text)
    assert (job, operation, count, quality) == ("7", "read", 8, Quality.RESET)
    assert start == (1090.25 if begun[1] else 1050)


def test_a_lone_list_tells_the_life_of_entries_that_say_when_they_began(path: Path):
    text = jobs(entry("7", 1000, 5, 900), entry("8", 990, 0, 900))
    assert told(path, text) == [("7", "read", 900.25, 1000.5, 5, 5 << 20, Quality.WHOLE_LIFE)]
    path.write_text(jobs(entry("7", 1000, 5)))
    with source_error("EmptyInput", match=r"1 job\(s\) with only one sample and no start_time"):
        rows_of_job_stats(path)


def test_a_list_that_is_cut_short_keeps_the_entries_before_and_says_so(path: Path):
    whole = jobs(entry("7", 1000, 5, 900), entry("8", 990, 2, 900), entry("9", 995, 1, 900))
    path.write_text(whole)
    expected = rows_of_job_stats(path)
    assert [row["job_key"] for row in expected] == ["7", "8", "9"]
    path.write_text(whole.removesuffix("\n"))
    (outcome,) = (item for item in read_file(path, 0, Reading(ReadContext())) if isinstance(item, FileOutcome))
    assert (outcome.status, outcome.reason) == ("partial", "truncated_input")
    assert "skipped the last line because it does not end with a newline" in (outcome.message or "")
    assert rows_of_job_stats(path) == expected[:2]
    for cut in [place for place in range(1, len(whole), 7) if whole[place - 1] != "\n"]:
        path.write_text(whole[:cut])
        with suppress(SourceError):
            assert all(row in expected for row in rows_of_job_stats(path))
    path.write_text(jobs(entry("7", 1000, 5, 900)).removesuffix("\n"))
    (outcome,) = (item for item in read_file(path, 0, Reading(ReadContext())) if isinstance(item, FileOutcome))
    assert (outcome.status, outcome.reason) == ("quarantined", "truncated_input")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("12345", {"job_id": 12345}),
        ("12345.pbs-server.site.org", {"job_id": 12345}),
        ("12345[7].pbs", {"job_id": 12345}),
        ("cp.1000", {"uid": 1000, "exe": "cp"}),
        ("python3.11.1000", {"uid": 1000, "exe": "python3.11"}),
        ("ptlrpcd_00_01.0", {"uid": 0, "exe": "ptlrpcd_00_01"}),
        ("python3.11", {}),  # a program, or user 11
        ("dd:0:node1", {"uid": 0, "exe": "dd", "host": "node1"}),
        ("77:1000:node1.site", {"job_id": 77, "uid": 1000, "host": "node1.site"}),
        ("dd:1000", {"uid": 1000, "exe": "dd"}),
        ("77:1000", {}),
        ("1.2", {}),
        ("", {}), ("loop36", {}), (":", {}), ("a:b:c:d", {}),
        ("²", {}), ("9" * 30, {}),
    ],
)  # fmt: skip
def test_what_a_job_id_tells(key: str, meant: dict[str, object]):
    assert identity_of(key) == {"job_id": None, "uid": None, "exe": None, "host": None, **meant}


# --- real servers ---------------------------------------------------------------------------------------------------


def as_yaml(text: str) -> list[dict[str, object]]:
    """An independent reading: the text is YAML."""
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(text.partition("job_stats:\n")[2] or "[]") or []


def test_every_list_equals_its_yaml(samples: Path):
    paths = [*(samples / "lustre").rglob("job_stats"), *(samples / "lustre" / "get_param").glob("job_stats*")]
    assert len(paths) >= 2
    for path in paths:
        jobs, expected = TargetJobs(Target("fs1", "ost", "fs1-OST0000")), as_yaml(path.read_text())
        assert list(jobs.update(path.read_text(), None, "x")) == []
        grown = {each.source: each.amounts for each in jobs.whole_lives()}
        assert len(grown) + jobs.count_without_begin() <= len({str(e["job_id"] or "") for e in expected})
        for e in expected:
            lines = {name: line for name, line in e.items() if isinstance(line, dict) and line["samples"]}
            amounts = grown.get("" if e["job_id"] is None else str(e["job_id"]), {})
            for name, line in lines.items() if "start_time" in e else ():
                operation, is_bytes = name.removesuffix("_bytes"), line["unit"] == "bytes"
                assert amounts[f"{operation} count"] == line["samples"]
                if line["unit"] == "usecs" or is_bytes:
                    assert amounts[f"{operation} {'bytes' if is_bytes else 'time_us'}"] == line["sum"]
                scale = {"K": 1 << 10, "M": 1 << 20}
                for size, count in line.get("hist", {}).items() if is_bytes else ():
                    text = str(size)
                    assert amounts[f"{operation} {int(text.rstrip('KM')) * scale.get(text[-1], 1)}"] == count


@pytest.mark.shared
def test_a_real_list_a_minute_later(shared_data: Path, tmp_path: Path):
    text = (shared_data / "lustre" / "get_param" / "job_stats_2.14_hist.txt").read_text()
    later = text.replace("snapshot_time:   1723114", "snapshot_time:   1723115").replace("16M: 666 ", "16M: 670 ")
    later = later.replace("samples:         861,", "samples:         865,").replace(
        "11025514496", str(11025514496 + 4000)
    )
    (tmp_path / "x").write_text(text + later)
    grown = [row for row in rows_of_job_stats(tmp_path / "x") if row["component"] == "es01a-OST0001"]
    assert {(row["job_key"], row["operation"], row["count"], row["bytes"]) for row in grown} == {
        ("SLURM_JOB10:0:es18kxe-co-client", "write", 4, 4000)
    }
    assert json.loads(str(grown[0]["histogram"])) == {str(16 << 20): 4}


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("snapshot_time             1284241188.775657 secs.usecs", 1_284_241_188_775_657_000),
        ("snapshot_time             1284241188.5657 secs.usecs", 1_284_241_188_005_657_000),  # 1.8 writes no zeros
        ("snapshot_time             1572404799.950459989 secs.nsecs", 1_572_404_799_950_459_989),
        ("snapshot_time             1566017453.009677077 secs.nsecs", 1_566_017_453_009_677_077),
        ("snapshot_time             1566017453.9677077 secs.nsecs", 1_566_017_453_009_677_077),
        ("snapshot_time:         1534158712.  4567890 (secs.nsecs)", 1_534_158_712_004_567_890),
        ("snapshot_time:   1510781837", 1_510_781_837_000_000_000),
        ("snapshot_time 1510781837.5", 1_510_781_837_500_000_000),
    ],
)
def test_times(text: str, expected: int):
    assert parse_stats(text)[0]["snapshot_time"] == expected


def test_what_is_broken_is_refused_and_what_people_write_between_is_not():
    assert parse_stats("Mon Nov  5\n\nsnapshot_time 1 secs.usecs\n# done\n")[1] == {}
    with pytest.raises(CorruptInput, match="not a Lustre stats line"):
        parse_stats("snapshot_time 1 secs.usecs\nread_bytes 1x samples [bytes]\n")
    with pytest.raises(CorruptInput, match="no snapshot_time"):
        parse_stats("read_bytes 1 samples [reqs]\n")
    with pytest.raises(CorruptInput, match="not a number"):
        parse_number("many", "kbytesfree")
    assert parse_number(" 12\n", "x") == 12


# --- real servers ---------------------------------------------------------------------------------------------------


def test_every_stats_file_of_every_version(samples: Path, own_samples: Path):
    paths = [p for name in ("stats", "md_stats") for p in (samples / "lustre").rglob(name) if "lnet" not in p.parts]
    assert len(paths) == (4 if samples == own_samples else 60)
    for path in paths:
        text = path.read_text()
        times, operations = parse_stats(text, str(path))
        lines = {line.split()[0] for line in text.splitlines()} - {"snapshot_time"}
        assert set(operations) == lines, path
        assert 1.2e18 < times["snapshot_time"] < 1.8e18
        for line in text.splitlines()[1:]:
            fields = line.split()
            if line == next(other for other in text.splitlines() if other.split()[0] == fields[0]):
                samples, _, total = operations[fields[0]]
                assert samples == int(fields[1])
                assert total == (int(fields[6]) if len(fields) >= 7 else None)

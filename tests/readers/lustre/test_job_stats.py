"""What jobs did on targets: exact differences, entries that begin anew, vanish and come back, both forms of text."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from ioweather.core.contracts import ReadContext
from ioweather.core.counters.lustre_text import (
    JobIdentity,
    identity_of,
    parse_job_stats,
    size_bins,
)
from ioweather.core.errors import EmptyInput, SourceError, TruncatedInput
from ioweather.core.tables import Quality
from ioweather.ingestion.reading import FileOutcome, Reading, read_file
from ioweather.readers.server_counters import LUSTRE

NS = 10**9
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


def rows(path: Path, **context: object) -> list[dict[str, object]]:
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
        for row in rows(path, **context)
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
    read, opened = rows(path, cluster="big")
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


def test_lists_in_any_order_and_twice(path: Path):
    first, second, third = (jobs(entry("7", 1000 + 60 * n, 5 + n, 900)) for n in range(3))
    assert told(path, first + first + second + second) == [("7", "read", 1000.5, 1060.5, 1, 1 << 20, 0)]
    # Joined in the wrong order: what lies between the two that are in order.
    assert told(path, third + first + second) == [("7", "read", 1000.5, 1060.5, 1, 1 << 20, 0)]
    twice = jobs(entry("7", 1060, 8, 900), entry("7", 1000, 5, 900))  # one list, one job twice
    assert told(path, first + twice) == [("7", "read", 1000.5, 1060.5, 3, 3 << 20, 0)]


def test_a_lone_list_tells_the_life_of_entries_that_say_when_they_began(path: Path):
    text = jobs(entry("7", 1000, 5, 900), entry("8", 990, 0, 900))
    assert told(path, text) == [("7", "read", 900.25, 1000.5, 5, 5 << 20, Quality.WHOLE_LIFE)]
    path.write_text(jobs(entry("7", 1000, 5)))
    with pytest.raises(EmptyInput, match=r"1 job\(s\) shown once, without start_time"):
        rows(path)


def test_a_list_that_is_cut_short_keeps_the_entries_before_and_says_so(path: Path):
    whole = jobs(entry("7", 1000, 5, 900), entry("8", 990, 2, 900), entry("9", 995, 1, 900))
    path.write_text(whole)
    expected = rows(path)
    assert [row["job_key"] for row in expected] == ["7", "8", "9"]
    path.write_text(whole.removesuffix("\n"))
    (outcome,) = (item for item in read_file(path, 0, Reading(ReadContext())) if isinstance(item, FileOutcome))
    assert (outcome.status, outcome.reason) == ("partial", "truncated_input")
    assert "the last line has no line end and was left out" in (outcome.message or "")
    assert rows(path) == expected[:2]
    for cut in [place for place in range(1, len(whole)) if whole[place - 1] != "\n"]:
        path.write_text(whole[:cut])
        with suppress(EmptyInput, TruncatedInput, SourceError):
            assert all(row in expected for row in rows(path))
    path.write_text(jobs(entry("7", 1000, 5, 900)).removesuffix("\n"))
    (outcome,) = (item for item in read_file(path, 0, Reading(ReadContext())) if isinstance(item, FileOutcome))
    assert (outcome.status, outcome.reason) == ("quarantined", "truncated_input")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("12345", JobIdentity(job_id=12345)),
        ("12345.pbs-server.site.org", JobIdentity(job_id=12345)),
        ("12345[7].pbs", JobIdentity(job_id=12345)),
        ("cp.1000", JobIdentity(uid=1000, exe="cp")),
        ("python3.11.1000", JobIdentity(uid=1000, exe="python3.11")),
        ("ptlrpcd_00_01.0", JobIdentity(uid=0, exe="ptlrpcd_00_01")),
        ("python3.11", JobIdentity()),  # a program, or user 11
        ("dd:0:node1", JobIdentity(uid=0, exe="dd", host="node1")),
        ("77:1000:node1.site", JobIdentity(job_id=77, uid=1000, host="node1.site")),
        ("dd:1000", JobIdentity(uid=1000, exe="dd")),
        ("77:1000", JobIdentity()),
        ("1.2", JobIdentity()),
        ("", JobIdentity()), ("loop36", JobIdentity()), (":", JobIdentity()), ("a:b:c:d", JobIdentity()),
        ("²", JobIdentity()), ("9" * 30, JobIdentity()),
    ],
)  # fmt: skip
def test_what_a_job_id_tells(key: str, meant: JobIdentity):
    assert identity_of(key) == meant


# --- real servers ---------------------------------------------------------------------------------------------------


def as_yaml(text: str) -> list[dict[str, object]]:
    """An independent reading: the text is YAML."""
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(text.partition("job_stats:\n")[2] or "[]") or []


def test_every_list_equals_its_yaml(samples: Path):
    paths = [*(samples / "lustre").rglob("job_stats"), *(samples / "lustre" / "get_param").glob("job_stats*")]
    assert len(paths) >= 2
    for path in paths:
        found, expected = parse_job_stats(path.read_text(), "x"), as_yaml(path.read_text())
        assert len(found) == len({str(e["job_id"] or "") for e in expected})
        for e in expected:
            operations = found["" if e["job_id"] is None else str(e["job_id"])].operations
            for name, line in e.items():
                if isinstance(line, dict) and line["samples"]:
                    one = operations[name.removesuffix("_bytes")]
                    if line["unit"] == "usecs":
                        assert one.time_us == line["sum"]
                    else:
                        assert (one.samples, one.bytes) == (line["samples"], line.get("sum"))
                    sizes = {str(size): count for size, count in line.get("hist", {}).items()}
                    assert size_bins(one.sizes if line["unit"] == "bytes" else None) == size_bins(
                        ", ".join(f"{size}: {count}" for size, count in sizes.items())
                    )


@pytest.mark.shared
def test_a_real_list_a_minute_later(shared_data: Path, tmp_path: Path):
    text = (shared_data / "lustre" / "get_param" / "job_stats_2.14_hist.txt").read_text()
    later = text.replace("snapshot_time:   1723114", "snapshot_time:   1723115").replace("16M: 666 ", "16M: 670 ")
    later = later.replace("samples:         861,", "samples:         865,").replace(
        "11025514496", str(11025514496 + 4000)
    )
    (tmp_path / "x").write_text(text + later)
    grown = [row for row in rows(tmp_path / "x") if row["component"] == "es01a-OST0001"]
    assert {(row["job_key"], row["operation"], row["count"], row["bytes"]) for row in grown} == {
        ("SLURM_JOB10:0:es18kxe-co-client", "write", 4, 4000)
    }
    assert json.loads(str(grown[0]["histogram"])) == {str(16 << 20): 4}

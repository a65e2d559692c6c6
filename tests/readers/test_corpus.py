"""Every real file beside the project, with its oracle: an independent reading, expected rows, or the reason for which
it is refused. Each part of the corpus is a table of files; a file of a folder that no table names fails the test.
"""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
import struct
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ioweather.core.contracts import ReadContext
from ioweather.core.tables import concat
from ioweather.core.units import NS, parse_time_ns, zone_named
from ioweather.ingestion.ledger import FileOutcome
from ioweather.ingestion.reading import Reading, read_file

pytestmark = pytest.mark.shared

Tables = dict[str, list[dict[str, Any]]]
LOS_ANGELES = ReadContext(zone=zone_named("America/Los_Angeles"))
NEW_YORK = ReadContext(zone=zone_named("America/New_York"))


class Entry(NamedTuple):
    """A file or a pattern of files, the source it must be recognised as, and what must be true of its rows; or the
    reason of its refusal."""

    path: str
    source: str | None
    oracle: Callable[[Path, Tables], None] | None = None
    refused: str | None = None
    context: ReadContext = ReadContext()


def read(path: Path, context: ReadContext) -> tuple[FileOutcome, Tables]:
    tables: dict[str, list[Any]] = {}
    for item in read_file(path, path.stat().st_size, Reading(context)):
        if isinstance(item, FileOutcome):
            return item, {name: concat(frames).records() for name, frames in tables.items()}
        tables.setdefault(item[1], []).append(item[2])
    raise AssertionError("no outcome")


# Schedulers: the rows that Open XDMoD's own readers make of the same files.


@cache
def _expected(path: Path) -> list[dict[str, Any]]:
    rows = json.loads(path.with_suffix(".expected.json").read_text())
    return list(rows.values()) if isinstance(rows, dict) else rows


def _agree(path: Path, tables: Tables, names: dict[str, str], times: tuple[str, str, str]) -> None:
    jobs = tables["jobs"]
    assert len(jobs) == len(_expected(path))
    for job, row in zip(jobs, _expected(path), strict=True):
        for column, name in names.items():
            assert str(job[column] or "") == str(row.get(name) or ""), (column, row)
        for column, name in zip(("submit_ns", "start_ns", "end_ns"), times, strict=True):
            assert job[column] // NS == int(row[name]), column


def pbs(path: Path, tables: Tables) -> None:
    names = {"job_id": "job_id", "user": "user", "name": "jobname", "nodes": "node_list"}
    _agree(path, tables, names, ("ctime", "start", "end"))
    for job, row in zip(tables["jobs"], _expected(path), strict=True):
        assert job["node_count"] == int(row.get("resources_used_nodes") or row["resource_list_nodect"])
        assert job["state"] == ("COMPLETED" if row["exit_status"] == "0" else "FAILED")
        # PBS Pro has a project in the place of Torque's account; XDMoD does not keep it.
        assert job["account"] in (row.get("account"), "[project1]")
        # Of a host listed as '0*0' XDMoD counts 2; ncpus, used and asked for, is 48.
        cpus = 48 if job["job_id"] == "3073070" else row.get("resources_used_cpus")
        assert job["cpu_count"] == cpus


def lsf(path: Path, tables: Tables) -> None:
    names = {"job_id": "job_id", "uid": "user_id", "user": "user_name", "name": "job_name", "account": "project_name",
             "cpu_count": "num_processors", "nodes": "node_list", "node_count": "num_ex_hosts"}  # fmt: skip
    _agree(path, tables, names, ("submit_time", "start_time", "event_time"))


def grid_engine(path: Path, tables: Tables) -> None:
    names = {"job_id": "job_number", "user": "owner", "name": "job_name", "cpu_count": "slots"}
    _agree(path, tables, names, ("submission_time", "start_time", "end_time"))


def xdmod_sacct(path: Path, tables: Tables) -> None:
    rows = [line.split("|") for line in path.read_text().splitlines() if line]
    assert [job["job_id"] for job in tables["jobs"]] == [row[0] for row in rows]
    for job, row in zip(tables["jobs"], rows, strict=True):
        assert (job["cluster"], job["account"], job["user"], str(job["uid"])) == (row[2], row[5], row[8], row[9])
        assert job["submit_ns"] == parse_time_ns(row[10] + "-04:00")
        assert (str(job["node_count"]), str(job["cpu_count"]), job["state"]) == (row[17], row[18], row[16])
        assert job["nodes"].count(",") + 1 == job["node_count"]


def sacct_json(path: Path, tables: Tables) -> None:
    jobs = json.loads(path.read_text())["jobs"]
    found = [job for job in tables["jobs"] if not job["step"]]
    assert [job["raw_job_id"] for job in found] == [job["job_id"] for job in jobs]
    for row, job in zip(found, jobs, strict=True):
        state = job["state"]["current"]
        assert row["state"] == (state[0] if isinstance(state, list) else state)
        assert row["cluster"] == job["cluster"]
        assert ((row["end_ns"] or 0) // NS, row["submit_ns"] // NS) == (job["time"]["end"], job["time"]["submission"])
    assert len(tables["jobs"]) - len(found) == sum(len(job["steps"]) for job in jobs)


# Darshan: a walk over the bytes, written from the layout and sharing nothing with the reader.

_WORDS_OF_1 = {"1.21": (133, 12), "1.22": (138, 14), "1.23": (140, 14), "1.24": (140, 14)}
# Places of counters in 1.24; 1.21 has three counters less in front of the bytes.
_OPENS_1, _BYTES_READ_1, _BYTES_WRITTEN_1 = 13, 47, 48


def darshan_1(path: Path, tables: Tables) -> None:
    raw = gzip.decompress(path.read_bytes())
    version = raw[:4].decode()
    uid, start, end, nprocs = struct.unpack_from(">qiii", raw, 8)
    (run,) = tables["applications"]
    assert (run["uid"], run["start_ns"], run["end_ns"], run["nprocs"]) == (uid, start * NS, end * NS, nprocs)
    assert run["job_id"] == int(path.name.split("_id")[1].split("_")[0])
    ints, floats = _WORDS_OF_1[version]
    size = 32 + 8 * (ints + floats)
    shift = 3 if version == "1.21" else 0
    posix = [row for row in tables["files"] if row["module"] == "POSIX"]
    assert len(posix) == (len(raw) - 1024) // size
    for row, at in zip(posix, range(1024, len(raw), size), strict=True):
        record_id, rank = struct.unpack_from(">qi", raw, at)
        words = struct.unpack_from(f">{ints}q", raw, at + 16)
        times = struct.unpack_from(f">{floats}d", raw, at + 16 + 8 * ints)
        assert (row["record_id"], row["rank"], row["open_count"]) == (record_id, rank, words[_OPENS_1])
        assert row["read_bytes"] == words[_BYTES_READ_1 - shift]
        assert row["write_bytes"] == words[_BYTES_WRITTEN_1 - shift]
        assert (row["read_seconds"], row["write_seconds"], row["meta_seconds"]) == times[6:9]
    # The same benchmark of 4 processes, 16 MiB each, under Darshan 2.00 has 112.6 MB/s.
    (metrics,) = tables["job_io"]
    assert 105e6 < metrics["bytes_per_s"] < 130e6


def darshan_fork(path: Path, tables: Tables) -> None:
    """720 bytes a record: the 704 of POSIX 4 and 16 more."""
    data = path.read_bytes()
    offset, length = struct.unpack_from("<QQ", data, 48 + 16)
    raw, rest = b"", data[offset : offset + length]
    while rest:  # one stream per writing rank
        stream = zlib.decompressobj()
        raw += stream.decompress(rest)
        rest = stream.unused_data
    (run,) = tables["applications"]
    assert run["longer_records"] == "POSIX"
    posix = [row for row in tables["files"] if row["module"] == "POSIX"]
    assert len(posix) == len(raw) // 720
    for row, at in zip(posix, range(0, len(raw), 720), strict=True):
        words = struct.unpack_from("<71q", raw, at)
        assert (row["record_id"], row["rank"], row["open_count"]) == words[:3]
        assert (row["read_bytes"], row["write_bytes"]) == words[16:18]
        assert (row["read_seconds"], row["write_seconds"]) == struct.unpack_from("<2d", raw, at + 568 + 64)


# IO500: the numbers as they are printed, found by their lines alone.

GIB, KILO = 1 << 30, 1000


def _rates(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {
        row["phase"]: row["bytes_per_s"] or row["ops_per_s"] for row in rows if row["phase"] not in ("run", "score")
    }


def io500_result(path: Path, tables: Tables) -> None:
    printed: dict[str, float] = {}
    section = ""
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line.startswith("score") and section != "SCORE":
            printed[section] = float(line.split("=")[1]) * (GIB if section.startswith("ior") else KILO)
    assert _rates(tables["benchmarks"]) == pytest.approx({name: value for name, value in printed.items() if value})
    versions = {json.loads(row["parameters"])["version"] for row in tables["benchmarks"]}
    assert versions == {path.read_text().split("=", 1)[1].split("\n")[0].strip()}


def io500_shell(path: Path, tables: Tables) -> None:
    """Each result stands twice: as it came, and under [Summary]. It counts once."""
    text = path.read_text()
    lines = [line.split() for line in text[text.index("[Summary]") :].splitlines() if line.startswith("[RESULT]")]
    printed = {w[4].replace("_", "-"): float(w[5]) * (GIB if w[1] == "BW" else KILO) for w in lines}
    assert _rates(tables["benchmarks"]) == pytest.approx(printed)
    assert len(tables["benchmarks"]) == len(printed) + 1
    score = next(row for row in tables["benchmarks"] if row["phase"] == "score")
    assert json.loads(score["parameters"])["score"] == float(text.rsplit("TOTAL", 1)[1].split()[0])


# sysstat: the numbers of the text itself, times the interval.


def _printed(path: Path, first_word: str, rate: str, name: str) -> dict[str, list[float]]:
    """Of each device the printed numbers of a column, found by splitting lines at blanks."""
    columns: list[str] = []
    found: dict[str, list[float]] = {}
    for words in (line.split() for line in path.read_text().splitlines()):
        if first_word in words and rate in words:
            columns = words
        elif columns and len(words) == len(columns) and words[columns.index(first_word)] == name:
            found.setdefault(name, []).append(float(words[columns.index(rate)]))
    return found


def _amounts(tables: Tables, metric: str, component: str) -> list[float]:
    rows = [row for row in tables["series"] if row["metric"] == metric and row["component"] == component]
    return [row["value"] / (row["interval_ns"] / NS) for row in sorted(rows, key=lambda row: row["start_ns"])]


def iostat_indented(path: Path, tables: Tables) -> None:
    """The first report is since boot and no sample."""
    for metric, column in (("read_bytes", "rMB/s"), ("write_bytes", "wMB/s")):
        printed = _printed(path, "Device:", column, "sda")["sda"][1:]
        assert _amounts(tables, metric, "sda") == pytest.approx([value * 1024 * 1024 for value in printed])
    assert {row["system"] for row in tables["series"]} == {"object1", "object1:sda"}


# What lies beside the files: expected rows, notes, what a benchmark printed (its own tests read that).
NO_INPUT = (
    "schedulers/*.expected.json", "slurm/sacct.json.gz", "slurm/sacct_*.txt", "darshan/real/rank0writer.out",
    "darshan/real/subfile_partshared.out", "darshan/v2/README",
)  # fmt: skip

# Lustre, GPFS and NFS: a plain look at the lines.


def lustre_dump(path: Path, tables: Tables) -> None:
    state = r"(?:obdfilter|mdt|osd-\w+)\.([^.]+-(?:OST|MDT)\w{4})\.(kbytestotal|kbytesfree|files\w+|num_exports)=(\d+)"
    metrics = {"kbytestotal": "capacity_bytes", "kbytesfree": "free_bytes", "filestotal": "capacity_files",
               "filesfree": "free_files", "num_exports": "client_count"}  # fmt: skip
    expected = {
        (target, metrics[leaf]): float(value) * (1024 if leaf.startswith("kbytes") else 1)
        for target, leaf, value in re.findall(state, path.read_text())
    }
    assert {(row["component"], row["metric"]): row["value"] for row in tables["series"]} == expected


def lustre_jobs(path: Path, tables: Tables) -> None:
    text = path.read_text()
    totals = {"read": 0, "write": 0}
    for name, total in re.findall(r"  (read|write)_bytes:.*? sum: *(\d+)", text):
        totals[name] += int(total)
    for name, total in totals.items():
        assert sum(row["bytes"] for row in tables["job_operations"] if row["operation"] == name) == total
    keys = set(re.findall(r"job_id: *\"?([^\"\n]+)", text))
    assert {row["job_key"] for row in tables["job_operations"]} <= keys
    assert {row["quality"] for row in tables["job_operations"]} == {64}


def lustre_tree(path: Path, tables: Tables) -> None:
    found = {(row["component"], row["metric"]): row["value"] for row in tables["series"]}
    for target, metric in {key for key in found if key[1] in ("capacity_bytes", "free_bytes")}:
        leaf = "kbytestotal" if metric == "capacity_bytes" else "kbytesfree"
        files = [file for file in path.rglob(leaf) if file.parent.name == target]
        assert found[target, metric] in {int(file.read_text().strip("\0\n ")) * 1024.0 for file in files}
    assert {target for target, _ in found} <= {folder.name for folder in path.rglob("*-[OM][SD]T*")}


def mmperfmon_usage(path: Path, tables: Tables) -> None:
    rows = [line.split() for line in gzip.decompress(path.read_bytes()).decode().splitlines() if "2019-" in line]
    cpu = [row["value"] for row in tables["series"] if row["metric"] == "cpu_ratio"]
    assert cpu == pytest.approx([(float(words[2]) + float(words[3])) / 100 for words in rows])


def mmperfmon_disks(path: Path, tables: Tables) -> None:
    rows = [line.split()[2:] for line in gzip.decompress(path.read_bytes()).decode().splitlines() if "2019-" in line]
    total = sum(float(word) for words in rows for word in words)
    assert sum(row["value"] for row in tables["series"]) == pytest.approx(6 * total)  # six periods in a bucket


def exporter_states(path: Path, tables: Tables) -> None:
    """A lone scrape: its counters have nothing to differ from, its states are there."""
    metrics = {"lustre_capacity_kilobytes": "capacity_bytes", "lustre_free_kilobytes": "free_bytes",
               "lustre_inodes_maximum": "capacity_files", "lustre_inodes_free": "free_files",
               "lustre_exports_total": "client_count"}  # fmt: skip
    states = r'^(lustre_\w+)\{component="(\w+)",target="(\S+)"\} (\d+)$'
    expected = {
        (kind, target, metrics[name]): float(value) * (1024 if name.endswith("kilobytes") else 1)
        for name, kind, target, value in re.findall(states, path.read_text(), re.MULTILINE)
        if name in metrics
    }
    assert len(expected) == 15
    found = {(row["component_kind"], row["component"], row["metric"]): row["value"] for row in tables["series"]}
    assert found == expected


# Darshan 2: what the program does. 3.x is compared with PyDarshan, counter by counter, in test_darshan_oracle.py.


def some_rows(path: Path, tables: Tables) -> None:
    assert len(tables["applications"]) == 1


def mpi_io_test_2(path: Path, tables: Tables) -> None:
    """What is written is read again, in whole pieces of 16 MiB."""
    moved = {name: sum(row[name] for row in tables["files"] if row["module"] == "POSIX") for name in MOVED}
    assert moved["read_bytes"] == moved["write_bytes"] > 0
    assert moved["write_bytes"] % (16 << 20) == 0


MOVED = ("read_bytes", "write_bytes")


# LMT: sums by h5py and by SQL.


def h5lmt_day(path: Path, tables: Tables) -> None:
    import h5py

    with h5py.File(path) as file:
        for metric, name in (("read_bytes", "OSTReadGroup/OSTBulkReadDataSet"),
                             ("write_bytes", "OSTWriteGroup/OSTBulkWriteDataSet")):  # fmt: skip
            rates = file[name][:]
            total = rates[rates > 0].sum() * 5.0
            assert sum(row["value"] for row in tables["series"] if row["metric"] == metric) == pytest.approx(total)


def lmt_database(path: Path, tables: Tables) -> None:
    """What grew between the first and the last row of each target."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        rows = database.execute(
            "SELECT OST_ID, TS_ID, READ_BYTES, WRITE_BYTES FROM OST_DATA ORDER BY OST_ID, TS_ID"
        ).fetchall()
    for metric, place in (("read_bytes", 2), ("write_bytes", 3)):
        total = sum(max(0.0, new[place] - old[place]) for old, new in pairwise(rows) if old[0] == new[0])
        found = sum(row["value"] for row in tables["series"] if row["metric"] == metric)
        assert found == pytest.approx(total, rel=1e-9)


CORPUS = [
    Entry("darshan/examples/*.darshan", "darshan", some_rows),
    Entry("darshan/real/*.darshan", "darshan", some_rows),
    Entry("darshan/v2/*.darshan.gz", "darshan", mpi_io_test_2),
    Entry("darshan/real/ior_*.out", "ior", context=NEW_YORK),  # test_recordings.py
    Entry("darshan/real/mdtest.out", "mdtest", context=NEW_YORK),
    Entry("darshan/v2/350690.output", "ior", context=NEW_YORK),
    Entry("lmt/*.hdf5", "tts", context=LOS_ANGELES),  # test_tts.py
    Entry("lmt/lmt_schema-1.1.sql", None, refused="unknown_format"),
    Entry("iostat/iostat_*.*", "iostat", context=NEW_YORK),  # devices/test_recordings.py
    Entry("iostat/sadf_*.*", "sadf", context=NEW_YORK),
    Entry("iostat/legacy_*.txt", "iostat", refused="empty_input", context=NEW_YORK),  # one report, since boot
    Entry("iostat/proc_diskstats.t*.txt", "diskstats", refused="undated_input"),
    Entry("iostat/collectl_P_sD.csv", "collectl", refused="source_error", context=NEW_YORK),  # names no host
    Entry("lmt/*.h5lmt", "h5lmt", h5lmt_day, context=LOS_ANGELES),
    Entry("lmt/*.sqlite3", "lmt", lmt_database, context=LOS_ANGELES),
    Entry("prometheus/lustre_exporter_metrics.prom", "prometheus", exporter_states),
    Entry("prometheus/lustre_exporter_jobstats.prom", "prometheus", refused="empty_input"),  # one scrape
    *(Entry(f"lustre/get_param/{name}.txt", "lustre", lustre_dump) for name in ("ex8761-lctl", "valid", "valid_mds")),
    Entry("lustre/get_param/job_stats_2.14_hist.txt", "lustre", lustre_jobs),
    Entry("lustre/get_param/llite_client.txt", "lustre", refused="empty_input"),  # one snapshot
    Entry("lustre/get_param/brw_stats_with_data.txt", "lustre", refused="source_error"),  # of an unnamed target
    *(Entry(f"lustre/{version}", "lustre", lustre_tree) for version in ("1.8.3", "2.10.8", "2.12.9_12", "gsi-2.x")),
    Entry("gpfs/mmpmon_fs_io_s.txt", "mmpmon", refused="empty_input"),  # one answer
    Entry("gpfs/mmperfmon-usage.txt.gz", "mmperfmon", mmperfmon_usage, context=NEW_YORK),
    Entry("gpfs/mmperfmon-usage.txt.gz", "mmperfmon", refused="undated_input"),
    Entry("gpfs/mmperfmon-nsdds.txt.gz", "mmperfmon", mmperfmon_disks, context=replace(NEW_YORK, interval_ns=10 * NS)),
    Entry("gpfs/mmperfmon-nsdds.txt.gz", "mmperfmon", refused="source_error", context=NEW_YORK),
    *(Entry(f"nfs/mountstats{name}.qa", "mountstats", refused="empty_input") for name in ("", "3", "42")),  # one look
    Entry("schedulers/pbs.log", "pbs", pbs),
    Entry("schedulers/lsf.log", "lsf", lsf),
    Entry("schedulers/sge.log", "sge", grid_engine),
    Entry("schedulers/uge.log", "sge", grid_engine),
    Entry("schedulers/slurm-xdmod.log", "sacct", xdmod_sacct, context=NEW_YORK),
    Entry("schedulers/slurm-xdmod.log", "sacct", refused="undated_input"),
    Entry("slurm/sacct_21_8_8.json", "sacct", sacct_json),
    Entry("slurm/sacct_23_11_5.json", "sacct", sacct_json),
    Entry("slurm/sacct_jobs_before_meta.json", "sacct", sacct_json),
    Entry("darshan/v1/carns_*.darshan.gz", "darshan", darshan_1),
    Entry("darshan/v1/pcarns_cp_*.darshan.gz", "darshan", refused="unsupported_version"),
    Entry("io500/result_*.txt", "io500", io500_result, context=NEW_YORK),
    Entry("io500/summary_bash_*.txt", "io500", io500_shell),
    Entry("iostat/public/indented.txt", "iostat", iostat_indented, context=NEW_YORK),
    Entry("iostat/public/lone_report.txt", "iostat", refused="empty_input", context=NEW_YORK),
    Entry("sysstat/sar_d.txt", None, refused="unknown_format"),
    Entry("darshan/fork/*.darshan", "darshan", darshan_fork),
]


def test_every_file(shared_data):
    """All that is wrong at once."""
    wrong = []
    for entry in CORPUS:
        try:
            _check(entry, sorted(shared_data.glob(entry.path)))
        except AssertionError as error:
            wrong.append(f"{entry.path} ({entry.refused or 'read'}): {error}")
    assert not wrong, "\n\n".join(wrong)
    _check_that_no_file_is_left_out(shared_data)


def _check(entry, paths):
    assert paths, "the corpus has lost a file"
    for path in paths:
        outcome, tables = read(path, entry.context)
        assert outcome.source == entry.source
        assert outcome.reason == entry.refused, outcome.message
        if entry.oracle is not None:
            entry.oracle(path, tables)


def test_a_text_reads_the_same_however_it_was_saved(shared_data, tmp_path):
    """One small text of every entry: behind an editor's mark and empty lines, with line ends of
    Windows, and gzipped."""
    wrong = []
    for entry in CORPUS:
        path = sorted(shared_data.glob(entry.path))[0]
        if entry.refused or not path.is_file() or path.stat().st_size > 50_000:
            continue
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        if b"\0" in data:
            continue
        saved = tmp_path / path.name
        lines = (b"\n\n" + data + b"\n\n").replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        saved.write_bytes(gzip.compress(b"\xef\xbb\xbf" + lines))
        outcome, tables = read(saved, entry.context)
        as_given = read(path, entry.context)[1]
        if {name: len(rows) for name, rows in tables.items()} != {name: len(rows) for name, rows in as_given.items()}:
            wrong.append(f"{entry.path}: {outcome.message}")
    assert not wrong, "\n".join(wrong)


def _check_that_no_file_is_left_out(shared_data):
    """Of the folders that have a part here, every file is named by an entry, or said to be no input."""
    named = {path for entry in CORPUS for path in shared_data.glob(entry.path)} | {
        path for pattern in NO_INPUT for path in shared_data.glob(pattern)
    }
    folders = {path.parent for path in named}
    assert (
        sorted(str(path) for folder in folders for path in folder.iterdir() if path.is_file() and path not in named)
        == []
    )

"""IOR's output: real files with figures read by eye, and small texts for what goes wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from error_kinds import source_error
from ioweather.core.contracts import ReadContext, Source
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.tables import concat
from ioweather.core.units import GIB, MIB, parse_time_ns
from ioweather.readers.benchmarks import IO500, IOR, MDTEST

UTC = ReadContext(zone=ZoneInfo("UTC"))

TEXT_4 = """\
WARNING: The file "/fast/me/nn.00000001" exists already and will be deleted
IOR-4.0.0: MPI Coordinated Test of Parallel I/O
Began               : Tue Mar  3 10:00:00 2026
Command line        : ior -a POSIX -i 2 -t 1m -b 64m -o /fast/me/file
Machine             : Linux n1
TestID              : 0
StartTime           : Tue Mar  3 10:00:01 2026
Path                : /fast/me/file
FS                  : 252.0 GiB   Used FS: 21.8%   Inodes: 16.0 Mi   Used Inodes: 11.6%

Options: 
api                 : POSIX
test filename       : /fast/me/file
access              : single-shared-file
segments            : 1
nodes               : 2
tasks               : 8
clients per node    : 4
repetitions         : 2
xfersize            : 1 MiB
blocksize           : 64 MiB
aggregate filesize  : 512 MiB

Results: 

access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ----       ----------  ---------- ---------  --------   --------   --------   --------   ----
write     100.00     101.00     0.000608    65536      1024.00    0.014593   5.100000   0.000138   5.120000   0   
read      200.00     202.00     0.000021    65536      1024.00    0.002860   2.500000   0.002877   2.560000   0   
remove    -          -          -           -          -          -          -          -          0.500000   0   
WARNING: something of another rank
write     128.00     129.00     0.000608    65536      1024.00    0.014593   3.900000   0.000138   4.000000   1   
read      256.00     257.00     0.000021    65536      1024.00    0.002860   1.900000   0.002877   2.000000   1   
Max Write: 128.00 MiB/sec (134.22 MB/sec)
Max Read:  256.00 MiB/sec (268.44 MB/sec)

Summary of all tests:
Operation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev   Max(OPs)   Min(OPs)  Mean(OPs)     StdDev    Mean(s) Test# API
write         128.00     100.00     114.00      14.00     128.00     100.00     114.00      14.00    4.56000     0 POSIX
read          256.00     200.00     228.00      28.00     256.00     200.00     228.00      28.00    2.28000     0 POSIX
Finished            : Tue Mar  3 10:00:20 2026
"""  # noqa: W291


def rows(path: Path, context: ReadContext = UTC) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {"benchmarks": [], "events": []}
    for table, frame in IOR.read(path, context):
        found[table] += frame.records()
    return found


def rows_until_error(path: Path) -> tuple[dict[str, list[dict[str, Any]]], SourceError | None]:
    """What a reader gives before it stops: the ingest keeps that and calls the file partial."""
    found: dict[str, list[dict[str, Any]]] = {"benchmarks": [], "events": []}
    try:
        for table, frame in IOR.read(path, UTC):
            found[table] += frame.records()
    except SourceError as error:
        return found, error
    return found, None


def written(tmp_path: Path, text: str, name: str = "ior.out") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def phases(path: Path, context: ReadContext = UTC) -> dict[str, dict[str, Any]]:
    return {row["phase"]: row for row in rows(path, context)["benchmarks"]}


def test_two_iterations(tmp_path: Path) -> None:
    found = rows(written(tmp_path, TEXT_4))
    by_phase = {row["phase"]: row for row in found["benchmarks"]}
    assert list(by_phase) == ["run", "write[0]", "read[0]", "remove[0]", "write[1]", "read[1]"]
    assert by_phase["write[1]"]["bytes_per_s"] == 128 * MIB
    assert by_phase["remove[0]"]["operation"] == "delete"
    assert by_phase["remove[0]"]["bytes_per_s"] is None
    assert by_phase["remove[0]"]["duration_seconds"] == 0.5
    # Only the first phase of a test begins at a known moment; of the others the run is known, and that is said.
    assert by_phase["write[0]"]["start_ns"] == parse_time_ns("2026-03-03T10:00:01Z")
    assert "times" not in json.loads(by_phase["write[0]"]["parameters"])
    for name in ("read[0]", "write[1]"):
        assert by_phase[name]["start_ns"] == by_phase["run"]["start_ns"]
        assert by_phase[name]["end_ns"] == by_phase["run"]["end_ns"]
        assert json.loads(by_phase[name]["parameters"])["times"] == "of the run"
    assert [event["label"] for event in found["events"]] == ["ior", "ior write[0]"]
    assert found["events"][0]["end_ns"] == parse_time_ns("2026-03-03T10:00:20Z")


def test_the_doubled_hour_of_autumn(tmp_path: Path) -> None:
    """Began in the doubled hour is refused; entering it during the run is settled by the order of the dates."""
    zone = ReadContext(zone=ZoneInfo("Europe/Berlin"))
    autumn = TEXT_4.replace("Tue Mar  3 10:00:0", "Sun Oct 25 01:59:5").replace(
        "Tue Mar  3 10:00:20", "Sun Oct 25 02:00:10"
    )
    assert phases(written(tmp_path, autumn), zone)["run"]["end_ns"] == parse_time_ns("2026-10-25T00:00:10Z")
    with source_error("UndatedInput", match="twice"):
        rows(written(tmp_path, TEXT_4.replace("Tue Mar  3 10:", "Sun Oct 25 02:")), zone)


def test_a_cut_file_gives_what_is_whole_and_then_says_so(tmp_path: Path) -> None:
    cut = TEXT_4[: TEXT_4.index("read      256") + 15]
    found, error = rows_until_error(written(tmp_path, cut))
    assert isinstance(error, SourceError)
    assert error.kind == "TruncatedInput"
    assert "ends before its last result" in str(error)
    assert [row["phase"] for row in found["benchmarks"]] == ["run", "write[0]", "read[0]", "remove[0]", "write[1]"]


def test_a_run_that_failed(tmp_path: Path) -> None:
    text = TEXT_4[: TEXT_4.index("write     100")] + "ior ERROR: open64() failed, errno 13, Permission denied\n"
    with source_error("TruncatedInput", match="Permission denied"):
        rows(written(tmp_path, text))


def test_two_outputs_mixed_in_one_file(tmp_path: Path) -> None:
    text = TEXT_4.replace("   1   \nread", "   0   \nread")
    with pytest.raises(CorruptInput, match=r"two results for write\[0\]"):
        rows(written(tmp_path, text))


@pytest.mark.parametrize("order", [1, -1])
def test_an_output_that_was_cut_and_the_whole_one_are_one_run(tmp_path, order):
    from ioweather.ingestion.ingest import ingest
    from ioweather.lake.lake import open_lake

    cut = TEXT_4[: TEXT_4.index("WARNING: something")]
    lake = open_lake(tmp_path / "lake", create=True)
    for number, text in enumerate([cut, TEXT_4][::order]):
        (tmp_path / f"{number}.out").write_text(text)
        ingest(lake, [tmp_path / f"{number}.out"], context=UTC)
    with lake.snapshot() as snapshot:
        phases = [row[0] for row in snapshot.query("SELECT phase FROM benchmarks ORDER BY phase").fetchall()]
        (end_ns,) = snapshot.query("SELECT end_ns FROM benchmarks WHERE phase = 'run'").fetchall()[0]
    assert phases == sorted(set(phases))
    assert {"write[0]", "write[1]"} <= set(phases)
    assert end_ns is not None


# The layout of 1.9 and 3.x: colons, and a heading without a unit.
TEXT_1_9 = """\
-- started at 11/01/2019 13:22:48 --

mdtest-1.9.3 was launched with 16 total task(s) on 2 node(s)
Command line used: mdtest "-i" "3" "-n" "32" "-d" "/fast/md"
Path: /fast
FS: 4731.7 TiB   Used FS: 57.0%   Inodes: 0.0 Mi   Used Inodes: -nan%

16 tasks, 512 files/directories

SUMMARY: (of 3 iterations)
   Operation                      Max            Min           Mean        Std Dev
   ---------                      ---            ---           ----        -------
   Directory creation:        661.621        661.595        661.613          0.010
   File creation     :        439.763        404.632        422.661         14.357
   File read         :          0.000          0.000          0.000          0.000
   Tree removal      :         96.927         84.924         91.069          4.904

-- finished at 11/01/2019 19:14:57 --
"""
# 4.x as IO500 runs it: a table of times, whose heading claims another unit, follows the rates.
TEXT_4_MDTEST = """\
-- started at 05/03/2024 09:32:15 --

mdtest-4.1.0+dev was launched with 64 total task(s) on 8 node(s)
Command line used: ./mdtest '-n' '1000' '-d' '/fast/md' '-C'
Nodemap: 1111
Path                : /fast/md
FS                  : 727.6 TiB   Used FS: 67.2%   Inodes: 733.8 Mi   Used Inodes: 0.1%
64 tasks, 64000 files
Continue stonewall hit min: 49252 max: 69315 avg: 58997.7 


SUMMARY rate (in ops/sec): (of 1 iterations)
   Operation                     Max            Min           Mean        Std Dev
   ---------                     ---            ---           ----        -------
   File creation              119113.150     119113.150     119113.150          0.000
   File stat                       0.000          0.000          0.000          0.000
   Tree creation                   4.279          4.279          4.279          0.000

SUMMARY time (in ops/sec): (of 1 iterations)
   Operation                     Max            Min           Mean        Std Dev
   ---------                     ---            ---           ----        -------
   File creation                 372.432        372.432        372.432          0.000
   File stat                       0.000          0.000          0.000          0.000
   Tree creation                   0.234          0.234          0.234          0.000
-- finished at 05/03/2024 09:38:29 --
"""  # noqa: W291


def rows_of_mdtest(path: Path, context: ReadContext = UTC) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {"benchmarks": [], "events": []}
    for table, frame in MDTEST.read(path, context):
        found[table] += frame.records()
    return found


def written_of_mdtest(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mdtest.out"
    path.write_text(text)
    return path


def test_the_older_layout(tmp_path: Path) -> None:
    found = rows_of_mdtest(written_of_mdtest(tmp_path, TEXT_1_9))
    by_phase = {row["phase"]: row for row in found["benchmarks"]}
    # Zero is what mdtest prints for an operation it was not asked for.
    assert list(by_phase) == ["run", "directory_creation", "file_creation", "tree_removal"]
    assert by_phase["file_creation"]["ops_per_s"] == 422.661
    parameters = json.loads(by_phase["file_creation"]["parameters"])
    assert (parameters["ops_per_s_max"], parameters["ops_per_s_min"], parameters["ops_per_s_sd"]) == (
        439.763, 404.632, 14.357,
    )  # fmt: skip
    assert parameters["iterations"] == 3
    assert by_phase["run"]["start_ns"] == parse_time_ns("2019-11-01T13:22:48Z")


def test_rates_are_not_overwritten_by_the_times_that_follow(tmp_path: Path) -> None:
    by_phase = {row["phase"]: row for row in rows_of_mdtest(written_of_mdtest(tmp_path, TEXT_4_MDTEST))["benchmarks"]}
    assert list(by_phase) == ["run", "file_creation", "tree_creation"]
    assert by_phase["file_creation"]["ops_per_s"] == 119113.150
    assert by_phase["file_creation"]["duration_seconds"] == 372.432
    per_operation = TEXT_4_MDTEST.replace("time (in ops/sec)", "time (in ms/op)")
    by_phase = {row["phase"]: row for row in rows_of_mdtest(written_of_mdtest(tmp_path, per_operation))["benchmarks"]}
    assert by_phase["file_creation"]["ops_per_s"] == 119113.150
    assert by_phase["file_creation"]["duration_seconds"] is None


WARSAW = ReadContext(zone=ZoneInfo("Europe/Warsaw"))

SUMMARY = """\
IO500 version io500-isc24_v3 (standard)
[RESULT]       ior-easy-write       35.280303 GiB/s : time 386.698 seconds
[RESULT]    mdtest-easy-write       11.911315 kIOPS : time 373.799 seconds
[      ]            timestamp        0.000000 kIOPS : time 0.000 seconds
[RESULT]       ior-hard-write        0.599653 GiB/s : time 24.188 seconds [INVALID]
[RESULT]                 find        0.000000 kIOPS : time 0.000 seconds [INVALID]
[RESULT]     mdtest-hard-stat       30.522764 kIOPS : time 82.610 seconds
[RESULT]   mdtest-easy-delete        9.672080 kIOPS : time 459.993 seconds
[SCORE ] Bandwidth 12.231263 GiB/s : IOPS 19.235513 kiops : TOTAL 15.338664 [INVALID]
"""
# The first versions, a shell script: phases with numbers, underscores, and GB/s for what is GiB/s.
SUMMARY_OLD = """\
[RESULT] BW   phase 1            ior_easy_write                7.732 GB/s : time 323.36 seconds
[RESULT] IOPS phase 1         mdtest_easy_write               18.238 kiops : time 332.48 seconds
[RESULT] IOPS phase 3                      find              152.461 kiops : time  54.53 seconds
[SCORE] Bandwidth 0.96602 GB/s : IOPS 10.0543 kiops : TOTAL 3.11652
"""
RESULT = """\
[run]
procs           = 640
version         = io500-isc24_v3
config-hash     = 6C6B3A84
result-dir      = /fast/results/2024.05.03-09.25.44
mode            = standard
; START 2024-05-03 09:25:48


[ior-easy-write]
t_start         = 2024-05-03 09:25:48
exe             = ./ior -k -e -o /fast/data/ior-easy/ior_file_easy -O stoneWallingStatusFile=/fast/x -t 2m -F -w
throughput-stonewall = 40.35
score           = 35.280303
t_delta         = 386.6981
t_end           = 2024-05-03 09:32:15

[timestamp]
t_start         = 2024-05-03 09:38:29
t_delta         = 0.0003
t_end           = 2024-05-03 09:38:29

[mdtest-hard-write]
t_start         = 2024-05-03 09:43:53
exe             = ./mdtest -n 1000000 -t -w 3901 -e 3901 -d /fast/data/mdtest-hard -C -Y -W 300 -a POSIX
rate-stonewall  = 7.042321
score           = 6.662141
t_delta         = 374.8816
t_end           = 2024-05-03 09:50:08

[find]
t_start         = 2024-05-03 09:50:08
exe             = ./pfind /fast/data -newer /fast/results/timestampfile -size 3901c -name *01* -C -q 10000
nproc           = 640
found           = 909322
score           = 287.215129
t_delta         = 0.4317
t_end           = 2024-05-03 09:50:08

[SCORE]
MD              = 19.235512
BW              = 12.231263
SCORE           = 15.338664 [INVALID]
hash            = A7748DEE
; END 2024-05-03 10:17:13
"""


def rows_of_io500(path: Path, context: ReadContext = WARSAW) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {"benchmarks": [], "events": []}
    for table, frame in IO500.read(path, context):
        found[table] += frame.records()
    return found


def written_of_io500(tmp_path: Path, text: str, name: str = "result.txt") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_the_summary(tmp_path: Path) -> None:
    path = written_of_io500(tmp_path, SUMMARY, "result_summary.txt")
    assert IO500.detect(path.read_bytes(), path) == 0.95
    found = rows_of_io500(path, ReadContext())  # it has no dates, so it needs no zone
    assert not found["events"]
    by_phase = {row["phase"]: row for row in found["benchmarks"]}
    assert list(by_phase) == [
        "ior-easy-write", "mdtest-easy-write", "ior-hard-write", "find", "mdtest-hard-stat", "mdtest-easy-delete",
        "score",
    ]  # fmt: skip
    assert by_phase["ior-easy-write"]["bytes_per_s"] == pytest.approx(35.280303 * GIB)
    assert by_phase["ior-easy-write"]["ops_per_s"] is None
    assert by_phase["ior-easy-write"]["duration_seconds"] == 386.698
    assert by_phase["mdtest-hard-stat"]["ops_per_s"] == pytest.approx(30522.764)
    assert [row["operation"] for row in by_phase.values()] == [
        "write", "create", "write", "find", "stat", "delete", None,
    ]  # fmt: skip
    assert by_phase["find"]["ops_per_s"] is None
    assert json.loads(by_phase["ior-hard-write"]["parameters"])["valid"] is False
    assert "valid" not in json.loads(by_phase["ior-easy-write"]["parameters"])
    score = by_phase["score"]
    assert score["bytes_per_s"] == pytest.approx(12.231263 * GIB)
    assert json.loads(score["parameters"]) == {
        "mode": "standard", "score": 15.338664, "valid": False, "version": "io500-isc24_v3",
    }  # fmt: skip


def test_the_result_file_has_times(tmp_path: Path) -> None:
    path = written_of_io500(tmp_path, RESULT)
    assert IO500.detect(path.read_bytes(), path) == 0.95
    found = rows_of_io500(path)
    by_phase = {row["phase"]: row for row in found["benchmarks"]}
    assert list(by_phase) == ["run", "ior-easy-write", "mdtest-hard-write", "find", "score"]
    write = by_phase["ior-easy-write"]
    assert write["bytes_per_s"] == pytest.approx(35.280303 * GIB)
    assert write["start_ns"] == parse_time_ns("2024-05-03T09:25:48+02:00")
    assert write["end_ns"] == parse_time_ns("2024-05-03T09:32:15+02:00")
    assert json.loads(write["parameters"])["tasks"] == 640
    assert json.loads(by_phase["score"]["parameters"])["valid"] is False
    assert [(event["label"], event["system"]) for event in found["events"]] == [
        ("ior-easy-write", "mount:/fast/data/ior-easy"),
        ("mdtest-hard-write", "mount:/fast/data/mdtest-hard"),
        ("find", None),
    ]
    # Within one second the dates are equal; the length it prints is finer.
    assert found["events"][2]["end_ns"] - found["events"][2]["start_ns"] == 431_700_000
    assert by_phase["run"]["end_ns"] == parse_time_ns("2024-05-03T10:17:13+02:00")


def test_a_run_that_was_stopped_keeps_the_phases_that_ended(tmp_path: Path) -> None:
    stopped = RESULT[: RESULT.index("score           = 287")]
    reader = IO500.read(written_of_io500(tmp_path, stopped), WARSAW)
    table, frame = next(reader)
    assert table == "benchmarks"
    assert [row["phase"] for row in frame.records()] == ["run", "ior-easy-write", "mdtest-hard-write"]
    assert next(reader)[0] == "events"
    with source_error("TruncatedInput", match="before the IO500 score"):
        next(reader)
    with source_error("TruncatedInput", match="before the IO500 score"):
        rows_of_io500(written_of_io500(tmp_path, SUMMARY[: SUMMARY.index("[SCORE")]))


def test_a_damaged_result_file(tmp_path: Path) -> None:
    with pytest.raises(CorruptInput, match="already exists"):
        rows_of_io500(written_of_io500(tmp_path, RESULT.replace("[find]", "[ior-easy-write]")))
    with pytest.raises(CorruptInput, match=r"not an IO500 result\.txt"):
        rows_of_io500(written_of_io500(tmp_path, RESULT.replace("nproc           = 640", "nonsense")))


def test_figures_that_are_printed_again_count_once_and_others_are_another_run(tmp_path: Path) -> None:
    """Scripts print results in their form and the program's, and scores again when they are reckoned again."""
    path = tmp_path / "summary.txt"
    again = SUMMARY_OLD.replace("ior_easy_write", "ior-easy-write").replace("mdtest_easy_write", "mdtest-easy-write")
    score = SUMMARY_OLD.splitlines()[-1] + "\n"
    path.write_text(SUMMARY_OLD + again + score)
    once = tmp_path / "once.txt"
    once.write_text(SUMMARY_OLD)
    phases = [concat([f for _, f in IO500.read(p, WARSAW)]).text("phase").categories for p in (path, once)]
    assert sorted(phases[0]) == sorted(phases[1])
    path.write_text(SUMMARY_OLD + score.replace("3.11652", "4.5"))
    found = concat([frame for _, frame in IO500.read(path, WARSAW)])
    assert {"score", "run2/score"} <= set(found.text("phase").categories)


def rows_of_recordings(path: Path, source: Source, context: ReadContext = UTC) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {"benchmarks": [], "events": []}
    for table, frame in source.read(path, context):
        found[table] += frame.records()
    return found


def phases_of_recordings(path: Path) -> dict[str, dict[str, Any]]:
    return {row["phase"]: row for row in rows_of_recordings(path, IOR)["benchmarks"]}


@pytest.mark.shared
def test_recordings_of_others_by_hand(shared_data: Path) -> None:
    _check_the_run_of_2011_on_2048_processes(shared_data)
    _check_all_real_outputs_are_read_and_agree_with_their_own_summary(shared_data)
    _check_a_real_run_of_mdtest(shared_data)


def _check_the_run_of_2011_on_2048_processes(shared_data: Path) -> None:
    path = shared_data / "darshan/v2/350690.output"
    found = rows_of_recordings(path, IOR, ReadContext(zone=ZoneInfo("America/Chicago")))
    by_phase = {row["phase"]: row for row in found["benchmarks"]}
    printed = {"write": [2222.96, 2321.09, 2314.76, 2302.51], "read": [2878.55, 2939.11, 2910.44, 2903.94]}
    for access, values in printed.items():
        for iteration, value in enumerate(values):
            assert by_phase[f"{access}[{iteration}]"]["bytes_per_s"] == pytest.approx(value * MIB)
    # The mean of all eight, which the logs of this run are judged by.
    everything = [value for values in printed.values() for value in values]
    assert sum(everything) / 8 == pytest.approx(2599, abs=1)
    # open + transfer + close of the first write, which this version prints instead of their sum.
    assert by_phase["write[0]"]["duration_seconds"] == pytest.approx(0.427417 + 235.34 + 0.079745, abs=0.01)
    assert by_phase["write[0]"]["start_ns"] == parse_time_ns("2011-02-08T23:10:59-06:00")
    assert by_phase["read[3]"]["start_ns"] == parse_time_ns("2011-02-08T23:35:16-06:00")
    assert by_phase["run"]["end_ns"] >= parse_time_ns("2011-02-08T23:38:16-06:00")
    parameters = json.loads(by_phase["write[0]"]["parameters"])
    assert (parameters["tasks"], parameters["nodes"], parameters["tasks_per_node"]) == (2048, 2048, 1)
    assert parameters["repetitions"] == 4
    # Every iteration has its time, so the run as a whole is not marked as well.
    assert [event["label"] for event in found["events"]] == [
        f"ior {access}[{i}]" for i in range(4) for access in ("write", "read")
    ]
    assert {event["kind"] for event in found["events"]} == {"phase"}
    assert found["events"][0]["system"] == "mount:/intrepid-fs0/users/harms/scratch"


def _check_all_real_outputs_are_read_and_agree_with_their_own_summary(shared_data: Path) -> None:
    paths = sorted((shared_data / "darshan/real").glob("ior_*.out"))
    assert len(paths) == 19
    for path in paths:
        assert IOR.detect(path.read_bytes()[:65536], path) == 0.9
        found = phases_of_recordings(path)
        for access, best in re.findall(r"^Max (Write|Read): +([0-9.]+) MiB", path.read_text(), re.MULTILINE):
            if float(best):
                printed = found[f"{access.lower()}[0]"]["bytes_per_s"]
                assert printed == pytest.approx(float(best) * MIB, abs=0.51 * MIB)


def _check_a_real_run_of_mdtest(shared_data: Path) -> None:
    path = shared_data / "darshan/real/mdtest.out"
    assert MDTEST.detect(path.read_bytes(), path) == 0.9
    found = rows_of_recordings(path, MDTEST)
    rates = {row["phase"]: (row["operation"], row["ops_per_s"]) for row in found["benchmarks"]}
    assert rates == {
        "run": (None, None),
        "file_creation": ("create", 26444.029),
        "file_stat": ("stat", 201691.654),
        "file_read": ("read", 81578.430),
        "file_removal": ("delete", 65389.130),
        "tree_creation": ("create", 24966.095),
        "tree_removal": ("delete", 288.110),
    }
    assert all(row["bytes_per_s"] is None for row in found["benchmarks"])
    (event,) = found["events"]
    assert event["label"] == "mdtest"
    assert event["start_ns"] == parse_time_ns("2026-11-15T07:04:40Z")
    assert event["end_ns"] == parse_time_ns("2026-11-15T07:04:42Z")
    assert {(row["start_ns"], row["end_ns"]) for row in found["benchmarks"]} == {(event["start_ns"], event["end_ns"])}
    parameters = json.loads(found["benchmarks"][1]["parameters"])
    assert parameters["times"] == "of the run"
    assert (parameters["tasks"], parameters["nodes"], parameters["items"]) == (8, 1, 1600)

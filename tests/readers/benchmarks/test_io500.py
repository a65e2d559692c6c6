"""IO500's two result files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ioweather.core.clock import parse_time_ns
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, TruncatedInput
from ioweather.core.tables import concat
from ioweather.core.units import GIB
from ioweather.readers.benchmarks import IO500

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


def rows(path: Path, context: ReadContext = WARSAW) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {"benchmarks": [], "events": []}
    for table, frame in IO500.read(path, context):
        found[table] += frame.records()
    return found


def written(tmp_path: Path, text: str, name: str = "result.txt") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_the_summary(tmp_path: Path) -> None:
    path = written(tmp_path, SUMMARY, "result_summary.txt")
    assert IO500.detect(path.read_bytes(), path) == 0.95
    found = rows(path, ReadContext())  # it has no dates, so it needs no zone
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
    path = written(tmp_path, RESULT)
    assert IO500.detect(path.read_bytes(), path) == 0.95
    found = rows(path)
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
    reader = IO500.read(written(tmp_path, stopped), WARSAW)
    table, frame = next(reader)
    assert table == "benchmarks"
    assert [row["phase"] for row in frame.records()] == ["run", "ior-easy-write", "mdtest-hard-write"]
    assert next(reader)[0] == "events"
    with pytest.raises(TruncatedInput, match="before the score"):
        next(reader)
    with pytest.raises(TruncatedInput, match="before the score"):
        rows(written(tmp_path, SUMMARY[: SUMMARY.index("[SCORE")]))


def test_a_damaged_result_file(tmp_path: Path) -> None:
    with pytest.raises(CorruptInput, match="already exists"):
        rows(written(tmp_path, RESULT.replace("[find]", "[ior-easy-write]")))
    with pytest.raises(CorruptInput, match=r"not a result\.txt"):
        rows(written(tmp_path, RESULT.replace("nproc           = 640", "nonsense")))


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

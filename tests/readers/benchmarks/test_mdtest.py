"""mdtest's output in its versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ioweather.core.clock import parse_time_ns
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import TruncatedInput
from ioweather.readers.benchmarks import MDTEST

UTC = ReadContext(zone=ZoneInfo("UTC"))

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
TEXT_4 = """\
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


def rows(path: Path, context: ReadContext = UTC) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {"benchmarks": [], "events": []}
    for table, frame in MDTEST.read(path, context):
        found[table] += frame.records()
    return found


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mdtest.out"
    path.write_text(text)
    return path


def test_the_older_layout(tmp_path: Path) -> None:
    found = rows(written(tmp_path, TEXT_1_9))
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
    by_phase = {row["phase"]: row for row in rows(written(tmp_path, TEXT_4))["benchmarks"]}
    assert list(by_phase) == ["run", "file_creation", "tree_creation"]
    assert by_phase["file_creation"]["ops_per_s"] == 119113.150
    assert by_phase["file_creation"]["duration_seconds"] == 372.432
    per_operation = TEXT_4.replace("time (in ops/sec)", "time (in ms/op)")
    by_phase = {row["phase"]: row for row in rows(written(tmp_path, per_operation))["benchmarks"]}
    assert by_phase["file_creation"]["ops_per_s"] == 119113.150
    assert by_phase["file_creation"]["duration_seconds"] is None


def test_statistics_per_rank_stand_before_those_per_iteration(tmp_path: Path) -> None:
    row = "   File creation              119113.150     119113.150     119113.150          0.000"
    per_rank = "   File creation     9.0 7.0 8.0     119113.150     119113.150     119113.150          0.000"
    found = rows(written(tmp_path, TEXT_4.replace(row, per_rank)))
    assert found["benchmarks"][1]["ops_per_s"] == 119113.150


def test_a_run_without_its_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TruncatedInput, match="table of rates"):
        rows(written(tmp_path, TEXT_4[: TEXT_4.index("SUMMARY")]))

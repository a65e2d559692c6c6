"""IOR's output: real files with figures read by eye, and small texts for what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ioweather.core.clock import parse_time_ns
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError, TruncatedInput, UndatedInput
from ioweather.core.units import MIB
from ioweather.readers.benchmarks import IOR

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


def test_two_iterations_and_their_summary(tmp_path: Path) -> None:
    found = rows(written(tmp_path, TEXT_4))
    by_phase = {row["phase"]: row for row in found["benchmarks"]}
    assert list(by_phase) == [
        "run", "write[0]", "read[0]", "remove[0]", "write[1]", "read[1]", "write[max]", "read[max]",
    ]  # fmt: skip
    assert by_phase["write[1]"]["bytes_per_s"] == 128 * MIB
    assert by_phase["remove[0]"]["operation"] == "delete"
    assert by_phase["remove[0]"]["bytes_per_s"] is None
    assert by_phase["remove[0]"]["duration_seconds"] == 0.5
    best = by_phase["write[max]"]
    assert best["bytes_per_s"] == 128 * MIB
    assert json.loads(best["parameters"])["bytes_per_s_mean"] == 114 * MIB
    assert json.loads(best["parameters"])["bytes_per_s_sd"] == 14 * MIB
    # Only the first phase of a test begins at a known moment; of the others the run is known, and that is said.
    assert by_phase["write[0]"]["start_ns"] == parse_time_ns("2026-03-03T10:00:01Z")
    assert "times" not in json.loads(by_phase["write[0]"]["parameters"])
    for name in ("read[0]", "write[1]", "write[max]"):
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
    with pytest.raises(UndatedInput, match="twice"):
        rows(written(tmp_path, TEXT_4.replace("Tue Mar  3 10:", "Sun Oct 25 02:")), zone)


def test_lines_marked_by_a_launcher(tmp_path: Path) -> None:
    marked = "".join(f"[1,0]<stdout>:{line}\n" for line in TEXT_4.splitlines())
    plain, tagged = phases(written(tmp_path, TEXT_4)), phases(written(tmp_path, marked, "tagged.out"))
    assert [row["bytes_per_s"] for row in plain.values()] == [row["bytes_per_s"] for row in tagged.values()]


def test_a_cut_file_gives_what_is_whole_and_then_says_so(tmp_path: Path) -> None:
    cut = TEXT_4[: TEXT_4.index("read      256") + 15]
    found, error = rows_until_error(written(tmp_path, cut))
    assert isinstance(error, TruncatedInput)
    assert "ends before its last result" in str(error)
    assert [row["phase"] for row in found["benchmarks"]] == ["run", "write[0]", "read[0]", "remove[0]", "write[1]"]


def test_a_run_that_failed(tmp_path: Path) -> None:
    text = TEXT_4[: TEXT_4.index("write     100")] + "ior ERROR: open64() failed, errno 13, Permission denied\n"
    with pytest.raises(TruncatedInput, match="Permission denied"):
        rows(written(tmp_path, text))


def test_two_outputs_mixed_in_one_file(tmp_path: Path) -> None:
    text = TEXT_4.replace("   1   \nread", "   0   \nread")
    with pytest.raises(CorruptInput, match=r"write\[0\] twice"):
        rows(written(tmp_path, text))


def json_output(**changes: Any) -> dict[str, Any]:
    results = [
        {"access": "write", "bwMiB": 100.0, "iops": 101.0, "totalTime": 5.12},
        {"access": "read", "bwMiB": 200.0, "iops": 202.0, "totalTime": 2.56},
        {"access": "write", "bwMiB": 128.0, "iops": 129.0, "totalTime": 4.0},
    ]
    test = {
        "TestID": 0, "StartTime": "Tue Mar  3 10:00:01 2026", "Path": "/fast/me/file",
        "Options": {"api": "POSIX", "test filename": "/fast/me/file", "tasks": "8", "nodes": "2", "xfersize": "1 MiB",
                    "repetitions": "2"},
        "Results": [[results[0], results[1]], [results[2]]],
    }  # fmt: skip
    return {
        "Version": "4.0.0", "Began": "Tue Mar  3 10:00:00 2026", "Command line": "ior -i 2", "Machine": "Linux n1",
        "tests": [test],
        "summary": [{"operation": "write", "TestID": 0, "bwMaxMIB": 128.0, "bwMeanMIB": 114.0, "OPsMax": 129.0}],
        "Finished": "Tue Mar  3 10:00:20 2026",
    } | changes  # fmt: skip


def test_json_output(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps(json_output(), indent=2), "ior.json")
    assert IOR.detect(path.read_bytes(), path) == 0.9
    found = phases(path)
    assert list(found) == ["run", "write[0]", "read[0]", "write[1]", "write[max]"]
    assert found["write[1]"]["bytes_per_s"] == 128 * MIB
    assert found["write[0]"]["start_ns"] == parse_time_ns("2026-03-03T10:00:01Z")
    assert found["write[max]"]["ops_per_s"] == 129
    assert json.loads(found["write[0]"]["parameters"])["tasks"] == 8


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
    assert {"write[0]", "write[1]", "write[max]"} <= set(phases)
    assert end_ns is not None

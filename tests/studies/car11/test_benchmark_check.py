"""Bandwidths against planted benchmarks, and jobs against the ceiling of their nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from planted_jobs import GIB, MIB, NS, T, cells, estimate, exhibits, facility, planted

from ioweather.core.contracts import ReadContext
from ioweather.core.frames import Frame
from ioweather.core.tables import BENCHMARKS, concat
from ioweather.facts.job_metrics import job_io
from ioweather.readers.benchmarks import IOR
from ioweather.readers.darshan.darshan_reader import MODULES, read_log, rows_of_logs


def benchmark(*rows: dict[str, Any]) -> Frame:
    base = {"digest": "b", "phase": "write[0]", "operation": "write", "mib": 100.0, "start": 0.0, "end": 10.0,
            "command": "/bin/app", "tasks": 8}  # fmt: skip
    full = [base | row for row in rows]
    return BENCHMARKS.frame(
        {name: [row[name] for row in full] for name in ("digest", "phase", "operation")},
        tool=["ior"] * len(full),
        bytes_per_s=[row["mib"] * MIB for row in full],
        start_ns=[None if row["start"] is None else T + round(row["start"] * NS) for row in full],
        end_ns=[None if row["end"] is None else T + round(row["end"] * NS) for row in full],
        parameters=[json.dumps({"command": row["command"], "tasks": row["tasks"], "api": "POSIX"}) for row in full],
    )


def log(mib_per_s: float, **more: Any) -> dict[str, Any]:
    """A log that wrote 1,000 MiB to files of its own, with this bandwidth by our reckoning."""
    seconds = 1000 / mib_per_s
    return {"nprocs": 8, "written": 1000 * MIB, "io": seconds, "d_write_seconds": seconds, "run_seconds": 10.0,
            "write_bytes_per_s": mib_per_s * MIB, "write_seconds": 8 * seconds, "first_open_ns": T,
            "last_close_ns": T + round(seconds * NS), "unique_write_bytes": 1000 * MIB, **more}  # fmt: skip


def check(runs: list[dict[str, Any]], *rows: dict[str, Any]) -> Any:
    return exhibits("benchmark_check", {**planted(runs), "benchmarks": benchmark(*rows)})["car11.table1"]


def test_agreement() -> None:
    made = check([log(102.0)], {})
    row = cells(made)[0]
    assert row["deviation"] == pytest.approx(0.02)
    assert (row["cause"], row["benchmark"]) == ("agrees", "ior POSIX N-N write")
    assert row["per_node"] == pytest.approx(51.0)
    assert estimate(made, "within_3_percent_ratio").value == 1.0
    assert estimate(made, "estimated_write[N-N]").value == pytest.approx(102.0)
    assert estimate(made, "per_node_write[N-N]").value == pytest.approx(51.0)


def test_ranks_that_do_not_overlap_are_named() -> None:
    made = check([log(125.0, last_close_ns=T + 10 * NS)], {})
    row = cells(made)[0]
    assert "did not write at the same time" in row["cause"]
    assert row["passed_deviation"] == pytest.approx(0.0)
    assert "0 are unexplained" in made.findings[0].text


def test_what_the_log_does_not_explain_is_said() -> None:
    made = check([log(150.0)], {})
    assert cells(made)[0]["cause"].startswith("not explained")
    assert "1 are unexplained" in made.findings[0].text
    assert estimate(made, "not_explained").value == 1


def test_iterations_are_put_together_and_summaries_left_out() -> None:
    made = check(
        [log(400 / 3)], {"mib": 100.0}, {"phase": "write[1]", "mib": 200.0}, {"phase": "write[max]", "mib": 200.0}
    )
    assert len(cells(made)) == 1
    assert cells(made)[0]["actual"] == pytest.approx(400 / 3)


@pytest.mark.shared
def test_real_runs_agree_or_their_cause_is_named(shared_data: Path) -> None:
    """22 outputs of IOR 4.1 and one of 2.10 on 2,048 processes, each beside its Darshan log."""
    context = ReadContext(zone=ZoneInfo("UTC"))
    outputs = [*sorted((shared_data / "darshan/real").glob("ior*.out")), shared_data / "darshan/v2/350690.output"]
    printed = [frame for path in outputs for table, frame in IOR.read(path, context) if table == "benchmarks"]
    paths = [*sorted((shared_data / "darshan/real").glob("*.darshan")), *(shared_data / "darshan/v2").glob("harms*.gz")]
    applications, files = rows_of_logs([read_log(path, modules=MODULES) for path in paths])
    frames = {"applications": applications, "job_io": job_io(applications, files), "benchmarks": concat(printed)}
    made = exhibits("benchmark_check", frames)["car11.table1"]
    rows = cells(made)
    assert len(rows) == 23
    assert not any(row["cause"].startswith("not explained") for row in rows)
    assert all(abs(row["deviation"]) < 0.03 for row in rows if "N-1 write" in row["benchmark"])
    assert all(abs(row["deviation"]) < 0.03 for row in rows if "MPIIO" in row["benchmark"])
    assert sum(row["cause"] == "agrees" for row in rows) == 15


def job(nodes: int, rate: float, mount: str = "/scratch") -> dict[str, object]:
    return {"nprocs": 4 * nodes, "read": 10 * GIB, "io": 10 * GIB / MIB / rate / nodes, "main_mount": mount}


SITE = facility(
    node_limit_bytes_per_s=10 * MIB,
    filesystem={
        "scratch": {"mounts": ["/scratch"], "peak_bytes_per_s": 1000 * MIB},
        "home": {"mounts": ["/home"], "peak_bytes_per_s": 100 * MIB},
    },
)


def test_ceiling_is_the_lower_of_link_and_share_of_the_file_system() -> None:
    made = exhibits(
        "node_ceiling", planted([job(10, 9.0), job(1000, 0.5), job(1000, 2.0), job(100, 5.0, "/home")]), SITE
    )
    exhibit = made["car11.ceiling"]
    rows = {row["nodes"]: row for row in cells(exhibit, "ceiling_by_size")}
    assert rows[10]["ceiling"] == pytest.approx(10.0)
    assert rows[1000]["ceiling"] == pytest.approx(1.0)
    assert rows[100]["ceiling"] == pytest.approx(1.0)  # the peak of /home
    assert (rows[1000]["above"], rows[100]["above"], rows[10]["above"]) == (1, 1, 0)
    assert estimate(exhibit, "outlier_jobs").value == 2
    drawn = exhibit.charts[0].table
    assert {row[2] or row[3] for row in drawn.rows} == {"job", "above the ceiling", "ceiling"}

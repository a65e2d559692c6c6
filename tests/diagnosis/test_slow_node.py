"""A run that is slow on a slow node: runs of other programs on it were slow too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from planted_jobs import GIB, planted

from ioweather.core.tables import TABLES
from ioweather.core.units import MINUTE_NS, NS
from ioweather.diagnosis.similar_runs import slowdown_on_nodes
from ioweather.lake.lake import open_lake

DAY = 19_700 * 86_400 * NS


@pytest.mark.parametrize(("node", "expected"), [("n1", 2.0), ("n2", None)])
def test_other_programs_on_the_node_were_slow(tmp_path, node: str, expected: float | None) -> None:
    jobs: list[dict[str, Any]] = [
        {"job_id": k + 1, "exe": f"/bin/{'other' if k else 'solver'}", "uid": 3 + bool(k), "nprocs": 8, "read": GIB,
         "io": 600.0 if k in (0, 12) else 300.0, "start_ns": DAY + (0 if k in (0, 12) else k * 100) * MINUTE_NS,
         "run_seconds": 700.0}
        for k in range(13)
    ]  # fmt: skip
    frames = planted(jobs)
    applications = frames["applications"]
    runs = frames["job_io"].with_columns(**{name: applications[name] for name in ("job_id", "uid", "exe")})
    start = [job["start_ns"] for job in jobs]
    accounting = TABLES["jobs"].frame(
        rows=13, cluster="c", raw_job_id=np.arange(13) + 1, step="", restart=0, job_id=[str(k + 1) for k in range(13)],
        uid=[3] + [4] * 12, user="u", state="COMPLETED", submit_ns=start, start_ns=start,
        end_ns=[each + 700 * NS for each in start], nodes=["n1", *[node] * 12],
    )  # fmt: skip
    lake = open_lake(tmp_path / "lake", create=True)
    lake.append("jobs", accounting, source="sacct")
    similar: Any = SimpleNamespace(runs=runs.take([0]), all_runs=runs.take(np.arange(1, 13)))
    with lake.snapshot() as snapshot:
        found = slowdown_on_nodes(snapshot, similar)
    assert found == (None if expected is None else pytest.approx(expected, rel=0.01))

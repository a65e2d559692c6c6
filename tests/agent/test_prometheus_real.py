"""A real Prometheus scrapes the exporter, takes the rules and raises the alert; promtool has no complaint."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ioweather.agent.exporter import render
from ioweather.agent.status import (
    InFlight,
    OperationStatus,
    Recent,
    SourceStatus,
    SpoolStatus,
    Status,
    TargetStatus,
    write_status,
)

pytestmark = pytest.mark.real
RULES = Path(__file__).resolve().parents[2] / "docs" / "prometheus"


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (apt-get install prometheus)")
    return found


def a_status(hung: bool) -> Status:
    now = time.time_ns()
    read = OperationStatus("read", 1 << 20, "nocache", ok_count=50, error_count=1, errors={"EIO": 1}, expected_ns=10**6,
                           expected_count=50, last_success_ns=now, recent=Recent(60 * 10**9, 50, 10**6, 10**6, 10**6),
                           bucket_counts=(0,) * 7 + (50,), sum_ns=50 * 10**6)  # fmt: skip
    flight = InFlight("read", 1 << 20, now - 60 * 10**9, 60 * 10**9) if hung else None
    target = TargetStatus("/scratch", "mount:/scratch", "waiting", 10**9, ticks=50, in_flight=flight,
                          operations=(read, replace(read, op="stat", request_bytes=0, mode="cache")))  # fmt: skip
    return Status("n1", 1, "b", "r", "running", now - 10**11, now, 10**9, SpoolStatus("/s"), (target,),
                  (SourceStatus("block", "waiting", 10**9, last_ok=True, last_duration_ns=10**6),), "0.1")  # fmt: skip


@pytest.mark.parametrize("hung", [True, False])
def test_promtool_accepts_the_metrics(promtool, tmp_path, hung):
    write_status(a_status(hung), tmp_path)
    for text in (render(tmp_path), render(tmp_path / "nothing")):
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_promtool_accepts_the_rules_and_their_tests_pass(promtool):
    for arguments in (["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]):
        done = subprocess.run([promtool, *arguments], cwd=RULES, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_every_query_of_the_dashboard(promtool, tmp_path):
    dashboard = json.loads((RULES.parent / "grafana" / "weather.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    rules = [
        {"record": f"panel:{n}", "expr": query.replace("$__rate_interval", "1m")} for n, query in enumerate(queries)
    ]
    (tmp_path / "panels.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))  # JSON is YAML
    done = subprocess.run([promtool, "check", "rules", "panels.yml"], cwd=tmp_path, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(queries)} rules found" in done.stdout

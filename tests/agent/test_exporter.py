"""Metrics from a status: right numbers, short closed labels, no old numbers of an agent that is gone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ioweather.agent.exporter import render
from ioweather.agent.status import (
    BUCKETS_NS,
    InFlight,
    OperationStatus,
    Recent,
    SourceStatus,
    SpoolStatus,
    Status,
    TargetStatus,
    keep_status,
    write_status,
)
from ioweather.ingestion.queue import collect_queue
from ioweather.ui.web.lake_metrics import collect

DOCS = Path(__file__).resolve().parents[2] / "docs"
NOW = 1_800_000_000_000_000_000
COUNTS = (0,) * 7 + (3, 1) + (0,) * (len(BUCKETS_NS) + 1 - 9)
READ = OperationStatus(
    "read", 1 << 20, "nocache", ok_count=4, error_count=2, errors={"EIO": 2}, last_success_ns=NOW - 10**9,
    expected_ns=1_000_000, expected_count=100, recent=Recent(60 * 10**9, 4, 5_000_000, 6_000_000, 7_000_000),
    bucket_counts=COUNTS, sum_ns=6_500_000,
)  # fmt: skip
TARGET = TargetStatus(
    "/scratch", "mount:/scratch", "hung", 10**9, ticks=30, missed_ticks=20,
    in_flight=InFlight("read", 1 << 20, NOW - 20 * 10**9, 19 * 10**9), operations=(READ, replace(READ, op="stat")),
)  # fmt: skip
STATUS = Status(
    "n1", 7, "boot", "run", "running", started_ns=NOW - 10**12, written_ns=NOW - 10**9, period_ns=10**9,
    spool=SpoolStatus("/spool", bytes=100, written_rows=50, dropped_rows=3, last_ship_ns=NOW, last_ship_ok=True),
    targets=(TARGET,),
    sources=(SourceStatus("probe", "waiting", 10**9), SourceStatus("block", "waiting", 10**9, last_ok=True,
                                                                   last_duration_ns=2_000_000, missed_ticks=1)),
    software_version="0.1",
)  # fmt: skip


def samples(directory: Path, now: int = NOW) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = render(directory, lambda: now, pushed_to=directory).decode()
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text) for sample in family.samples}  # fmt: skip


@pytest.fixture
def found(tmp_path):
    write_status(STATUS, tmp_path)
    keep_status(tmp_path, replace(STATUS, host="n2", run_id="other"), NOW - 60 * 10**9)
    return samples(tmp_path)


def value(found, name, **labels):
    return found[name, tuple(sorted(labels.items()))]


KIND = {"target": "/scratch", "op": "read", "request_bytes": "1048576", "mode": "nocache"}


def test_the_numbers_are_those_of_the_status(found):
    assert value(found, "ioweather_up") == 1
    assert value(found, "ioweather_slowdown_ratio", **KIND) == 5.0
    assert value(found, "ioweather_expected_seconds", **KIND) == 0.001
    assert value(found, "ioweather_last_success_timestamp_seconds", **KIND) == NOW / 1e9 - 1
    assert value(found, "ioweather_errors_total", target="/scratch", op="read", errno="EIO") == 2
    assert value(found, "ioweather_failed_operations_total", target="/scratch", op="read") == 2
    assert value(found, "ioweather_missed_ticks_total", target="/scratch") == 20
    assert value(found, "ioweather_ticks_total", target="/scratch") == 30
    assert value(found, "ioweather_spool_dropped_rows_total") == 3
    assert value(found, "ioweather_source_duration_seconds", source="block") == 0.002
    assert value(found, "ioweather_source_success", source="block") == 1
    assert value(found, "ioweather_target_ready", target="/scratch") == 1


def test_an_agent_elsewhere_is_told_apart_by_its_host(found):
    """Its period of shipping is not told, so its own counts, and it has been silent for a minute."""
    assert value(found, "ioweather_remote_up", host="n2") == 0
    assert value(found, "ioweather_remote_heard_seconds", host="n2") == 60
    assert value(found, "ioweather_remote_spool_bytes", host="n2") == 100
    assert value(found, "ioweather_remote_dropped_rows_total", host="n2") == 3
    assert value(found, "ioweather_remote_troubles", host="n2") == 2


def test_the_age_in_flight_is_of_now_and_of_its_operation(found):
    assert value(found, "ioweather_in_flight_seconds", target="/scratch", op="read") == 20.0
    assert value(found, "ioweather_in_flight_seconds", target="/scratch", op="stat") == 0.0
    assert value(found, "ioweather_in_flight_seconds", target="/scratch", op="other") == 0.0


def test_the_histogram_counts_from_below(found):
    buckets = {labels: n for (name, labels), n in found.items() if name == "ioweather_response_seconds_bucket"
               and ("op", "read") in labels}  # fmt: skip
    bounds = {float(dict(labels)["le"]): n for labels, n in buckets.items()}
    assert len(bounds) == len(BUCKETS_NS) + 1
    assert bounds[0.00064] == 0
    assert bounds[0.00128] == 3
    assert bounds[0.00256] == bounds[float("inf")] == 4
    assert value(found, "ioweather_response_seconds_sum", **KIND) == 0.0065
    assert value(found, "ioweather_response_seconds_count", **KIND) == 4


def test_what_is_not_known_is_not_there(tmp_path):
    bare = replace(READ, expected_ns=None, recent=Recent(60), last_success_ns=None, errors={}, error_count=0)
    write_status(replace(STATUS, targets=(replace(TARGET, operations=(bare,), in_flight=None),)), tmp_path)
    found = samples(tmp_path)
    names = {name for name, _ in found}
    assert not names & {"ioweather_slowdown_ratio", "ioweather_expected_seconds", "ioweather_errors_total",
                        "ioweather_last_success_timestamp_seconds"}  # fmt: skip
    assert value(found, "ioweather_failed_operations_total", target="/scratch", op="read") == 0


def test_an_agent_that_is_gone_leaves_no_numbers(tmp_path):
    assert samples(tmp_path) == {("ioweather_up", ()): 0.0}
    write_status(STATUS, tmp_path)
    old = samples(tmp_path, NOW + 3600 * 10**9)
    assert {name for name, _ in old} == {"ioweather_up", "ioweather_status_age_seconds"}
    assert value(old, "ioweather_up") == 0
    (tmp_path / "status.json").write_text("{broken")
    assert samples(tmp_path) == {("ioweather_up", ()): 0.0}


JUDGED = {"kinds_last_day": {}, "made_ns": 0, "left_verdicts": 0, "left_files": 0}


def metric_names(expression: str) -> set[str]:
    return set(re.findall(r"\bioweather[a-z_:0-9]+", expression))


@pytest.fixture
def judged(tmp_path):
    """Metrics of the last pass over watched directories."""
    (tmp_path / "catch_up.json").write_text(json.dumps({"version": 1, "last": JUDGED}))
    return list(collect_queue(tmp_path, lambda: 0))


def test_rules_and_dashboard_use_metrics_that_exist(found, judged):
    of_lake = (*collect((), (), 0), *judged)
    exported = {name for name, _ in found} | {text.split()[2] for text in of_lake}
    rules = (DOCS / "prometheus/rules.yml").read_text()
    recorded = set(re.findall(r"record: (\S+)", rules))
    used = {name for line in re.findall(r"expr:(.*(?:\n {10,}.*)*)", rules) for name in metric_names(line)}
    assert used <= exported | recorded
    dashboard = json.loads((DOCS / "grafana/weather.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            assert metric_names(target["expr"]) <= exported | recorded, panel["title"]


def test_every_metric_is_documented(found, judged):
    page = (DOCS / "how-to/prometheus.md").read_text()
    for name in {re.sub(r"_(bucket|sum|count)$", "", name) for name, _ in found} | {text.split()[2] for text in judged}:
        assert f"`{name}`" in page, name


def test_verdicts_are_counted_by_kind_and_never_by_job(tmp_path):
    told = {"kinds_last_day": {"system": 3, "4711": 9}, "made_ns": 90 * 10**9, "left_verdicts": 2, "left_files": 0}
    (tmp_path / "catch_up.json").write_text(json.dumps({"version": 1, "last": told}))
    text = render(tmp_path / "spool", others=[lambda: collect_queue(tmp_path, lambda: 100 * 10**9)]).decode()
    assert 'ioweather_verdicts_last_day{kind="system"} 3.0' in text
    assert 'ioweather_verdicts_last_day{kind="you"} 0.0' in text
    assert "4711" not in text
    assert "ioweather_catch_up_age_seconds 10.0" in text
    assert "ioweather_catch_up_left_verdicts 2.0" in text
    for damaged in ("", "[]", '{"last": 3}', '{"last": {"kinds_last_day": [], "made_ns": "x"}}'):
        (tmp_path / "catch_up.json").write_text(damaged)
        assert "verdicts" not in render(tmp_path / "spool", others=[lambda: collect_queue(tmp_path)]).decode()


def promtool(*arguments: str, text: bytes | None = None, folder: Path = DOCS / "prometheus") -> tuple[int, str]:
    """Exit code and output of Prometheus's own checker."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (apt-get install prometheus)")
    done = subprocess.run(["promtool", *arguments], input=text, cwd=folder, capture_output=True, check=False)
    return done.returncode, (done.stdout + done.stderr).decode()


@pytest.mark.real
def test_promtool_accepts_metrics_rules_and_the_queries_of_the_dashboard(tmp_path):
    write_status(STATUS, tmp_path)
    for text in (render(tmp_path, lambda: NOW), render(tmp_path / "nothing")):
        assert promtool("check", "metrics", text=text) == (0, "")
    for arguments in (("check", "rules", "rules.yml"), ("test", "rules", "rules_test.yml")):
        assert promtool(*arguments)[0] == 0
    dashboard = json.loads((DOCS / "grafana/weather.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    rules = [{"record": f"panel:{n}", "expr": text.replace("$__rate_interval", "1m")} for n, text in enumerate(queries)]
    (tmp_path / "panels.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))  # JSON is YAML
    code, said = promtool("check", "rules", "panels.yml", folder=tmp_path)
    assert code == 0, said
    assert f"{len(queries)} rules found" in said

"""Whatever rows a table takes, every command and page answers, or says in one line why it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from extreme_rows import add_extreme_rows, century_rows
from ioweather.cli.main import run
from ioweather.core.clock import now_ns
from ioweather.store.lake import Lake, open_lake
from ioweather.web.app import LOOPBACK, create_app
from small_facility import make_small_lake

COMMANDS = (
    "lake", "lake --json", "storage", "now", "health", "events", "exhibits", "forecast", "who", "runs", "triage",
    "claims", "predict 1GiB", "predictability", "stripe 1GiB", "relieve", "doctor", "lake quarantine",
    "lake retention --dry-run", "why --since 30d", "lake compact --everything", "storage", "lake retention",
)  # fmt: skip
PAGES = (
    "/", "/now", "/fragments/now", "/fragments/forecast", "/who", "/fragments/who", "/fragments/busiest", "/search?q=1",
    "/claims", "/fragments/claims", "/exhibits", "/fragments/runs", "/fragments/projects", "/fragments/weather",
    "/fragments/filesystems", "/fragments/load", "/fragments/slowest", "/agents", "/unhealthy", "/lake", "/quality",
    "/events", "/fragments/events", "/fragments/storage", "/fragments/relief", "/filesystems/scratch",
    "/components/OST0000", "/users/1", "/api/v1/now", "/api/v1/events", "/api/v1/jobs", "/api/v1/lake",
)  # fmt: skip
_FAULT = "This is a fault of ioweather"


@pytest.fixture
def spoilt(tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    lake = make_small_lake(tmp_path)
    added = add_extreme_rows(lake, request.param)
    assert min(added.values()) > 0, added
    return lake


def _jobs(lake: Lake) -> list[int]:
    with lake.snapshot() as snapshot:
        found = snapshot.query("SELECT DISTINCT job_id FROM applications WHERE job_id >= 0 ORDER BY hash(job_id)")
        return [job for (job,) in found.fetchmany(6)]


def _faults(lake: Lake, capsys: pytest.CaptureFixture[str], lines: list[str]) -> list[str]:
    found = []
    for line in lines:
        code = run([*line.split(), "--lake", str(lake.root)])
        captured = capsys.readouterr()
        text = captured.out + captured.err
        if code not in (0, 1, 2) or _FAULT in text or "it failed:" in text or "Traceback" in text:
            found.append(f"{line}: {captured.err[-500:]}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("spoilt", range(1, 7), indirect=True)
def test_no_row_of_any_table_makes_a_command_or_a_page_fail(
    spoilt: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = _jobs(spoilt)
    lines = [*COMMANDS, *(f"{command} {job}" for command in ("job", "why") for job in jobs)]
    found = _faults(spoilt, capsys, lines)
    run(["exhibits", "--json", "--lake", str(spoilt.root)])
    exhibits = [each["id"] for each in json.loads(capsys.readouterr().out)]
    found += _faults(spoilt, capsys, [*(f"show {name} --json" for name in exhibits), f"report --out {tmp_path}/r.html"])
    app = create_app(spoilt.root, hosts=(*LOOPBACK, "testserver"))
    with TestClient(app, raise_server_exceptions=False) as client:
        for page in (*PAGES, *(f"/fragments/jobs/{job}{part}" for job in jobs for part in ("", "/evidence"))):
            for asked in (page, f"{page}{'&' if '?' in page else '?'}from=@0"):
                answer = client.get(asked)
                if answer.status_code >= 500:
                    found.append(f"{asked}: {answer.status_code} {answer.text[:300]}")
    assert not found, "\n".join(found)


def test_intervals_of_decades_do_not_stop_later_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reports of a node whose clock was not set at boot: one interval from 1970 until today."""
    lake = open_lake(tmp_path / "lake", create=True)
    lake.append("series", century_rows(now_ns()), source="iostat")
    later = tmp_path / "good.csv"
    later.write_text("time,value\n2026-01-01T00:00:00Z,5\n2026-01-01T00:01:00Z,6\n")
    (tmp_path / "map.toml").write_text(
        '[columns]\nstart_ns = {column = "time", kind = "time"}\nvalue = "value"\n'
        '[constants]\ninterval_ns = 60000000000\nsystem = "scratch"\ncomponent_kind = "ost"\ncomponent = "OST0000"\n'
        'metric = "read_bytes"\nquality = 0\n'
    )
    lines = ["lake", "storage", "doctor", "exhibits", f"report --out {tmp_path}/r.html", "lake compact --everything"]
    assert _faults(lake, capsys, lines) == []
    with lake.snapshot() as snapshot:
        assert snapshot.series() == [], "a row of decades has no place on a grid"
        assert snapshot.tables()["series"] == 40

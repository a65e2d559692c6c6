"""Whatever rows a table takes, every command and page answers, or says in one line why it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from small_facility import make_small_lake

from extreme_rows import add_extreme_rows, century_rows
from ioweather.core.errors import IoweatherError, LakeError
from ioweather.core.frames import Frame
from ioweather.core.tables import TABLES
from ioweather.core.units import DAY_NS, MINUTE_NS, now_ns
from ioweather.diagnosis import health_query as health
from ioweather.lake.lake import Lake, open_lake
from ioweather.ui.cli.main import run
from ioweather.ui.web.app import LOOPBACK, create_app

COMMANDS = (
    "lake", "lake --json", "storage", "now", "health", "events", "exhibits", "forecast", "who", "runs", "triage",
    "claims", "predict 1GiB", "stripe 1GiB", "relieve", "doctor", "lake quarantine",
    "lake retention --dry-run", "why --since 30d", "lake compact --everything", "storage", "lake retention",
)  # fmt: skip
PAGES = (
    "/", "/now", "/fragments/now", "/fragments/forecast", "/who", "/fragments/who", "/fragments/busiest", "/search?q=1",
    "/claims", "/fragments/claims", "/exhibits", "/fragments/runs", "/fragments/projects", "/fragments/weather",
    "/fragments/filesystems", "/fragments/load", "/fragments/slowest", "/agents", "/unhealthy", "/lake", "/quality",
    "/events", "/fragments/events", "/fragments/storage", "/fragments/relief", "/filesystems/scratch",
    "/components/OST0000", "/users/1", "/api/v1/now", "/api/v1/events", "/api/v1/jobs", "/api/v1/lake",
)  # fmt: skip
_FAULT = "This is a bug in ioweather"


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
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # an infinite quotient is shown as such
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


SELECT = """SELECT ns(time) AS start_ns, 60000000000 AS interval_ns, 'home' AS system, 'ost' AS component_kind,
    {} AS component, 'read_bytes' AS metric, bytes::DOUBLE AS value, 0 AS quality FROM input"""


def test_intervals_of_decades_do_not_stop_later_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reports of a node whose clock was not set at boot: one interval from 1970 until today."""
    lake = open_lake(tmp_path / "lake", create=True)
    lake.append("series", century_rows(now_ns()), source="iostat", checked=True)  # as ioweather 0.2 stored them
    good = tmp_path / "good.csv"
    good.write_text("time,bytes\n2026-01-01T00:00:00Z,5\n2026-01-01T00:01:00Z,6\n")
    (tmp_path / "map.sql").write_text(SELECT.format("'OST0000'"))
    assert (
        run(["ingest", str(good), "--as", "series", "--select", str(tmp_path / "map.sql"), "--lake", str(lake.root)])
        == 0
    )
    lines = ["lake", "storage", "doctor", "exhibits", f"report --out {tmp_path}/r.html", "lake compact --everything"]
    assert _faults(lake, capsys, lines) == []
    with lake.snapshot() as snapshot:
        assert {group.system for group in snapshot.series()} == {"home"}, "a row of decades has no place on a grid"
        assert snapshot.tables()["series"] == 42


def _samples(start_ns: int, interval_ns: int = MINUTE_NS, targets: int = 4) -> Frame:
    names = [f"OST{n:04x}" for n in range(targets)]
    return TABLES["series"].frame(
        rows=targets, start_ns=start_ns, interval_ns=interval_ns, system="scratch", component_kind="ost",
        component=names, metric="read_bytes", value=1.0, quality=0,
    )  # fmt: skip


def test_time_without_samples_is_not_searched(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake", create=True)
    for year in (2001, 2013, 2025):
        lake.append("series", _samples((year - 1970) * 365 * DAY_NS), source="lustre")
    with lake.snapshot() as snapshot:
        assert len([*health.list_windows(snapshot, 0)]) == 3


@pytest.fixture
def samples(tmp_path: Path) -> list[str]:
    """A command that brings samples of four targets."""
    rows = [f"2026-01-0{day}T00:00:00Z,OST{n},5" for day in (1, 2) for n in range(4)]
    (tmp_path / "good.csv").write_text("\n".join(["time,ost,bytes", *rows]) + "\n")
    (tmp_path / "map.sql").write_text(SELECT.format("ost"))
    ingest = ["ingest", str(tmp_path / "good.csv"), "--as", "series", "--select", str(tmp_path / "map.sql")]
    return [*ingest, "--lake", str(tmp_path / "lake")]


@pytest.mark.parametrize("error", [ValueError("no such bin"), MemoryError(), LakeError("No space left.")])
def test_rows_stay_when_a_search_fails_and_the_ingest_says_so(
    samples: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:  # fmt: skip
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(health, "search_window", fail)
    assert run(samples) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "The search for unhealthy components did not finish" in said
    assert "ioweather lake compact --everything" in said
    assert open_lake(tmp_path / "lake").tables()["series"] == 8


BEYOND = [
    ("_MOST_COMPONENTS", 3, "home has 4 components, more than can be compared"),
    ("_MOST_WINDOWS", 0, "only the newest 0 of 1 time windows were searched"),
]


@pytest.mark.parametrize(("name", "value", "words"), BEYOND)
def test_a_search_beyond_its_limits_says_what_was_left_out(
    samples: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, value: int,
    words: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(health, name, value)
    assert run(samples) == 1
    assert words in " ".join(capsys.readouterr().out.split())


def test_a_search_ends_when_its_time_is_over(samples: list[str], tmp_path: Path) -> None:
    assert run(samples) == 0
    with pytest.raises(IoweatherError, match="1 of 1 time windows, until 2026-01-0"):
        health.find_sick_components(open_lake(tmp_path / "lake"), 0, -1.0)

"""status.json: written whole, read back the same, refused where it is not what it should be."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from error_kinds import source_error
from ioweather.agent.status import (
    InFlight,
    Journal,
    OperationStatus,
    Outcome,
    Recent,
    SourceStatus,
    SpoolStatus,
    Status,
    TargetStatus,
    read_status,
    write_status,
)
from ioweather.core.errors import CorruptInput, DataUnavailable

READ = OperationStatus(
    "read", 1 << 20, "nocache", ok_count=2, error_count=1, errors={"EIO": 1},
    last=Outcome(10, "ok", 9, 500, None, False), expected_ns=250, expected_count=2, recent=Recent(60, 2, 500, 600, 700),
)  # fmt: skip
STATUS = Status(
    "n1", 7, "boot", "run", "running", started_ns=1, written_ns=100, period_ns=10**9,
    spool=SpoolStatus("/spool", files=2),
    targets=(TargetStatus("/scratch", "mount:/scratch", "running", 10**9, 8, in_flight=InFlight("read", 1, 90, 10),
                          operations=(READ,)),),
    sources=(SourceStatus("block", "waiting", 10**9, last_ok=True),),
)  # fmt: skip


def test_it_reads_back_as_it_was_written(tmp_path):
    write_status(STATUS, tmp_path)
    assert read_status(tmp_path) == STATUS
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]


def test_unknown_keys_are_passed_over(tmp_path):
    write_status(STATUS, tmp_path)
    body = json.loads((tmp_path / "status.json").read_text())
    body["later"] = 1
    body["targets"][0]["later"] = {"x": 1}
    (tmp_path / "status.json").write_text(json.dumps(body))
    assert read_status(tmp_path) == STATUS


def test_absent_broken_and_foreign(tmp_path):
    with pytest.raises(DataUnavailable, match="ioweather agent run"):
        read_status(tmp_path)
    for text in ("", "{", "[]", "{}", '{"version": 1}'):
        (tmp_path / "status.json").write_text(text)
        with pytest.raises(CorruptInput):
            read_status(tmp_path)
    (tmp_path / "status.json").write_text('{"version": 99}')
    with source_error("UnsupportedVersion", match="99"):
        read_status(tmp_path)


def test_slowdown_is_of_the_last_minute_against_the_baseline():
    assert READ.slowdown_ratio == 2.0
    assert replace(READ, expected_ns=None).slowdown_ratio is None
    assert replace(READ, recent=Recent(60)).slowdown_ratio is None


def test_age_grows_after_the_status_was_written_and_staleness_shows():
    target = STATUS.targets[0]
    assert STATUS.in_flight_age_ns(target, 100 + 5) == 15
    assert STATUS.in_flight_age_ns(target, 50) == 10, "a clock that went back takes nothing away"
    assert STATUS.in_flight_age_ns(replace(target, in_flight=None), 100) is None
    assert not STATUS.is_stale(100 + 4 * 10**9)
    assert STATUS.is_stale(100 + 6 * 10**9)
    assert replace(STATUS, state="stopped").is_stale(100)


@pytest.fixture
def logged(caplog):
    caplog.set_level("INFO", logger="ioweather.agent")
    journal = Journal()

    def log(*statuses):
        caplog.clear()
        for status in statuses:
            journal(status)
        return [(record.levelname, record.getMessage()) for record in caplog.records]

    return log


def test_problems_are_logged_when_they_begin_and_end(logged):
    assert logged(STATUS)[0][1].startswith("started on n1")
    hung = replace(STATUS, targets=(replace(STATUS.targets[0], state="hung"),))
    failed, again = (replace(STATUS, sources=(SourceStatus("block", state, 1, message="no"),))
                     for state in ("failed", "preparing"))  # fmt: skip
    assert logged(hung, hung) == [("WARNING", "/scratch: hung: read for 0.0 s")]
    assert logged(STATUS) == [("WARNING", "/scratch: recovered")]
    assert logged(failed, again, failed) == [("WARNING", "block: failed: no")], "whether it works is not known yet"
    assert logged(STATUS) == [("WARNING", "block: recovered")]
    away = replace(STATUS, spool=SpoolStatus("/spool", last_ship_ok=False, message="no lake"))
    lost = replace(STATUS, spool=SpoolStatus("/spool", dropped_rows=3, refused_files=1, refused_why="seg-1: torn"))
    assert logged(away, away) == [("WARNING", "delivery failed: no lake")]
    assert sorted(logged(lost, lost)) == [
        ("ERROR", "3 rows dropped"),
        ("WARNING", "delivery: recovered"),
        ("WARNING", "the lake refused 1 files: seg-1: torn"),
    ]

"""What changes in the agent's status becomes one line, once."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from ioweather.agent.status import InFlight, Journal, SourceStatus, SpoolStatus, Status, TargetStatus
from ioweather.core.units import NS

SPOOL = SpoolStatus("/spool", 1, 10, 100, 5, 0, 0, 0, None, None, "")
TARGET = TargetStatus("/scratch", "mount:/scratch", "waiting", NS, None, "direct", 1, 0, None, (), "")
SOURCE = SourceStatus("block", "waiting", NS, None, 1, 0, 0, 1, None, None, True, "")
STATUS = Status("n1", 7, "b", "r", "running", 0, 0, NS, SPOOL, (TARGET,), (SOURCE,), software_version="0")


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.INFO, logger="ioweather.agent")
    journal = Journal()

    def tell(*statuses):
        caplog.clear()
        for status in statuses:
            journal(status)
        return [(record.levelname, record.getMessage()) for record in caplog.records]

    return tell


def test_the_end_tells_what_is_wrong_with_the_spool(caplog):
    Journal().end(replace(STATUS, state="stopped", spool=replace(SPOOL, message=".seg-1: No space left on device")))
    assert caplog.messages == ["the spool: .seg-1: No space left on device"]


def test_a_hang_and_a_source_that_fails_are_told_once(told):
    told(STATUS)
    flight = InFlight("write", 1, 0, 3 * NS)
    hung = replace(STATUS, targets=(replace(TARGET, state="hung", in_flight=flight),))
    failed = replace(STATUS, sources=(replace(SOURCE, state="failed", message="no /proc/diskstats"),))
    assert told(hung, hung) == [("WARNING", "/scratch: hung: write for 3.0 s")]
    assert told(STATUS) == [("WARNING", "/scratch: works again")]
    assert told(failed, failed) == [("WARNING", "block: failed: no /proc/diskstats")]


def test_one_that_fails_again_and_again_is_told_once_and_does_not_work_in_between(told):
    told(STATUS)
    failed, again = (
        replace(STATUS, targets=(replace(TARGET, state=s, message="no"),)) for s in ("failed", "preparing")
    )
    assert told(failed, again, failed, again) == [("WARNING", "/scratch: failed: no")]
    assert told(STATUS) == [("WARNING", "/scratch: works again")]


def test_shipping(told):
    told(STATUS)
    away = replace(STATUS, spool=replace(SPOOL, last_ship_ok=False, last_ship_ns=1, message="no lake"))
    again = replace(STATUS, spool=replace(SPOOL, last_ship_ok=True, last_ship_ns=2))
    why = {"dropped_why": "3 rows not written: Input/output error", "refused_why": "seg-1.ndjson: torn"}
    full = replace(STATUS, spool=replace(SPOOL, dropped_rows=3, refused_files=1, **why))
    assert told(away, away) == [("WARNING", "not shipped: no lake")]
    assert told(again, again) == [("WARNING", "shipped again")]
    assert told(full, full) == [
        ("WARNING", "the lake refused 1 files: seg-1.ndjson: torn"),
        ("ERROR", "3 rows given up: 3 rows not written: Input/output error"),
    ]

"""The agent's child that catches up: one at a time, rests, waits longer after failures, and says how it went."""

from __future__ import annotations

import json
import sys
import time

import pytest

from ioweather.agent.delivery import CatchUp
from ioweather.agent.settings import WatchSettings, watch_settings_from
from ioweather.core.errors import FacilityError

S = 10**9
TOLD = {"troubles": [], "refused": {}, "rows_added": {"files": 3}, "verdicts": 2}


def child(tmp_path, code):
    script = tmp_path / "catch_up.py"
    script.write_text(f"import json, sys, time\n{code}\n")
    return CatchUp(tmp_path / "lake", command=(sys.executable, str(script)))


def ended(catching, now):
    for _ in range(500):
        catching.step(now, now)
        if catching.status().state == "waiting":
            return catching.status()
        time.sleep(0.02)
    raise AssertionError("it did not end")


def test_it_runs_every_minute_and_tells_what_is_new(tmp_path):
    catching = child(tmp_path, f"print(json.dumps({TOLD!r}))")
    catching.step(0, 77)
    assert catching.status().state == "running"
    status = ended(catching, 2 * S)
    assert (status.runs, status.failed_runs, status.rows, status.last_ok) == (1, 0, 5, True)
    assert (status.last_start_ns, status.last_duration_ns) == (77, 2 * S)
    catching.step(59 * S, 0)
    assert catching.status().state == "waiting"
    catching.step(60 * S, 0)
    assert catching.status().state == "running"
    ended(catching, 60 * S + 40 * S)
    catching.step(200 * S, 0)
    assert catching.status().state == "waiting", "after 40 s of work it rests 160 s"
    catching.step(260 * S, 0)
    assert catching.status().state == "running"
    catching.stop()
    assert catching.status().state == "waiting"


def test_refusals_and_troubles_are_told(tmp_path):
    told = {**TOLD, "troubles": ["/darshan: Input/output error"], "refused": {"/a": "a is cut"}}
    catching = child(tmp_path, f"print(json.dumps({told!r})); sys.exit(1)")
    catching.step(0, 0)
    status = ended(catching, S)
    assert (status.last_ok, status.message) == (True, "/darshan: Input/output error; a is cut")


@pytest.mark.parametrize("code", ["print('no lake', file=sys.stderr); sys.exit(2)", "print('[1]')", "print('}')"])
def test_after_a_failure_each_wait_is_twice_as_long(tmp_path, code):
    catching = child(tmp_path, code)
    now = 0
    for wait in (60, 120, 240):
        catching.step(now, 0)
        assert not ended(catching, now).last_ok
        catching.step(now + (wait - 1) * S, 0)
        assert catching.status().state == "waiting"
        now += wait * S
    assert catching.status().failed_runs == 3


def test_settings_of_what_is_watched():
    assert watch_settings_from({}) == WatchSettings()
    found = watch_settings_from({"directories": ["/a"], "every": "5m", "accounting": False})
    assert (str(found.directories[0]), found.every_ns, found.accounting) == ("/a", 300 * S, False)
    for wrong in ({"directory": []}, {"directories": "/a"}, {"directories": ["a"]}, {"every": "x"}, {"accounting": 1}):
        with pytest.raises(FacilityError):
            watch_settings_from(wrong)


def test_json_is_what_the_command_says():
    from dataclasses import asdict

    from ioweather.ingestion.watch import CaughtUp

    assert set(TOLD) <= set(json.loads(json.dumps(asdict(CaughtUp()))))

"""The proof on a real disk, and sensors that are broken on purpose: what was measured once is judged three times."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ioweather.cli.main import run as command
from ioweather.core.progress import silent
from ioweather.sources.darshan.log import read_log
from ioweather.sources.darshan.writer import write_log
from ioweather.workflows.prove import prove as module
from ioweather.workflows.prove.measure import Evidence, measure
from ioweather.workflows.prove.plan import Cause, shuffled

pytestmark = pytest.mark.slow
SEED = 11


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Evidence:
    target, kept = tmp_path_factory.mktemp("disk"), tmp_path_factory.mktemp("kept")
    found = measure(target, kept, shuffled(SEED), silent)
    assert list(target.iterdir()) == []  # nothing stays
    return found


def told(evidence: Evidence, capsys, monkeypatch) -> tuple[int, dict]:
    """The command, on what was measured before."""
    monkeypatch.setattr(module, "measure", lambda *_: evidence)
    monkeypatch.setattr(module, "shuffled", lambda _: shuffled(SEED))
    code = command(["doctor", "--prove", "/", "--json"])
    return code, json.loads(capsys.readouterr().out)


def copy_of(evidence: Evidence, to: Path) -> Evidence:
    shutil.copytree(evidence.spools[0].parent, to)
    return replace(
        evidence,
        stretches=tuple(replace(s, log=to / s.log.name) for s in evidence.stretches),
        spools=tuple(to / spool.name for spool in evidence.spools),
    )


def state(body: dict, sense: str, cause: Cause) -> str:
    return next(row["state"] for row in body["matrix"] if (row["sense"], row["planted"]) == (sense, cause))


def test_nothing_that_is_read_says_what_was_planted(measured):
    words = [word.encode() for cause in Cause if cause is not Cause.NOTHING for word in (cause, cause.name)]
    kept = measured.spools[0].parent
    assert not [
        (path, word) for path in kept.rglob("*") if path.is_file() for word in words if word in path.read_bytes()
    ]
    jobs = [read_log(stretch.log).job for stretch in measured.stretches]
    assert len({(job.exe, job.uid, job.nprocs, json.dumps(dict(job.metadata))) for job in jobs}) == 1


def test_sensors_that_work_find_what_was_planted(measured, capsys, monkeypatch):
    _, body = told(measured, capsys, monkeypatch)
    assert [run["planted"] for run in body["runs"]] == [str(cause) for cause in shuffled(SEED)]
    assert state(body, "advice", Cause.SMALL_REQUESTS) == state(body, "advice", Cause.MANY_FILES) == "right"
    assert state(body, "probe", Cause.STOPPED_PROBE) == "right"
    assert state(body, "verdict", Cause.SMALL_REQUESTS) in ("right", "not felt")
    assert not [sentence for sentence in body["wrong"] if sentence.startswith(("logs", "devices"))]


def test_a_probe_with_constant_times_is_caught(measured, capsys, monkeypatch, tmp_path):
    broken = copy_of(measured, tmp_path / "broken")
    for segment in (broken.spools[0] / "segments").iterdir():
        rows = [json.loads(line) for line in segment.read_text().splitlines()]
        constant = [{**row, "duration_ns": 10**6} if row.get("duration_ns") else row for row in rows]
        segment.write_text("".join(json.dumps(row) + "\n" for row in constant))
    code, body = told(broken, capsys, monkeypatch)
    if state(body, "probe", Cause.COMPETITOR) == "not felt":
        pytest.skip("this disk is too fast for the competitors")
    assert (code, state(body, "probe", Cause.COMPETITOR)) == (1, "wrong")


def test_logs_that_lost_counters_are_caught(measured, capsys, monkeypatch, tmp_path):
    broken = copy_of(measured, tmp_path / "broken")
    for stretch in broken.stretches:
        log = read_log(stretch.log)
        records = log.modules["POSIX"].records.copy()
        for name in records.dtype.names:
            if name.startswith(("POSIX_SIZE_", "POSIX_ACCESS")) or name in ("POSIX_WRITES", "POSIX_OPENS"):
                records[name] = 0
        write_log(stretch.log, log.job, {"POSIX": records}, dict(log.names))
    code, body = told(broken, capsys, monkeypatch)
    assert (code, state(body, "advice", Cause.SMALL_REQUESTS)) == (1, "wrong")
    assert state(body, "verdict", Cause.SMALL_REQUESTS) in ("wrong", "not felt")

"""sacct, polled: what it prints becomes a document that the source `sacct` reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioweather.agent.counters import SACCT_FIELDS, SlurmAccounting
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import SourceError
from ioweather.readers.slurm import SACCT
from live_reporter import HandClock, Heard


@pytest.fixture
def sacct(tmp_path, monkeypatch):
    """A stand-in that prints what the test says and keeps its arguments."""

    def install(body: str) -> Path:
        script = tmp_path / "sacct"
        script.write_text(f'#!/bin/sh\necho "$SLURM_TIME_FORMAT $*" >> {tmp_path}/calls\n{body}\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return tmp_path / "calls"

    return install


JOB = "\x1f".join(["7", "7", "c1", "1", "ann", "m1", "run", "COMPLETED", "1794724380", "1794724381", "1794724400",
                   "2", "4", "n[1-2]"])  # fmt: skip


def test_a_poll_is_a_document_for_the_sacct_source(sacct, tmp_path):
    text = SACCT_FIELDS.replace(",", "\x1f") + "\n" + JOB + "\n"
    (tmp_path / "out").write_text(text)
    calls = sacct(f"cat {tmp_path}/out")
    clock, heard = HandClock(), Heard()
    slurm = SlurmAccounting(clocks=clock.clocks)
    slurm.prepare(heard)
    slurm.cycle(0, heard)
    ((name, found),) = heard.documents.items()
    assert name.startswith("sacct-")
    document = tmp_path / name
    document.write_text(found)
    ((table, frame),) = SACCT.read(document, ReadContext())
    assert (table, frame.rows, frame.array("start_ns")[0]) == ("jobs", 1, 1794724381 * 10**9)
    clock.pass_seconds(300)
    slurm.cycle(0, heard)
    assert len(heard.documents) == 1, "the same answer is not sent twice"
    first, second = calls.read_text().splitlines()
    assert first.startswith("%s ")
    assert "now-86400seconds" in first
    assert "now-3900seconds" in second, "an hour further back than the poll before"


def test_no_jobs_is_no_document(sacct):
    sacct(f"echo {SACCT_FIELDS}")
    heard = Heard()
    SlurmAccounting().cycle(0, heard)
    assert heard.documents == {}


def test_failures_are_said(sacct, monkeypatch, tmp_path):
    sacct("echo no database >&2; exit 1")
    with pytest.raises(SourceError, match="no database"):
        SlurmAccounting().cycle(0, Heard())
    sacct("exec sleep 10")
    with pytest.raises(SourceError, match="timed out"):
        SlurmAccounting(timeout_seconds=0.1).cycle(0, Heard())
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(SourceError, match="PATH"):
        SlurmAccounting().prepare(Heard())

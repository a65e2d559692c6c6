"""On a real Slurm: a finished job has its line in the accounting without anybody asking."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import slurm_cluster
from ioweather.lake.lake import open_lake

pytestmark = pytest.mark.real
DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "slurm"
TESTS = Path(__file__).resolve().parents[1]
# Instead of an application under Darshan: it writes the log that Darshan would, with the id that Slurm gave it.
JOB = """#!/bin/sh
exec {python} -c "
import os, sys, time
sys.path.insert(0, '{tests}')
from pathlib import Path
from planted_logs import write_climate
now = time.time_ns()
job = int(os.environ['SLURM_JOB_ID'])
write_climate(Path('{logs}') / (str(job) + '.darshan'), job_id=job, start_ns=now - 100 * 10**9, end_ns=now)
"
"""


def call(environment, *command):
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, cwd="/tmp")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[tuple[dict[str, str], Path, Path]]:
    """A cluster whose mails become files, and a lake that watches a directory."""
    if why := slurm_cluster.missing(accounting=True):
        pytest.skip(f"no Slurm with accounting here: {why}")
    root = tmp_path_factory.mktemp("site")
    logs, mails = root / "logs", root / "mails"
    logs.mkdir()
    mails.mkdir()
    program = root / "ioweather"
    # Slurm starts the mailer with an environment of its own.
    here = f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}"
    program.write_text(f'#!/bin/sh\n{here} exec {sys.executable} -m ioweather "$@"\n')
    mailer = root / "mail"
    mailer.write_text(f'#!/bin/sh\n{{ echo "$2"; cat; }} > {mails}/new.$$ && mv {mails}/new.$$ {mails}/$$.txt\n')
    wrapped = root / "mail-prog"
    variables = f"IOWEATHER={program} LAKE={root / 'lake'} MAILER={mailer}"
    wrapped.write_text(f'#!/bin/sh\n{variables} exec {DEPLOY / "mail-with-line"} "$@"\n')
    for file in (program, mailer, wrapped):
        file.chmod(0o755)
    with slurm_cluster.slurm_nodes(1, accounting=True, more=f"MailProg={wrapped}\n") as environment:
        lake = open_lake(root / "lake", create=True)
        (lake.root / "facility.toml").write_text(
            f'[watch]\ndirectories = ["{logs}"]\nevery = "10s"\ntell = "{DEPLOY / "tell-slurm"}"\n'
        )
        watcher = subprocess.Popen(
            [sys.executable, "-m", "ioweather", "ingest", "--watch", "--lake", str(lake.root)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield environment, logs, mails
        finally:
            watcher.terminate()
            try:
                watcher.wait(60)
            except subprocess.TimeoutExpired:
                watcher.kill()
                watcher.wait()


def test_a_finished_job_has_its_line_and_its_mail(site):
    environment, logs, mails = site
    script = JOB.format(python=sys.executable, tests=TESTS, logs=logs)
    job = subprocess.run(
        ["sbatch", "--parsable", "-o", "/dev/null", "--mail-type=END", "--mail-user=me"], input=script, text=True,
        capture_output=True, env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)}, cwd="/tmp", check=True,
    ).stdout.strip()  # fmt: skip
    ended = line = None
    until = time.monotonic() + 240
    while time.monotonic() < until and not line:
        told = call(environment, "sacct", "-n", "-X", "-P", "-j", job, "-o", "State,AdminComment").strip()
        state, _, line = told.partition("|")
        assert state != "FAILED"
        if state == "COMPLETED" and ended is None:
            ended = time.monotonic()
        time.sleep(2)
    assert line, "no line"
    assert ended is not None
    waited = time.monotonic() - ended
    print(f"\njob {job}: {line!r} after {waited:.0f} s")
    assert "(ioweather, at its end)" in line
    mail = _mail(mails, until)
    print(mail)
    subject, _, text = mail.partition("\n")
    assert f"Job_id={job} " in subject
    assert "Ended" in subject
    assert line.split(": ")[0].lower() in text.lower(), "the mail has the verdict of the line"  # stored in lower case
    assert "at its end" in text


def _mail(mails: Path, until: float) -> str:
    """The mail of the job, which waits for the verdict as the line does."""
    while time.monotonic() < until:
        if found := sorted(mails.glob("*.txt")):
            return found[-1].read_text()
        time.sleep(1)
    raise AssertionError(f"no mail; {[path.name for path in mails.iterdir()]}")

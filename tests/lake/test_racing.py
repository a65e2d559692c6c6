"""Writers that race, a sealer and a reader among them; writers that are killed at any moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from store_lakes import DAY, series_frame

from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.lake.lake import open_lake
from ioweather.lake.maintenance import compact

HERE = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE)}

WRITER = """
import sys
import numpy as np
from store_lakes import DAY, series_frame
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.lake import appends
from ioweather.lake.lake import open_lake
appends._MANY_FILES = 3  # they merge each other's files, too
root, writer, commits = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
lake = open_lake(root)
for n in range(commits):
    # Two of the writers write the same rows, so that they also race for identity.
    system = f"fs{writer // 2}"
    frame = series_frame(np.full((3, 2), 1.0), start_ns=DAY + (n % 3) * DAY_NS + 3 * n * MINUTE_NS, system=system)
    lake.append("series", frame, source="tts")
print("done", flush=True)
"""

SEALER = """
import sys, time
from ioweather.lake.lake import open_lake
from ioweather.lake.maintenance import compact
while True:
    compact(open_lake(sys.argv[1]), everything=True)
    time.sleep(0.05)
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> int:
    process.communicate()
    return process.returncode


def race(root: Path, commits: int) -> None:
    lake = open_lake(root, create=True)
    writers = [start(WRITER, root, number, commits) for number in range(4)]
    sealer = start(SEALER, root)
    seen = 0
    try:
        while any(writer.poll() is None for writer in writers):
            with lake.snapshot() as snapshot:
                rows = snapshot.scalar("SELECT count(*) FROM series")
                distinct = snapshot.scalar(
                    "SELECT count(*) FROM (SELECT DISTINCT start_ns, system, component, metric FROM series)"
                )
            assert rows == distinct, "a row was doubled"
            assert rows % 6 == 0, "a read saw a part of a commit"
            assert rows >= seen, "a row was lost"
            seen = rows
    finally:
        sealer.kill()
        outputs = [writer.communicate()[0] for writer in writers]
        sealer.communicate()
    assert outputs == ["done\n"] * 4
    compact(lake, everything=True)
    with lake.snapshot() as snapshot:
        assert snapshot.scalar("SELECT count(*) FROM series") == 2 * commits * 6
        assert snapshot.scalar("SELECT sum(value) FROM series") == 2 * commits * 6


def test_four_writers_a_sealer_and_a_reader(tmp_path):
    race(tmp_path / "lake", 12)


@pytest.mark.slow
def test_four_writers_of_200_commits_a_sealer_and_a_reader(tmp_path):
    race(tmp_path / "lake", 200)


VICTIM = """
import sys
import numpy as np
from store_lakes import DAY, series_frame
from ioweather.core.units import MINUTE_NS
from ioweather.lake.lake import open_lake
from ioweather.ingestion.ledger import FileOutcome, record
from ioweather.core.tables import TABLES
root, files = sys.argv[1], int(sys.argv[2])
lake = open_lake(root, create=True)
with lake.snapshot() as snapshot:
    known = {row[0] for row in snapshot.query("SELECT digest FROM ingests").fetchall()}
print("ready", flush=True)
for n in range(files):
    if f"file{n}" in known:
        continue
    lake.append("series", series_frame(np.full((2, 2), 1.0), start_ns=DAY + 2 * n * MINUTE_NS), source="tts")
    event = TABLES["events"].frame(event_id=f"e{n}", kind="phase", start_ns=DAY + n, label="x", rows=1)
    lake.append("events", event, source="ior")
    record(lake, [FileOutcome(f"/f{n}", f"file{n}", 1, "tts", "ok", {"series": 4, "events": 1})])
    print(n, flush=True)
"""


def kill_often(root: Path, kills: int, files: int, rng: random.Random) -> None:
    """Each round a writer is killed at a random moment, also between the commits of two tables."""
    done: set[str] = set()
    for _ in range(kills):
        victim = start(VICTIM, root, files)
        assert victim.stdout is not None
        victim.stdout.readline()
        time.sleep(rng.uniform(0, 0.25))
        victim.send_signal(signal.SIGKILL)
        acknowledged = victim.communicate()[0].split()
        done.update(f"file{n}" for n in acknowledged)
        with open_lake(root).snapshot() as snapshot:
            ledger = {row[0] for row in snapshot.query("SELECT digest FROM ingests").fetchall()}
            assert done <= ledger, "what was committed is lost"
            for name in ledger:
                n = int(name.removeprefix("file"))
                at = DAY + 2 * n * MINUTE_NS
                rows = snapshot.scalar(
                    f"SELECT count(*) FROM series WHERE start_ns >= {at} AND start_ns < {at + 2 * MINUTE_NS}"
                )
                assert rows == 4, "the ledger names rows that are not there"
    assert finish(start(VICTIM, root, files)) == 0
    with open_lake(root).snapshot() as snapshot:
        assert snapshot.scalar("SELECT count(*) FROM series") == files * 4
        assert snapshot.scalar("SELECT count(*) FROM events") == files
        assert snapshot.scalar("SELECT count(*) FROM ingests") == files


def test_killed_writers_lose_nothing(tmp_path):
    kill_often(tmp_path / "lake", kills=3, files=12, rng=random.Random(1))


@pytest.mark.slow
def test_a_hundred_killed_writers_lose_nothing(tmp_path):
    kill_often(tmp_path / "lake", kills=100, files=220, rng=random.Random(2))


def test_a_writer_killed_between_two_tables_is_completed(tmp_path):
    """The same moment made certain: rows of one table are in, the other's and the ledger's are not."""
    lake = open_lake(tmp_path / "lake", create=True)
    lake.append("series", series_frame(np.full((2, 2), 1.0)), source="tts")
    assert finish(start(VICTIM, lake.root, 1)) == 0
    with lake.snapshot() as snapshot:
        assert snapshot.scalar("SELECT count(*) FROM series") == 4
        assert snapshot.scalar("SELECT count(*) FROM events") == 1


def test_sealing_keeps_what_is_appended_meanwhile(tmp_path, monkeypatch):
    """An append between the sealer's read and its commit stays beside the sealed file."""
    from ioweather.lake.delta_tables import Table

    lake = open_lake(tmp_path / "lake", create=True)
    lake.append("series", series_frame(np.ones((2, 1))), source="tts")
    replace = Table.replace_files

    def append_then_replace(*arguments: object) -> None:
        lake.append("series", series_frame(np.ones((2, 1)), start_ns=DAY + 5 * MINUTE_NS), source="tts")
        replace(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Table, "replace_files", append_then_replace)
    compact(lake, everything=True)
    with lake.snapshot() as snapshot:
        assert snapshot.scalar("SELECT count(*) FROM series") == 4
        assert sum(group.rows for group in snapshot.series()) == 4, "the seal must not hide the newcomer"


def test_two_sealers_do_not_double(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    for n in range(4):
        lake.append("series", series_frame(np.ones((2, 1)), start_ns=DAY + n * DAY_NS), source="tts")
        lake.append("series", series_frame(np.ones((2, 1)), start_ns=DAY + n * DAY_NS + 9 * MINUTE_NS), source="tts")
    script = "import sys; from ioweather.lake.lake import open_lake; from ioweather.lake.maintenance import compact; "
    script += "compact(open_lake(sys.argv[1]), everything=True)"
    sealers = [start(script, lake.root) for _ in range(3)]
    assert [finish(sealer) for sealer in sealers] == [0, 0, 0]
    with lake.snapshot() as snapshot:
        assert snapshot.scalar("SELECT count(*) FROM series") == 16

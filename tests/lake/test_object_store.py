"""A lake in object storage answers as one in a directory, on every host, and racing writers lose and double nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ioweather
from ioweather.core.errors import LakeError
from ioweather.core.safe_files import lake_place
from ioweather.lake import object_store as object_store_module
from ioweather.ui.cli.main import run
from object_stores import object_store

RACE = """
import random, sys
import ioweather
from ioweather.core.tables import TABLES
lake, seed, steps = ioweather.open_lake(sys.argv[1]), int(sys.argv[2]), 8
order = list(range(steps))
random.Random(seed).shuffle(order)
for step in order:
    start_ns = 1_772_409_600 * 10**9 + step * 60 * 10**9
    rows = {"system": ["s"] * 20, "component_kind": ["ost"] * 20, "metric": ["read_bytes"] * 20, "quality": [0] * 20}
    rows |= {"component": [f"OST{n:04d}" for n in range(20)], "interval_ns": [60 * 10**9] * 20}
    rows |= {"start_ns": [start_ns] * 20, "value": [float(step)] * 20}
    lake.append("series", TABLES["series"].frame(rows), source="race", checked=True)
"""


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with object_store(os.environ) as address:
        yield address


def _on_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    """Use the working directories of this host."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / name))


def _rows(place: str) -> dict[str, int]:
    return ioweather.open_lake(place).tables()


def test_another_host_reads_what_one_host_ingested(
    bucket: str, own_samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    local, remote = str(tmp_path / "lake"), f"{bucket}/two-hosts"
    _on_host(monkeypatch, tmp_path, "first")
    for place in (local, remote):
        run(["ingest", str(own_samples), "--zone", "UTC", "--lake", place])
    _on_host(monkeypatch, tmp_path, "second")
    assert _rows(remote) == _rows(local)
    asked = "SELECT metric, count(*), round(sum(value), 6) FROM series GROUP BY ALL ORDER BY ALL"
    assert ioweather.open_lake(remote).sql(asked).rows == ioweather.open_lake(local).sql(asked).rows
    capsys.readouterr()
    answers = []
    for place in (local, remote):
        run(["jobs", "--lake", place])
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]


def test_files_that_were_read_on_one_host_are_not_read_again_on_another(
    bucket: str, own_samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{bucket}/ledger"
    counts = []
    for host in ("first", "second"):
        _on_host(monkeypatch, tmp_path, host)
        run(["ingest", str(own_samples), "--zone", "UTC", "--lake", place])
        counts.append(_rows(place))
    assert counts[0] == counts[1]


@pytest.mark.slow
def test_racing_writers_on_two_hosts_add_each_row_once(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{bucket}/race"
    _on_host(monkeypatch, tmp_path, "reader")
    ioweather.open_lake(place, create=True)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, place, str(seed)],
            env={**os.environ, "XDG_DATA_HOME": str(tmp_path / f"{seed}")},
        )
        for seed in range(3)
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    counted = ioweather.open_lake(place).sql("SELECT count(*), count(DISTINCT (start_ns, component)) FROM series")
    assert counted.rows == ((160, 160),)


def test_a_damaged_object_is_an_error_that_names_it(
    bucket: str, own_samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{bucket}/damaged"
    _on_host(monkeypatch, tmp_path, "first")
    run(["ingest", str(next(own_samples.rglob("*.darshan"))), "--lake", place])
    root = lake_place(place)
    with ioweather.open_lake(place).snapshot() as snapshot:
        (uri,) = snapshot.pinned["applications"].uris
    written = Path(uri).read_bytes()
    Path(uri).chmod(0o644)
    Path(uri).write_bytes(written[:-9])
    object_store_module.upload(root, [Path(uri)])
    _on_host(monkeypatch, tmp_path, "second")
    with pytest.raises(LakeError, match="damaged"):
        ioweather.open_lake(place).sql("SELECT * FROM applications")


def test_a_lake_that_is_not_there_is_not_made_by_a_question(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _on_host(monkeypatch, tmp_path, "first")
    with pytest.raises(LakeError, match=f"There is no lake at {bucket}/nothing"):
        ioweather.open_lake(f"{bucket}/nothing")


def test_a_backup_is_left_to_the_store(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _on_host(monkeypatch, tmp_path, "first")
    ioweather.open_lake(f"{bucket}/backup", create=True)
    assert run(["lake", "backup", str(tmp_path / "copy"), "--lake", f"{bucket}/backup"]) == 2
    assert "cannot be backed up" in capsys.readouterr().err


def test_addresses_that_differ_have_working_directories_that_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _on_host(monkeypatch, tmp_path, "first")
    places = {lake_place(f"s3://{name}") for name in ("a/b", "a/b/", "a-b", "a/c", "a/b/c")}
    assert len(places) == 4
    assert lake_place(Path("s3://a/b")) == lake_place("s3://a/b")
    assert lake_place("/srv/lake") == Path("/srv/lake")

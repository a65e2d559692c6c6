"""Files that end early, or change while they are read: never taken as whole."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from iostat_sample import write_sample
from ioweather.core.contracts import ReadContext
from ioweather.ingestion import reading
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import open_lake
from ioweather.readers.text_files import numbered_lines, take_cuts
from ioweather.ui.cli.main import run as run_command

UTC = ReadContext(zone=ZoneInfo("UTC"))
T0 = 1_767_225_600


def scrapes(host: str = "a", points: int = 2000) -> str:
    return "".join(
        f'node_disk_read_bytes_total{{device="sda",instance="{host}"}} {4096 * n * n} {(T0 + 10 * n) * 1000}\n'
        for n in range(points)
    )


def run(*arguments: str) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        return run_command(list(arguments)), said.getvalue()


def rows_of(root: Path) -> int:
    with open_lake(root).snapshot() as snapshot:
        return snapshot.query("SELECT count(*) FROM series").fetchall()[0][0]


@pytest.mark.parametrize("kind", ["prometheus", "iostat"])
def test_a_gzip_file_that_ends_early_is_partial_and_its_rest_can_come_later(kind: str, tmp_path: Path) -> None:
    if kind == "prometheus":
        text = scrapes()
    else:
        text = (write_sample(tmp_path / "sample", days=1, servers=1).folder / "oss1.iostat.txt").read_text()
    path, lake = tmp_path / "log.gz", tmp_path / "lake"
    whole = gzip.compress(text.encode())
    path.write_bytes(whole[: len(whole) * 6 // 10])
    code, said = run("ingest", str(path), "--lake", str(lake), "--zone", "UTC")
    assert code == 1
    assert "truncated input" in said
    assert "ends within its gzip stream" in " ".join(said.split())
    before = rows_of(lake)
    assert before > 0
    path.write_bytes(whole)
    code, said = run("ingest", str(path), "--lake", str(lake), "--zone", "UTC")
    assert code == 0
    other = tmp_path / "other"
    run("ingest", str(path), "--lake", str(other), "--zone", "UTC")
    assert before < rows_of(lake) == rows_of(other)


def test_json_of_iostat_that_ends_early_is_partial(tmp_path: Path) -> None:
    disk = {"disk_device": "sda", "r/s": 1.0, "rkB/s": 8.0, "w/s": 0.0, "wkB/s": 0.0}
    records = [
        {"timestamp": f"2026-01-01T00:{n:02}:00Z", "disk": [disk]} for n in range(5)
    ]  # fmt: skip
    host = {"nodename": "n1", "statistics": records}
    text = json.dumps({"sysstat": {"hosts": [host]}}, indent=1)
    path = tmp_path / "iostat.json"
    path.write_text(text[: text.rindex('"timestamp"')])
    code, said = run("ingest", str(path), "--lake", str(tmp_path / "lake"), "--zone", "UTC", "--source", "iostat")
    assert (code, "truncated input" in said) == (1, True)
    path.write_text(text)
    assert run("ingest", str(path), "--lake", str(tmp_path / "lake"), "--zone", "UTC", "--source", "iostat")[0] == 0


def test_the_last_line_of_a_text_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "log"
    take_cuts()
    for text, cut in (("a\nb\n", False), ("a\nb", True), ("a\n  ", False)):
        path.write_text(text)
        list(numbered_lines(path))
        assert bool(take_cuts()) is cut


def test_a_file_that_is_replaced_while_it_is_read_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = tmp_path / "log", tmp_path / "other"
    path.write_text(scrapes("a"))
    other.write_text(scrapes("b"))
    assert path.stat().st_size > 64 << 10
    original = reading.digest_of

    def and_replaced(*arguments: object) -> str:
        digest = original(*arguments)  # type: ignore[arg-type]
        if other.exists():
            other.replace(path)
        return digest

    monkeypatch.setattr(reading, "digest_of", and_replaced)
    (outcome,), frames = reading.read_batch([(str(path), path.stat().st_size)], reading.Reading(UTC))
    assert (outcome.status, outcome.reason, outcome.rows) == ("quarantined", "changed_input", {})
    assert outcome.digest == hashlib.sha256(os.fsencode(path)).hexdigest()[:32]
    assert not frames
    assert "changed while it was read" in (outcome.message or "")


def test_both_contents_of_a_replaced_file_can_be_read_later(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake", create=True)
    path = tmp_path / "log"
    for host in ("a", "b"):
        path.write_text(scrapes(host))
        (outcome,) = ingest(lake, [path], context=UTC).outcomes
        assert outcome.status == "ok"
    with lake.snapshot() as snapshot:
        assert snapshot.query("SELECT count(DISTINCT system) FROM series").fetchall() == [(2,)]

"""What the first version wrote stays readable: lakes, backups, spools, pushed requests; and its answers stay the same.

tests/data/version1/record.py says how the files were made, and by which code.
"""

from __future__ import annotations

import base64
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient

from ioweather.core.units import format_bytes, format_seconds
from ioweather.ingestion.ingest import ingest
from ioweather.lake.copies import backup
from ioweather.lake.lake import Lake, open_lake
from ioweather.ui.cli.main import cli
from ioweather.ui.web.app import create_app
from ioweather.ui.web.tokens import create_token
from shipments import finish_queue

RECORDED = Path(__file__).parent / "data" / "version1"
EXHIBITS = ("pat19.observations", "kun19.fig1", "car11.table1", "car11.table2", "car11.fig3")


def unpacked(name: str, folder: Path) -> Path:
    with tarfile.open(RECORDED / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> Lake:
    return open_lake(unpacked("lake", tmp_path_factory.mktemp("version1")))


def recorded(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_text("utf-8"))


def rows_in(lake: Lake) -> dict[str, int]:
    with lake.snapshot() as snapshot:
        there = [name for name in recorded("rows") if snapshot.pinned[name].uris]
        return {name: snapshot.scalar(f"SELECT count(*) FROM {name}") for name in there}


def asked(lake: Lake, *arguments: str) -> Any:
    done = CliRunner().invoke(cli, [*arguments, "--json", "--lake", str(lake.root)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def estimates(exhibit: dict[str, Any]) -> dict[str, float]:
    """Values and counts. Intervals have changed: shares of jobs resample programs."""
    found = {f"{e['name']} {key}": e[key] for e in exhibit["estimates"] for key in ("value", "n")}
    return {name: number for name, number in found.items() if number is not None}


def cells(exhibit: dict[str, Any]) -> dict[str, list[float]]:
    """Numbers of its tables by column; tables and columns may be added."""
    found: dict[str, list[float]] = {}
    tables = [*exhibit["tables"], *(chart["table"] for chart in exhibit["charts"])]
    for number, table in enumerate(tables):
        # Measurements were in the order of the files, and are in time order.
        rows = sorted(table["rows"]) if table["name"] == "measurements" else table["rows"]
        for index, column in enumerate(table["columns"]):
            values = [row[index] for row in rows if type(row[index]) in (int, float)]
            found.setdefault(f"{table['name'] or number} {column['name']}", []).extend(values)
    return found


def quantities(answer: dict[str, Any]) -> set[float]:
    """Numbers of its facts, whatever they are called."""
    values = [fact["value"] for group in answer["facts"] for fact in group["facts"]]
    return {float(f"{value:.9g}") for value in values if isinstance(value, int | float)}


def test_every_row_is_there(lake):
    assert rows_in(lake) == recorded("rows")


@pytest.mark.parametrize("name", EXHIBITS)
def test_an_exhibit_has_the_same_numbers(lake, name):
    then, now = recorded(name), asked(lake, "show", name)
    for part in (estimates, cells):  # more may be told than then
        found = part(now)
        for key, value in part(then).items():
            # Claims are added, merged and dropped; car11.table2 has no chart of days any more.
            if not key.startswith(("claims ", "over_time ")):
                assert found[key] == pytest.approx(value, rel=1e-9), key
    # The form: a program that read the old JSON finds every key in the new one.
    assert set(then) <= set(now)


def test_an_answer_has_the_same_numbers(lake):
    then, now = recorded("why"), asked(lake, "why", "100010")
    assert set(then) <= set(now)
    # Verdict and advice may learn; what the run did may not change.
    then["facts"] = then["facts"][:1]
    assert quantities(then) - quantities(now) == set()
    assert len(quantities(then)) >= 3


def test_a_job_that_was_added_up_has_the_same_sums(lake):
    then, now = recorded("job"), asked(lake, "job", "100010")
    assert set(then) <= set(now)
    every = now["result"]["all_runs"]
    assert then["headline"].startswith(f"{every['count']} runs of")
    for words in (format_seconds(every["io_seconds"]), format_bytes(every["write_bytes"])):
        assert words in then["headline"]


def test_it_goes_on_with_new_rows(tmp_path):
    grown = open_lake(unpacked("lake", tmp_path))
    report = ingest(grown, [RECORDED / "segment.ndjson"])
    assert report.bad == []
    added = report.rows_added["responses"]
    assert added > 0
    assert rows_in(grown)["responses"] == recorded("rows")["responses"] + added
    assert ingest(grown, [RECORDED / "segment.ndjson"]).known == 1


def test_a_backup_is_whole_comes_back_and_is_continued(tmp_path):
    kept = unpacked("backup", tmp_path)
    backup(open_lake(kept), tmp_path / "restored")
    restored = open_lake(tmp_path / "restored")
    assert rows_in(restored) == recorded("rows")
    ingest(restored, [RECORDED / "segment.ndjson"])
    backup(restored, kept)
    backup(open_lake(kept), tmp_path / "again")
    assert rows_in(open_lake(tmp_path / "again")) == rows_in(restored)


def test_what_its_agent_pushes_is_taken(tmp_path):
    root = open_lake(tmp_path / "lake", create=True).root
    requests = recorded("pushed")
    host = requests[0]["path"].split("/")[4]
    token = create_token(root, host, host)
    answers = {}
    with TestClient(create_app(root, hosts=["testserver"]), raise_server_exceptions=False) as client:
        for request in requests:
            headers = {key: value for key, value in request["headers"].items() if key.startswith("content-type")}
            headers["authorization"] = f"Bearer {token}"
            body = base64.b64decode(request["body_base64"])
            answered = client.request(request["method"], request["path"], content=body, headers=headers)
            assert answered.status_code == 200, answered.text
            answers[request["path"].rsplit("/", 1)[-1]] = answered.json()
    # What that agent looks for before it deletes a segment.
    (segment,) = (answer for name, answer in answers.items() if name != "status")
    assert segment["status"] in ("ok", "known", "partial")
    finish_queue(root)
    with open_lake(root).snapshot() as snapshot:
        assert snapshot.scalar("SELECT count(*) FROM responses") == segment["rows"]["responses"] > 0

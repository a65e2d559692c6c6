"""One way through all layers, on a tiny lake, in seconds: files in, an exhibit and three answers out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from ioweather.ui.cli.main import cli
from planted_logs import write_climate


def run(*arguments: object) -> Any:
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.usefixtures("reading_here")
def test_files_in_and_answers_out(tmp_path):
    lake = tmp_path / "lake"
    (tmp_path / "logs").mkdir()
    for number in range(3):
        write_climate(tmp_path / "logs" / f"{number}.darshan", job_id=70 + number)
    run("ingest", tmp_path / "logs", "--lake", lake, "--json")
    rows = run("sql", "SELECT count(*) AS logs FROM applications", "--lake", lake, "--json")
    assert "3" in json.dumps(rows)
    assert run("job", 71, "--lake", lake, "--json")["facts"]
    assert run("why", 71, "--lake", lake, "--json")["result"]["kind"] == "unknown"  # three logs, and no system
    assert run("show", "car11.fig3", "--lake", lake, "--json")["id"] == "car11.fig3"

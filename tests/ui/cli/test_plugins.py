"""Sources, studies and questions of other packages, at the command line."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from plugin_packages import SOURCE_CODE, write_package

from ioweather.lake.lake import open_lake


@pytest.fixture
def folder(tmp_path):
    write_package(
        tmp_path, "points-source", SOURCE_CODE, "ioweather.sources",
        {"points": "SOURCE", "raises": "RAISES", "darshan": "TAKEN", "absent": "NOTHING"},
    )  # fmt: skip
    return tmp_path


def ioweather(folder: Path, *args: object) -> tuple[int, str, str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "ioweather", *map(str, args)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_a_plugin_reads_and_broken_ones_break_nothing(folder):
    (folder / "data").mkdir()
    (folder / "data/good").write_text("#points\n1700000000 5\n1700000001 6\n")
    (folder / "data/bad").write_text("#points\n1700000000\n")
    (folder / "data/wrong").write_text("#points\n1700000000 x\n")
    code, out, err = ioweather(folder, "ingest", "data", "--lake", "lake")
    assert code == 1
    assert "2 rows of series" in out
    assert "a line has no two fields" in out
    assert "Please report this to the authors of points-source 1.0." in " ".join(out.split())
    assert err.count("'darshan' of package points-source 1.0: ioweather already has this name.") == 1
    assert err.count("'absent' of package") == 1
    assert "'raises' of package" in err  # by each reader that met it
    assert "RuntimeError: no idea" in err
    with open_lake(folder / "lake").snapshot() as snapshot:
        assert snapshot.query("SELECT source, sum(value) FROM series GROUP BY 1").fetchall() == [("points", 11.0)]


def test_plugins_are_listed_with_their_package(folder):
    code, out, err = ioweather(folder, "ingest", "--list-sources", "--csv")
    packages = {row["source"]: row["package"] for row in csv.DictReader(io.StringIO(out))}
    assert code == 0
    assert packages["points"] == "points-source 1.0"
    assert packages["darshan"] == "ioweather"
    assert "absent" not in packages
    assert err.count("Ignored the") == 2


TOPICS_CODE = """
from ioweather.core.contracts import Question, Study
from ioweather.core.results import Answer, Estimate, Exhibit

def count(source, params):
    n = source.frame("ingests", ("path",)).rows
    yield Exhibit("site.files", "Files that were read", estimates=(Estimate("files", float(n), "count", n=n),))

STUDY = Study("files_read", ("site.files",), "ingests", count)
QUESTION = Question("files", dict, lambda source, params: Answer("Files?", f"{source.frame('ingests').rows} file."))
"""


def test_studies_and_questions_of_other_packages(folder):
    (folder / "good").write_text("#points\n1700000000 5\n")
    assert ioweather(folder, "ingest", "good", "--lake", "lake")[0] == 0
    write_package(folder, "site-study", TOPICS_CODE, "ioweather.studies", {"files_read": "STUDY"})
    write_package(folder, "site-question", TOPICS_CODE, "ioweather.questions", {"files": "QUESTION"})
    code, out, err = ioweather(folder, "show", "site.files", "--lake", "lake")
    assert (code, "Files that were read" in out) == (0, True), err
    assert "site.files,made by site-study 1.0,ready" in ioweather(folder, "show", "--lake", "lake", "--csv")[1]
    code, out, err = ioweather(folder, "files", "--lake", "lake")
    assert (code, "1 file." in out) == (0, True), err

"""The walk of one file in docs/explanation/architecture.md is the walk that files take."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from lmt_files import write_tts

from function_trace import entered, in_this_order
from ioweather.cli.main import cli
from planted_logs import write_climate

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "architecture.md"
SOURCE = PAGE.parents[2] / "src" / "ioweather"


def hops(title: str) -> list[str]:
    (section,) = re.findall(rf"^### {title}\n(.*?)(?=^##|\Z)", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return re.findall(r"^\d+\. `([\w.]+)`", section, re.MULTILINE)


def run(*arguments: object) -> None:
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output


@pytest.mark.usefixtures("reading_here")  # in this process, where it can be watched
def test_the_walk_of_a_darshan_log(tmp_path):
    log = write_climate(tmp_path / "a.darshan", job_id=77)
    with entered() as found:
        run("ingest", log, "--lake", tmp_path / "lake")
        run("job", 77, "--lake", tmp_path / "lake")
    assert len(hops("One Darshan log")) > 10
    assert in_this_order(hops("One Darshan log"), found) is None


@pytest.mark.usefixtures("reading_here")
def test_the_walk_of_an_lmt_file(tmp_path):
    day = np.full((17_280, 2), 1e6)
    archive = write_tts(tmp_path / "x.hdf5", {"readbytes": day, "writebytes": day})
    with entered() as found:
        run("ingest", archive, "--lake", tmp_path / "lake")
        run("show", "pat19.fig3", "--lake", tmp_path / "lake")
    assert len(hops("One LMT file")) > 10
    assert in_this_order(hops("One LMT file"), found) is None


@pytest.mark.usefixtures("reading_here")
def test_the_walk_of_a_sample(tmp_path):
    target, spool, lake = tmp_path / "target", tmp_path / "spool", tmp_path / "lake"
    target.mkdir()
    with entered() as found:
        run("probe", target, "--pool", 3, "--file-size", "4MiB", "--for", "1s", "--spool", spool)
        run("ingest", *spool.rglob("seg-*.ndjson"), "--lake", lake)
        run("now", "--lake", lake, "--spool", spool)
    assert len(hops("One sample of the probe")) > 10
    assert in_this_order(hops("One sample of the probe"), found) is None


def test_a_hop_out_of_order_is_found():
    assert in_this_order(["a", "b"], ["a", "c", "b"]) is None
    assert in_this_order(["b", "a"], ["a", "c", "b"]) == "a"


def test_every_folder_is_in_the_table():
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", PAGE.read_text("utf-8"), re.MULTILINE))))
    assert named == {path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}

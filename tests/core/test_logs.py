"""One line per event, in two forms; quiet unless asked."""

from __future__ import annotations

import logging
import os
import re

import pytest

from ioweather.core.logs import ROOT, set_up, to_journal
from ioweather.ui.cli.main import run

LOG = logging.getLogger("ioweather.part")


@pytest.fixture(autouse=True)
def as_before():
    yield
    logger = logging.getLogger(ROOT)
    for handler in logger.handlers[:]:
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def no_journal(monkeypatch):
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)


def test_warnings_alone_unless_asked(capsys):
    set_up()
    LOG.info("began")
    LOG.warning("a name with\na line break")
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning part: a name with a line break", line)
    set_up(verbose=1)
    LOG.info("began")
    LOG.debug("detail")
    assert capsys.readouterr().err.endswith("info part: began\n")


def test_the_journal_gets_a_priority_and_no_time(capsys, monkeypatch):
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")  # of whoever started the terminal
    assert not to_journal()
    here = os.fstat(2)
    monkeypatch.setenv("JOURNAL_STREAM", f"{here.st_dev}:{here.st_ino}")
    set_up(verbose=1)
    LOG.info("began")
    try:
        raise ValueError("no")
    except ValueError:
        LOG.exception("broke")
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["<6>part: began", "<3>part: broke"]
    assert all(line.startswith("<3>") for line in lines[1:])
    assert lines[-1] == "<3>ValueError: no"
    assert run(["lake", "--lake", "/nowhere"]) == 2
    assert capsys.readouterr().err.startswith("<3>ioweather: There is no lake")


def test_the_file_may_be_moved(tmp_path):
    set_up(file=tmp_path / "log")
    LOG.info("began ü")
    (tmp_path / "log").rename(tmp_path / "log.1")
    LOG.warning("late")
    assert (tmp_path / "log.1").read_text().endswith(" info part: began ü\n")
    assert (tmp_path / "log").read_text().endswith(" warning part: late\n")


def test_a_refused_file_is_an_event(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("IOWEATHER_LOG", str(tmp_path / "log"))
    (tmp_path / "stranger").write_text("hello")
    assert run(["ingest", str(tmp_path / "stranger"), "--lake", str(tmp_path / "lake")]) == 1
    assert capsys.readouterr().err == ""
    text = (tmp_path / "log").read_text()
    assert "info ingest:" in text
    assert "stranger: quarantined:" in text
    assert "1 refused" in text

"""Nothing that others wrote reaches a terminal raw, whatever the command; and there is one way out."""

from __future__ import annotations

import ast
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_lakes import series_frame

import ioweather.ui.cli
from ioweather.core.results import (
    Answer,
    Chart,
    Coverage,
    Estimate,
    Exhibit,
    Fact,
    FactGroup,
    Finding,
    ResultColumn,
    ResultTable,
)
from ioweather.lake.lake import open_lake
from ioweather.ui.cli.terminal import print_answer, print_exhibit, print_rows

CLI = Path(ioweather.ui.cli.__file__).parent
HOSTILE = "\x1b[J\u202e\x9b\x07\r\nforged:"  # short enough that no table folds it
CONTROLS = ("\x1b", "\x07", "\u202e", "\x9b", "\r")


def harmless(text: str) -> bool:
    return not any(c in text for c in CONTROLS) and not any(line.startswith("forged:") for line in text.splitlines())


@pytest.mark.parametrize("module", sorted(CLI.glob("*.py")), ids=lambda path: path.stem)
def test_only_the_screen_writes(module: Path) -> None:
    """`say` and its kin, and `shown` for what rich draws: a command has no other way to a terminal."""
    if module.stem in ("screen", "terminal"):
        return
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in ("click.echo", "click.secho", "print", "Text", "sys.stderr.write"), ast.unparse(node)
            # Rows of a probe as JSON, one per line.
            assert called != "sys.stdout.write" or module.stem == "measure"


def hostile_exhibit() -> Exhibit:
    columns = (ResultColumn("n", HOSTILE, "text"), ResultColumn("v", HOSTILE, "bytes"))
    table = ResultTable(HOSTILE, columns, ((HOSTILE, 1.0), (HOSTILE + "2", -5.0)), HOSTILE)
    chart = Chart("bars", table, {"x": "n", "y": "v"}, HOSTILE)
    return Exhibit(
        "x", HOSTILE, (table,), (chart,), (Estimate(HOSTILE, 1.0),), (Finding(HOSTILE),), (HOSTILE,),
        (Coverage(2.0, 1.0, "hours", {HOSTILE: 1.0}, HOSTILE),),
    )  # fmt: skip


def test_an_exhibit_and_an_answer_of_hostile_names(capsys: pytest.CaptureFixture[str]) -> None:
    exhibit = hostile_exhibit()
    print_exhibit(exhibit, "text")
    facts = (
        FactGroup(
            "group", HOSTILE, (Fact("a", HOSTILE, HOSTILE, "text", 0.5, HOSTILE), Fact("n", "n", -1.0, "bytes", -1.0))
        ),
    )
    print_answer(Answer("question", HOSTILE, facts=facts, exhibits=(exhibit,), findings=(Finding(HOSTILE, name="it"),)))
    shown = capsys.readouterr().out
    assert harmless(shown)
    assert "\\x1b[J\\u202e" in shown


def test_rows_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows((HOSTILE,), [(HOSTILE,), (HOSTILE * 9,)], "text")
    assert harmless(capsys.readouterr().out)
    print_rows((HOSTILE,), [(HOSTILE,)], "json")
    written = capsys.readouterr().out
    assert harmless(written)
    assert json.loads(written) == [{HOSTILE: HOSTILE}]


def in_a_terminal(*arguments: str) -> str:
    """What a command writes to a terminal of its own, both streams."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ioweather", *arguments], stdout=child, stderr=child, env={**os.environ, "NO_COLOR": "1",
        "TERM": "dumb"},
    )  # fmt: skip
    os.close(child)
    read = b""
    while True:
        try:
            part = os.read(parent, 65536)
        except OSError:  # Linux says EIO where the other end is closed
            break
        if not part:
            break
        read += part
    process.wait(30)
    os.close(parent)
    return read.decode().replace("\r\n", "\n")


@pytest.fixture(scope="module")
def hostile_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    lake = open_lake(folder / "lake", create=True)
    lake.append("series", series_frame([[1.0], [2.0]], system=HOSTILE), source="csv", ingest_id="a")
    return folder / "lake"


def test_commands_over_a_lake_of_hostile_names(call, hostile_lake: Path, tmp_path: Path) -> None:
    name = os.fsencode(f"{tmp_path}/evil\x1b[31m\nforged:") + b"\xff.csv"
    Path(os.fsdecode(name)).write_bytes(b"\x00" * 50)
    for arguments in (
        ("ingest", "--lake", tmp_path / "lake", os.fsdecode(name)),
        ("ingest", "--lake", tmp_path / "lake", os.fsdecode(name) + "x"),
        ("lake", "--lake", tmp_path / "lake", "quarantine"), ("lake", "--lake", hostile_lake),
        ("sql", "--lake", hostile_lake, "SELECT DISTINCT system FROM series"),
        ("sql", "--lake", hostile_lake, f"SELECT * FROM \"{HOSTILE}\""),
        ("facility", "check", "--lake", hostile_lake), ("doctor", "--lake", hostile_lake),
        ("project", "--lake", hostile_lake, HOSTILE), ("why", "--lake", hostile_lake, HOSTILE),
        ("show", "--lake", hostile_lake, HOSTILE), ("job", HOSTILE), (HOSTILE,), ("sql", f"--{HOSTILE}"),
        ("--log-file", f"/nowhere/{HOSTILE}", "exhibits"),
    ):  # fmt: skip
        _, out, err = call(*arguments)
        assert out + err
        assert harmless(out + err), arguments
        assert "Traceback" not in err


def test_csv_on_a_terminal_and_into_a_pipe(call, hostile_lake: Path) -> None:
    query = ("sql", "--lake", str(hostile_lake), "--csv", "SELECT DISTINCT system FROM series")
    assert HOSTILE in call(*query)[1], "another program gets the cell as it is"
    shown = in_a_terminal(*query)
    assert not any(c in shown for c in CONTROLS)
    assert "\\x1b[J\\u202e" in shown


@given(st.text(max_size=30))
def test_any_name_stays_in_its_line(name: str) -> None:
    """Three rows are four lines, whatever the names."""
    from contextlib import redirect_stdout
    from io import StringIO

    with redirect_stdout(StringIO()) as out:
        print_rows(("a", "b"), [(name[:10], 1)] * 3, "text")
    assert len(out.getvalue().splitlines()) == 4

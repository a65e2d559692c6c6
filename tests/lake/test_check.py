"""Damage to table files is found and named, is not copied on, and does not stop the rest of the lake."""

from __future__ import annotations

import json
import os
import random
import stat
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from small_facility import make_small_lake
from store_lakes import series_frame

from ioweather.core.units import DAY_NS
from ioweather.lake.lake import Lake, open_lake
from ioweather.ui.cli.main import cli, run

DAY = 1_700_006_400_000_000_000  # 2023-11-15


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = open_lake(tmp_path / "lake", create=True)
    for day in range(5):
        made.append("series", series_frame(np.ones((60, 4)), start_ns=DAY + day * DAY_NS), source="tts")
    return made


def table_files(lake: Lake) -> list[Path]:
    return sorted(lake.root.glob("tables/*/day=*/*.parquet"))


def flip_bit(path: Path, draw: random.Random) -> None:
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    place = draw.randrange(len(content))
    content[place] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def check(lake: Lake, *options: str) -> tuple[int, dict]:
    done = CliRunner().invoke(
        cli, ["lake", "check", "--json", *options, "--lake", str(lake.root)], standalone_mode=False
    )
    return done.return_value, json.loads(done.output)


def test_every_bit_flip_is_found(lake: Lake) -> None:
    draw = random.Random(8)
    for _ in range(100):
        victims = draw.sample(table_files(lake), draw.randrange(1, 4))
        before = {path: path.read_bytes() for path in victims}
        for path in victims:
            flip_bit(path, draw)
        code, found = check(lake)
        assert code == 1
        assert sorted(found["damaged"]) == sorted(str(p.relative_to(lake.root / "tables")) for p in victims)
        for path, content in before.items():
            path.write_bytes(content)
    assert check(lake)[0] == 0


@pytest.mark.parametrize("content", [b"", b"not parquet at all"])
def test_a_destroyed_file_is_named_and_the_rest_answers_without_it(lake: Lake, capsys, content: bytes) -> None:
    victim = table_files(lake)[2]
    victim.chmod(0o644)
    victim.write_bytes(content)
    for command in (["lake"], ["storage"], ["lake", "compact", "--everything"]):
        assert run([*command, "--lake", str(lake.root)]) == 2
        error = capsys.readouterr().err
        assert victim.name in error
        assert "lake check" in error
        assert "bug in ioweather" not in error
    code, found = check(lake, "--set-aside")
    assert (code, found["set_aside"]) == (1, True)
    assert not victim.exists()
    assert (lake.root / "damaged" / victim.relative_to(lake.root / "tables")).read_bytes() == content
    assert lake.tables()["series"] == 4 * 240
    assert check(lake)[0] == 0
    assert run(["lake", "--lake", str(lake.root)]) == 0


def test_sealing_does_not_give_damage_a_new_digest(lake: Lake, capsys) -> None:
    flip_bit(table_files(lake)[0], random.Random(3))
    assert run(["lake", "compact", "--everything", "--lake", str(lake.root)]) == 2
    assert table_files(lake)[0].name in capsys.readouterr().err
    assert len(check(lake)[1]["damaged"]) == 1


def test_doctor_says_when_files_were_checked(lake: Lake, capsys) -> None:
    def said() -> str:
        run(["doctor", "--json", "--lake", str(lake.root)])
        return capsys.readouterr().out

    assert "never checked against their digests" in said()
    check(lake)
    assert "all were intact on" in said()
    flip_bit(table_files(lake)[0], random.Random(4))
    check(lake)
    assert "1 were damaged on" in said()


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        lake = make_small_lake(tmp_path)
        assert run(["lake", "compact", "--everything", "--lake", str(lake.root)]) == 0
        assert run(["lake", "check", "--lake", str(lake.root)]) == 0
        assert run(["lake", "backup", str(tmp_path / "copy"), "--lake", str(lake.root)]) == 0
    finally:
        os.umask(before)
    for root in (lake.root, tmp_path / "copy"):
        for path in root.rglob("*"):
            mode = stat.S_IMODE(path.stat().st_mode)
            assert not mode & 0o022, (path, oct(mode))
            if path.suffix == ".parquet":
                assert mode == 0o444, (path, oct(mode))
    os.umask(before)

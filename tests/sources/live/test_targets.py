"""The probe of every target: files where they belong, one target at a tick, rows that name it, bounded load."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.live_reporter import Heard

from ioweather.core.errors import SourceError
from ioweather.sources.live import placement
from ioweather.sources.live.targets import REQUEST_BYTES, TargetProbe

# Lustre cannot be had here: a program that answers as `lfs` of 2.15 does, and notes where files were placed.
_LFS = """#!/bin/sh
if [ "$1" = osts ]; then
  printf "%s\\n" OBDS: "0: scratch-OST0000_UUID ACTIVE" "1: scratch-OST0001_UUID INACTIVE" \\
    "10: scratch-OST000a_UUID ACTIVE"
else
  echo "$@" >> "$LFS_CALLS" && : > "$6"
fi
"""


@pytest.fixture
def lustre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "lfs").write_text(_LFS)
    (programs / "lfs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("LFS_CALLS", str(tmp_path / "calls"))
    monkeypatch.setattr(placement, "file_system_of", lambda _: ("/scratch", "lustre"))
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def test_each_active_target_is_probed_in_turn_by_a_file_of_its_own(lustre: Path) -> None:
    source, heard = TargetProbe(str(lustre), run_id="r", host="here", system="scratch"), Heard()
    assert "2 targets" in source.prepare(heard).message
    calls = (lustre.parent / "calls").read_text().splitlines()
    assert calls == ["setstripe -c 1 -i 0 target-0000", "setstripe -c 1 -i 10 target-000a"]
    for tick in range(4):
        source.cycle(tick, heard)
    rows = heard.of("responses")
    assert [row["component"] for row in rows[::2]] == ["scratch-OST0000", "scratch-OST000a"] * 2
    assert {(row["op"], row["request_bytes"], row["mode"]) for row in rows} == {
        ("read", REQUEST_BYTES, "nocache"),
        ("write_sync", REQUEST_BYTES, "nocache"),
    }
    assert all(row["status"] == "ok" for row in rows)
    source.finish(heard)
    assert not list(lustre.rglob("target-*"))


def test_files_that_are_gone_are_errors_and_no_end(lustre: Path) -> None:
    source, heard = TargetProbe(str(lustre), run_id="r", host="here", system="scratch"), Heard()
    source.prepare(heard)
    for file in lustre.rglob("target-*"):
        file.unlink()
    source.cycle(0, heard)
    assert [row["status"] for row in heard.of("responses")] == ["error", "error"]


def test_a_file_system_that_does_not_place_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not say where files lie"):
        TargetProbe(str(tmp_path), run_id="r", host="here").prepare(Heard())

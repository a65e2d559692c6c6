"""The probe of every target: files where they belong, one target at a tick, rows that name it, bounded load."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.live_reporter import Heard

from ioweather.agent import probe as targets
from ioweather.agent.probe import REQUEST_BYTES, ProbeSettings, TargetProbe
from ioweather.core.errors import SourceError

# Lustre cannot be had here: a program that answers as `lfs` of 2.15 does, and notes where files were placed. A target
# whose number is in $LFS_CALLS.down takes nothing.
_LFS = """#!/bin/sh
down=$(cat "$LFS_CALLS.down" 2> /dev/null || echo none)
if [ "$1" = osts ]; then
  printf "%s\\n" OBDS: "0: scratch-OST0000_UUID ACTIVE" "1: scratch-OST0001_UUID INACTIVE" \\
    "10: scratch-OST000a_UUID ACTIVE"
elif [ "$5" = "$down" ]; then
  echo "error on ioctl: Input/output error" >&2 && exit 5
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
    monkeypatch.setattr(targets, "file_system_of", lambda _: ("/scratch", "lustre"))
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


def test_a_target_that_takes_no_file_is_said_and_found_again(lustre: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a server that stands still while the probe begins."""
    down = lustre.parent / "calls.down"
    down.write_text("10")
    source, heard = TargetProbe(str(lustre), run_id="r", host="here", system="scratch"), Heard()
    assert "1 targets" in (said := source.prepare(heard).message)
    assert "not probed yet (no file could be created): scratch-OST000a" in said
    source.cycle(0, heard)
    down.unlink()
    monkeypatch.setattr(targets.time, "monotonic_ns", lambda: 10**18)
    for tick in range(1, 4):
        source.cycle(tick, heard)
    assert {row["component"] for row in heard.of("responses")} == {"scratch-OST0000", "scratch-OST000a"}
    assert all(row["status"] == "ok" for row in heard.of("responses"))


def test_no_target_at_all_is_an_error_that_says_why(lustre: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "osts_of", lambda _: [(10, "scratch-OST000a")])
    (lustre.parent / "calls.down").write_text("10")
    with pytest.raises(SourceError, match=r"scratch-OST000a: .*Input/output error"):
        TargetProbe(str(lustre), run_id="r", host="here").prepare(Heard())


def test_a_file_system_that_does_not_place_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not report the targets"):
        TargetProbe(str(tmp_path), run_id="r", host="here").prepare(Heard())


_MFSFILEINFO = """#!/bin/sh
server=10.0.0.1:9422
[ "$1" = target-0001 ] && server=10.0.0.2:9422
if [ "$1" = target-0001 ] && [ -e "$MFS_STALLED" ]; then echo "  no valid copies !!!"
else echo "  copy 1: $server (status:VALID)"; fi
"""


def test_a_moosefs_server_that_hangs_at_the_next_start_keeps_its_file(
    lustre: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = lustre.parent / "bin" / "mfsfileinfo"
    program.write_text(_MFSFILEINFO)
    program.chmod(0o755)
    monkeypatch.setenv("MFS_STALLED", str(lustre.parent / "stalled"))
    monkeypatch.setattr(targets, "file_system_of", lambda _: ("/mnt", "fuse.mfs"))
    for keep in (True, False):
        source, heard = TargetProbe(str(lustre), ProbeSettings(keep_files=keep), "r", host="here"), Heard()
        source.prepare(heard)
        for tick in range(2):
            source.cycle(tick, heard)
        assert [row["component"] for row in heard.of("responses")[::2]] == ["10.0.0.1:9422", "10.0.0.2:9422"]
        assert len(list(lustre.rglob("target-*"))) == 2
        source.finish(heard)
        (lustre.parent / "stalled").touch()
    assert not [path for path in lustre.rglob("*") if path.is_file() and path.name.startswith(("target-", "placed"))]

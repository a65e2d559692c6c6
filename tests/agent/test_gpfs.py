"""GPFS counters by an executable that answers as mmpmon does."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioweather.agent.counters import GpfsNode
from ioweather.core.errors import SourceError
from live_reporter import Heard

NS = 10**9
SCRIPT = """#!/bin/sh
[ "$1 $2" = "-p -i" ] && [ "$(cat "$3")" = fs_io_s ] || exit 3
n=$(($(cat {folder}/n) + 1)); echo $n > {folder}/n
echo "_fs_io_s_ _n_ 10.0.0.1 _nn_ other _rc_ {rc} _t_ $((1700000000 + 10 * n)) _tu_ 0 _cl_ c _fs_ gpfs0 _d_ 1 \
_br_ $((n * n * 4096)) _bw_ 0 _oc_ $n _cc_ 0 _rdc_ $n _wc_ 0 _dir_ 0 _iu_ 0"
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "n").write_text("0")
    return tmp_path / "mmpmon"


def install(path: Path, rc: int = 0) -> None:
    path.write_text(SCRIPT.format(folder=path.parent, rc=rc))
    path.chmod(0o755)


def test_amounts_between_answers(stand_in: Path):
    install(stand_in)
    node, heard = GpfsNode(host="node1"), Heard()
    assert node.prepare(heard).message == "gpfs0"
    for _ in range(3):
        node.cycle(0, heard)
    read = [row for row in heard.of("series") if row["metric"] == "read_bytes"]
    assert [(row["start_ns"] // NS - 1_700_000_000, row["value"]) for row in read] == [
        (20, 5 * 4096.0),
        (30, 7 * 4096.0),
    ]
    assert {(row["system"], row["component_kind"], row["component"]) for row in read} == {("gpfs0", "host", "node1")}


def test_a_status_and_no_mmpmon(stand_in: Path):
    with pytest.raises(SourceError, match="not installed"):
        GpfsNode().prepare(Heard())
    install(stand_in, rc=1)
    with pytest.raises(SourceError, match="fs_io_s returned status 1"):
        GpfsNode().cycle(0, Heard())

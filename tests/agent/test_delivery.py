"""Shipping: what the lake took is deleted, what it refused is set aside, what it could not take waits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ioweather.agent.delivery import Shipment, Shipper
from ioweather.agent.spool import Spool, row_line
from shipments import outcome

S = 10**9


@pytest.fixture
def cargo(tmp_path):
    spool = Spool(tmp_path / "spool", "n1", "r")
    for n in range(3):
        spool.add(row_line("events", {"event_id": f"e{n}", "kind": "gap", "start_ns": n, "label": "x"}))
        spool.flush(n)
        spool.rotate(n, force=True)
    yield spool
    spool.close(9)


def stand_in(tmp_path: Path, code: str) -> tuple[str, ...]:
    """Instead of `ioweather ingest`: a script that sees the same arguments."""
    script = tmp_path / "ingest.py"
    script.write_text(f"import json, sys\nfiles = [name for name in sys.argv[6:] if name != '--no-create']\n{code}\n")
    return (sys.executable, str(script))


def test_refused_files_are_set_aside_and_the_rest_is_deleted(cargo, tmp_path):
    code = "print(json.dumps({'refused': [{'path': files[1], 'message': 'no good'}]})); sys.exit(1)"
    shipper = Shipper(tmp_path / "lake", command=stand_in(tmp_path, code))
    names = [path.name for path in cargo.closed_files()]
    shipper.start(cargo.closed_files(), 0)
    why = f"{names[1]}: no good"
    assert outcome(shipper) == Shipment(True, 2, 1, why, why)
    assert cargo.closed_files() == []
    assert [path.name for path in (tmp_path / "spool/refused").iterdir()] == [names[1]]


def test_a_lake_that_was_removed_is_waited_for_and_not_made_again(cargo, tmp_path):
    """With the real ingest: nothing goes to another lake in its place, and all goes in when it is back."""
    lake = tmp_path / "lake"
    shipper = Shipper(lake)
    files = cargo.closed_files()
    shipper.start(files[:1], 0)
    assert outcome(shipper).ok
    lake.rename(tmp_path / "away")
    shipper.start(files[1:], 0)
    found = outcome(shipper)
    assert (found.ok, found.shipped) == (False, 0)
    assert "There is no lake at" in found.message
    assert not lake.exists()
    assert cargo.closed_files() == files[1:]
    (tmp_path / "away").rename(lake)
    shipper.start(files[1:], 0)
    assert outcome(shipper) == Shipment(True, 2, 0, "")
    assert cargo.closed_files() == []


def test_a_file_that_cannot_be_read_now_stays_where_it_is(cargo, tmp_path):
    code = (
        "print(json.dumps({'refused': [{'path': files[1], 'reason': 'unreadable', 'message': 'Input/output error'}]}))"
        "; sys.exit(1)"
    )
    shipper = Shipper(tmp_path / "lake", command=stand_in(tmp_path, code))
    names = [path.name for path in cargo.closed_files()]
    shipper.start(cargo.closed_files(), 0)
    assert outcome(shipper) == Shipment(False, 2, 0, "the lake accepted 2 files: Input/output error")
    assert [path.name for path in cargo.closed_files()] == [names[1]]
    assert shipper.is_due(shipper.every_ns), "others do not wait longer for it"


@pytest.mark.parametrize("code", ["print('ioweather: the lake is away'); sys.exit(2)", "sys.exit(2)", "print('x')",
                                  "import os; os.kill(os.getpid(), 9)"])  # fmt: skip
def test_a_lake_that_is_away_leaves_everything_where_it_is(cargo, tmp_path, code):
    shipper = Shipper(tmp_path / "lake", command=stand_in(tmp_path, code))
    shipper.start(cargo.closed_files(), 0)
    found = outcome(shipper)
    assert not found.ok
    assert found.message
    assert len(cargo.closed_files()) == 3


def test_waits_grow_while_the_lake_is_away(cargo, tmp_path):
    shipper = Shipper(tmp_path / "lake", every_ns=300 * S, command=stand_in(tmp_path, "sys.exit(2)"))
    now, waits = 0, []
    for _ in range(5):
        shipper.start(cargo.closed_files(), now)
        outcome(shipper, now)
        waits.append(shipper._next_ns - now)
        assert not shipper.is_due(now)
        now = shipper._next_ns
        assert shipper.is_due(now)
    for wait, least in zip(waits, (300, 600, 1200, 2400, 3600), strict=True):
        assert least <= wait / S <= 1.5 * least

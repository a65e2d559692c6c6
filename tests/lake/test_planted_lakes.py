"""Lakes, spools and caches where others can write: what they planted is refused, and nobody's file is changed."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ioweather.agent.spool import Spool
from ioweather.core.errors import LakeError, UnsafePlace
from ioweather.core.safe_files import PrivateDirectory
from ioweather.ingestion.scan_tree import ScanRequest, scan
from ioweather.lake.copies import backup
from ioweather.lake.lake import open_lake
from ioweather.ui.web.tokens import create_token
from two_users import ALICE, MALLORY, ROOT, Town, acting_as, facts_of, town


@pytest.fixture
def place() -> Iterator[Town]:
    with town() as made:
        yield made


def victim_of(town: Town, uid: int) -> Path:
    folder = town.home(uid) / "work"
    folder.mkdir()
    for name in ("thesis.tex", "lock", "status.json"):
        (folder / name).write_text(f"mine: {name}")
        os.chown(folder / name, uid, uid)
    os.chown(folder, uid, uid)
    return folder


@pytest.mark.parametrize("uid", [ALICE, ROOT])
@pytest.mark.parametrize("planted", ["mkdir x", "ln -s {v} x", "mkdir x; ln -s {v} x/segments; ln -s {v} x/tables"])
def test_a_lake_and_a_spool_that_somebody_planted(place, uid, planted):
    victim = victim_of(place, uid)
    place.plant(planted.format(v=victim))
    before = facts_of(victim), facts_of(place.shared)
    with acting_as(uid):
        with pytest.raises(UnsafePlace, match=f"uid {MALLORY}"):
            open_lake(place.shared / "x", create=True)
        with pytest.raises(UnsafePlace, match=f"uid {MALLORY}"):
            Spool(place.shared / "x", "n1", "r")
        with pytest.raises(UnsafePlace, match=f"uid {MALLORY}"):
            create_token(place.shared / "x", "n1", "n1")
    assert (facts_of(victim), facts_of(place.shared)) == before


@pytest.mark.parametrize("uid", [ALICE, ROOT])
def test_up_refuses_a_planted_lake(place, uid):
    victim = victim_of(place, uid)
    place.plant(f"mkdir x; ln -s {victim} x/tables; ln -s {victim}/thesis.tex x/.lake.json.1")
    before = facts_of(victim), facts_of(place.shared)
    done = place.ioweather(uid, "up", place.home(uid), "--lake", place.shared / "x", "--for", "1s",
                           "--port", "0")  # fmt: skip
    assert done.returncode == 2
    assert "Nothing was written" in done.stderr or "every user can write to it" in done.stderr
    assert (facts_of(victim), facts_of(place.shared)) == before


@pytest.mark.parametrize("uid", [ALICE, ROOT])
def test_up_refuses_a_planted_folder_of_the_probe(place, uid):
    place.require_children(uid)
    victim = victim_of(place, uid)
    folder = f".ioweather-{socket.gethostname()}"
    place.plant(f"mkdir {folder}; ln -s {victim}/thesis.tex {folder}/data; ln -s {victim} {folder}/pool")
    before = facts_of(victim), facts_of(place.shared)
    for seconds in (3, 20):  # a busy machine needs longer until the probe looks at its folder
        done = place.ioweather(uid, "up", place.shared, "--lake", place.home(uid) / "lake", "--for", f"{seconds}s",
                               "--port", "0")  # fmt: skip
        if f"belongs to uid {MALLORY}" in done.stdout + done.stderr:
            break
    else:
        pytest.fail(done.stdout + done.stderr)
    assert (facts_of(victim), facts_of(place.shared)) == before


@pytest.mark.parametrize("uid", [ALICE, ROOT])
def test_backup_and_scan_refuse_what_somebody_planted(place, uid):
    victim = victim_of(place, uid)
    place.plant(
        f"mkdir copy; ln -s {victim} copy/tables; ln -s {victim}/thesis.tex copy/manifest.json; ln -s {victim} x"
    )
    with acting_as(uid):
        lake = open_lake(place.home(uid) / "lake", create=True)
        backup(lake, place.home(uid) / "backup")
    before = facts_of(victim), facts_of(place.shared)
    with acting_as(uid):
        for target in (place.shared / "copy", place.shared / "x"):
            with pytest.raises((UnsafePlace, LakeError)):
                backup(lake, target)
            with pytest.raises((UnsafePlace, LakeError)):
                backup(open_lake(place.home(uid) / "backup"), target)
            with pytest.raises((UnsafePlace, LakeError)):
                scan(target, ScanRequest(victim, workers=1))
    assert (facts_of(victim), facts_of(place.shared)) == before


@pytest.mark.parametrize("uid", [ALICE, ROOT])
def test_the_doctor_changes_nothing_of_others(place, uid):
    """The doctor writes in the lake that it is asked about."""
    victim = victim_of(place, uid)
    place.plant(f"mkdir x; ln -s {victim}/thesis.tex x/lake.json")
    before = facts_of(victim), facts_of(place.shared)
    assert place.ioweather(uid, "doctor", "--lake", place.shared / "x").returncode != 0
    assert (facts_of(victim), facts_of(place.shared)) == before


def test_a_lock_that_is_a_link_in_a_spool_of_ours(place):
    victim = victim_of(place, ALICE)
    spool = place.shared / "spool"
    spool.mkdir()
    os.chown(spool, ALICE, ALICE)
    spool.chmod(0o777)
    place.plant(f"ln -s {victim}/lock spool/lock")
    before = facts_of(victim)
    with acting_as(ALICE), pytest.raises(UnsafePlace, match="is a link"):
        Spool(spool, "n1", "r")
    assert facts_of(victim) == before
    assert stat.S_IMODE(spool.stat().st_mode) == 0o750


def test_a_lake_of_a_group_stays_one(tmp_path):
    root = tmp_path / "lake"
    root.mkdir()
    root.chmod(0o2777)
    open_lake(root, create=True)
    assert stat.S_IMODE(root.stat().st_mode) == 0o2770, "everybody is out, the group is as its owner set it"
    root.chmod(0o2777)
    open_lake(root, create=True)
    assert stat.S_IMODE(root.stat().st_mode) == 0o2775, "readers may be let in later; writers not"


def test_a_lake_that_its_owner_shares_with_our_group_is_written_but_not_by_root(place):
    root = place.shared / "lake"
    root.mkdir()
    os.chown(root, MALLORY, ALICE)
    root.chmod(0o2770)
    with acting_as(ALICE), pytest.raises(UnsafePlace, match="belongs to uid"):
        open_lake(root, create=True)
    (root / "lake.json").write_text('{"schema_version": 1}')
    (root / "lake.json").chmod(0o644)
    with acting_as(ALICE):
        assert open_lake(root, create=True).root == root
    with pytest.raises(UnsafePlace, match="run as that user"):
        open_lake(root, create=True)


def test_a_link_of_ours_is_followed_and_one_of_others_is_not(place):
    real = place.home(ALICE) / "real"
    with acting_as(ALICE):
        (place.shared / "mine").symlink_to(real)
        open_lake(place.shared / "mine", create=True)
    assert (real / "lake.json").exists()
    place.plant(f"ln -s {real} theirs")
    with acting_as(ALICE), pytest.raises(UnsafePlace, match="is a link"):
        open_lake(place.shared / "theirs", create=True)


def test_files_that_are_given_to_another_user(place, monkeypatch):
    """As root_squash does: what we make belongs to nobody. A directory is made in the name of another here."""
    real = os.mkdir

    def squashed(path, mode=0o777, *, dir_fd=None):
        real(path, mode, dir_fd=dir_fd)
        os.chown(path, 65534, 65534, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", squashed)
    with pytest.raises(UnsafePlace, match="root_squash"):
        PrivateDirectory.at(place.shared / "squashed")
    assert list(place.shared.iterdir()) == []

"""A scan cannot be led astray, changes nothing, and survives what happens to a living tree."""

from __future__ import annotations

import grp
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ioweather.core.facility import ProjectRule
from ioweather.readers.scan import scanner as walker
from ioweather.readers.scan.scanner import Directories, Scan, ScanState, Walker, open_below, plan_scan
from ioweather.readers.scan.tally import Tally, project_name

SRC = Path(__file__).resolve().parents[3] / "src"


def scanned(root: Path, **options) -> Tally:
    return Scan(plan_scan(root, start_ns=time.time_ns(), **options), ScanState()).run()


def test_links_are_counted_and_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "big").write_bytes(b"x" * 10_000)
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "out").symlink_to(outside)
    (tree / "loop").symlink_to(tree)
    tally = scanned(tree)
    assert tally.counts == {"entries": 2, "symlinks": 2, "directories": 1}


@pytest.mark.parametrize("place", ["directly", "above"])
def test_a_directory_swapped_for_a_link_is_not_entered(tmp_path, monkeypatch, place):
    """Between listing and opening, somebody puts a link where the directory was."""
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "secret").write_bytes(b"x" * 10_000)
    (outside / "secret").write_bytes(b"x" * 10_000)
    victim = tmp_path / "tree" / "victim"
    (victim / "deep").mkdir(parents=True)
    real = walker.open_to_read if place == "directly" else walker.open_below

    def swapped(first, second):
        if "victim" in (first, second) and not victim.is_symlink():
            shutil.rmtree(victim)
            victim.symlink_to(outside)
        return real(first, second)

    if place == "directly":
        monkeypatch.setattr(walker, "open_to_read", swapped_or_root(swapped, real))
        tally = scanned(tmp_path / "tree")
    else:
        monkeypatch.setattr(walker, "open_below", swapped)
        plan = plan_scan(tmp_path / "tree", start_ns=time.time_ns())
        tally = Walker(plan).walk([Directories("victim", ("deep",))], 100).tally
    assert victim.is_symlink()
    assert tally.counts["vanished"] == 1
    assert tally.counts["files"] == 0


def swapped_or_root(swapped, real):
    return lambda name, parent=None: real(name) if parent is None else swapped(name, parent)


def test_a_directory_swapped_for_another_file_system_is_not_read(tmp_path, monkeypatch):
    shared_memory = Path("/dev/shm")
    if not shared_memory.is_dir() or shared_memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second file system")
    (tmp_path / "victim").mkdir()
    real = walker.open_to_read
    elsewhere = lambda name, parent=None: real("/dev/shm") if name == "victim" else real(name, parent)  # noqa: E731
    monkeypatch.setattr(walker, "open_to_read", elsewhere)
    tally = scanned(tmp_path)
    assert tally.counts["other_filesystems"] == 1
    assert tally.counts["directories"] == 1


def test_paths_longer_than_path_max(tmp_path):
    """By descriptor there is no limit; by path there would be one at 4,096 bytes."""
    name, levels = "level-with-a-long-name", 400
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("leaf.txt", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    tally = scanned(tmp_path)
    assert tally.counts["directories"] == levels + 1
    assert len(tally.largest[0][1]) > 4096
    fd = os.open(tmp_path, os.O_RDONLY)
    again = open_below(fd, "/".join([name] * levels))
    assert os.stat("leaf.txt", dir_fd=again).st_size == 0
    os.close(again)
    os.close(fd)
    shutil.rmtree(tmp_path / name)


def test_access_times_stay(tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "f").write_text("x")
    past = 1_000_000_000
    for path in (folder, folder / "f"):  # older than the modification: relatime would renew it
        os.utime(path, (past, past + 1000))
    scanned(tmp_path)
    assert int((folder / "f").stat().st_atime) == past
    assert int(folder.stat().st_atime) == past


CHILD = """
import json, os, sys, time
from pathlib import Path
from ioweather.readers.scan.scanner import Scan, plan_scan
from ioweather.readers.scan.scanner import ScanState
if "as_nobody" in sys.argv:  # only now: nobody may not be able to read Python itself
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
tally = Scan(plan_scan(Path(sys.argv[1]), start_ns=time.time_ns()), ScanState()).run()
print(json.dumps([tally.counts, tally.errors, tally.troubles]))
"""


def in_child(root: Path, *prefix: str, who: str = "") -> list:
    command = [*prefix, sys.executable, "-c", CHILD, str(root), who]
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        pytest.skip(f"cannot run such a child here: {done.stderr.strip()[-200:]}")
    return json.loads(done.stdout)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take another user's place")
def test_unreadable_directories_are_named_and_the_rest_is_read(tmp_path):
    root = Path("/tmp") / f"ioweather-unreadable-{os.getpid()}"  # tmp_path itself is closed to others
    try:
        for name, mode in (("open", 0o755), ("closed", 0o700), ("listed", 0o744)):
            (root / name).mkdir(parents=True)
            (root / name / "f").write_text("x")
            (root / name).chmod(mode)
        root.chmod(0o755)
        counts, errors, troubles = in_child(root, who="as_nobody")
        assert counts["files"] == 1
        assert counts["unreadable"] == 1
        assert counts["not_examined"] == 1  # a name can be listed, but not looked at
        assert counts["directories"] == 4
        assert errors == {"EACCES": 2}
        assert [str(root / "closed"), "EACCES"] in troubles
    finally:
        shutil.rmtree(root)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take another user's place")
def test_a_root_that_cannot_be_read_is_refused():
    root = Path("/tmp") / f"ioweather-closed-{os.getpid()}"
    root.mkdir(mode=0o700)
    try:
        environment = {**os.environ, "PYTHONPATH": str(SRC)}
        command = [sys.executable, "-c", CHILD, str(root), "as_nobody"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert "UsageError" in done.stderr
        assert "as a user with permission to list it" in done.stderr
    finally:
        root.rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("how", ["mount -t tmpfs none", "mount --bind TREE/data"])
def test_mount_points_inside_the_tree_are_not_entered(tmp_path, how):
    """Another file system, and the same one bound to a second place."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "f").write_text("x")
    (tmp_path / "mounted").mkdir()
    script = f'{how.replace("TREE", str(tmp_path))} {tmp_path}/mounted && exec "$@"'
    counts, _, _ = in_child(tmp_path, "unshare", "-m", "sh", "-c", script, "sh")
    assert counts["files"] == 1
    assert counts["other_filesystems"] == 1


def test_projects_by_path_user_and_group(tmp_path):
    for name in ("earth", "other"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "sub" / "f").write_text("xx")
    rules = [ProjectRule("EarthScience", path=f"{tmp_path}/earth/*"), ProjectRule("Rest", uid=os.geteuid())]
    tally = scanned(tmp_path, rules=rules)
    by_project = {owner.project: cells["size"] for owner, cells in tally.owners.items()}
    assert {name: sum(cells.values()) for name, cells in by_project.items()} == {
        "EarthScience": (1 << 96) + 2, "Rest": (1 << 96) + 2,
    }  # fmt: skip
    group = grp.getgrgid((tmp_path / "other").stat().st_gid).gr_name
    by_group = scanned(tmp_path, rules=[ProjectRule("G", account=group[:-1] + "?")])
    assert {owner.project for owner in by_group.owners} == {"G"}
    nobody = scanned(tmp_path)
    assert {project_name(owner) for owner in nobody.owners} == {f"uid {os.geteuid()}"}

"""Snapshots: whose counters they are, what they grew by, restarts, trees of every version."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ioweather.core.counters.growth import Differ, Origin, Sample, Target, growth, in_base_unit
from ioweather.core.counters.lustre_snapshot import counted, is_tree, read_tree, snapshots, target_of
from ioweather.core.counters.lustre_text import parse_stats

OST = Target("fs-1", "ost", "fs-1-OST000a")
COUNTED = Origin(OST, "stats")


def test_targets():
    assert target_of("obdfilter.fs-1-OST000a.stats") == (OST, "stats")
    assert target_of("mdt.fs-1-MDT0000.md_stats") == (Target("fs-1", "mdt", "fs-1-MDT0000"), "md_stats")
    assert target_of("osd-zfs.fs-1-OST000a.kbytesfree") == (OST, "kbytesfree")
    for other in (
        "obdfilter.fs-1-OST000a.exports.172@o2ib.stats", "lod.fs-MDT0000-mdtlov.kbytesfree", "osd-zfs.MGS.stats",
        "ost.OSS.ost.stats", "ldlm.namespaces.x", "llite.fs-ffff.stats",
    ):  # fmt: skip
        assert target_of(other) is None


def sample(time_ns: int, since_ns: int | None = None, **counters: int) -> Sample:
    return Sample(time_ns, since_ns, counters)


def test_growth_and_lines_that_appear():
    """What is shown for the first time is no growth."""
    grown = growth(sample(5, read_bytes=10, write_bytes=4), sample(9, read_bytes=15, write_bytes=4, sync_ops=3))
    assert (grown.start_ns, grown.end_ns, grown.restarted) == (5, 9, False)
    assert grown.amounts == {"read_bytes": 5, "write_bytes": 0}


def test_a_restart_is_told_by_any_counter_or_by_the_server():
    fallen = growth(sample(5, read_bytes=10, write_bytes=4), sample(9, read_bytes=3, write_bytes=50))
    assert fallen.restarted
    assert fallen.amounts == {"read_bytes": 3, "write_bytes": 50}
    cleared = growth(sample(5, 1, read_bytes=10), sample(9, 7, read_bytes=12))
    assert cleared.restarted
    assert cleared.amounts == {"read_bytes": 12}


def test_repeated_and_earlier_samples():
    differ = Differ()
    assert list(differ.update([(COUNTED, sample(10, read_bytes=1))])) == []
    assert list(differ.update([(COUNTED, sample(10, read_bytes=1))])) == []
    assert list(differ.update([(COUNTED, sample(4, read_bytes=0))])) == []  # another file, joined after
    ((_, grown),) = differ.update([(COUNTED, sample(6, read_bytes=1))])
    assert (grown.start_ns, grown.amounts) == (4, {"read_bytes": 1})


def test_a_text_cut_short_is_no_restart():
    """Lines vanish only when counters begin anew, and then the others have fallen."""
    differ = Differ()
    list(differ.update([(COUNTED, sample(1, read_bytes=10, sync_ops=1))]))
    assert list(differ.update([(COUNTED, sample(2, read_bytes=12))])) == []
    assert list(differ.update([(COUNTED, sample(3))])) == []
    ((_, grown),) = differ.update([(COUNTED, sample(4, read_bytes=17, sync_ops=1))])
    assert (grown.start_ns, grown.restarted, grown.amounts) == (1, False, {"read_bytes": 7, "sync_ops": 0})
    ((_, grown),) = differ.update([(COUNTED, sample(5, read_bytes=2))])
    assert (grown.restarted, grown.amounts) == (True, {"read_bytes": 2, "sync_ops": 0})
    told = Differ()
    list(told.update([(COUNTED, sample(1, 1, sync_ops=1))]))
    ((_, grown),) = told.update([(COUNTED, sample(2, 2))])  # the server says that it counts anew
    assert grown.restarted


def test_storage_targets_count_work_and_metadata_targets_everything():
    text = (
        "snapshot_time 1 secs.usecs\nread_bytes 3 samples [bytes] 1 9 20 5\nread 3 samples [usecs] 1 9 20 5\n"
        "ping 7 samples [reqs]\npreprw 3 samples [reqs]\npunch 2 samples [reqs]\nreconnect 1 samples [reqs]\n"
    )
    ost = counted("ost", parse_stats(text))
    assert ost == {
        "read_bytes": 20, "write_bytes": 0, "read_ops": 3, "write_ops": 0, "read_busy_seconds": 20, "punch_ops": 2,
        "reconnects": 1,
    }  # fmt: skip
    assert in_base_unit("read_busy_seconds", 20) == 20e-6
    text = (
        "snapshot_time 1 secs.usecs\nrename 5 samples [reqs]\nsamedir_rename 3 samples [reqs]\n"
        "crossdir_rename 2 samples [reqs]\nparallel_rename_file 1 samples [usecs] 1 1 1 1\nmigrate 4 samples [reqs]\n"
    )
    mdt = counted("mdt", parse_stats(text))
    assert mdt["rename_ops"] == 5
    assert mdt["other_ops"] == 4  # renames are not counted twice
    assert mdt["open_ops"] == 0  # absent until first used


def test_a_parameter_that_comes_again_begins_a_new_snapshot():
    stats = "snapshot_time {} secs.usecs\nread_bytes 1 samples [bytes] 1 1 {}"
    parameters = [("version", "2.15.3")]
    for i in range(3):
        for ost in ("OST0000", "OST0001"):
            parameters.append((f"obdfilter.fs-{ost}.stats", stats.format(i, 10 * i)))
        parameters.append(("obdfilter.fs-OST0000.kbytestotal", "5"))
    found = list(snapshots(parameters, "x"))
    assert [len(s.samples) for s in found] == [2, 2, 2]
    assert found[1].gauges == {Target("fs", "ost", "fs-OST0000"): {"capacity_bytes": 5120}}
    assert list(snapshots([], "x")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_a_place_that_is_closed_is_not_there(open_folder: Path):
    """On every machine /sys/kernel/debug is closed to all but root, also where no Lustre is."""
    (open_folder / "sys/kernel/debug/lustre").mkdir(parents=True)
    (open_folder / "sys/kernel/debug").chmod(0o700)
    os.seteuid(65534)
    try:
        assert not is_tree(open_folder)
        assert not read_tree(open_folder).samples
    finally:
        os.seteuid(0)
    assert is_tree(open_folder)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that everybody may enter; pytest's are the owner's alone."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


# --- real servers ---------------------------------------------------------------------------------------------------


# Folder: its version, and how many OSTs and MDTs it has.
TREES = {"2.15.3": (2, 1), "1.8.3": (2, 1), "2.10.8": (1, 1),
         "2.12.9_12": (4, 16), "gsi-2.x": (4, 1)}  # fmt: skip


def test_trees(samples: Path):
    trees = [path for path in (samples / "lustre").iterdir() if path.name != "get_param"]
    assert trees
    for root in trees:
        _check_tree(root, *TREES[root.name])


def _check_tree(root: Path, osts: int, mdts: int) -> None:
    folder = root.name
    assert is_tree(root)
    assert not is_tree(root.parent)
    snapshot = read_tree(root)
    kinds = [target.kind for target, parameter in snapshot.samples if parameter == "stats"]
    assert (kinds.count("ost"), kinds.count("mdt")) == (osts, mdts)
    for target, gauges in snapshot.gauges.items():
        assert gauges["capacity_bytes"] >= gauges.get("free_bytes", 0) > 0, target
        assert gauges["capacity_files"] >= gauges["free_files"]
    if folder == "1.8.3":
        ost = snapshot.samples[Origin(Target("lc1", "ost", "lc1-OST0000"), "stats")]
        assert (ost.counters["read_bytes"], ost.counters["read_ops"]) == (471_987_441_490, 1_023_683)
        assert snapshot.gauges[Target("lc1", "ost", "lc1-OST0000")] == {
            "capacity_bytes": 2_064_208 * 1024, "free_bytes": 1_979_020 * 1024, "capacity_files": 131_072,
            "free_files": 131_016, "client_count": 3,
        }  # fmt: skip
    if folder == "2.12.9_12":
        ost = snapshot.samples[Origin(Target("lquake", "ost", "lquake-OST0001"), "stats")]
        assert ost.counters["read_bytes"] == 0  # no line yet
        assert ost.counters["write_bytes"] == 1_098_907_648

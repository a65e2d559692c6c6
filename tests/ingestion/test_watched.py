"""What is new in a watched directory: files moved in with old dates, growing ones, unfinished ones, quiet folders."""

from __future__ import annotations

import os

import pytest

from ioweather.core.units import DAY_NS, MIB, MINUTE_NS, NS
from ioweather.ingestion.watch import OVERLAP_NS, Changed, Watched


@pytest.fixture
def top(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


def put(top, name, data=b"x"):
    path = top / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def after(*paths):
    """A moment at which these have settled."""
    return max(path.stat().st_ctime_ns for path in paths) + 10 * NS


def names(found):
    return [os.path.basename(file.path) for file in found]  # noqa: PTH119 - of a text


def test_new_files_once_and_changed_ones_again(top):
    one, two = put(top, "2026/11/a.darshan"), put(top, "2026/11/b.darshan")
    watched = Watched(top)
    at = after(one, two)
    found = watched.find_new_files(at)
    assert names(found) == ["a.darshan", "b.darshan"]
    watched.note_handed_over(found, {}, at)
    watched = Watched.from_json(top, vars(watched))
    assert watched.find_new_files(at) == []
    one.write_bytes(b"longer")
    three = put(top, "c.darshan")
    os.utime(three, ns=(0, 0))  # moved in with the date of 1970
    assert names(watched.find_new_files(after(one, three))) == ["a.darshan", "c.darshan"]


def test_what_could_not_be_read_is_tried_again(top):
    path = put(top, "a.darshan")
    watched = Watched(top)
    found = watched.find_new_files(after(path))
    watched.note_handed_over(found, {str(path): "Permission denied"}, after(path))
    assert names(watched.find_new_files(after(path))) == ["a.darshan"]


def test_what_is_being_written_waits_and_so_do_hidden_ones_links_and_lakes(top):
    put(top, "x.darshan_partial")
    put(top, ".hidden")
    put(top, "lake/lake.json")
    put(top, "lake/part.parquet")
    (top / "link").symlink_to("/etc/passwd")
    os.mkfifo(top / "pipe")
    fresh = put(top, "fresh.darshan")
    watched = Watched(top)
    assert watched.find_new_files(fresh.stat().st_ctime_ns + NS) == []
    assert names(watched.find_new_files(after(fresh))) == ["fresh.darshan"]


def test_a_large_file_that_grows_is_read_now_and_then(top):
    path = put(top, "day.h5lmt", bytes(17 * MIB))
    watched = Watched(top)
    at = after(path)
    watched.note_handed_over(watched.find_new_files(at), {}, at)
    path.write_bytes(bytes(18 * MIB))
    assert watched.find_new_files(at + MINUTE_NS) == []
    assert names(watched.find_new_files(at + 10 * MINUTE_NS)) == ["day.h5lmt"]


def test_history_is_left_to_ingest_unless_everything_is_asked_for(top):
    path = put(top, "old.darshan")
    watched = Watched(top)
    later = path.stat().st_ctime_ns + 2 * DAY_NS
    assert watched.find_new_files(later) == []
    assert names(watched.find_new_files(later, everything=True)) == ["old.darshan"]


def test_a_clock_ahead_makes_nobody_elses_files_old(top):
    watched = Watched(top, mark_ns=10**18)
    ahead = Changed(str(top / "a"), 1, 10**18 + DAY_NS)
    watched.note_handed_over([ahead], {}, 10**18 + NS)
    assert watched.mark_ns == 10**18 + NS
    assert list(watched.recent) == [ahead.path]
    watched.note_handed_over([Changed(str(top / "b"), 1, 10**18 + OVERLAP_NS)], {}, 10**18 + OVERLAP_NS)
    assert set(watched.recent) == {ahead.path, str(top / "b")}


@pytest.mark.parametrize("body", [None, 3, {}, {"mark_ns": "x"}, {"mark_ns": 1, "recent": {"a": 3}, "quiet": {}}])
def test_a_state_that_cannot_be_read_is_forgotten(top, body):
    assert Watched.from_json(top, body) == Watched(top)


def test_a_directory_that_is_gone_is_said_and_one_below_is_passed_over(top):
    put(top, "a/x.darshan")
    (top / "a").chmod(0)
    Watched(top).find_new_files(10**18)
    (top / "a").chmod(0o700)
    with pytest.raises(FileNotFoundError):
        Watched(top / "gone").find_new_files(10**18)

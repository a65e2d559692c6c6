"""What somebody else planted where a probe writes: refused with the reason, and nobody's file is changed."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ioweather.agent.probe import Probe, ProbeSettings, Sampler
from ioweather.core.errors import SourceError, UnsafePlace
from live_reporter import Heard
from two_users import ALICE, MALLORY, ROOT, Town, acting_as, facts_of, town

HOST = socket.gethostname()
TESTS = str(Path(__file__).parents[1])
SMALL = ProbeSettings(file_bytes=2 << 20, pool_files=4)


@pytest.fixture(scope="module")
def place() -> Iterator[Town]:
    with town() as made:
        yield made


@pytest.fixture
def fresh(place: Town) -> Iterator[Town]:
    """The same people, an empty shared directory."""
    yield place
    for entry in place.shared.iterdir():
        place.run_as(ROOT, "rm", "-rf", entry)


def victim_of(town: Town, uid: int) -> Path:
    """A folder of somebody's files, named as a probe names its own."""
    folder = town.home(uid) / "work"
    if not folder.exists():
        folder.mkdir()
        (folder / "thesis.tex").write_text("\\documentclass{article}\n")
        (folder / "thesis.tex").chmod(0o600)
        for number in range(5):
            (folder / f"{number:012d}").write_text(f"chapter {number}")
        for path in (folder, *folder.iterdir()):
            os.chown(path, uid, uid)
    return folder


def refusal(source: Probe | Sampler, uid: int) -> str:
    """Prepared, and finished as the worker does after a failure."""
    with acting_as(uid):
        with pytest.raises(UnsafePlace) as found:
            source.prepare(Heard())
        source.finish(Heard())
    return str(found.value)


def a_probe(town: Town, *, keep: bool = False) -> Probe:
    return Probe(str(town.shared), replace(SMALL, keep_files=keep), host=HOST)


@pytest.mark.parametrize("uid", [ALICE, ROOT])
@pytest.mark.parametrize(
    ("planted", "reason"),
    [
        ("mkdir {f}; ln -s {v}/thesis.tex {f}/data", "belongs to uid"),
        ("mkdir {f}; ln -s {v} {f}/pool", "belongs to uid"),
        ("ln -s {v} {f}", "is a link"),
        ("mkdir {f}; chmod 700 {f}", "belongs to uid"),
        ("mkfifo {f}", "is a pipe"),
        ("echo > {f}", "is a regular file"),
    ],
)
def test_a_folder_that_somebody_planted_is_refused(fresh, uid, planted, reason):
    victim = victim_of(fresh, uid)
    fresh.plant(planted.format(f=f".ioweather-{HOST}", v=victim))
    before = facts_of(victim), facts_of(fresh.shared)
    said = refusal(a_probe(fresh), uid)
    assert reason in said
    assert "Nothing was written" in said
    assert (facts_of(victim), facts_of(fresh.shared)) == before


@pytest.mark.parametrize("uid", [ALICE, ROOT])
@pytest.mark.parametrize(
    ("name", "planted", "reason"),
    [
        ("data", "ln -s {v}/thesis.tex {name}", "is a link"),
        ("data", "ln {v}/thesis.tex {name}", "2 hard links"),
        ("data", "mkfifo {name}", "is a pipe"),
        ("data", "mknod {name} b 7 0", "is a block device"),
        ("data", "mknod {name} c 1 3", "is a character device"),
        ("data", "mkdir {name}", "is a directory"),
        ("data", "su {name}", "belongs to uid"),
        ("pool", "ln -s {v} {name}", "is a link"),
        ("pool/000000000002", "ln {v}/thesis.tex {name}", "2 hard links"),
        ("pool/000000000002", "ln -s {v}/thesis.tex {name}", "is a link"),
        ("pool/000000000002", "mkfifo {name}", "is a pipe"),
        ("lock", "ln -s {v}/thesis.tex {name}", "is a link"),
    ],
)
def test_what_was_planted_while_our_folder_was_open_to_all(fresh, uid, name, planted, reason):
    """A folder of ours that was 0777: its mode is narrowed, and what others left in it is refused."""
    victim = victim_of(fresh, uid)
    folder = fresh.shared / f".ioweather-{HOST}"
    (folder / "pool").mkdir(parents=True) if name.startswith("pool/") else folder.mkdir()
    for made in (folder, *folder.iterdir()):
        os.chown(made, uid, uid)
        made.chmod(0o777)
    target = folder / name
    if planted.startswith("su "):
        fresh.plant(f"echo x > {target}")
    else:  # by root: this machine may forbid others to make such links and nodes
        fresh.run_as(ROOT, "sh", "-ec", planted.format(v=victim, name=target))
        if planted.startswith("mk"):
            os.chown(target, uid, uid)
    before, planted_before = facts_of(victim), target.lstat()
    assert reason in refusal(a_probe(fresh), uid)
    assert facts_of(victim) == before
    assert target.lstat()[:9] == planted_before[:9]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


FLIP = """
import os, sys
name, link, end = sys.argv[1], sys.argv[2], sys.argv[3]
mine = name + ".mine"
while not os.path.exists(end):
    try:
        os.mkdir(mine, 0o777)
        os.symlink(link + "/thesis.tex", mine + "/data")
        os.symlink(link, mine + "/pool")
        os.rename(mine, name)
        os.rename(name, mine)
    except OSError:
        pass
    try:
        os.symlink(link, name)
        os.unlink(name)
    except OSError:
        pass
    for path in (mine + "/data", mine + "/pool"):
        try:
            os.unlink(path)
        except OSError:
            pass
    for path in (mine, name):
        try:
            os.rmdir(path)
        except OSError:
            pass
    try:
        os.rename(name, name + ".away%d" % os.getpid())  # the one that the probe made
    except OSError:
        pass
"""


RUN = """
import sys, time
from pathlib import Path
from ioweather.core.errors import IoweatherError
from ioweather.agent.probe import Probe, ProbeSettings
from live_reporter import Heard
probe = Probe(sys.argv[1], ProbeSettings(block_bytes=4096, file_bytes=16384, pool_files=2), host="flip")
probe.prepare(Heard())
Path(sys.argv[3]).touch()
outcomes = {}
end, n = time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < end:
    n += 1
    try:
        probe.cycle(n, Heard())
        outcome = "measured"
    except (OSError, IoweatherError) as error:
        outcome = type(error).__name__
    outcomes[outcome] = outcomes.get(outcome, 0) + 1
try:
    probe.finish(Heard())
except (OSError, IoweatherError):
    pass
print(outcomes)
"""


@pytest.mark.parametrize("uid", [ALICE, ROOT])
def test_a_folder_that_is_swapped_while_its_probe_runs(fresh, uid):
    """Mallory begins when the probe has prepared its files, and moves and replaces its folder until it ends."""
    victim = victim_of(fresh, uid)
    before = facts_of(victim)
    flipping = fresh.shared / "open"
    flipping.mkdir()
    flipping.chmod(0o777)
    ready = fresh.shared / f"ready{uid}"
    ready.mkdir()
    ready.chmod(0o777)
    end = fresh.shared / "end"
    waiting = f"import os, time\nwhile not os.path.exists({str(ready / 'now')!r}): time.sleep(0.001)\n{FLIP}"
    mallory = fresh.start_as(MALLORY, sys.executable, "-c", waiting, flipping / ".ioweather-flip", victim, end)
    try:
        code = f"import sys; sys.path.insert(0, {TESTS!r})\n{RUN}"
        done = fresh.run_as(uid, sys.executable, "-c", code, flipping, "3", ready / "now")
    finally:
        end.touch()
        mallory.wait(10)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    assert "measured" in done.stdout or "Error" in done.stdout or "UnsafePlace" in done.stdout
    assert facts_of(victim) == before


def test_two_at_once_say_which_one_has_the_folder(fresh):
    folder = fresh.shared / f".ioweather-{HOST}"
    waits = "import sys, time; from ioweather.agent.probe import *; from live_reporter import Heard\n" + (
        f"probe = Probe({str(fresh.shared)!r}, ProbeSettings(file_bytes=2 << 20, pool_files=4), 'r1', host={HOST!r})\n"
        "probe.prepare(Heard()); print('has it', flush=True); sys.stdin.read(); probe.finish(Heard())"
    )
    first = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {TESTS!r})\n{waits}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert first.stdout is not None
    assert first.stdout.readline() == "has it\n"
    before = facts_of(folder)
    second = a_probe(fresh)
    with pytest.raises(SourceError, match=f"pid {first.pid} on {HOST}.*run r1.*--name"):
        second.prepare(Heard())
    second.finish(Heard())
    assert facts_of(folder).keys() == before.keys(), "the first one's files are all there"
    first.kill()
    first.wait()
    second.prepare(Heard())
    second.finish(Heard())
    assert list(fresh.shared.iterdir()) == [], "a killed one has it no more"
    for stream in (first.stdin, first.stdout):
        stream.close()


def test_the_folder_of_a_probe_on_another_host_is_free_after_a_minute(fresh, monkeypatch):
    source = a_probe(fresh, keep=True)
    source.prepare(Heard())
    lock = source.folder / "lock"
    lock.write_text(json.dumps({**json.loads(lock.read_text()), "host": "n2", "run_id": "r2"}))
    with pytest.raises(SourceError, match=r"on n2 \(run r2\)"):
        a_probe(fresh).prepare(Heard())
    # The one that had it finds at its next look that it has it no more, and leaves the files alone.
    monkeypatch.setattr(source._own, "_next_heartbeat_ns", 0)
    heard = Heard()
    source.cycle(1, heard)
    assert {row["errno"] for row in heard.of("responses")} == {errno.EBUSY}
    assert len(heard.of("responses")) == 7
    source.settings = SMALL
    source.finish(Heard())
    assert (source.folder / "data").exists()
    os.utime(lock, (time.time() - 61, time.time() - 61))
    third = a_probe(fresh)
    third.prepare(Heard())
    monkeypatch.setattr(third._own, "_next_heartbeat_ns", 0)
    os.utime(lock, (1, 1))
    third.cycle(1, Heard())
    assert time.time() - lock.stat().st_mtime < 5, "it gives a sign"
    third.finish(Heard())
    assert list(fresh.shared.iterdir()) == []

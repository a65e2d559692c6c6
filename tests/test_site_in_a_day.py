"""The commands of docs/how-to/a-site-in-a-day.md, one after another, in a clean prefix as an ordinary user."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "how-to" / "a-site-in-a-day.md"
NOBODY = 65534
START = 1_794_700_000


def commands() -> list[str]:
    return re.findall(r"^\$ (.+)$", PAGE.read_text(), re.MULTILINE)


def record(folder: Path) -> None:
    """Accounting of three jobs, counters of two object servers and a metadata server, and a client's connections."""
    folder.mkdir()
    fields = "JobID|JobIDRaw|Cluster|UID|User|Account|JobName|State|Submit|Start|End|NNodes|NCPUS|NodeList"
    rows = [
        f"{n}|{n}|alpha|1000|anna|physics|run|COMPLETED|2026-11-15T06:00:00|2026-11-15T06:0{n}:00|2026-11-15T07:00:00|2|16|n[1-2]"
        for n in (1, 2, 3)
    ]
    (folder / "sacct.txt").write_text("\n".join([fields, *rows, ""]))
    for server, targets in (
        ("oss01", ("OST0000", "OST0001")),
        ("oss02", ("OST0002", "OST0003")),
        ("mds01", ("MDT0000",)),
    ):
        leaf = "mdt.{}.md_stats" if server == "mds01" else "obdfilter.{}.stats"
        line = "getattr  {} samples [reqs]" if server == "mds01" else "read_bytes {} samples [bytes] 1 1048576 {}000000"
        text = [
            f"{leaf.format(f'scratch-{name}')}=\nsnapshot_time             {START + 60 * look}.0 secs.nsecs\n"
            + line.format(10 * look, 10 * look)
            for look in range(1, 6)
            for name in targets
        ]
        (folder / f"scratch-{server}.txt").write_text("\n".join([*text, ""]))


@pytest.fixture
def user(tmp_path: Path):
    """Runs a command line as an ordinary user with a home of its own, in a copy of the project."""
    home, project = tmp_path / "home", tmp_path / "project"
    ignored = shutil.ignore_patterns(".git", ".venv", "*_cache", "__pycache__", "site", "dist")
    shutil.copytree(ROOT, project, ignore=ignored)
    home.mkdir()
    record(home / "recorded")
    if os.geteuid() == 0:
        for place in tmp_path.parents[: len(tmp_path.parents) - 2]:
            if place.stat().st_uid == 0 and place.is_relative_to("/tmp"):
                place.chmod(place.stat().st_mode | 0o055)
        tmp_path.chmod(0o755)
        for path in (home, project, *home.rglob("*"), *project.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    environment = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    environment |= {name: os.environ[name] for name in os.environ if name.startswith("PIP_")}

    def start(line: str) -> subprocess.Popen[str]:
        identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        return subprocess.Popen(
            ["sh", "-c", f"exec {line}"], cwd=project, env=environment, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True, **identity,
        )  # fmt: skip

    start.home = home
    return start


def done(process: subprocess.Popen[str], codes: tuple[int, ...] = (0,)) -> str:
    said, _ = process.communicate(timeout=580)
    assert process.returncode in codes, said
    return said


def test_the_page_has_at_most_ten_commands():
    assert len(commands()) <= 10


def has_python() -> bool:
    code = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/usr/bin/python3").exists() or not has_python(), reason="needs the system's Python 3.11")
def test_the_page_is_followed(user):
    said = {}
    for line in commands():
        if not line.startswith("systemctl"):
            # A doctor may find something to say of the machine that runs the test.
            said[line] = done(user(line), (0, 1) if " doctor " in line else (0,))
    text = next(text for line, text in said.items() if "facility check" in line)
    assert "scratch: lustre" in text
    assert "5 targets on 3 servers" in text
    tool = "~/ioweather/bin/ioweather"
    assert done(user(f"{tool} sql 'SELECT count(*) AS n FROM jobs' --lake ~/weather --csv")).split() == ["n", "3"]
    assert "scratch-oss02" in done(user(f"{tool} fs scratch-oss02 --lake ~/weather"))
    follow_units(user)


def follow_units(user) -> None:
    """What `systemctl --user` starts, as the units have it."""
    units = user.home / ".config/systemd/user"
    started = {}
    enabled = next(line for line in commands() if "enable --now" in line)
    # Without a cluster, sacct fails, and the pass reports that.
    sacct = shutil.which("sacct")
    is_slurm_broken = sacct and subprocess.run([sacct], capture_output=True, check=False).returncode
    try:
        for unit in sorted(units.glob("*.service")):
            if not re.search(rf"\b{unit.stem}\b", enabled):  # such as weekly mail, which needs an address
                continue
            text = unit.read_text()
            lines = [line.replace("%i", "7d") for line in re.findall(r"^ExecStart=(.+)$", text, re.MULTILINE)]
            if "Type=oneshot" in text:
                for line in lines:
                    done(user(line), (0, 1) if is_slurm_broken and "--watch" in line else (0,))
            else:
                (line,) = lines
                started[unit.stem] = user(line)
        deadline = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen("http://127.0.0.1:8585/healthz", timeout=10) as answer:
                    assert answer.status == 200
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.5)
        time.sleep(3)
        assert {name: process.poll() for name, process in started.items()} == dict.fromkeys(started)
    finally:
        for process in started.values():
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=150)
    assert (user.home / "weather-reports" / "7d.html").stat().st_size > 1000
    assert any((user.home / "weather-backup").iterdir())

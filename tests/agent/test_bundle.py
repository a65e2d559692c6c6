"""The one-file agent under real Pythons without any package: from a probe to the lake of a server."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from ioweather.agent.status import read_status
from ioweather.lake.lake import open_lake
from ioweather.ui.cli.main import run
from ioweather.ui.web.app import bind, create_app, running
from ioweather.ui.web.tokens import create_token
from shipments import finish_queue


def find_python(version: str) -> Path | None:
    """A Python of this version on the PATH, or among those of pyenv."""
    installed = sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python3"))
    for place in [shutil.which(f"python{version}"), *installed]:
        command = [str(place), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        if place and subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() == version:
            return Path(place)
    return None


@pytest.fixture(params=["3.9", "3.13"])
def agent(request, tmp_path):
    """Runs the bundle in an isolated interpreter without site-packages; returns the process, not yet waited for."""
    python = find_python(request.param)
    if python is None:
        pytest.skip(f"there is no Python {request.param} here")
    archive = tmp_path / "ioweather-agent.pyz"
    assert run(["agent", "bundle", "--out", str(archive)]) == 0

    def start(*arguments: object) -> subprocess.Popen[str]:
        command = [str(python), "-I", "-S", str(archive), *map(str, arguments)]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "IOWEATHER_SPOOL": str(tmp_path / "spool")}
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
        )

    start.python, start.archive = python, archive
    return start


def finished(process: subprocess.Popen[str], code: int = 0) -> str:
    said, complained = process.communicate(timeout=120)
    assert process.returncode == code, said + complained
    return said


@pytest.fixture
def pushed_to(tmp_path):
    """A server with its lake, and the settings of an agent that probes a directory and pushes to it."""
    root = open_lake(tmp_path / "lake", create=True).root
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(create_token(root, "n1", socket.gethostname()))
    (tmp_path / "probed").mkdir()
    (tmp_path / "proc").mkdir()
    with running(create_app(root), bind("127.0.0.1", 0)) as where:
        settings = {
            "filesystem": {"scratch": {"probes": [str(tmp_path / "probed")], "peak_bytes_per_s": 1e6}},
            "collect": {
                "push_url": where.rstrip("/"), "push_token_file": str(token), "probe_period": "200ms",
                "probe_file": "2MiB", "probe_pool": 3, "ship_every": "1s",
            },
        }  # fmt: skip
        (tmp_path / "facility.json").write_text(json.dumps(settings))
        yield root


def test_every_file_of_the_bundle_compiles_and_it_is_small(agent):
    assert agent.archive.stat().st_size < 1_000_000
    code = """if True:
        import sys, zipfile
        opened = zipfile.ZipFile(sys.argv[1])
        for name in opened.namelist():
            compile(opened.read(name), name, "exec")"""
    subprocess.run([agent.python, "-c", code, agent.archive], check=True)


def test_rows_reach_the_lake_of_a_server(agent, pushed_to, tmp_path):
    measured = agent("run", "probe", "block", "--settings", "facility.json", "--for", "2s")
    memory = 0
    while measured.poll() is None:
        for line in Path(f"/proc/{measured.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                memory = max(memory, int(line.split()[1]))
    finished(measured)
    assert 1_000 < memory < 30_000, "at most 30 MB are resident"
    finish_queue(pushed_to)
    status = read_status(tmp_path / "spool")
    assert (status.spool.last_ship_ok, status.spool.message, status.spool.files) == (True, "", 0)
    with open_lake(pushed_to).snapshot() as snapshot:
        ((kinds, rows),) = snapshot.query("SELECT count(DISTINCT op), count(*) FROM responses").fetchall()
    assert kinds == 7
    assert rows == sum(o.ok_count + o.missed_count for o in status.targets[0].operations)
    doctor = finished(agent("doctor", "--settings", "facility.json"))
    url = json.loads((tmp_path / "facility.json").read_text())["collect"]["push_url"]
    assert f"ok       server       {url} responds" in doctor


def test_settings_can_be_inside(agent, tmp_path):
    (tmp_path / "facility.toml").write_text(f'[filesystem.scratch]\nprobes = ["{tmp_path}/here"]\n')
    assert run(["agent", "bundle", "--settings", str(tmp_path / "facility.toml"), "--out", str(agent.archive)]) == 0
    assert f"{tmp_path}/here" in finished(agent("doctor"))

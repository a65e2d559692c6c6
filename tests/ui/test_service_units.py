"""`ioweather serve units`: systemd units with the places of this installation."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_lines import parse

from ioweather.core.errors import UsageError
from ioweather.ui.cli.main import run
from ioweather.ui.local_setup import Site, unit_texts, write_units


def site(folder: Path, **changes: object) -> Site:
    places = {name: folder / name for name in ("lake", "spool", "reports", "backup")}
    return Site(**{"program": Path(sys.prefix) / "bin/ioweather", **places, "probes": ["/scratch/p"], **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("user", [None, "nobody"])
def test_no_unit_names_a_place_of_another_installation(tmp_path, user):
    for name, text in unit_texts(site(tmp_path, user=user)).items():
        assert not re.search(r"/opt/ioweather|/srv/weather|/scratch/\.weather|/var/lib/ioweather", text), name
        for line in re.findall(r"^ExecStart=\S*/bin/(ioweather .*)$", text, re.MULTILINE):
            parse(line)
        assert ("User=" in text) == (user is not None and name.endswith(".service")), name


def test_units_of_a_user_need_no_rights_of_the_system(tmp_path):
    for text in unit_texts(site(tmp_path)).values():
        assert not re.search(
            r"^(User|Group|Protect\w+|ReadWritePaths|CapabilityBoundingSet|StateDirectory)=", text, re.M
        )
    assert "WantedBy=default.target" in unit_texts(site(tmp_path))["ioweather-agent.service"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
@pytest.mark.parametrize("user", [None, "nobody"])
def test_systemd_takes_them(tmp_path, user):
    program = tmp_path / "ioweather"
    program.touch(0o755)
    made = unit_texts(site(tmp_path, user=user, program=program))
    for name, text in made.items():
        (tmp_path / name).write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in sorted(made))]
    environment = {**os.environ, "SYSTEMD_LOG_LEVEL": "warning"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "ioweather-" in line and "nobody" not in line]
    assert lines == []


def test_folders_are_made_and_a_path_that_systemd_would_change_is_refused(tmp_path):
    made = write_units(tmp_path / "units", site(tmp_path / "a"))
    assert {"lake", "spool", "reports", "backup"} <= {path.name for path in made}
    assert all(path.exists() for path in made)
    with pytest.raises(UsageError, match="would change"):
        unit_texts(site(tmp_path / "with blank"))


def test_the_command_says_how_to_start_them(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("IOWEATHER_SPOOL", str(tmp_path / "spool"))
    assert run(["serve", "units", "--lake", str(tmp_path / "lake"), "--out", str(tmp_path / "units")]) == 0
    said = capsys.readouterr().out
    assert "systemctl --user enable --now ioweather-agent" in said
    assert f"--lake {tmp_path / 'lake'}" in (tmp_path / "units/ioweather-serve.service").read_text()

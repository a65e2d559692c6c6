"""The files in deploy/ name commands that exist, with options that exist, and units that systemd takes."""

from __future__ import annotations

import ast
import itertools
import os
import re
import shutil
import stat
import subprocess
import time
import tomllib
from pathlib import Path

import pytest
from command_lines import parse

from ioweather._version import __version__
from ioweather.ui.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_commands_of_units(unit):
    lines = re.findall(r"^ExecStart=/opt/ioweather/bin/(ioweather .*)$", unit.read_text(), re.MULTILINE)
    assert lines
    for line in lines:
        parse(line)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_hardened(unit):
    text = unit.read_text()
    for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=\n", "PrivateTmp=yes",
                 "SystemCallFilter=@system-service", "User=ioweather"):  # fmt: skip
        assert line in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_systemd_takes_the_units(tmp_path):
    for file in (DEPLOY / "systemd").glob("ioweather-*"):
        # The program and its user are those of another machine.
        text = file.read_text().replace("/opt/ioweather/bin/ioweather", "/bin/true")
        text = text.replace("=ioweather\n", "=nobody\n") if "User=" in text else text
        (tmp_path / file.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True, text=True, env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"},
    )  # fmt: skip
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if "ioweather-" in line]
    assert complaints == []


def test_the_batch_script_is_shell_and_its_command_parses():
    script = DEPLOY / "slurm" / "probe.sbatch"
    subprocess.run(["sh", "-n", script], check=True)
    joined = script.read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^exec (ioweather .*)$", joined, re.MULTILINE)
    parse(line)


def test_the_container_installs_this_project():
    text = (DEPLOY / "Containerfile").read_text()
    assert "ARG BASE=docker.io/library/python:3.13-slim" in text
    assert text.index("USER 10001") < text.index("ENTRYPOINT")


def test_the_batch_script_comes_again(tmp_path):
    """It hands the next job in before it begins, and keeps its name and its target."""
    for name in ("sbatch", "ioweather"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho {name} "$@"\n')
        program.chmod(0o755)
    done = subprocess.run(
        ["sh", str(DEPLOY / "slurm" / "probe.sbatch"), "/scratch", "/lake"], check=True, capture_output=True, text=True,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "TMPDIR": "/tmp"},
    )  # fmt: skip
    again, probe = done.stdout.splitlines()
    assert again.startswith("sbatch --dependency=afterany:7 ")
    assert again.endswith("probe.sbatch /scratch /lake")
    known, spool, lake = re.split(r" --spool | --lake ", probe)
    assert known == "ioweather --verbose probe /scratch --for 20h --name weather --keep"
    assert lake == "/lake"
    assert spool.startswith("/tmp/ioweather-")
    assert stat.S_IMODE(Path(spool).stat().st_mode) == 0o700
    Path(spool).rmdir()


def _bound(requirement: str) -> tuple[str, str]:
    name, version = requirement.partition(";")[0].split(">=")
    return name, version


def _lower_bounds() -> dict[str, str]:
    """Name and version of everything in pyproject.toml that is needed to run, its extras too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = (project["optional-dependencies"][name] for name in ("dask",))
    listed = [*project["dependencies"], *itertools.chain.from_iterable(extras)]
    return {name.lower(): version for name, version in (_bound(item) for item in listed)}


def test_the_spack_package_asks_for_what_the_project_does() -> None:
    text = (ROOT / "deploy/spack/package.py").read_text()
    found = dict(re.findall(r'depends_on\("py-([a-z0-9-]+)@([0-9.]+):", type=\("build", "run"\)\)', text))
    assert found == _lower_bounds()
    ast.parse(text)


def test_rattler_build_renders_the_conda_recipe() -> None:
    rattler = pytest.importorskip("rattler_build", reason="py-rattler-build is not installed")
    recipe = rattler.Stage0Recipe.from_yaml((ROOT / "deploy/conda/recipe.yaml").read_text())
    (made,) = recipe.render(rattler.VariantConfig())
    assert (made.recipe.package.name, str(made.recipe.package.version)) == ("ioweather", __version__)


def test_the_conda_recipe_asks_for_what_the_project_does() -> None:
    text = (ROOT / "deploy/conda/recipe.yaml").read_text()
    assert f'version: "{__version__}"' in text
    names = {"python-duckdb": "duckdb", "python-tzdata": "tzdata",
             "python-zlib-ng": "zlib-ng"}  # fmt: skip
    run = text.split("  run:\n")[1].split("\n\n")[0]
    found = {names.get(name, name): version for name, version in re.findall(r"- (\S+) >=(\S+)", run)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = dict(_bound(item) for item in project["dependencies"])
    assert found == {"python": project["requires-python"].removeprefix(">="), **needed}
    tried = re.findall(r"      - ioweather (.+)", text.split("  - script:\n")[1])
    assert tried
    for line in tried:
        assert line == "--version" or line in COMMANDS, "the recipe tries a command that is not there"


@pytest.mark.parametrize("name", ["tell-slurm", "mail-with-line"])
def test_scripts_for_slurm_are_shell(name):
    subprocess.run(["sh", "-n", DEPLOY / "slurm" / name], check=True)
    assert os.access(DEPLOY / "slurm" / name, os.X_OK)


def test_the_mail_of_an_ended_job_has_its_block_and_any_other_goes_at_once(tmp_path):
    for name, text in {"ioweather": 'echo "block of $2"', "mail": f'{{ echo "$2"; cat; }} > {tmp_path}/out'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    script = [str(DEPLOY / "slurm" / "mail-with-line"), "-s"]
    known = {**os.environ, "IOWEATHER": str(tmp_path / "ioweather"), "MAILER": str(tmp_path / "mail")}
    subprocess.run([*script, "Slurm Job_id=7 Name=x Began, Queued time 0", "me"], env=known, check=True)
    assert "block" not in (tmp_path / "out").read_text()
    (tmp_path / "out").unlink()
    subprocess.run([*script, "Slurm Job_id=7 Name=x Ended, Run time 0", "me"], env=known, check=True)
    for _ in range(100):
        if (tmp_path / "out").exists() and "block of 7" in (tmp_path / "out").read_text():
            return
        time.sleep(0.1)
    raise AssertionError("no mail")


def test_the_card_asks_with_the_users_token():
    text = (DEPLOY / "ondemand" / "_ioweather.html.erb").read_text()
    assert '"why", id, "--line", "--server", server' in text
    parse("ioweather why 4711 --line --server https://weather.example.org")

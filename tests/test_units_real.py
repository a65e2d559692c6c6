"""A real systemd runs the units as they are delivered: inside their sandbox, as their user, killed and stopped."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from store_lakes import series_frame

from ioweather.lake.lake import open_lake
from systemd_machine import Machine, missing, systemd_machine

pytestmark = pytest.mark.real
UNITS = Path(__file__).resolve().parents[1] / "deploy" / "systemd"
SERVICES = ("ioweather-agent", "ioweather-export", "ioweather-serve")
FACILITY = """\
[filesystem.scratch]
probes = ["/scratch/.weather"]

[collect]
probe_file = "8MiB"
ship_every = "2s"
"""
# As docs/how-to/install.md has it.
INSTALL = f"""
install -D -m 0644 /run/units/ioweather.sysusers /etc/sysusers.d/ioweather.conf
systemd-sysusers
install -d -o ioweather -g ioweather -m 0750 /srv/weather /backup/weather /scratch/.weather
chown -R ioweather: /srv/weather
install -m 0644 /run/units/ioweather-*.service /run/units/ioweather-*.timer /etc/systemd/system/
systemctl daemon-reload
systemctl enable --now {" ".join(SERVICES)} ioweather-tend.timer
"""
ASK = """
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1], timeout=50) as answer: print(answer.read()[:4])
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if reason := missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("units")
    lake = open_lake(folder / "lake", create=True)
    for metric in ("read_bytes", "write_bytes"):
        lake.append("series", series_frame(np.full((60, 2), 1e9), metric=metric), source="lmt")
    (lake.root / "facility.toml").write_text(FACILITY)
    with ExitStack() as stack:
        try:
            started = stack.enter_context(systemd_machine(folder))
        except RuntimeError as error:
            pytest.skip(str(error))
        shutil.copytree(lake.root, started.root / "srv/weather")
        shutil.copytree(UNITS, started.root / "run/units")
        started(INSTALL)
        yield started


def ask(machine: Machine, address: str) -> str:
    return machine(f"/opt/ioweather/bin/python -c '{ASK}' 'http://127.0.0.1:{address}'")


def test_the_agent_measures_and_fills_the_lake(machine: Machine):
    machine("mountpoint /sys/kernel/debug")  # as everywhere, and closed to the agent
    machine.wait("test -d /srv/weather/tables/responses")
    status = json.loads(machine("cat /var/lib/ioweather/spool/status.json"))
    (target,) = status["targets"]
    assert target["state"] in ("running", "waiting"), target["message"]
    assert {operation["op"] for operation in target["operations"]} >= {"read", "write", "create"}
    assert all(operation["ok_count"] and not operation["error_count"] for operation in target["operations"])
    assert machine("stat -c %U /srv/weather/tables/responses") == "ioweather"


def test_the_dashboard_draws_and_the_exporter_tells(machine: Machine):
    machine.wait("journalctl -u ioweather-serve | grep -q 'serve: started'")
    assert "PNG" in ask(machine, "8585/api/v1/exhibits/car11.fig7?format=png")
    assert "# HE" in ask(machine, "9754/metrics")


def test_the_night(machine: Machine):
    machine("systemctl start ioweather-tend.service")
    machine("test -f /backup/weather/lake.json")
    assert machine("systemctl is-active ioweather-tend.timer") == "active"


def test_what_is_killed_comes_again_and_what_is_stopped_goes(machine: Machine):
    pids = [machine(f"systemctl show --property=MainPID --value {unit}") for unit in SERVICES]
    machine(f"systemctl kill --kill-whom=main --signal=KILL {' '.join(SERVICES)}")
    for unit, pid in zip(SERVICES, pids, strict=True):
        machine.wait(f'now=$(systemctl show --property=MainPID --value {unit}); test "$now" != {pid} -a "$now" != 0')
    machine.wait("journalctl -u ioweather-agent | grep 'agent: started' | tail -n +2 | grep -q .")
    machine(f"systemctl stop {' '.join(SERVICES)}")
    assert {machine(f"systemctl show --property=Result --value {unit}") for unit in SERVICES} == {"success"}


def test_nothing_was_wrong(machine: Machine):
    """In the journal are the kills, which systemd tells, and no complaint of ours."""
    told = machine("journalctl --priority=warning --output=cat _UID=$(id -u ioweather)").splitlines()
    assert [line for line in told if "slurm" not in line] == []  # sacct may be here without its cluster
    for unit in (*SERVICES, "ioweather-tend"):
        machine(f"systemd-analyze security --no-pager --threshold=20 {unit}.service")

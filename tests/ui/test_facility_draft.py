"""A first facility.toml from what the lake holds: planted names of servers, disks, mounts and clusters."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from ioweather.core.tables import TABLES
from ioweather.core.units import MINUTE_NS, NS
from ioweather.lake.lake import Lake, open_lake
from ioweather.ui.local_setup import draft_facility

START_NS = 1_772_409_600 * NS


def sampled(lake: Lake, kind: str, system: str, *components: str) -> None:
    frame = TABLES["series"].frame(
        {"component": list(components)}, rows=len(components), start_ns=START_NS, interval_ns=MINUTE_NS, system=system,
        component_kind=kind, metric="read_bytes" if kind != "oss" else "cpu_ratio", value=0.5, quality=0,
    )  # fmt: skip
    lake.append("series", frame, source="lmt")


def logged(lake: Lake, **mounts: str) -> None:
    frame = TABLES["applications"].frame(
        rows=1, log_digest="d", job_id=1, uid=1, nprocs=1, start_ns=START_NS, end_ns=START_NS + NS, log_version="3.41",
        partial_modules="", modules="POSIX", mounts=json.dumps({f"/{name}": kind for name, kind in mounts.items()}),
    )  # fmt: skip
    lake.append("applications", frame, source="darshan")


def drafted(lake: Lake) -> dict[str, dict[str, list[str]]]:
    with lake.snapshot() as snapshot:
        return tomllib.loads(draft_facility(snapshot, name="here", zone="UTC")).get("filesystem", {})


def test_disks_belong_to_the_file_system_of_their_server(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake", create=True)
    sampled(lake, "ost", "scratch", "scratch-OST0000", "scratch-OST0001")
    sampled(lake, "oss", "scratch", "oss1", "oss2")
    for host in ("oss1", "oss2", "login1"):
        for disk in ("sda", "sdb", "dm-0"):
            sampled(lake, "device", f"{host}:{disk}", disk)
    found = drafted(lake)
    assert found["scratch"]["devices"] == ["oss*:sda", "oss*:sdb"]
    assert found["disks"]["devices"] == ["login1:sda", "login1:sdb"]


def test_a_host_that_serves_two_file_systems_is_nobodys(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake", create=True)
    for system in ("home", "scratch"):
        sampled(lake, "oss", system, "oss1")
    sampled(lake, "device", "oss1:sda", "sda")
    found = drafted(lake)
    assert found["disks"]["devices"] == ["oss1:sda"]
    assert found["home"]["devices"] == found["scratch"]["devices"] == []


def test_mounts_come_from_logs_too(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake", create=True)
    sampled(lake, "ost", "snx11", "snx11-OST0000")
    logged(lake, scratch="lustre", home="nfs")
    assert drafted(lake)["snx11"]["mounts"] == ["/scratch"]


def test_of_two_file_systems_the_name_of_the_mount_decides(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake", create=True)
    for system in ("work", "scratch"):
        sampled(lake, "ost", system, f"{system}-OST0000")
    logged(lake, **{"lustre/work": "lustre", "projects": "lustre"})
    found = drafted(lake)
    assert found["work"]["mounts"] == ["/lustre/work"]
    assert found["scratch"]["mounts"] == []
    assert found["projects"]["mounts"] == ["/projects"]


def test_an_empty_lake_has_an_example(tmp_path: Path) -> None:
    assert drafted(open_lake(tmp_path / "lake", create=True)) == {}

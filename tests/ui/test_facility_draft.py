"""A first facility.toml from what the lake holds: planted names of servers, disks, mounts and clusters."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from ioweather.core.facility import parse_facility
from ioweather.core.tables import TABLES
from ioweather.core.units import MINUTE_NS, NS
from ioweather.lake.lake import Lake, open_lake
from ioweather.ui.cli.main import run
from ioweather.ui.facility_draft import check_mapping, draft_facility, shared_mounts

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


MOUNTS = """\
10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch /scratch lustre rw 0 0
/dev/vda1 / ext4 rw 0 0
fs1 /gpfs/fs1 gpfs rw 0 0
nas:/vol/home /home nfs4 rw 0 0
"""


def test_mounts_of_this_machine_name_file_systems(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake", create=True)
    with lake.snapshot() as snapshot:
        text = draft_facility(snapshot, shared_mounts(MOUNTS), name="here", zone="UTC")
    found = tomllib.loads(text)["filesystem"]
    assert {name: (body.get("kind"), body["lustre"], body["mounts"]) for name, body in found.items()} == {
        "fs1": ("gpfs", [], ["/gpfs/fs1"]),
        "home": ("nfs", [], ["/home"]),
        "scratch": ("lustre", ["scratch"], ["/scratch"]),
    }


def test_the_fastest_benchmark_is_the_peak(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake", create=True)
    for system in ("work", "scratch"):
        sampled(lake, "ost", system, f"{system}-OST0000")
    logged(lake, work="lustre", scratch="lustre")
    frame = TABLES["benchmarks"].frame(
        {"phase": ["write", "read"], "operation": ["write", "read"], "bytes_per_s": [4e9, 6e9]}, rows=2, digest="d",
        tool="ior", ops_per_s=None, duration_seconds=1.0, start_ns=START_NS, end_ns=START_NS + NS,
        parameters=json.dumps({"command": "ior -w -o /work/anna/file"}),
    )  # fmt: skip
    lake.append("benchmarks", frame, source="ior")
    found = drafted(lake)
    assert found["work"]["peak_bytes_per_s"] == 6e9
    assert "peak_bytes_per_s" not in found["scratch"]


def record_servers(folder: Path) -> int:
    """Recordings of `lctl get_param`, two looks each, of 40 object servers and 5 metadata servers of three file
    systems; returns the number of storage targets."""
    osts = 0
    for system, servers, per_server in (("scratch", 24, 7), ("home", 8, 4), ("work", 8, 6)):
        for kind, hosts, targets in (("OST", servers, per_server), ("MDT", 1 + (servers > 8) * 2, 1)):
            for host in range(hosts):
                names = [f"{system}-{kind}{host * targets + n:04x}" for n in range(targets)]
                osts += len(names) * (kind == "OST")
                leaf = "obdfilter.{}.stats" if kind == "OST" else "mdt.{}.md_stats"
                looks = [
                    f"{leaf.format(name)}=\nsnapshot_time             {START_NS // NS + 60 * look}.0 secs.nsecs\n"
                    f"write_bytes               {look} samples [bytes] 1 1 {look * 1000}\n"
                    for look in (1, 2)
                    for name in names
                ]
                label = "oss" if kind == "OST" else "mds"
                (folder / f"{system}-{label}{host + 1:02}.txt").write_text("".join(looks))
    return osts


def test_a_site_of_three_file_systems_is_described_without_a_line_by_hand(tmp_path: Path, capsys) -> None:
    """248 targets on 40 object servers; the only names of servers are those of the 45 recordings."""
    (tmp_path / "recorded").mkdir()
    assert record_servers(tmp_path / "recorded") == 24 * 7 + 8 * 4 + 8 * 6 == 248
    lake = tmp_path / "lake"
    files = sorted(map(str, (tmp_path / "recorded").iterdir()))
    assert len(files) == 45
    assert run(["ingest", *files, "--workers", "1", "--lake", str(lake)]) == 0
    assert run(["facility", "init", "--lake", str(lake)]) == 0
    every = tomllib.loads((lake / "facility.toml").read_text())["filesystem"]
    found = {name: body for name, body in every.items() if body["lustre"]}  # this machine may have mounts of its own
    assert {name: (body["kind"], len(body["servers"])) for name, body in found.items()} == {
        "scratch": ("lustre", 24 + 3), "home": ("lustre", 8 + 1), "work": ("lustre", 8 + 1),
    }  # fmt: skip
    assert found["home"]["servers"]["home-oss02"] == [f"home-OST{n:04x}" for n in range(4, 8)]
    assert sum(len(own) for body in found.values() for name, own in body["servers"].items() if "oss" in name) == 248
    capsys.readouterr()
    assert run(["facility", "check", "--lake", str(lake)]) == 0
    assert "scratch: lustre; no mounts; 171 targets on 27 servers" in capsys.readouterr().out
    for server, moved in (("scratch-oss01", 7), ("home-oss08", 4), ("work-mds01", 1)):
        assert run(["fs", server, "--lake", str(lake), "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        (write,) = [fact for fact in answer["facts"][0]["facts"] if fact["name"] == "write_bytes"]
        assert write["value"] == pytest.approx(moved * 1000 / 60)
    assert run(["fs", "scratch-oss99", "--lake", str(lake)]) == 1


def test_check_works_before_the_first_ingest(tmp_path: Path, capsys) -> None:
    lake = tmp_path / "lake"
    assert run(["facility", "check", "--lake", str(lake)]) == 2
    lake.mkdir()
    (lake / "facility.toml").write_text('[filesystem.scratch]\nkind = "lustre"\nmounts = ["/scratch"]\n')
    capsys.readouterr()
    run(["facility", "check", "--lake", str(lake), "--json"])
    (scratch,) = json.loads(capsys.readouterr().out)["mapped"]
    assert (scratch["kind"], scratch["mounts"], scratch["targets"]) == ("lustre", ["/scratch"], 0)
    assert not (lake / "lake.json").exists()


def test_check_names_what_is_not_mapped(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake", create=True)
    sampled(lake, "ost", "scratch", "scratch-OST0000", "scratch-OST0001")
    sampled(lake, "ost", "home", "home-OST0000")
    logged(lake, scratch="lustre", archive="gpfs", tmp="tmpfs")
    servers = {"oss1": ["scratch-OST0000"], "oss2": ["scratch-OST0009"]}
    facility = parse_facility({"filesystem": {"scratch": {"lustre": ["scratch"], "servers": servers}}})
    (lake.root / "facility.toml").write_text(
        '[filesystem.scratch]\nservers.oss1 = ["scratch-OST0000"]\nservers.oss2 = ["scratch-OST0009"]\n'
    )
    with open_lake(lake.root).snapshot() as snapshot:
        _, found = check_mapping(facility, snapshot, shared_mounts(MOUNTS))
    assert found["names"] == ["home"]
    assert found["mounts"] == ["/archive", "/scratch"]
    assert found["mounted_here"] == ["/gpfs/fs1", "/home"]
    assert (found["targets"], found["servers"]) == (["scratch-OST0001"], ["oss2"])

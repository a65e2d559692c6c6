"""SELECTs that come with ioweather: capacity and quotas of Lustre and GPFS, counters by LDMS and collectd."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioweather.lake.lake import open_lake
from ioweather.ui.cli.main import run

LFS_DF = """\
1794724380
UUID                   1K-blocks        Used   Available Use% Mounted on
scratch-MDT0000_UUID     2000000      500000     1500000  25% /scratch[MDT:0]
scratch-OST0000_UUID     1000000      250000      750000  25% /scratch[OST:0]
OST0001             : inactive device
scratch-OST000a_UUID     1000000      999000        1000 100% /scratch[OST:10]

filesystem_summary:      2000000     1249000      751000  63% /scratch

UUID                      Inodes       IUsed       IFree IUse% Mounted on
scratch-MDT0000_UUID     1000000      400000      600000  40% /scratch[MDT:0]

filesystem_summary:      1000000      400000      600000  40% /scratch
"""
MMDF = """\
1794724380
mmdf:nsd:HEADER:version:reserved:reserved:nsdName:storagePool:size:failureGroup:metadata:data:freeBlocks:
mmdf:poolTotal:HEADER:version:reserved:reserved:poolName:poolSize:freeBlocks:
mmdf:nsd:0:1:::nsd_a:system:1048576:-1:yes:yes:524288:
mmdf:nsd:0:1:::nsd_b:data:2097152:-1:no:yes:1048576:
mmdf:poolTotal:0:1:::system:1048576:524288:
"""
LFS_QUOTA = """\
1794724380
Disk quotas for usr anna (uid 1000):
     Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace
       /scratch     100     200     300       -       1       2       3       -
uid 1000 is using default block quota setting
Disk quotas for grp hpc (gid 500):
     Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace
       /scratch 1500000* 1000000 2000000  5d22h     120       0       0       -
Disk quotas for prj 1001 (pid 1001):
     Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace
/lustre/a/long/mount/point
                 400000  300000       0       -      90      50     100       -
Disk quotas for grp free (gid 501):
     Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace
       /scratch      12       0       0       -       3       0       0       -
"""
MMREPQUOTA = """\
1794724380
mmrepquota::HEADER:version:reserved:reserved:filesystemName:quotaType:id:name:blockUsage:blockQuota:blockLimit:blockInDoubt:blockGrace:filesUsage:filesQuota:filesLimit:filesInDoubt:filesGrace:remarks:quota:defQuota:fid:filesetname:
mmrepquota::0:1:::fs1:USR:1000:anna:5:10:20:0:none:1:0:0:0:none:i:on:off:0:root:
mmrepquota::0:1:::fs1:GRP:500:hpc:1000:0:4000:0:none:7:0:70:0:none:e:on:off:::
mmrepquota::0:1:::fs1:FILESET:3:proj:9000:8000:0:0:none:5:0:0:0:none:e:on:off:::
"""
KIB = 1024.0


@pytest.mark.parametrize(
    ("name", "text", "options", "expected"),
    [
        (
            "lfs_df",
            LFS_DF,
            (),
            {
                ("scratch", "mdt", "scratch-MDT0000", "capacity_bytes", 2_000_000 * KIB),
                ("scratch", "mdt", "scratch-MDT0000", "free_bytes", 1_500_000 * KIB),
                ("scratch", "mdt", "scratch-MDT0000", "capacity_files", 1_000_000.0),
                ("scratch", "mdt", "scratch-MDT0000", "free_files", 600_000.0),
                ("scratch", "ost", "scratch-OST0000", "capacity_bytes", 1_000_000 * KIB),
                ("scratch", "ost", "scratch-OST0000", "free_bytes", 750_000 * KIB),
                ("scratch", "ost", "scratch-OST000a", "capacity_bytes", 1_000_000 * KIB),
                ("scratch", "ost", "scratch-OST000a", "free_bytes", 1_000 * KIB),
            },
        ),
        (
            "mmdf",
            MMDF,
            ("--system", "fs1"),
            {
                ("fs1", "device", "nsd_a", "capacity_bytes", 1_048_576 * KIB),
                ("fs1", "device", "nsd_a", "free_bytes", 524_288 * KIB),
                ("fs1", "device", "nsd_b", "capacity_bytes", 2_097_152 * KIB),
                ("fs1", "device", "nsd_b", "free_bytes", 1_048_576 * KIB),
            },
        ),
        (
            "lfs_quota",
            LFS_QUOTA,
            (),
            {
                ("mount:/scratch", "quota", "group:hpc", "capacity_bytes", 2_000_000 * KIB),
                ("mount:/scratch", "quota", "group:hpc", "free_bytes", 500_000 * KIB),
                ("mount:/lustre/a/long/mount/point", "quota", "project:1001", "capacity_bytes", 300_000 * KIB),
                ("mount:/lustre/a/long/mount/point", "quota", "project:1001", "free_bytes", 0.0),
                ("mount:/lustre/a/long/mount/point", "quota", "project:1001", "capacity_files", 100.0),
                ("mount:/lustre/a/long/mount/point", "quota", "project:1001", "free_files", 10.0),
            },
        ),
        (
            "mmrepquota",
            MMREPQUOTA,
            (),
            {
                ("fs1", "quota", "group:hpc", "capacity_bytes", 4000 * KIB),
                ("fs1", "quota", "group:hpc", "free_bytes", 3000 * KIB),
                ("fs1", "quota", "group:hpc", "capacity_files", 70.0),
                ("fs1", "quota", "group:hpc", "free_files", 63.0),
                ("fs1", "quota", "fileset:proj", "capacity_bytes", 8000 * KIB),
                ("fs1", "quota", "fileset:proj", "free_bytes", 0.0),
            },
        ),
    ],
)
def test_shipped_select_reads_capacity(
    tmp_path: Path, name: str, text: str, options: tuple[str, ...], expected: set[tuple[str, str, str, str, float]]
) -> None:
    file = tmp_path / "recorded.txt"
    file.write_text(text)
    lake = tmp_path / "lake"
    assert run(["ingest", "--lake", str(lake), "--as", "series", "--select", name, *options, str(file)]) == 0
    with open_lake(lake).snapshot() as snapshot:
        rows = snapshot.query(
            "SELECT system, component_kind, component, metric, value, start_ns FROM series"
        ).fetchall()
    assert {row[:5] for row in rows} == expected
    assert {row[5] for row in rows} == {1794724380 * 10**9}


def test_unknown_select_names_the_shipped_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "recorded.txt"
    file.write_text(LFS_DF)
    command = ["ingest", "--lake", str(tmp_path / "lake"), "--as", "series", "--select", "lfs-df", str(file)]
    assert run(command) == 2
    assert "collectd, ldms, lfs_df, lfs_quota, mmdf, mmrepquota" in capsys.readouterr().err


LUSTRE = (
    "#Time,Time_usec,ProducerName,component_id,client.read_bytes#llite.testfs-ff01,open#stats.testfs,other\n"
    + "".join(
        f"{1710000000 + 60 * i}.5,0,nid0000{node},{node},{node * 1000 * i},{i},9\n" for i in range(3) for node in (1, 2)
    )
)
DISKS = (
    "#Time,Time_usec,ProducerName,reads_comp#sda,reads_comp.rate#sda,sect_read#sda,time_read#sda,reads_comp#loop0\n"
    "1710000000.0,0,s0,197797,0,5382606,69312,1\n1710000010.0,0,s0,197807,1,5382706,69322,2\n"
)


@pytest.mark.parametrize(
    ("name", "file", "text", "expected"),
    [
        (
            "ldms",
            "lustre_client.1710000000",
            LUSTRE,
            [
                ("testfs", "host", "nid00001", "open_ops", 2.0, 0),
                ("testfs", "host", "nid00001", "read_bytes", 2000.0, 0),
                ("testfs", "host", "nid00002", "open_ops", 2.0, 0),
                ("testfs", "host", "nid00002", "read_bytes", 4000.0, 0),
            ],
        ),
        (
            "ldms",
            "procdiskstats.csv",
            DISKS,
            [
                ("s0:sda", "device", "sda", "read_busy_seconds", pytest.approx(0.010), 0),
                ("s0:sda", "device", "sda", "read_bytes", 51_200.0, 0),
                ("s0:sda", "device", "sda", "read_ops", 10.0, 0),
            ],
        ),
        (
            "collectd",
            "node1/disk-sda/disk_octets-2024-03-09",
            "epoch,read,write\n1710000000.500,100,5\n1710000010.500,300,5\n1710000020.5,250,nan\n",
            [
                ("node1:sda", "device", "sda", "read_bytes", 450.0, 2),
                ("node1:sda", "device", "sda", "write_bytes", 0.0, 0),
            ],
        ),
        (
            "collectd",
            "node1/disk-sda/disk_ops-2024-03-09",
            "epoch,read,write\n1710000000,1.5,0.0\n1710000010,2.5,0.0\n",
            [
                ("node1:sda", "device", "sda", "read_ops", 25.0, 0),
                ("node1:sda", "device", "sda", "write_ops", 0.0, 0),
            ],
        ),
    ],
)
def test_shipped_select_reads_growth_of_counters(
    tmp_path: Path, name: str, file: str, text: str, expected: list[tuple[object, ...]]
) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    lake = tmp_path / "lake"
    assert run(["ingest", "--lake", str(lake), "--as", "series", "--select", name, str(path)]) == 0
    query = (
        "SELECT system, component_kind, component, metric, sum(value), max(quality) FROM series "
        "GROUP BY ALL ORDER BY 3, 4"
    )
    with open_lake(lake).snapshot() as snapshot:
        assert snapshot.query(query).fetchall() == expected
        assert snapshot.query("SELECT DISTINCT source FROM series").fetchall() == [(name,)]

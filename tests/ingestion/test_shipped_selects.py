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


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "lfs_quota",
            LFS_QUOTA,
            [
                ("mount:/lustre/a/long/mount/point", "project", "1001", "", None, 400_000, 300_000, None, 90, 50, 100),
                ("mount:/scratch", "group", "free", "", None, 12, None, None, 3, None, None),
                ("mount:/scratch", "group", "hpc", "", None, 1_500_000, 1_000_000, 2_000_000, 120, None, None),
                ("mount:/scratch", "user", "anna", "", 1000, 100, 200, 300, 1, 2, 3),
            ],
        ),
        (
            "mmrepquota",
            MMREPQUOTA,
            [
                ("fs1", "fileset", "proj", "", None, 9000, 8000, None, 5, None, None),
                ("fs1", "group", "hpc", "", None, 1000, None, 4000, 7, None, 70),
                ("fs1", "user", "anna", "root", 1000, 5, 10, 20, 1, None, None),
            ],
        ),
    ],
)
def test_shipped_select_reads_quotas(tmp_path: Path, name: str, text: str, expected: list[tuple[object, ...]]) -> None:
    """Amounts in the text are in KiB; no limit is null, not 0."""
    file = tmp_path / "recorded.txt"
    file.write_text(text)
    lake = tmp_path / "lake"
    assert run(["ingest", "--lake", str(lake), "--as", "quotas", "--select", name, str(file)]) == 0
    with open_lake(lake).snapshot() as snapshot:
        rows = snapshot.query(
            "SELECT system, owner_kind, owner, fileset, uid, used_bytes // 1024, soft_bytes // 1024, "
            "hard_bytes // 1024, used_files, soft_files, hard_files FROM quotas ORDER BY ALL"
        ).fetchall()
    assert rows == expected


def test_unknown_select_names_the_shipped_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "recorded.txt"
    file.write_text(LFS_DF)
    command = ["ingest", "--lake", str(tmp_path / "lake"), "--as", "series", "--select", "lfs-df", str(file)]
    assert run(command) == 2
    assert "collectd, fsstats, gpfs_policy, ldms, lfs_df, lfs_quota, mmdf, mmrepquota" in capsys.readouterr().err


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


# Job summaries of TOKIO-ABC: a row has one field more than the header. `_datetime_` is local time written as UTC.
SUMMARY = {
    "_datetime_end": "1487036496.0", "_datetime_start": "1487036400.0", "_file_system": "scratch1",
    "darshan_agg_perf_by_slowest_posix": "1024.0", "darshan_app": "/home/a/ior",
    "darshan_biggest_read_fs": "/scratch1", "darshan_biggest_write_fs": "/home", "darshan_end_time": "1487065294",
    "darshan_jobid": "41", "darshan_nprocs": "2048", "darshan_start_time": "1487065200",
    "darshan_tot_bytes_read_posix": "1.073741824e+12", "darshan_tot_bytes_written_posix": "0.0",
    "darshan_tot_f_meta_time_posix": "6.0", "darshan_tot_f_read_time_posix": "30.0",
    "darshan_tot_f_write_time_posix": "0.0", "darshan_tot_reads_posix": "1000.0",
    "darshan_tot_seq_reads_posix": "900.0", "darshan_tot_seq_writes_posix": "0.0", "darshan_tot_stats_posix": "4.0",
    "darshan_tot_writes_posix": "0.0", "darshan_walltime": "95", "fs_ave_mds_cpu": "20.0", "fs_ave_oss_cpu": "10.0",
    "fs_frac_missing": "0.0", "fs_tot_bytes_read": "2e+12", "fs_tot_bytes_written": "1e+9", "fs_tot_unlink_ops": "",
    **{f"fs_tot_{name}_ops": "9.0" for name in
       ["open", "close", "mknod", "link", "mkdir", "rmdir", "rename", "getattr", "setattr", "getxattr", "statfs"]},
}  # fmt: skip
LATER = {
    "_datetime_end": "1487038100.0", "_datetime_start": "1487037200.0", "darshan_jobid": "42",
    "darshan_start_time": "1487066000", "darshan_end_time": "1487066890", "darshan_agg_perf_by_slowest_posix": "512.0",
    "darshan_tot_bytes_read_posix": "0.0", "darshan_tot_bytes_written_posix": "1.073741824e+12",
    "darshan_biggest_write_fs": "/scratch1", "fs_frac_missing": "0.05", "fs_tot_bytes_written": "3e+12",
}  # fmt: skip
WITHOUT_LOG = dict.fromkeys(SUMMARY, "") | {"darshan_app": "/home/a/vpic", "darshan_jobid": "43"}
SUMMARIES = "".join(
    ",".join([*number, *cells]) + "\n"
    for number, cells in (
        ((), SUMMARY),
        (("0",), SUMMARY.values()),
        (("1",), (SUMMARY | LATER).values()),
        (("2",), WITHOUT_LOG.values()),
    )
)
TOKIO_ABC = {"applications": "tokio_abc_runs", "job_io": "tokio_abc_io", "series": "tokio_abc_servers"}


def test_job_summaries_of_tokio_abc_are_runs_their_io_and_samples_of_the_servers(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(SUMMARIES)
    lake = tmp_path / "lake"
    for table, select in TOKIO_ABC.items():
        command = ["ingest", "--as", table, "--select", select, "--lake", str(lake), str(tmp_path / "jobs.csv")]
        assert run(command) == 0
    runs = """
        SELECT job_id, exe, job_io.nprocs, io_seconds, read_bytes, write_bytes, run_seconds, main_mount
        FROM job_io JOIN applications USING (log_digest) ORDER BY job_id"""
    samples = """
        SELECT start_ns // 1000000000, interval_ns // 1000000000, value, quality FROM series
        WHERE metric = '{}' AND system = 'scratch1' ORDER BY component_kind, start_ns"""
    with open_lake(lake).snapshot() as snapshot:
        assert snapshot.query(runs).fetchall() == [
            (41, "/home/a/ior", 2048, 1000.0, 1_073_741_824_000, 0, 95.0, "/scratch1"),
            (42, "/home/a/ior", 2048, 2000.0, 0, 1_073_741_824_000, 95.0, "/scratch1"),
        ]
        # The window of the servers is longer than the run; one of 15 minutes is in three parts, and lacks samples.
        parts = [(1487066000 + 300 * part, 300, 1e12, 8 | 32) for part in range(3)]
        written = snapshot.query(samples.format("write_bytes")).fetchall()
        assert written == [(1487065200, 96, 1e9, 0), *parts]
        loads = [value for _, _, value, _ in snapshot.query(samples.format("cpu_ratio")).fetchall()]
        assert loads == pytest.approx([0.2] * 4 + [0.1] * 4)
        assert [row[2] for row in snapshot.query(samples.format("open_ops")).fetchall()] == [9.0, 3.0, 3.0, 3.0]
        assert snapshot.query(samples.format("unlink_ops")).fetchall() == []  # missing is no row


@pytest.mark.parametrize("table", TOKIO_ABC)
def test_job_summaries_that_are_cut_or_lack_a_column_say_so(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["ingest", "--as", table, "--select", TOKIO_ABC[table], "--lake", str(tmp_path / "lake")]
    (tmp_path / "cut.csv").write_text(SUMMARIES[: SUMMARIES.index("\n1,") + 90])
    assert run([*command, str(tmp_path / "cut.csv")]) != 0
    assert "skipped the last line because it does not end with a newline" in " ".join(capsys.readouterr().out.split())
    with open_lake(tmp_path / "lake").snapshot() as snapshot:
        assert snapshot.scalar(f"SELECT count(*) FROM {table}") == (15 if table == "series" else 1)
    (tmp_path / "wrong.csv").write_text(SUMMARIES.replace("darshan_start_time", "start"))
    assert run([*command, str(tmp_path / "wrong.csv")]) != 0
    assert "This is no job summary of TOKIO-ABC: a column is missing." in " ".join(capsys.readouterr().out.split())


SIZES = (0, 100, 2047, 2048, 5000, 70_000, 3 << 20, (1 << 30) + 1)
AGES = (0, 1, 2, 40, 63, 64, 127, 500)


def histogram(name: str, values: list[float], weights: list[int] | None = None) -> str:
    """As fsstats fills and prints them: bins from 0 to 2, 2 to 4, 4 to 8, ...; the last columns are shares."""
    found: dict[int, list[float]] = {}
    for value, weight in zip(values, weights or [1] * len(values), strict=True):
        low = 0 if value < 2 else 1 << (int(value).bit_length() - 1)
        cell = found.setdefault(low, [0, 0.0])
        cell[0], cell[1] = cell[0] + weight, cell[1] + value * weight
    count = sum(int(cell[0]) for cell in found.values())
    lines = [f"histogram,{name}", f"count,{count},items", "average,1.000000,KB", "min,0,KB", "max,9,KB",
             "bucket min,bucket max,count,percent,cumulative pct,val count,percent,cumulative pct"]  # fmt: skip
    lines += [
        f"{low},{2 * low or 2},{int(n)},0.100000,0.100000,{held:.6f},0.100000,0.100000"
        for low, (n, held) in sorted(found.items())
    ]
    return "\n".join(lines) + "\n\n"


def report(sizes=SIZES, ages=AGES) -> str:
    kib = [size / 1024 for size in sizes]
    return (
        "#Generated by fsstats v1.4.5 (2009-12-11)\n#Comment: by hand\n\nskipped special files,3\n"
        "skipped duplicate hardlinks,2\nskipped snapshot dirs,1\ntotal capacity used,1.00 GB\n\n"
        + histogram("file size", kib)
        + histogram("capacity used", [-(-size // 4096) * 4 for size in sizes])
        + histogram("directory size", [4.0, 4.0])
        + histogram("filename length", [8.0] * 4)
        + histogram("symlink target length", [12.0])
        + histogram("mtime (files)", list(ages))
        + histogram("mtime (KB)", list(ages), [round(k) for k in kib])
    )


def read_report(tmp_path: Path, text: str) -> tuple[int, Path]:
    file, lake = tmp_path / "report.csv", tmp_path / "lake"
    file.write_text(text)
    options = ["--as", "scan_bins", "--select", "fsstats", "--start", "2023-11-14T22:13:20Z", "--system", "gpfs"]
    return run(["ingest", "--lake", str(lake), *options, str(file)]), lake


def test_shipped_select_reads_sizes_and_ages_of_fsstats(tmp_path: Path) -> None:
    code, lake = read_report(tmp_path, report())
    assert code == 0
    with open_lake(lake).snapshot() as snapshot:
        scan = snapshot.query(
            "SELECT file_count, file_bytes, directory_count, complete, root, start_ns, scan_id FROM scans"
        ).fetchall()
        rows = snapshot.query("SELECT histogram, low, high, count, bytes, scan_id FROM scan_bins").fetchall()
    assert scan == [(len(SIZES), sum(SIZES), 2, True, "gpfs", 1_700_000_000 * 10**9, rows[0][-1])]
    sizes = {(low, high): (count, held) for histogram, low, high, count, held, _ in rows if histogram == "size"}
    assert sizes[0, 2048] == (3, 100 + 2047)
    assert sizes[2048, 4096] == (1, 2048)
    assert sizes[1 << 30, 2 << 30] == (1, (1 << 30) + 1)
    assert sum(count for count, _ in sizes.values()) == len(SIZES)
    ages = {low: (high, count, held) for histogram, low, high, count, held, _ in rows if histogram == "mtime"}
    assert {low: found[:2] for low, found in ages.items()} == {
        0: (2, 2),
        2: (4, 1),
        32: (64, 2),
        64: (128, 2),
        256: (512, 1),
    }
    assert ages[256][2] == 1 << 30


def test_a_changed_report_of_fsstats_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert read_report(tmp_path, report().replace("\n0,2,3,", "\n0,2,30,"))[0] == 1
    assert "cut or changed" in " ".join(capsys.readouterr().out.split())


POLICY = """\
{first}12 1 0 size=1048576 kb=1024 mtime=2010-03-25 10:00:00 atime=2010-03-25 11:00:00.250000 uid=1001 gid=7 nlink=1 mode=-rw-r--r-- -- /gpfs/a/x.h5
13 1 0 size=10 kb=0 mtime=2010-01-01 00:00:00.500000 atime=2010-03-25 11:00:00 uid=1002 gid=7 nlink=2 mode=-rw-r--r-- -- /gpfs/a/two -- dashes
13 1 0 size=10 kb=0 mtime=2010-01-01 00:00:00.500000 atime=2010-03-25 11:00:00 uid=1002 gid=7 nlink=2 mode=-rw-r--r-- -- /gpfs/b/again
14 1 0 size=3862 kb=0 mtime=2010-01-01 00:00:00 atime=2010-03-25 11:00:00 uid=1002 gid=7 nlink=2 mode=drwxr-xr-x -- /gpfs/b
"""  # noqa: E501


@pytest.mark.parametrize("first", ["", "<3> "])
def test_a_gpfs_policy_list(tmp_path: Path, first: str) -> None:
    lake, listed = tmp_path / "lake", tmp_path / "list.all"
    listed.write_text(POLICY.format(first=first) + "15 1 0 size=1 kb=0 uid=5 -- %2Fgpfs%2Fa%2Fwith%20blank\n")
    how = ["--as", "scan_entries", "--select", "gpfs_policy", "--start", "2010-03-25T12:00:00-05:00"]
    assert run(["ingest", "--lake", str(lake), *how, str(listed)]) == 1  # its times are local
    assert run(["ingest", "--lake", str(lake), *how, "--zone", "America/Chicago", str(listed)]) == 0
    with open_lake(lake).snapshot() as snapshot:
        (scan,) = snapshot.frame("scans").records()
        paths = {row["path"] for row in snapshot.frame("scan_entries").records()}
        ages = {row["bin"]: row["count"] for row in snapshot.frame("scan_bins").records()
                if (row["owner_kind"], row["histogram"]) == ("all", "mtime")}  # fmt: skip
    assert (scan["file_count"], scan["directory_count"], scan["linked_file_count"]) == (3, 1, 1)
    assert (scan["file_bytes"], scan["capacity_bytes"], scan["root"]) == (1048587, 1 << 20, "/gpfs")
    assert paths >= {"/gpfs/a/two -- dashes", "/gpfs/a/with blank"}
    assert ages == {"0": 1, "7": 1}  # 2 hours; 83 days
    listed.write_text("hello\n")
    assert run(["ingest", "--lake", str(lake), *how, "--zone", "UTC", str(listed)]) == 1

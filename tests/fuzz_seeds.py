"""Good files to damage: small ones of every source in all its forms, and where the sample data is here, real ones.

All times lie in the past of any machine's clock, so that only a mutation can make one impossible.
"""

from __future__ import annotations

import gzip
import json
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from lmt_files import lmt_tables, write_h5lmt, write_sqlite, write_tts

from darshan_logs import LogParts
from iostat_sample import write_sample
from ioweather.readers.darshan.format import FIXED, LUSTRE_COMPONENT, LUSTRE_V1

T0 = 1_710_000_000  # 2024-03-09 16:00:00 UTC


@dataclass(frozen=True)
class Seed:
    """One file, or a folder of them. `kind` says which parts of it can be changed by name."""

    kind: str
    data: bytes | Mapping[str, bytes]
    suffix: str = ""
    select: tuple[str, str] | None = None


def _text(*texts: str) -> list[Seed]:
    return [Seed("text", text.encode()) for text in texts]


def _json(*documents: Any, lines: bool = False) -> list[Seed]:
    return [Seed("json", json.dumps(document, indent=None if lines else 1).encode()) for document in documents]


def _collectl() -> list[Seed]:
    line = "#" * 80
    preamble = (
        f"{line}\n# Collectl:   V4.3.1-1  HiRes: 1  Options: -scdD -P\n# Host:       oss1  DaemonOpts:\n"
        f"# Date:       20240309-160000  Secs: {T0} TZ: +0000\n"
        f"# SubSys:     cdD Options: z Interval: 10 NumCPUs: 2  NumBud: 0 Flags: i\n{line}\n"
    )
    columns = (
        "#Date Time [CPU]User% [CPU]Wait% [CPU]Idle% [CPU]Totl% [DSK]ReadTot [DSK]WriteTot [DSK]ReadKBTot "
        "[DSK]WriteKBTot [DSK:sda]Name [DSK:sda]Reads [DSK:sda]RKBytes [DSK:sda]WaitR [DSK:sdb]Name [DSK:sdb]Reads "
        "[DSK:sdb]Util [NET]RxPktTot\n"
    )
    lines = "".join(f"20240309 16:00:{s} 10 20 65 15 3 4 12 16 sda 1 4 0 sdb 2 50 9\n" for s in ("10", "20", "30"))
    comma = (columns + lines).replace(" ", ",")
    return _text(preamble + columns + lines, columns + lines, preamble + columns + lines + columns + lines, comma)


def _diskstats() -> list[Seed]:
    def line(stamp: str, device: str, moment: int, width: int = 17) -> str:
        return f"{stamp}   8  0 {device} " + " ".join(str(100 * k + 7 * moment) for k in range(width)) + "\n"

    stamped = "".join(line(f"{(T0 + i) * 10**9 + 25}", d, i) for i in range(4) for d in ("sda", "nvme0n1"))
    behind = "".join(f"{T0 + i}.5\n" + line("", "sda", i, 11) + line("", "sdb", i, 11) for i in range(4))
    iso = "".join(f"2024-03-09T16:00:0{i}Z\n" + line("", "sda", i, 15) for i in range(4))
    return _text(stamped, behind, iso)


def _find() -> list[Seed]:
    short = "".join(
        f"{512 * i} {i} {T0 - 86400 * i}.{i}234567890 {T0}.0000000000 {T0 - 5}.5000000000 100{i} 7 {1 + i % 2} "
        f"/t/d{i}/f {i}.h5\n"
        for i in range(6)
    )
    long = "".join(
        f"{'fdl'[i % 3]} 2049 {90 + i} {512 * i} {i} {T0 - i}.1 {T0}.0 {T0}.5 1000 7 1 /t/n{i}.nc{end}"
        for i in range(6)
        for end in ("\n",)
    )
    return [*_text(short, long), Seed("text", long.replace("\n", "\0").encode())]


def _io500() -> list[Seed]:
    return _text(
        "[run]\nprocs           = 640\nversion = io500-sc23\n; START 2024-05-03 09:25:48\n[ior-easy-write]\n"
        "t_start         = 2024-05-03 09:25:48\nscore           = 352.803032\nt_delta         = 386.6981\n"
        "t_end           = 2024-05-03 09:32:15\n[mdtest-easy-write]\nt_start         = 2024-05-03 09:32:15\n"
        "score           = 101.5\nt_delta         = 300.1\nt_end           = 2024-05-03 09:37:15\n"
        "[SCORE]\nMD              = 192.355126\nBW              = 122.312630\nSCORE           = 153.386640\n"
        "; END 2024-05-03 10:17:13\n",
        "[Starting] ior_easy_write\n[Exec] srun ior -C\n[RESULT] BW   phase 1            ior_easy_write               "
        "352.803 GiB/s : time 386.70 seconds\n[RESULT] IOPS phase 1         mdtest_easy_write              "
        "101.500 kiops : time 300.10 seconds\n[SCORE] Bandwidth 122.312630 GiB/s : IOPS 192.355126 kiops : "
        "TOTAL 153.386640\n",
    )


_IOR = """IOR-3.0.1: MPI Coordinated Test of Parallel I/O

Began: Fri Mar 22 12:41:45 2019
Command line used: ior -vv
Machine: Linux n1

Test 0 started: Fri Mar 22 12:41:45 2019
Summary:
\tapi                = POSIX
\tclients            = 16 (8 per node)
\trepetitions        = 1
\taggregate filesize = 16 MiB

access    bw(MiB/s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ---------- ---------  --------   --------   --------   --------   ----
Commencing write performance test: Fri Mar 22 12:41:45 2019
write     143.22     1024.00    256.00     0.085481   0.086161   0.108553   0.111720   0
read      9049       1024.00    256.00     0.001146   0.001161   0.000643   0.001768   0

Max Write: 143.22 MiB/sec (150.17 MB/sec)
Max Read:  9049.20 MiB/sec (9488.77 MB/sec)

Finished: Fri Mar 22 12:41:46 2019
"""
_IOR_4 = """IOR-4.0.0: MPI Coordinated Test of Parallel I/O
Began               : Tue Mar  5 10:00:00 2024
Command line        : ior -a POSIX -i 2 -t 1m -b 64m -o /fast/me/file
Machine             : Linux n1
TestID              : 0
StartTime           : Tue Mar  5 10:00:01 2024
Path                : /fast/me/file
FS                  : 100.0 TiB   Used FS: 20.0%   Inodes: 100.0 Mi   Used Inodes: 1.0%

Options:
api                 : POSIX
apiVersion          :
test filename       : /fast/me/file
nodes               : 1
tasks               : 4
clients per node    : 4
repetitions         : 2
xfersize            : 1 MiB
blocksize           : 64 MiB
aggregate filesize  : 256 MiB

Results:

access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ----       ----------  ---------- ---------  --------   --------   --------   --------   ----
write     1000.00    1000.00    0.004000    65536      1024.00    0.000100   0.256000   0.000200   0.256300   0
read      2000.00    2000.00    0.002000    65536      1024.00    0.000100   0.128000   0.000200   0.128300   0
write     1100.00    1100.00    0.003600    65536      1024.00    0.000100   0.232700   0.000200   0.233000   1
read      2100.00    2100.00    0.001900    65536      1024.00    0.000100   0.121900   0.000200   0.122200   1

Summary of all tests:
Operation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev   Max(OPs)   Min(OPs)  Mean(OPs)     StdDev    Mean(s) Stonewall(s) Stonewall(MiB) Test# #Tasks tPN reps fPP reord reordoff reordrand seed segcnt   blksiz    xsize aggs(MiB)   API RefNum
write        1100.00    1000.00    1050.00      50.00    1100.00    1000.00    1050.00      50.00    0.24465         NA            NA     0      4   4    2   0     0        1         0    0      1 67108864  1048576     256.0 POSIX      0
read         2100.00    2000.00    2050.00      50.00    2100.00    2000.00    2050.00      50.00    0.12525         NA            NA     0      4   4    2   0     0        1         0    0      1 67108864  1048576     256.0 POSIX      0
Finished            : Tue Mar  5 10:00:03 2024
"""  # noqa: E501


def _ior() -> list[Seed]:
    return _text(_IOR, _IOR_4)


def _iostat() -> list[Seed]:
    with tempfile.TemporaryDirectory() as folder:
        sample = write_sample(Path(folder), days=1, servers=1)
        lines = next(sample.folder.glob("*.txt")).read_text().replace("2026-03", "2024-03").splitlines(keepends=True)
    american = (
        "03/09/24 04:00:0{} PM\navg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           1.00    0.00    "
        "2.00    3.00    0.00   94.00\n\nDevice:         rrqm/s   wrqm/s     r/s     w/s   rsec/s   wsec/s avgrq-sz "
        "avgqu-sz   await  svctm  %util\nsda               0.00     5.00    1.00   20.00    16.00   200.00    10.29  "
        "  0.02    1.10   0.40   0.84\n\n"
    )
    plain = "Device             tps    kB_read/s    kB_wrtn/s    kB_dscd/s    kB_read    kB_wrtn    kB_dscd\n"
    short = "Linux 6.1.0 (oss1) \t2024-03-09 \t_x86_64_\t(4 CPU)\n\n" + "".join(
        f"2024-03-09T16:00:0{i}+0000\n{plain}sda               1.00        {i}.00         2.00         0.00         "
        "1          2          0\n\n\n"
        for i in range(4)
    )
    statistics = [
        {"timestamp": f"2024-03-09T16:00:0{i}+0000",
         "avg-cpu": {"user": 1.0, "nice": 0.0, "system": 2.0, "iowait": 3.0, "steal": 0.0, "idle": 94.0},
         "disk": [{"disk_device": "sda", "r/s": 10.0 * i, "rkB/s": 4.0, "w/s": 1.0, "wkB/s": 3.0, "r_await": 0.5,
                   "w_await": 0.25, "aqu-sz": 0.1, "util": 10.0}]}
        for i in range(4)
    ]  # fmt: skip
    document = {"sysstat": {"hosts": [{"nodename": "oss1", "sysname": "Linux", "date": "2024-03-09",
                                       "number-of-cpus": 2, "statistics": statistics}]}}  # fmt: skip
    texts = _text(
        "".join(lines[:40]),
        "Linux 2.6.32 (oss1) \t03/09/24 \t_x86_64_\t(4 CPU)\n\n" + "".join(map(american.format, range(4))),
        short,
    )
    return [*texts, *_json(document)]


def _lustre() -> list[Seed]:
    def stats(moment: int, read: int) -> str:
        return (
            f"snapshot_time             {T0 + moment}.25 secs.nsecs\nstart_time                {T0 - 9}.5 secs.nsecs\n"
            f"read_bytes                {read // 10} samples [bytes] 1 1048576 {read}\n"
            f"write                     {read // 7} samples [usecs] 1 900 {read} 77\nstatfs   {moment} samples [reqs]\n"
        )

    def run(moment: int) -> str:
        return (
            f"obdfilter.fs1-OST0000.stats=\n{stats(moment, 70 * moment)}"
            f"obdfilter.fs1-OST0001.stats=\n{stats(moment, 50 * moment)}mdt.fs1-MDT0000.md_stats=\n"
            f"snapshot_time             {T0 + moment}.25 secs.nsecs\nopen    {3 * moment} samples [reqs]\n"
            "obdfilter.fs1-OST0000.kbytestotal=123456\nobdfilter.fs1-OST0000.kbytesfree=23456\n"
            "obdfilter.fs1-OST0000.num_exports=12\n"
        )

    old = "".join(
        f"obdfilter.lc1-OST0001.stats=\nsnapshot_time:         {T0 + m}.  4567890 (secs.nsecs)\n"
        f"read_bytes   {m} samples [bytes] 0 9 {m * 100}\n"
        for m in (0, 60, 120)
    )
    tree = {
        f"{moment:04}/proc/fs/lustre/{place}": content.encode()
        for moment in (0, 60)
        for place, content in {
            "version": "lustre: 2.10.8\n",
            "obdfilter/fs1-OST0000/stats": stats(moment, 70 * moment),
            "obdfilter/fs1-OST0000/kbytestotal": "123456\n",
            "mdt/fs1-MDT0000/md_stats": stats(moment, 30 * moment),
        }.items()
    }

    def jobs(moment: int) -> str:
        return (
            "mdt.fs1-MDT0000.exports.0@lo.uuid=\nfs1-MDT0000-lwp-OST0000_UUID\nobdfilter.fs1-OST0000.job_stats=\njob_stats:\n"
            f'- job_id:          "cp:1000:n1"\n  snapshot_time:   {T0 + moment}.25 secs.nsecs\n'
            f"  start_time:      {T0 - 9}.5 secs.nsecs\n  elapsed_time:    {moment + 9}.75 secs.nsecs\n"
            f"  read_bytes:      {{ samples: {moment}, unit: bytes, min: 1, max: 9, sum: {moment}, "
            f"sumsq: 7, hist: {{ 4K: {moment} }} }}\n"
            f"  read:            {{ samples: {moment}, unit: usecs, min: 1, max: 9, sum: {moment}, sumsq: 7 }}\n"
            f"- job_id:          77\n  snapshot_time:   {T0 + moment}\n"
            f"  open:            {{ samples: {moment}, unit:  reqs }}\n"
            f"osd-ldiskfs.fs1-OST0000.brw_stats=\nsnapshot_time:         {T0 + moment}.5 (secs.nsecs)\n\n"
            "                           read      |     write\n"
            "pages per bulk r/w     rpcs  % cum % |  rpcs        % cum %\n"
            f"1K:\t\t         {moment}   0   0   |    8  88 100\n"
            f"ost.OSS.ost_io.stats=\nsnapshot_time             {T0 + moment}.25 secs.nsecs\n"
            f"req_waittime              {moment} samples [usecs] 4 11382 {moment} 467088731\n"
        )

    return [*_text("".join(map(run, (0, 60, 120))), old, "".join(map(jobs, (0, 60, 120)))), Seed("text", tree)]


def _mmpmon() -> list[Seed]:
    def answer(moment: int) -> str:
        return (
            f"_fs_io_s_ _n_ 10.0.0.1 _nn_ n1 _rc_ 0 _t_ {T0 + moment} _tu_ 5 _cl_ c _fs_ fs1 _d_ 1 "
            f"_br_ {moment}000 _bw_ 1 _oc_ {moment} _cc_ 1 _rdc_ 1 _wc_ 1 _dir_ 1 _iu_ 1\n"
            f"_rhist_ _n_ 10.0.0.1 _nn_ n1 _req_ s _rc_ 0 "
            f"_t_ {T0 + moment} _tu_ 5 _k_ r\n _R_ 0 255 _NR_ {moment}\n  _L_ 0.0 1.0 _NL_ {moment}\n_end_\n"
        )

    return _text("".join(map(answer, (0, 60, 120))))


def _mmperfmon() -> list[Seed]:
    return _text(
        "\nLegend:\n 1:\tnsd1|CPU|cpu_user\n 2:\tnsd1|CPU|cpu_sys\n 3:\tnsd1|Memory|mem_total\n"
        " 4:\tnsd1|Memory|mem_free\n 5:\tnsd1|GPFSNSDDisk|d7|gpfs_nsdds_bytes_read\n \n"
        "Row           Timestamp cpu_user cpu_sys mem_total mem_free gpfs_nsdds_bytes_read \n"
        "  1 2024-03-09-16:00:00      0.2    0.6  200.0 MB  50.0 MB    17 \n"
        "  2 2024-03-09-16:01:00     10.0   15.0  200.0 MB  50.0 MB    null \n"
    )


def _mountstats() -> list[Seed]:
    def look(moment: int, age: int) -> str:
        return (
            "device sysfs mounted on /sys with fstype sysfs\n"
            "device nas:/export mounted on /scratch with fstype nfs4 statvers=1.1\n"
            f"\topts:\trw,vers=4.2\n\tage:\t{age}\n\tbytes:\t1 2 3 4 {moment} 6 7 8 \n\tper-op statistics\n"
            f"\t        READ: {moment} {moment} 0 1 2 3 {moment} {moment} 0\n\t     GETATTR: 3 3 0 1 2 3 4 5\n\n"
        )

    dated = "".join(f"{T0 + moment}\n{look(moment, 100 + moment)}" for moment in (0, 60, 120))
    return _text(dated)


def _prometheus() -> list[Seed]:
    def scrape(i: int, time: str = "") -> str:
        ost = 'component="ost",target="fs1-OST0000"'
        return (
            "# HELP lustre_read_bytes_total x\n# TYPE lustre_read_bytes_total counter\n"
            f"lustre_read_bytes_total{{{ost}}} {4096 * i}{time}\nlustre_capacity_kilobytes{{{ost}}} 1000{time}\n"
            f'lustre_stats_total{{component="mdt",operation="open",target="fs1-MDT0000"}} {3 * i}{time}\n'
            f'lustre_job_write_bytes_total{{component="ost",jobid="cp:1001:n 1",target="fs1-OST0000"}} 1e{i}{time}\n'
            f'node_disk_io_time_seconds_total{{device="sda",instance="oss1:9100"}} {0.5 * i}{time} # {{t="x"}} 1\n'
        )

    return _text(
        "".join(f"{T0 + 60 * i}\n{scrape(i)}" for i in range(4)),
        "".join(scrape(i, f" {T0 + 60 * i}000") for i in range(4)),
        "".join(scrape(i, f" {T0 + 60 * i}.5") for i in range(4)) + "# EOF\n",
    )


def _mdtest() -> list[Seed]:
    return _text(
        "-- started at 03/05/2024 07:04:40 --\n\nmdtest-4.1.0+dev was launched with 8 total task(s) on 1 node(s)\n"
        "Command line used: mdtest -n 200 -d /fast/md\nPath                : /fast/md\n8 tasks, 1600 files\n\n"
        "SUMMARY rate (in ops/sec): (of 1 iterations)\n"
        "   Operation                     Max            Min           Mean        Std Dev\n"
        "   File creation               26444.029      26444.029      26444.029          0.000\n"
        "   File stat                  201691.654     201691.654     201691.654          0.000\n"
        "-- finished at 03/05/2024 07:04:42 --\n",
    )


def _sacct() -> list[Seed]:
    header = "JobID|JobIDRaw|JobName|User|UID|Account|State|Submit|Start|End|NNodes|NCPUS|NodeList\n"
    times = "2024-03-09T16:27:47|2024-03-09T16:27:50|2024-03-09T16:28:00"
    rows = (
        f"7|7|sim|ann|1000|climate|COMPLETED|{times}|2|8|n[1-2]\n7.batch|7.batch|batch||||COMPLETED|{times}|1|4|n1\n"
        f"8_[1-3]|8|a|b|ann|1000|climate|PENDING|2024-03-09T16:27:47|Unknown|Unknown|3|8|None assigned\n"
        f"9_2|11|two|ann|1000|climate|CANCELLED by 0|{times}|20|80|rack[01-02]n[001-010]\n"
        f"12+1|13|het|ann|1000|climate|NODE_FAIL|{times}|1|8|gpu7\n"
    )
    plain = (header + rows).replace("a|b", "ab")
    epoch = plain.replace("2024-03-09T16:27:47", str(T0)).replace("2024-03-09T16:28:00", str(T0 + 2000))

    def job(number: int, *, new: bool) -> dict[str, Any]:
        def n(value: int | None) -> Any:
            return {"set": value is not None, "infinite": False, "number": value or 0} if new else value

        return {
            "job_id": number, "array": {"job_id": 0, "task_id": n(None)}, "het": {"job_id": 0, "job_offset": n(None)},
            "time": {"start": T0 + 9, "submission": T0, "end": T0 + 99}, "cluster": "c1", "restart_cnt": 0,
            "association": {"user": "ann"}, "account": "climate",
            "state": {"current": ["COMPLETED"] if new else "FAILED"},
            "name": "sim", "nodes": "n[1-4]", "allocation_nodes": 4, "user": "ann",
            "tres": {"allocated": [{"type": "cpu", "count": 64}, {"type": "mem", "count": 9000}]},
            "steps": [{"step": {"id": "7.batch" if new else "batch", "name": "batch"}, "state": "COMPLETED",
                       "time": {"start": n(T0 + 9), "end": n(T0 + 99)}, "nodes": {"count": 1, "range": "n1"},
                       "tres": {"allocated": [{"type": "cpu", "count": 16}]}}],
        }  # fmt: skip

    documents = [
        {"meta": {"Slurm": {"release": "23.02"}}, "jobs": [job(i, new=new) for i in (7, 8)], "errors": []}
        for new in (False, True)
    ]
    return [*_text(plain, header + rows, plain.replace("|", "\x1f"), epoch), *_json(*documents)]


def _pbs() -> list[Seed]:
    ended = (
        f'03/09/2024 16:00:40;E;71[4].srv.example.org;user=ann group=domain users account="two words" jobname=a b '
        f"queue=q ctime={T0} qtime={T0} etime={T0} start={T0 + 10} exec_host=n1/0-3,8+n2/0*4+n1/5 "
        f"Resource_List.nodect=2 session=1 end={T0 + 40} Exit_status=0 resources_used.walltime=00:00:30\n"
    )
    started = ended.replace(";E;", ";S;").replace(f" end={T0 + 40} Exit_status=0", "").replace("71[4]", "72")
    queued = "03/09/2024 16:00:00;Q;71[4].srv.example.org;queue=q\n03/09/2024 16:00:00;L;license;floating hour:1\n"
    return _text(queued + ended + started, ended * 3)


def _lsf() -> list[Seed]:
    line = (
        f'"JOB_FINISH" "10.1" {T0 + 40} 88 501 33816603 4 {T0} 0 0 {T0 + 10} "ann" "normal" "" "" "" "login" "/home" '
        f'"" "out" "" "{T0}.88" 0 2 "2*n1" "2*n2" 64 60.0 "say ""hi""" "echo ""x""; y" {" ".join(["0"] * 19)} "" '
        '"climate" 0 4 "" "" 3 0 0 "" "" "more fields of newer versions" 7\n'
    )
    return _text(line, line * 3)


def _sge() -> list[Seed]:
    line = (
        f"all.q:n1:staff:ann:sim:55:sge:0:{T0}:{T0 + 10}:{T0 + 40}:0:0:30:{'0:' * 17}climate:dep:NONE:1:0:"
        "1.0:0.0:0.0:-l h_rt=60:0.0:NONE:0.0:0:0\n"
    )
    return _text(line, "# Version: 8.1.9\n" + line * 3)


def _sadf() -> list[Seed]:
    head = "# hostname;interval;timestamp;"
    disks = head + "DEV;tps;rkB/s;wkB/s;dkB/s;areq-sz;aqu-sz;await;%util\n"
    disks += "".join(
        f"vm;60;2024-03-09 16:0{i}:00 UTC;sda;14.00;6193.00;6287.00;8.00;889.17;0.53;0.36;35.20\n" for i in range(4)
    )
    disks += "vm;-1;2024-03-09 16:05:00 UTC;LINUX-RESTART\t(2 CPU)\n"
    totals = head + "tps;rtps;wtps;dtps;bread/s;bwrtn/s;bdscd/s\n"
    totals += "".join(f"vm;1;{T0 + i};14.00;7.00;6.00;1.00;1238.00;1257.00;16.00\n" for i in range(4))
    cpu = head + "CPU;%user;%nice;%system;%iowait;%steal;%idle\nvm;10;1710000000;-1;10.00;0.00;5.00;20.00;1.00;64.00\n"
    names = ("tps", "rkB/s", "wkB/s", "await", "%util")
    tabs = "".join(f"vm\t60\t2024-03-09 16:0{i}:00 UTC\tsda\t{name}\t{i}.50\n" for i in range(3) for name in names)
    statistics = [
        {"timestamp": {"date": "2024-03-09", "time": f"16:0{i}:00", "utc": 1, "interval": 60},
         "cpu-load": [{"cpu": "all", "user": 1.0,
                        "nice": 0.0, "system": 2.0, "iowait": 3.0, "steal": 0.0, "idle": 94.0}],
         "io": {"tps": 3.0, "io-reads": {"rtps": 1.0, "bread": 8.0}, "io-writes": {"wtps": 2.0, "bwrtn": 16.0}},
         "disk": [{"disk-device": "sda", "tps": 1.0, "rkB": 2.0, "wkB": 3.0, "await": 0.5, "util": 4.0}]}
        for i in range(4)
    ]  # fmt: skip
    document = {"sysstat": {"hosts": [{"nodename": "oss1", "file-date": "2024-03-09", "statistics": statistics}]}}
    return [*_text(disks, totals, cpu + totals, tabs), *_json(document)]


def _spool() -> list[Seed]:
    header = {"ioweather_spool": 1, "host": "n1", "boot_id": "b", "run_id": "r"}
    series = {"table": "series", "start_ns": T0 * 10**9, "interval_ns": 10**10, "system": "n1:sda",
              "component_kind": "device", "component": "sda", "metric": "read_bytes", "value": 512.5,
              "quality": 0}  # fmt: skip
    response = {"table": "responses", "start_ns": T0 * 10**9, "host": "n1", "target": "/scratch", "op": "read",
                "request_bytes": 1 << 20, "mode": "nocache", "scheduled_ns": T0 * 10**9, "duration_ns": 700_000,
                "system": "mount:/scratch", "component": None, "cached": False, "status": "ok", "errno": None,
                "run_id": "r"}  # fmt: skip
    event = {"table": "events", "event_id": "gap:n1:1", "kind": "gap", "system": None, "component": None, "host": "n1",
             "start_ns": T0 * 10**9, "end_ns": (T0 + 5) * 10**9, "label": "away", "strength_ratio": 0.5,
             "details": "{}", "withdrawn": None}  # fmt: skip
    rows = [header, series, {**series, "metric": "busy_ratio", "value": 0.5}, response, event, series]
    return [Seed("json_lines", "".join(json.dumps(row) + "\n" for row in rows).encode())]


# ----------------------------------------------------------------------------------------------------------- archives


def _words(order: str, *values: float) -> bytes:
    return b"".join(struct.pack(f"{order}{'d' if isinstance(v, float) else 'q'}", v) for v in values)


def _record(order: str, record_id: int, rank: int, counters: int, fcounters: int) -> bytes:
    """One request of everything, which took half a second: whatever is compared, it agrees."""
    return _words(order, record_id, rank, *[1] * counters, *[0.5] * fcounters)


def _darshan() -> list[Seed]:
    logs: list[bytes] = []
    versions = [("3.00", 1, (68, 15)), ("3.10", 3, (64, 17)), ("3.21", 4, (69, 17)), ("3.41", 4, (69, 17))]
    for version, posix, sizes in versions:
        for order in "<>":
            for compression in (0, 1, 2):
                dxt = _words(order, 11, 1, -1) + b"n1".ljust(64, b"\0") + _words(order, 1, 1)
                dxt += _words(order, 0, 5, 0.5, 1.0, 5, 6, 1.5, 2.0)
                modules: list[tuple[Any, int, list[bytes]]] = [
                    ("POSIX", posix, [_record(order, 11 + i, i, *sizes) for i in range(2)]),
                    ("LUSTRE", 1, [_words(order, 11, -1, 9, 1, 0, 1 << 20, 2, 7, 8, 12, 0, 9, 1, 0, 1 << 20, 1, 3)]),
                    ("STDIO", 1, [_record(order, 11, 0, 13, 15)]),
                    ("DXT_POSIX", 1, [dxt]),
                ]
                if version >= "3.21":
                    heat = _words(order, 9, 0, 0.1, 1, 0, 0, 5, 6, 10, 1, 0.1, 1, 0, 0, 7, 8)
                    modules.append(("HEATMAP", 1, [heat]))
                logs.append(LogParts(version=version, order=order, compression=compression, modules=modules).build())
    for order in "<>":
        head = b"2.06".ljust(8, b"\0") + struct.pack(f"{order}6q", 6567223, 500, T0, T0 + 9, 4, 77)
        row = struct.pack(f"{order}Qq16s144q18d", 5, -1, b"name", *[1] * 144, *[0.5] * 18)
        logs.append(gzip.compress(head.ljust(4096, b"\0") + row * 2, mtime=0))
    return [Seed("darshan", log) for log in logs]


def _darshan_texts() -> list[Seed]:
    """Records, as darshan-parser prints them."""
    head = (
        f"# darshan log version: 3.41\n# exe: ./a\n# uid: 5\n# jobid: 7\n# start_time: {T0}\n# end_time: {T0 + 9}\n"
        "# nprocs: 2\n# run time: 9.1\n# STDIO module: 9 bytes (compressed), ver=2\n# mount entry:\t/\text4\n"
    )
    names = FIXED["STDIO", 2]
    counters = [*((name, "1") for name in names.counters), *((name, "0.500000") for name in names.fcounters)]
    records = "".join(f"STDIO\t1\t11\t{name}\t{value}\t/a\t/\text4\n" for name, value in counters)
    lists = [
        _darshan_list("LUSTRE", [*((name, 1) for name in LUSTRE_V1), ("LUSTRE_OST_ID_0", 3), ("LUSTRE_OST_ID_1", 4)])
    ]
    parts = [(name.replace("COMP_", f"COMP{part}_"), 1) for part in (1, 2) for name in LUSTRE_COMPONENT]
    words = [("LUSTRE_COMP1_POOL_NAME", "flash"), ("LUSTRE_COMP1_FLAGS", "init"), ("LUSTRE_COMP1_OST_ID_0", 3)]
    lists.append(_darshan_list("LUSTRE", [("LUSTRE_NUM_COMPONENTS", 2), *parts, *words]))
    bins = [(f"HEATMAP_{verb}_BIN_{number}", 7) for verb in ("READ", "WRITE") for number in range(3)]
    lists.append(_darshan_list("HEATMAP", [("HEATMAP_F_BIN_WIDTH_SECONDS", 0.1), *bins]))
    return [Seed("text", (head + body).encode()) for body in (records, *lists)]


def _darshan_list(module: str, counters: Iterable[tuple[str, object]]) -> str:
    return "".join(f"{module}\t-1\t11\t{name}\t{value}\t/a\t/\tlustre\n" for name, value in counters)


def _made(suffix: str, kind: str, *writers: Callable[[Path], object]) -> list[Seed]:
    """What the writers put into a file of their own."""
    seeds = []
    with tempfile.TemporaryDirectory() as folder:
        for number, write in enumerate(writers):
            path = Path(folder) / f"{number}{suffix}"
            write(path)
            seeds.append(Seed(kind, path.read_bytes(), suffix))
    return seeds


def _h5lmt() -> list[Seed]:
    amounts = np.arange(2 * 40, dtype=float).reshape(2, 40)
    return _made(
        ".h5lmt", "hdf5",
        lambda path: write_h5lmt(path, amounts, amounts * 3),
        lambda path: write_h5lmt(
            path, amounts, amounts + 1, cpu=np.full((2, 40), 12.5), missing=amounts == 9,
            operations={"open": np.ones(40), "close": np.ones(40), "odd": np.ones(40)},
        ),
    )  # fmt: skip


def _tts() -> list[Seed]:
    amounts = np.arange(2 * 40, dtype=float).reshape(40, 2)

    def whole(path: Path) -> None:
        write_tts(path, {"readbytes": amounts, "writebytes": amounts * 2})
        write_tts(path, {"opens": amounts[:, :1], "closes": amounts[:, :1]}, group="mdtargets", columns=["fs1-MDT0000"])
        write_tts(path, {"cpuload": amounts / 2}, group="dataservers", columns=["oss0", "oss1"], units="%")
        write_tts(path, {"bytes": amounts, "bytestotal": amounts + 1, "inodes": amounts}, group="fullness")

    return _made(".hdf5", "hdf5", lambda path: write_tts(path, {"readrates": amounts, "writerates": amounts}), whole)


def _lmt() -> list[Seed]:
    stamps = [(100 + i, f"2018-01-28 00:0{i * 5 // 60}:{i * 5 % 60:02}") for i in range(14)]
    tables = lmt_tables(stamps, {ost: {ts: (10 * ts, 20 * ts) for ts, _ in stamps} for ost in (1, 2)})
    tables["OSS_DATA"] = [(1, ts, 50.0, 25.0) for ts, _ in stamps]
    tables["MDS_DATA"] = [(1, ts, 10.0, 1, 3, 1, 1) for ts, _ in stamps]
    tables["MDS_OPS_DATA"] = [(1, ts, op, 3 * ts) for ts, _ in stamps for op in (1, 2, 3)]
    tables["OST_OPS_DATA"] = [(1, ts, 4, 3 * ts) for ts, _ in stamps]
    return _made(".sqlite3", "sqlite", lambda path: write_sqlite(path, tables))


_WIDE = """
SELECT ns(time) - 60000000000 AS start_ns, 60000000000 AS interval_ns, 'scratch' AS system, 'ost' AS component_kind,
       ost AS component, metric, value
FROM (SELECT time, ost, read_kb::DOUBLE * 1024 AS read_bytes, busy::DOUBLE AS busy_ratio FROM input)
UNPIVOT INCLUDE NULLS (value FOR metric IN (read_bytes, busy_ratio))
"""
_JOBS = """
SELECT 'edison' AS cluster, id AS raw_job_id, id AS job_id, uid,
       CASE state WHEN 'CD' THEN 'COMPLETED' WHEN 'F' THEN 'FAILED' END AS state,
       ns(submit) AS submit_ns, ns(start) AS start_ns, ns(strptime("end", '%d.%m.%Y %H:%M')) AS end_ns,
       nodes AS node_count
FROM read_csv(getvariable('file'), all_varchar = true, delim = ';', comment = '#', nullstr = ['', 'Unknown'])
WHERE step = 'alloc'
"""
_RESPONSES = """
SELECT t::BIGINT * 1000000 AS start_ns, host, target, op, bytes AS request_bytes, 'nocache' AS mode,
       (took::DECIMAL(18, 3) * 1000)::BIGINT AS duration_ns, 'scratch' AS system
FROM input
"""


def _mapped_csv() -> list[Seed]:
    wide = f"time,ost,read_kb,busy\n{T0},OST0,2,0.5\n{T0 + 60}.5,OST1,,0.25\n{T0 + 120},OST0,7.5,\n"
    jobs = (
        "# a note\nid;user;uid;state;submit;start;end;nodes;step\n"
        "7;ann;1000;CD;2024-03-09T06:00:00+01:00;2024-03-09 06:01:00.25;09.03.2024 08:00;4;alloc\n"
        '7;"a;n";1000;CD;2024-03-09T06:00:00+01:00;2024-03-09 06:01:00;09.03.2024 08:00;4;batch\n'
        "8;bob;;F;2024-03-09T05:00:00Z;Unknown;Unknown;2.0;alloc\n"
    )
    responses = f"t,host,target,op,bytes,took\n{T0}000,n1,/s,read,1048576,700\n{T0}500,n1,/s,write,4096,70.5\n"
    return [
        Seed("text", text.encode(), ".csv", (table, sql))
        for text, table, sql in (
            (wide, "series", _WIDE), (jobs, "jobs", _JOBS), (responses, "responses", _RESPONSES),
        )
    ]  # fmt: skip


def _mapped_parquet() -> list[Seed]:
    def write(sql: str) -> Callable[[Path], object]:
        return lambda path: duckdb.sql(f"COPY ({sql}) TO '{path}' (FORMAT parquet)")

    wide = (
        f"SELECT {T0} + 60 * i AS time, 'OST' || i AS ost, i * 1.5 AS read_kb, 0.25 AS busy FROM range(4) AS t(i)",
        ("series", _WIDE),
    )
    responses = (
        f"SELECT {T0}000 + i AS t, 'n1' AS host, '/s' AS target, 'read' AS op, 4096 AS bytes, "
        "CASE WHEN i = 2 THEN NULL ELSE i * 10 END AS took FROM range(4) AS t(i)",
        ("responses", _RESPONSES),
    )
    return [
        Seed("parquet", seed.data, ".parquet", select)
        for sql, select in (wide, responses)
        for seed in _made(".parquet", "parquet", write(sql))
    ]


SEEDS: dict[str, Callable[[], list[Seed]]] = {
    "collectl": _collectl, "darshan": _darshan,
    "darshan_text": _darshan_texts, "diskstats": _diskstats,
    "find": _find,
    "h5lmt": _h5lmt, "io500": _io500, "ior": _ior, "iostat": _iostat, "lmt": _lmt,
    "lsf": _lsf, "lustre": _lustre, "mapped_csv": _mapped_csv, "mapped_parquet": _mapped_parquet, "mdtest": _mdtest,
    "pbs": _pbs, "sacct": _sacct, "sadf": _sadf, "sge": _sge, "spool": _spool, "tts": _tts,
    "mmperfmon": _mmperfmon, "mmpmon": _mmpmon, "mountstats": _mountstats,
    "prometheus": _prometheus,
}  # fmt: skip
# Seeds that are damaged apart, and the source that reads them.
_READERS = {"darshan_text": "darshan", "mapped_csv": "mapped", "mapped_parquet": "mapped"}
_KINDS = {"darshan": "darshan", "h5lmt": "hdf5", "tts": "hdf5", "lmt": "sqlite"}
_MOST_BYTES, _MOST_FILES = 16 << 10, 8


def reader_of(source: str) -> str:
    """The source that reads such seeds."""
    return _READERS.get(source, source)


@cache
def seeds_of(source: str, sample_data: Path | None = None) -> tuple[Seed, ...]:
    """The seeds of one source, real ones behind those made here."""
    return (*SEEDS[source](), *_real(source, sample_data))


def _real(source: str, folder: Path | None) -> Iterator[Seed]:
    from ioweather.core.errors import SourceError
    from ioweather.ingestion.reading import choose_source

    if folder is None:
        return
    found = 0
    for path in sorted(folder.rglob("*")):
        if found < _MOST_FILES and path.is_file() and 0 < path.stat().st_size <= _MOST_BYTES:
            data = path.read_bytes()
            try:
                chosen = choose_source(data, path).name
            except SourceError:
                continue
            if chosen == "darshan" and data.startswith(b"#"):
                chosen = "darshan_text"
            if chosen == source:
                found += 1
                kind = _KINDS.get(source) or ("json" if data.lstrip().startswith(b"{") else "text")
                yield Seed(kind, data, path.suffix)

"""Files to read, of our own: written here, in the folders that the sample data beside the project has.

Tests of what holds for every good file read these, and the real ones too where they are here (the fixture `samples`).
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_seeds import seeds_of
from lmt_files import OSTS, SERVERS, lmt_tables, write_h5lmt, write_sqlite, write_tts

from ioweather.readers.darshan.writer import write_log
from planted_logs import JOB, MIB, NS, records, write_climate, write_empty, write_many

RECORDED = Path(__file__).parent / "data" / "recorded"
SYSTEM = "fs1"
METADATA = ("open", "close", "mknod", "link", "unlink", "mkdir", "rmdir", "rename", "getattr", "setattr", "getxattr",
            "statfs")  # fmt: skip
_STEPS = 60
_CAPACITY = 10**9
_HALF_DAY = 8640
HALF_DAY_START = 1_518_163_200  # 2018-02-09 08:00 UTC


def write_samples(folder: Path) -> Path:
    _darshan(folder / "darshan")
    _runs(folder / "causes", 64)
    _runs(folder / "contention", 12)
    shutil.copy(RECORDED / "diskstats.log", folder / "contention")
    _one_system(folder / "lmt")
    _half_day(folder / "lmt/half_day.hdf5")
    _lustre(folder / "lustre")
    _others(folder)
    return folder


def _darshan(folder: Path) -> None:
    """Every version, byte order, compression and module of the format, and shapes that runs have."""
    examples, old = folder / "examples", folder / "v2"
    for made in (examples, old):
        made.mkdir(parents=True)
    write_climate(examples / "climate.darshan")
    write_climate(examples / "partial.darshan", job_id=2, partial=["POSIX"])
    for number, module in enumerate(("MPI-IO", "POSIX", "STDIO", "HEATMAP")):
        write_climate(examples / f"without_{module}.darshan", job_id=10 + number, without=[module])
    write_climate(examples / "alone.darshan", job_id=20, without=["MPI-IO", "STDIO", "HEATMAP"])
    write_empty(examples / "empty.darshan", job_id=21)
    write_many(examples / "many.darshan", 500)
    for number, seed in enumerate(seeds_of("darshan")):
        assert isinstance(seed.data, bytes)
        is_old = seed.data[:2] == b"\x1f\x8b"
        (old / f"{number}.darshan.gz" if is_old else examples / f"{number}.darshan").write_bytes(seed.data)


def _runs(folder: Path, count: int) -> None:
    """The same benchmark again and again: 4 processes write a file each and read it; times vary by a tenth."""
    folder.mkdir(parents=True)
    chance = random.Random(count)
    for n in range(count):
        slow = chance.uniform(0.9, 1.1)
        rows = [
            {
                "file": 1 + rank, "rank": rank, "OPENS": 2, "WRITES": 64, "READS": 64, "BYTES_WRITTEN": 64 * MIB,
                "BYTES_READ": 64 * MIB, "SIZE_WRITE_100K_1M": 64, "SIZE_READ_100K_1M": 64, "ACCESS1_ACCESS": MIB,
                "ACCESS1_COUNT": 128, "SEQ_WRITES": 63, "CONSEC_WRITES": 63, "SEQ_READS": 63, "CONSEC_READS": 63,
                "MAX_BYTE_WRITTEN": 64 * MIB - 1, "MAX_BYTE_READ": 64 * MIB - 1, "F_META_TIME": 0.01,
                "F_WRITE_TIME": 2.0 * slow, "F_READ_TIME": 1.5 * slow, "F_OPEN_START_TIMESTAMP": 0.1,
                "F_OPEN_END_TIMESTAMP": 0.2, "F_WRITE_START_TIMESTAMP": 0.2, "F_WRITE_END_TIMESTAMP": 0.2 + 2 * slow,
                "F_READ_START_TIMESTAMP": 3.0, "F_READ_END_TIMESTAMP": 3 + 1.5 * slow, "F_CLOSE_START_TIMESTAMP": 5.0,
                "F_CLOSE_END_TIMESTAMP": 5.1,
            }
            for rank in range(4)
        ]  # fmt: skip
        start = JOB.start_ns + n * 600 * NS
        job = JOB._replace(job_id=1000 + n, start_ns=start, end_ns=start + 6 * NS, run_seconds=6.0,
                      exe="/opt/bin/ior -a POSIX -w -r -F -t 1m -b 64m")  # fmt: skip
        names = {1 + rank: f"/scratch/ior.{rank:08}" for rank in range(4)}
        write_log(folder / f"job_{n:03}.darshan", job, {"POSIX": records("POSIX", rows)}, names)


def _one_system(folder: Path) -> None:
    """Five minutes of one file system by the three ways in which LMT's samples are kept: a stamp more than there are
    steps in the database and in pyLMT's file, where stamps end a step; time series begin at it."""
    folder.mkdir(parents=True)
    chance = np.random.default_rng(5)
    read, written = (chance.integers(0, 10**9, (2, _STEPS)) for _ in range(2))
    load = chance.integers(0, 100, (2, _STEPS + 1)).astype(float)
    used, files = (np.cumsum(chance.integers(0, 9, (2, _STEPS + 1)), axis=1) for _ in range(2))
    done = {name: chance.integers(0, 500, _STEPS) for name in METADATA}
    name = f"{SYSTEM}_2018-01-28"
    _write_h5lmt(folder / f"{name}.h5lmt", read, written, load, done)
    _write_tts(folder / f"{name}.hdf5", read, written, load, used, files, done)
    _write_database(folder / f"{name}.sqlite3", read, written, load, used, files, done)


def _behind(amounts: Any) -> Any:
    """The first stamp repeats the last of the day before."""
    return np.concatenate([np.zeros((len(amounts), 1)), amounts], axis=1)


def _write_h5lmt(path: Path, read: Any, written: Any, load: Any, done: Mapping[str, Any]) -> None:
    operations = {name: _behind(counts[None, :])[0] for name, counts in done.items()}
    write_h5lmt(path, _behind(read), _behind(written), cpu=load, operations=operations)


def _write_tts(
    path: Path, read: Any, written: Any, load: Any, used: Any, files: Any, done: Mapping[str, Any]
) -> None:  # fmt: skip
    write_tts(path, {"readbytes": read.T, "writebytes": written.T})
    write_tts(path, {"cpuload": load[:, :-1].T}, columns=SERVERS, group="dataservers", units="%")
    write_tts(path, {f"{name}s": counts[:, None] for name, counts in done.items()}, columns=["unknown_mds"],
              group="mdtargets", units="ops")  # fmt: skip
    totals = np.full((_STEPS, 2), _CAPACITY)
    write_tts(path, {"bytes": used[:, :-1].T, "bytestotal": totals, "inodes": files[:, :-1].T, "inodestotal": totals},
              group="fullness", units="KiB")  # fmt: skip


def _write_database(
    path: Path, read: Any, written: Any, load: Any, used: Any, files: Any, done: Mapping[str, Any]
) -> None:  # fmt: skip
    """Of counters that have counted before."""
    ids = range(100, 101 + _STEPS)
    stamps = [(ts, f"2018-01-28 00:{(ts - 100) * 5 // 60:02}:{(ts - 100) * 5 % 60:02}") for ts in ids]
    so_far = [10**12 + np.cumsum(_behind(amounts), axis=1).astype(np.int64) for amounts in (read, written)]
    tables = lmt_tables(stamps, {})
    tables["OST_DATA"] = [
        (ost + 1, ts, int(so_far[0][ost, n]), int(so_far[1][ost, n]), _CAPACITY - int(used[ost, n]), int(used[ost, n]),
         _CAPACITY - int(files[ost, n]), int(files[ost, n]))
        for ost in range(2) for n, ts in enumerate(ids)
    ]  # fmt: skip
    tables["OSS_DATA"] = [(oss + 1, ts, float(load[oss, n]), 50.0) for oss in range(2) for n, ts in enumerate(ids)]
    tables["OPERATION_INFO"] = [(number, name) for number, name in enumerate(METADATA, 1)]
    tables["MDS_OPS_DATA"] = [
        (1, ts, number, int(total))
        for number, name in enumerate(METADATA, 1)
        for ts, total in zip(ids, np.cumsum([7, *done[name]]), strict=True)
    ]
    write_sqlite(path, tables)


def _half_day(path: Path) -> None:
    """Twelve hours in steps of 5 s: bursts now and then, always something."""
    chance = np.random.default_rng(7)
    shape = (_HALF_DAY, len(OSTS))
    read, write = (
        chance.lognormal(12, 1, shape).round() + (chance.random((_HALF_DAY, 1)) < 0.01) * 10**9 for _ in range(2)
    )
    write_tts(path, {"readbytes": read, "writebytes": write}, columns=OSTS, start=HALF_DAY_START)
    write_tts(path, {"cpuload": chance.uniform(0, 2, (_HALF_DAY, len(SERVERS)))}, columns=SERVERS, group="dataservers",
              start=HALF_DAY_START, units="%")  # fmt: skip


def _lustre(folder: Path) -> None:
    """A copied tree of a server, a whole `lctl get_param` and a list of jobs."""
    tree, dumps = folder / "2.15.3", folder / "get_param"
    dumps.mkdir(parents=True)
    for place, content in {
        "version": "lustre: 2.15.3\n",
        "obdfilter/fs1-OST0000/stats": _stats(5 * 10**6, 3 * 10**6),
        "obdfilter/fs1-OST0001/stats": _stats(2 * 10**6, 10**6),
        "obdfilter/fs1-OST0000/exports/10.0.0.1@o2ib/stats": _stats(10**6, 10**6),
        "mdt/fs1-MDT0000/md_stats": f"snapshot_time             {_T0}.25 secs.nsecs\nopen    30 samples [reqs]\n",
        **{f"obdfilter/fs1-OST000{n}/{name}": f"{value}\n" for n in range(2) for name, value in _STATES.items()},
    }.items():
        path = tree / "proc/fs/lustre" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    states = "".join(f"obdfilter.fs1-OST000{n}.{k}={v}\n" for n in range(2) for k, v in _STATES.items())
    (dumps / "oss.txt").write_text(f"obdfilter.fs1-OST0000.stats=\n{_stats(5 * 10**6, 3 * 10**6)}{states}")
    (dumps / "job_stats.txt").write_text(f"obdfilter.fs1-OST0000.job_stats=\n{_JOBS}")
    (tree / "proc/fs/lustre/obdfilter/fs1-OST0000/job_stats").write_text(_JOBS)


def _stats(read: int, written: int) -> str:
    return (
        f"snapshot_time             {_T0}.25 secs.nsecs\n"
        f"read_bytes                {read // 1000} samples [bytes] 1 1048576 {read}\n"
        f"write_bytes               {written // 1000} samples [bytes] 1 1048576 {written}\n"
        "statfs                    77 samples [reqs]\n"
    )


_T0 = 1_710_000_000
_STATES = {"kbytestotal": 2_064_208, "kbytesfree": 1_979_020, "filestotal": 131_072, "filesfree": 131_016,
           "num_exports": 3}  # fmt: skip
_JOBS = "job_stats:\n" + "".join(
    f"- job_id:          {job}\n  snapshot_time:   {_T0}.25 secs.nsecs\n"
    f"  start_time:      {_T0 - 9}.5 secs.nsecs\n"
    f"  read_bytes:      {{ samples: {n}, unit: bytes, min: 4096, max: 4096, sum: {4096 * n}, sumsq: 7, "
    f"hist: {{ 4K: {n} }} }}\n"
    f"  read:            {{ samples: {n}, unit: usecs, min: 1, max: 9, sum: {3 * n}, sumsq: 7 }}\n"
    f"  open:            {{ samples: {n}, unit:  reqs }}\n"
    for job, n in (('"cp:1000:n1"', 5), ("77", 8), ('""', 2))
)


def _others(folder: Path) -> None:
    for name in ("gpfs", "nfs"):
        (folder / name).mkdir()
    (folder / "gpfs/mmpmon_fs_io_s.txt").write_text(
        f"_fs_io_s_ _n_ 10.0.0.1 _nn_ n1 _rc_ 0 _t_ {_T0} _tu_ 5 _cl_ c.example _fs_ fs1 _d_ 1 _br_ 6291456 "
        "_bw_ 314572 _oc_ 10 _cc_ 16 _rdc_ 101 _wc_ 300 _dir_ 7 _iu_ 2\n"
    )
    mount = "".join(
        f"device nas:/export{n} mounted on /data{n} with fstype nfs{v} statvers=1.1\n"
        f"\topts:\trw,vers={v}\n\tage:\t{100 + n}\n\tbytes:\t11 12 13 14 {15 + n} 16 17 18 \n\tper-op statistics\n"
        f"\t        READ: {n + 1} 2 0 4 5 6 7 8 0\n\t       WRITE: 9 8 0 6 5 4 3 {n + 2} 0\n\n"
        for n, v in enumerate(("", "4"))
    )
    (folder / "nfs/mountstats").write_text(f"device proc mounted on /proc with fstype proc\n{mount}")

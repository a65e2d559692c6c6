"""The profile of one run, which the advisor's rules read, and the effect of a change on its I/O time.

Times in a log are sums over processes, but the relevant time is D = D_U_M + D_U_RW + D_S (mad17 Eq. 1): the slowest
process on its own files plus the slowest process of each shared file. A rule gives the seconds of records that a change
would save; `Profile.saving` computes D again without them. So rules cannot add up processes, and cannot claim more than
the run's I/O time.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from ioweather.core.frames import Bools, Floats, Ints
from ioweather.core.tables import READ_BINS, STRATEGIES, WRITE_BINS
from ioweather.core.units import GIB, MIB, NS, names_of, one_line
from ioweather.facts.bandwidth import peak_of
from ioweather.facts.job_metrics import file_records, maximum, ratio, strategy_of_files, sums
from ioweather.facts.runs import ALMOST_ALL

if TYPE_CHECKING:
    from ioweather.job_io.view import JobView

Storage: TypeAlias = Literal["local", "parallel"]
Verb: TypeAlias = Literal["read", "write"]
VERBS: Final[tuple[Verb, Verb]] = ("read", "write")

# Defaults, if neither the log nor the facility file has a rate: of a process with large requests on today's parallel
# file systems and local disks, of a run on a file system without a description, and of a Lustre target.
DEFAULT_PROCESS_BYTES_PER_S: Final = float(GIB)
DEFAULT_CEILING_BYTES_PER_S: Final = 10.0 * GIB
DEFAULT_TARGET_BYTES_PER_S: Final = 500.0 * MIB
# A target that was faster than the default may be faster still: no more than half as much again is believed.
FASTER_FACTOR: Final = 1.5
# Types of mounts whose storage is in the machine itself, and those that say nothing of it: on many systems a file that
# fits no recorded mount point is one of `/`. All others are served over a network.
UNKNOWN: Final = frozenset(names_of("autofs rootfs overlay squashfs"))
_LOCAL: Final = frozenset(names_of("ext2 ext3 ext4 xfs btrfs zfs f2fs jfs tmpfs ramfs"))
# File systems by the type of their mount, and those where many processes write to one file at a time.
FILESYSTEMS: Final = {
    name.lower(): name for name in names_of("Lustre GPFS BeeGFS PanFS WekaFS GlusterFS MooseFS NFS")
} | {"nfs4": "NFS", "ceph": "CephFS", "pvfs2": "OrangeFS"}
PARALLEL: Final = frozenset({"lustre", "gpfs", "beegfs", "panfs", "pvfs2", "wekafs"})
# Used if neither accounting nor the user gives the nodes.
DEFAULT_PROCESSES_PER_NODE: Final = 32
_PYTHON: Final = re.compile(r"(?:^|[/\s])python[\d.]*(?:\s|$)|\.py\b")
# From this many bytes in large requests on, their rate is taken from the log itself.
_ENOUGH_BYTES: Final = 64 * MIB
# Bins of requests up to 1 MiB, and their middles. The last bin includes requests of exactly 1 MiB, which are not small.
_SMALL_BINS: Final = 5
_BIN_MIDDLE_BYTES: Final = (50, 500, 5_000, 50_000, 400_000)
# A pattern of files that take less than this part of the I/O time is not named.
NOTICEABLE_SHARE: Final = 0.01
# No device is faster.
WRITE_TO_MEMORY_SECONDS: Final = 10e-6
SYSTEM_CALL_SECONDS: Final = 1e-6


class Profile:
    """One run as rules read it: `row` is its `job_io`, `records` its file records.

    All arrays are in the order of the records. `counted` are the records of the layer that the program called, `below`
    POSIX records of requests that MPI-IO made, `at_storage` those of requests to the file system: POSIX, and MPI-IO if
    nothing below it was recorded. `shared` are those of files that all processes opened. `collective` are MPI-IO
    records with at least half of their operations collective, which MPI-IO joins itself. `opened` are counted records
    of files that were opened or moved data; others were only looked up. `first_opens` are the opens that a record
    needs: one for each of its processes.
    """

    def __init__(self, view: JobView) -> None:
        applications = view.applications
        self.records, self.row = file_records(applications, view.files), view.job_io.records()[0]
        # Many rules read the same columns.
        self.ints, self.seconds = cache(self.records.ints), cache(self.records.seconds)
        self.facility, self.log = view.facility, view.log
        self.mounts: dict[str, str] = json.loads(applications.text("mounts").tolist()[0] or "{}")
        self.command: str = applications.text("exe").tolist()[0] or ""
        self.python = _PYTHON.search(self.command) is not None
        self.nprocs = int(self.row["nprocs"])
        self.node_count = view.row()["node_count"]
        self.nodes = self.node_count or max(1, math.ceil(self.nprocs / DEFAULT_PROCESSES_PER_NODE))
        # `separate`: processes without MPI, one log each. `parallel`: processes of one program, which could use MPI-IO.
        self.separate, self.parallel = view.separate, self.nprocs > 1 and not view.separate
        # If Darshan ran out of memory for MPI-IO, nothing follows from the absence of its calls.
        self.without_mpiio_calls = "MPI-IO" in view.listed("partial_modules")
        # Some files have no record: counters are lower bounds, and processes cannot be compared.
        self.incomplete = view.incomplete
        # Darshan's sums were read, not its records: files and processes are not distinguished.
        self.sums_only = bool((self.ints("record_id") == 0).any())
        seconds = self.row["run_seconds"]
        self.run_seconds = float(seconds) if seconds is not None and seconds > 0 else None
        self._mark_records()
        value = self.row["io_seconds"]
        # D; None if the log has no times.
        self.io_seconds = float(value) if value is not None and math.isfinite(value) and value > 0 else None
        self.moved_bytes = int(self.row["read_bytes"]) + int(self.row["write_bytes"])
        self.bytes_per_s = max(self.moved_bytes, 0) / self.io_seconds if self.io_seconds else 0.0
        self._find_rates(view.target_count, view.target_bytes_per_s)
        self._measure_requests()

    def _mark_records(self) -> None:
        """Mark the records by layer and use, and give each its bytes, seconds and part of D_S."""
        records = self.records
        self.counted = records.counted
        self.operations: Ints = self.ints("read_count") + self.ints("write_count")
        self.moved: Ints = self.ints("read_bytes") + self.ints("write_bytes")
        self.moved_rows: Bools = self.moved > 0
        self.below: Bools = records.posix & ~self.counted
        has_posix = records.per_file(records.posix.astype(np.int64)) > 0
        self.at_storage: Bools = records.posix | (self.counted & records.mpiio & ~has_posix[records.file])
        self.shared: Bools = strategy_of_files(records)[records.file] == STRATEGIES.index("shared")
        used = (self.ints("open_count") > 0) | (self.operations > 0) | self.moved_rows
        self.opened: Bools = self.counted & (records.per_file(used.astype(np.int64)) > 0)[records.file]
        collective = self.ints("collective_read_count") + self.ints("collective_write_count")
        self.collective: Bools = records.mpiio & (2 * collective >= self.operations) & (collective > 0)
        self.collective_file: Bools = records.per_file(self.collective.astype(np.int64), self.counted)[records.file] > 0
        # Records of all processes at the file system, nearly all of whose bytes one process moved.
        slowest = self.ints("slowest_rank_bytes")
        self.moved_by_one: Bools = (
            self.at_storage & self.moved_rows & (records.rank < 0) & (slowest >= ALMOST_ALL * self.moved)
        )
        self.independent_share = np.asarray(1.0 - np.minimum(ratio(collective, self.operations), 1.0), np.float64)
        self.first_opens: Ints = np.where(records.rank < 0, self.nprocs, 1)
        self.data_seconds = self.seconds("read_seconds") + self.seconds("write_seconds")
        self.spent = self.seconds("meta_seconds") + self.data_seconds
        # Part of D_S of each record of rank -1; if D_S is made of spans, in proportion to the time on the file.
        rows = self.counted & (records.rank < 0) & ((self.operations > 0) | self.moved_rows)
        weight = self.seconds("slowest_rank_seconds") if self.row["d_s_definition"] == "slowest" else self.spent
        weight = np.where(rows, weight, 0.0)
        total, d_s = float(weight.sum()), self.row["d_s_seconds"]
        scale = float(d_s) / total if d_s is not None and math.isfinite(d_s) and total > 0 else 0.0
        self.shared_seconds = weight * scale if scale else np.zeros(len(rows))

    @cached_property
    def file_bytes(self) -> Floats:
        """The size of the file of each record: its highest byte, else the bytes moved."""
        records = self.records
        ends = np.maximum(self.ints("read_extent_bytes"), self.ints("write_extent_bytes"))
        size = maximum(ends, records.file, records.files)
        moved = records.per_file(self.moved, self.counted)
        return np.where(size > 0, size, moved).astype(np.float64)[records.file]

    def _find_rates(self, target_count: int | None, sampled_bytes_per_s: float | None) -> None:
        """Find the highest rate that storage can deliver to the run, and its origin: the file system's peak, samples of
        its targets, or a default; within the links of its nodes, and the targets of its files."""
        records, mount = self.records, self.row["main_mount"]
        lustre = self.log.records("LUSTRE") if self.log else None
        if lustre is not None and len(lustre) and "LUSTRE_OSTS" in (lustre.dtype.names or ()):
            target_count = int(lustre["LUSTRE_OSTS"].max())
        # Targets of the Lustre file system; infinite if unknown.
        self.known_targets = float(target_count) if target_count and target_count > 0 else math.inf
        system = self.facility.filesystem_of_path(mount) if mount else None
        limit = system.component_limit_bytes_per_s if system is not None else None
        self.target_bytes_per_s = limit or sampled_bytes_per_s or DEFAULT_TARGET_BYTES_PER_S
        rate, origin = peak_of(mount, self.facility), "facility.toml"
        if rate is None and sampled_bytes_per_s and math.isfinite(self.known_targets):
            rate, origin = self.known_targets * self.target_bytes_per_s, "the servers' samples"
        elif rate is None:
            rate, origin = DEFAULT_CEILING_BYTES_PER_S, "a default"
        links = self.facility.node_limit_bytes_per_s
        if links and links * self.nodes < rate:
            rate, origin = links * self.nodes, "facility.toml"
        self.ceiling = rate, origin
        # Targets of the run's files; infinite unless the log has the layout of 99% of the moved data.
        rows = self.counted & self.moved_rows & (self.ints("stripe_count") > 0)
        stripes = math.inf
        if rows.any() and self.moved[rows].sum(dtype=np.float64) >= ALMOST_ALL * self.moved_bytes:
            each = np.zeros(records.files)
            np.maximum.at(each, records.file[rows], self.ints("stripe_count")[rows].astype(np.float64))
            stripes = min(float(each.sum()), self.known_targets)
        self.layout_bytes_per_s = stripes * self.target_bytes_per_s
        self.deliverable_bytes_per_s = max(min(rate, self.layout_bytes_per_s), self.bytes_per_s)
        # I/O time of the run's bytes at that rate.
        self.least_seconds = max(self.moved_bytes, 0) / self.deliverable_bytes_per_s
        self.is_at_rate = self.bytes_per_s > min(rate, self.layout_bytes_per_s)
        # The type of the file system with most of the data, such as lustre; without data that of most files.
        codes = records.text("mount").codes
        if mount is None and (codes >= 0).any():
            mount = records.text("mount").categories[int(np.bincount(codes[codes >= 0]).argmax())]
        self.filesystem = "lustre" if rows.any() else self.mounts.get(mount or "", "").removeprefix("fuse.")
        self.kind = "" if self.filesystem in UNKNOWN else FILESYSTEMS.get(self.filesystem, self.filesystem)
        self.storage: Storage | None = None
        if self.filesystem and self.filesystem not in UNKNOWN:
            self.storage = "local" if self.filesystem in _LOCAL else "parallel"

    def _measure_requests(self) -> None:
        """Count requests under 1 MiB and their bytes, find the rate R of one process with large requests, and the
        overhead of a request beyond moving its bytes, (T - B / R) / n, of each record."""
        self.small_count: dict[Verb, Ints] = {}
        self.small_bytes: dict[Verb, Floats] = {}
        self.process_rate: dict[Verb, tuple[float, str]] = {}
        self.overhead: dict[Verb, Floats] = {}
        sizes = [(self.ints(f"access{i}_bytes"), self.ints(f"access{i}_count")) for i in range(1, 5)]
        exactly_1_mib: Ints = np.sum([np.where(size == MIB, count, 0) for size, count in sizes], axis=0)
        last = _SMALL_BINS - 1
        both = self.ints(READ_BINS[last]) + self.ints(WRITE_BINS[last])
        for verb, bins in zip(VERBS, (READ_BINS, WRITE_BINS), strict=True):
            counts = [self.ints(name) for name in bins[:_SMALL_BINS]]
            count, moved = self.ints(f"{verb}_count"), self.ints(f"{verb}_bytes").astype(np.float64)
            not_small = np.ceil(exactly_1_mib * ratio(counts[last], both)).astype(np.int64)
            small = self.small_count[verb] = np.clip(np.sum(counts, axis=0) - not_small, 0, count)
            by_bins = np.sum([n * float(size) for n, size in zip(counts, _BIN_MIDDLE_BYTES, strict=True)], axis=0)
            self.small_bytes[verb] = np.where(small >= count, moved, np.minimum(by_bins, moved))
            spent = self.seconds(f"{verb}_seconds")
            # Collective calls include waiting for others.
            large = self.counted & ~self.collective & (moved >= MIB * np.maximum(count, 1)) & (spent > 0)
            rate, origin = self.ceiling[0] / max(1, int(self.row["io_rank_count"] or 0)), self.ceiling[1]
            if float(moved[large].sum()) >= _ENOUGH_BYTES:
                rate, origin = float(moved[large].sum() / spent[large].sum()), "this run's own large requests"
            elif rate >= DEFAULT_PROCESS_BYTES_PER_S:
                rate, origin = DEFAULT_PROCESS_BYTES_PER_S, "a default"
            self.process_rate[verb] = rate, origin
            seconds = spent if verb == "read" else self._seconds_until_last_write()
            each = ratio(np.maximum(seconds - moved / rate, 0.0), count)
            # A write of microseconds went to memory. Counters do not show how long the kernel throttled the process,
            # so only the system call counts as saved.
            to_memory = (ratio(seconds, count) < WRITE_TO_MEMORY_SECONDS) & (verb == "write")
            self.overhead[verb] = np.where(to_memory, np.minimum(each, SYSTEM_CALL_SECONDS), each)

    def _seconds_until_last_write(self) -> Floats:
        """Return the write time without syncs after the last write, which move bytes whatever their requests were.

        Darshan counts a sync as writing: write time beyond the span from first to last write is that of later syncs.
        """
        spent = self.seconds("write_seconds")
        timed = self.records.known("first_write_ns") & self.records.known("last_write_ns")
        between = (self.ints("last_write_ns") - self.ints("first_write_ns")) / NS
        known = timed & (self.ints("sync_count") > 0) & (between > 0)
        return np.where(known, np.minimum(spent, between * self.first_opens), spent)

    def seconds_between_writes(self) -> float:
        """Return the time without I/O from the first to the last write: non-blocking writes would overlap with it."""
        first, last = self.row["first_write_ns"], self.row["last_write_ns"]
        if first is None or last is None:
            return 0.0
        return max(0.0, float(last - first) / NS - (self.io_seconds or 0.0))

    def as_mpiio_savings(self, saved: Floats) -> Floats:
        """Convert savings on rows below MPI-IO to savings on the MPI-IO rows of the same files: the same share of data
        time. MPI-IO waits for its slowest process, so its sums do not measure the calls below."""
        data = self.data_seconds
        spent, gone = (self.records.per_file(part, self.below) for part in (data, np.minimum(saved, data)))
        share = ratio(gone, spent)[self.records.file]
        return np.where(self.below, 0.0, np.where(self.counted & self.records.mpiio, data * share, saved))

    def saving(self, saved: Floats) -> float:
        """Return wall-clock seconds saved if the counted rows took `saved` fewer seconds over all their processes."""
        saved = np.clip(np.where(self.counted, np.nan_to_num(saved), 0.0), 0.0, self.spent)
        before, after = (self.sums_by_rank(spent).max(initial=0.0) for spent in (self.spent, self.spent - saved))
        return float(before - after + (self.shared_seconds * ratio(saved, self.spent)).sum())

    def sums_by_rank(self, amounts: Floats) -> Floats:
        """Sum over the own files of each process that has some."""
        alone, place = self._own_files
        return np.asarray(sums(amounts[alone], place, int(place.max(initial=-1)) + 1), np.float64)

    @cached_property
    def _own_files(self) -> tuple[Bools, Ints]:
        """Return the counted records of files of one process, and the number of that process for each of them."""
        alone = self.counted & (self.records.rank >= 0)
        return alone, np.unique(self.records.rank[alone], return_inverse=True)[1]

    def files_in(self, rows: Bools) -> int:
        """Count the files of these records."""
        return len(np.unique(self.records.file[rows]))

    def is_noticeable(self, rows: Bools) -> bool:
        """Whether the I/O on the files of these records takes a noticeable part of the run's I/O time, or cannot be
        compared with it."""
        if not self.io_seconds:
            return True
        mine = np.isin(self.records.file, np.unique(self.records.file[rows]))
        return self.saving(np.where(mine, self.spent, 0.0)) >= NOTICEABLE_SHARE * self.io_seconds

    def name_file(self, rows: Bools) -> str:
        """Return the name of the file of these records with most time, and how many more there are; empty if its path
        is not known."""
        files = np.unique(self.records.file[rows & self.opened if (rows & self.opened).any() else rows])
        if not len(files):
            return ""
        spent = self.records.per_file(self.spent, rows) + self.records.per_file(self.moved, rows) * 1e-30
        first = int(np.flatnonzero(self.records.file == files[np.argmax(spent[files])])[0])
        path = self.records.text("path")[first : first + 1].tolist()[0]
        more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
        return f"{one_line(path.rsplit('/', 1)[-1])}{more}" if path else ""

    def most_seconds(self, same_bytes: bool) -> float:
        """Return the upper limit of a saving: the time of the I/O, or of the run; if the same bytes are moved between
        the same places, without the time that storage needs for them."""
        most = min(self.io_seconds or 0.0, self.run_seconds or math.inf)
        return max(0.0, most - self.least_seconds) if same_bytes else most

    def most_seconds_if_faster(self) -> float:
        """Return the upper limit of a saving if storage is faster than this run shows; 0 if its rate is known."""
        most = min(self.io_seconds or 0.0, self.run_seconds or math.inf)
        return max(0.0, most - self.least_seconds / FASTER_FACTOR) if self.is_at_rate else 0.0


def profile_of(view: JobView) -> Profile:
    """Return the profile of a single run. Counters of a damaged log may be anything."""
    with np.errstate(all="ignore"):
        return Profile(view)

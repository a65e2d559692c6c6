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
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.facility import Facility
from ioweather.core.tables import READ_BINS, STRATEGIES, WRITE_BINS
from ioweather.core.units import GIB, MIB, NS
from ioweather.core.words import names_of
from ioweather.facts.bandwidth import peak_of
from ioweather.facts.file_records import FileRecords, file_records, maximum, ratio, strategy_of_files, sums
from ioweather.facts.runs import ALMOST_ALL
from ioweather.job_io.view import JobView, LogFacts, printable

# `record.toml` has pairs of runs before and after a change: the rule, the seconds by its model, the seconds that were
# saved, the kind of storage, and the origin of the pair. `python benchmarks/advice_pairs.py --write` makes it. Only
# pairs on the same kind of storage count: a parallel file system is not a local disk. The expected saving is the
# model's seconds times the lower quartile of saved / modelled over the closest related pairs, if five: of the rule, of
# rules with its model, of rules of its part. Without such pairs the saving is "up to" the model's seconds.
#
# The interval is split conformal (Vovk et al. 2005): with n pairs exchangeable with this run, the ranks floor(0.05 (n
# + 1)) and ceil(0.95 (n + 1)) of that ratio contain 90% or more; of the closest related pairs if 19, else of all on
# that kind of storage. If the model gives a second or more, only pairs of a second or more are related.
#
# Joined requests on a parallel file system save what the storage's own rate leaves, and a log does not show that rate.
# There the pairs give it: the rates of whole runs after their requests were joined. At rate r, a run that moved bytes
# at a keeps a / r of its time, so a change saves 1 - a / r of the model's seconds. The rank below is that of r; the one
# above is that of the ratio, as for other rules. Faster runs are not like these pairs: "up to".

LEVEL: Final = 0.9
# The smallest n for which both ranks exist at this level.
FEWEST_PAIRS: Final = 19
# Rules with one model: joined requests save their time beyond their bytes.
JOINING: Final = frozenset(
    {"small_requests", "no_mpiio", "no_collectives", "mpiio_splits", "unbuffered", "stdio", "fsync_storm"}
)
# Of these, those whose time after the change is mostly that of moving bytes.
JOINED: Final = JOINING - {"fsync_storm"}
# Noise of the machine decides shorter pairs, so they say little about longer ones.
LEAST_SECONDS: Final = 1.0
# The fewest pairs of which a quantile is used.
FEWEST_OF_QUANTILE: Final = 5
# The quantile of earlier changes that is expected: three of four saved more.
KEPT: Final = 0.25

Storage: TypeAlias = Literal["local", "parallel"]


@dataclass(frozen=True)
class Past:
    """A change that was made: seconds by the rule's model, and seconds that were saved of `before_seconds`."""

    rule: str
    part: str
    storage: Storage
    origin: str
    name: str
    before_seconds: float
    modelled_seconds: float
    won_seconds: float
    moved_bytes: int = 0  # 0: not recorded

    @property
    def ratio(self) -> float:
        return max(self.won_seconds, 0.0) / self.modelled_seconds

    @property
    def rate_before(self) -> float:
        return self.moved_bytes / self.before_seconds

    @property
    def rate_after(self) -> float:
        return self.moved_bytes / max(self.before_seconds - self.won_seconds, WRITE_TO_MEMORY_SECONDS)


@dataclass(frozen=True)
class Promise:
    """Expected saving with a 90% interval, from `pairs`, `of_rule` of which are of the rule itself. `tried` is False
    without related pairs: `high` is then the model's value."""

    seconds: float
    low: float
    high: float
    pairs: int
    of_rule: int
    tried: bool = True

    def scaled(self, share: float) -> Promise:
        return replace(self, seconds=self.seconds * share, low=self.low * share, high=self.high * share)


@cache
def record() -> tuple[Past, ...]:
    """Read the past pairs of record.toml."""
    text = files("ioweather.job_io.advisor").joinpath("record.toml").read_text("utf-8")
    return tuple(Past(**pair) for pair in tomllib.loads(text).get("pair", ()))


@cache
def promised(
    rule: str, part: str, storage: Storage | None, modelled_seconds: float, most_seconds: float, bytes_per_s: float
) -> Promise:
    """Return the expected saving of a rule from the recorded pairs, for a run that moved bytes at this rate."""
    past = [pair for pair in record() if pair.storage == storage]
    return promised_from(past, rule, part, modelled_seconds, most_seconds, bytes_per_s)


def promised_from(
    past: Sequence[Past], rule: str, part: str, modelled_seconds: float, most_seconds: float, bytes_per_s: float = 0.0
) -> Promise:
    """Return the expected saving from past pairs, at most `most_seconds`."""
    least = LEAST_SECONDS if modelled_seconds >= LEAST_SECONDS else 0.0
    everything = [pair.ratio for pair in past if pair.modelled_seconds > 0]
    usable = [pair for pair in past if pair.modelled_seconds > 0 and pair.modelled_seconds >= least]
    own = [pair.ratio for pair in usable if pair.rule == rule]
    of_model = [pair.ratio for pair in usable if rule in JOINING and pair.rule in JOINING]
    of_part = [pair.ratio for pair in usable if pair.part == part]
    kin = (own, of_model, of_part)
    pool = next((ratios for ratios in kin if len(ratios) >= FEWEST_PAIRS), everything)
    closest = next((ratios for ratios in kin if len(ratios) >= FEWEST_OF_QUANTILE), None)
    rates = [pair.rate_after for pair in past if rule in JOINED and pair.rule in JOINED and pair.moved_bytes > 0]
    slow = float(np.quantile(rates, KEPT)) if len(rates) >= FEWEST_PAIRS else math.inf
    if closest is None or len(pool) < FEWEST_PAIRS or bytes_per_s >= slow:
        return Promise(0.0, 0.0, min(modelled_seconds, most_seconds), 0, 0, tried=False)
    low, high = conformal(pool)
    rates = [pair.rate_after for pair in past if rule in JOINED and pair.rule in JOINED and pair.moved_bytes > 0]
    if len(rates) >= FEWEST_PAIRS:
        low, expected = (
            max(0.0, 1.0 - bytes_per_s / r) for r in (conformal(rates)[0], float(np.quantile(rates, KEPT)))
        )
    else:
        # A few pairs of its own can lower the expected saving, not raise it.
        expected = min(float(np.quantile(ratios, KEPT)) for ratios in (closest, own) if ratios)
    seconds = min(modelled_seconds * expected, most_seconds)
    most = min(modelled_seconds * high, most_seconds) if modelled_seconds > 0 else 0.0
    # Where a quarter of such changes saved nothing, nothing is expected, and the rest is "up to".
    low = min(modelled_seconds * low, seconds)
    return Promise(seconds, low, max(most, seconds), len(pool), len(own), tried=seconds > 0 or modelled_seconds <= 0)


def conformal(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the conformal interval of the next ratio at LEVEL; 0 to infinity if n is too small."""
    ordered, tail = sorted(ratios), (1.0 - LEVEL) / 2
    # 1e-9: 0.05 x 20 must round down to 1.
    below = math.floor(tail * (len(ordered) + 1) + 1e-9)
    above = math.ceil((1.0 - tail) * (len(ordered) + 1) - 1e-9)
    low = ordered[below - 1] if below >= 1 else 0.0
    return low, ordered[above - 1] if above <= len(ordered) else math.inf


Verb: TypeAlias = Literal["read", "write"]
VERBS: Final[tuple[Verb, Verb]] = ("read", "write")

# Defaults, if neither the log nor the facility file has a rate: of a process with large requests on today's parallel
# file systems and local disks, and of a run on a file system without a description.
DEFAULT_PROCESS_BYTES_PER_S: Final = float(GIB)
DEFAULT_CEILING_BYTES_PER_S: Final = 10.0 * GIB
DEFAULT_TARGET_BYTES_PER_S: Final = 500.0 * MIB  # a Lustre target
# A target that was faster than the default may be faster still: no more than half as much again is believed.
BELIEVED: Final = 1.5
# Types of mounts whose storage is in the machine itself, and those that say nothing of it: on many systems a file that
# fits no recorded mount point is one of `/`. All others are served over a network.
_UNKNOWN: Final = frozenset(names_of("autofs rootfs overlay squashfs"))
_LOCAL: Final = frozenset(names_of("ext2 ext3 ext4 xfs btrfs zfs f2fs jfs tmpfs ramfs"))
# Used if neither accounting nor the user gives the nodes.
DEFAULT_PROCESSES_PER_NODE: Final = 32
LARGE_BYTES: Final = MIB
_PYTHON: Final = re.compile(r"(?:^|[/\s])python[\d.]*(?:\s|$)|\.py\b")
# From this many bytes in large requests on, their rate is taken from the log itself.
_ENOUGH_BYTES: Final = 64 * MIB
# Bins of requests up to 1 MiB; the last one includes requests of exactly 1 MiB, which are not small.
_SMALL_BINS: Final = 5
# A pattern of files that take less than this part of the I/O time is not named.
FELT_SHARE: Final = 0.01
# An open that takes so long on its own, in a process with several threads, waits for a pipe or a lock.
LONG_OPEN_SECONDS: Final = 1.0
_SEVERAL_THREADS: Final = 1.05
# No device is faster.
WRITE_TO_MEMORY_SECONDS: Final = 10e-6
SYSTEM_CALL_SECONDS: Final = 1e-6
_DEFAULT: Final = "a default"
_SEEN: Final = "this run itself"
_BIN_MIDDLE_BYTES: Final = (50, 500, 5_000, 50_000, 400_000)


@dataclass(frozen=True, eq=False)
class Profile:
    """One run. `row` is its `job_io`; `node_count` and `target_count` are the nodes and storage targets, if known.

    `sampled_bytes_per_s` is the highest rate of a target in the lake's samples. `mounts` maps mount points to types of
    file systems. `cut_modules` are those for which Darshan ran out of memory.
    `separate`: processes without MPI, one log each.
    """

    records: FileRecords
    row: Mapping[str, Any]
    facility: Facility
    node_count: int | None
    log: LogFacts | None = None
    target_count: int | None = None
    sampled_bytes_per_s: float | None = None
    mounts: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    separate: bool = False
    cut_modules: frozenset[str] = frozenset()

    # --- what is known

    @property
    def without_mpiio_calls(self) -> bool:
        """Darshan ran out of memory for MPI-IO: nothing follows from the absence of its calls."""
        return "MPI-IO" in self.cut_modules

    @property
    def incomplete(self) -> bool:
        """Some files have no record: counters are lower bounds, and processes cannot be compared."""
        return bool(self.row["partial"]) or (self.log is not None and self.log.unrecorded_file_count > 0)

    @property
    def sums_only(self) -> bool:
        """Darshan's sums were read, not its records: files and processes are not distinguished."""
        return bool((self.records.ints("record_id") == 0).any())

    @property
    def parallel(self) -> bool:
        """Several processes of one program, which could use MPI-IO."""
        return self.nprocs > 1 and not self.separate

    @property
    def mpi(self) -> Literal["cray", "openmpi", ""]:
        """The MPI of the run, by its mounts or its command; empty if unknown."""
        if any("/cray" in mount for mount in self.mounts):
            return "cray"
        return "openmpi" if "openmpi" in self.command.lower() else ""

    @property
    def python(self) -> bool:
        return _PYTHON.search(self.command) is not None

    # --- sizes

    @property
    def nprocs(self) -> int:
        return int(self.row["nprocs"])

    @property
    def nodes(self) -> int:
        """Nodes of the run; if unknown, one for each 32 processes."""
        return self.node_count or max(1, math.ceil(self.nprocs / DEFAULT_PROCESSES_PER_NODE))

    @property
    def nodes_words(self) -> str:
        counted = "1 node" if self.nodes == 1 else f"{self.nodes:,} nodes"
        return counted if self.node_count else f"{counted} (assuming {DEFAULT_PROCESSES_PER_NODE} processes per node)"

    @property
    def run_seconds(self) -> float | None:
        seconds = self.row["run_seconds"]
        return float(seconds) if seconds is not None and seconds > 0 else None

    def count(self, name: str) -> int:
        """A count of the run, 0 if it is not known."""
        return int(self.row[name] or 0)

    @property
    def io_ranks(self) -> int:
        return max(1, self.count("io_rank_count"))

    @property
    def moved_bytes(self) -> int:
        return int(self.row["read_bytes"]) + int(self.row["write_bytes"])

    @cached_property
    def filesystem(self) -> str:
        """Type of the file system with most of the data, such as lustre; without data that of most files; empty if
        unknown."""
        if (self.ints("stripe_count")[self.counted & self.moved_rows] > 0).any():
            return "lustre"
        place, mount = self.row["main_mount"], self.records.text("mount")
        if place is None and (codes := mount.codes[mount.codes >= 0]).size:
            place = mount.categories[int(np.bincount(codes).argmax())]
        return self.mounts.get(place or "", "").removeprefix("fuse.")

    @property
    def storage(self) -> Storage | None:
        """The kind of storage of that file system; None if unknown."""
        if not self.filesystem or self.filesystem in _UNKNOWN:
            return None
        return "local" if self.filesystem in _LOCAL else "parallel"

    @cached_property
    def ceiling(self) -> tuple[float, str]:
        """Highest rate of the run, and its origin: the file system's peak, samples of its targets, or a default; within
        the links of its nodes."""
        rate, origin = peak_of(self.row["main_mount"], self.facility), "facility.toml"
        if rate is None and self.sampled_bytes_per_s and math.isfinite(self.known_targets):
            rate, origin = self.known_targets * self.target_bytes_per_s, "the servers' samples"
        if rate is None:
            rate, origin = DEFAULT_CEILING_BYTES_PER_S, _DEFAULT
        limit = self.facility.node_limit_bytes_per_s
        return (limit * self.nodes, "facility.toml") if limit and limit * self.nodes < rate else (rate, origin)

    @cached_property
    def target_bytes_per_s(self) -> float:
        """Rate of one storage target, from the facility file, from the servers' samples, or a default."""
        mount = self.row["main_mount"]
        system = self.facility.filesystem_of_path(mount) if mount else None
        limit = system.component_limit_bytes_per_s if system is not None else None
        return limit or self.sampled_bytes_per_s or DEFAULT_TARGET_BYTES_PER_S

    @cached_property
    def known_targets(self) -> float:
        """Targets of the Lustre file system from the log or the lake; infinite if unknown."""
        lustre = self.log.records("LUSTRE") if self.log else None
        targets = self.target_count or 0
        if lustre is not None and len(lustre) and "LUSTRE_OSTS" in (lustre.dtype.names or ()):
            targets = int(lustre["LUSTRE_OSTS"].max())
        return float(targets) if targets > 0 else math.inf

    @cached_property
    def stripes(self) -> float:
        """Targets of the run's files; infinite unless the log has the layout of 99% of the moved data."""
        rows = self.counted & self.moved_rows & (self.ints("stripe_count") > 0)
        if not rows.any() or self.moved[rows].sum(dtype=np.float64) < ALMOST_ALL * self.moved_bytes:
            return math.inf
        stripes = np.zeros(self.records.files)
        np.maximum.at(stripes, self.records.file[rows], self.ints("stripe_count")[rows].astype(np.float64))
        return min(float(stripes.sum()), self.known_targets)

    @cached_property
    def layout_bytes_per_s(self) -> float:
        """Rate of the targets of the run's files; infinite if they are not known."""
        return self.stripes * self.target_bytes_per_s

    @cached_property
    def deliverable(self) -> tuple[float, str]:
        """Highest rate that storage can deliver to this run, and its origin; at least the run's own."""
        rate, origin = self.ceiling
        if self.layout_bytes_per_s < rate:
            rate, origin = self.layout_bytes_per_s, "the targets of its files"
        return (self.bytes_per_s, _SEEN) if self.bytes_per_s > rate else (rate, origin)

    @property
    def bytes_per_s(self) -> float:
        return max(self.moved_bytes, 0) / self.io_seconds if self.io_seconds else 0.0

    @property
    def least_seconds(self) -> float:
        """I/O time of the run's bytes at the highest rate that storage can deliver."""
        return max(self.moved_bytes, 0) / self.deliverable[0]

    # --- columns, in the order of the records

    # Many rules use the same columns.
    @cached_property
    def ints(self) -> Callable[[str], Ints]:
        return cache(self.records.ints)

    @cached_property
    def seconds(self) -> Callable[[str], Floats]:
        read = cache(self.records.seconds)
        # Waiting for the other end of a pipe is not I/O.
        return lambda name: np.where(self.waits, 0.0, read(name)) if name == "meta_seconds" else read(name)

    @cached_property
    def waits(self) -> Bools:
        """Rows whose opens waited for something else than storage: a second or more each, in threads of a process that
        spent more time in I/O than the run lasted."""
        records = self.records
        meta = records.seconds("meta_seconds")
        spent = meta + records.seconds("read_seconds") + records.seconds("write_seconds")
        alone = records.counted & (records.rank >= 0)
        ranks, place = np.unique(records.rank, return_inverse=True)
        threads = sums(np.where(alone, spent, 0.0), place, len(ranks)) > _SEVERAL_THREADS * (
            self.run_seconds or math.inf
        )
        calls = np.maximum(self.ints("open_count"), 1)
        return np.asarray(alone & threads[place] & (meta >= LONG_OPEN_SECONDS * calls), np.bool_)

    @cached_property
    def below(self) -> Bools:
        """POSIX rows of requests that MPI-IO made."""
        return self.records.posix & ~self.counted

    @cached_property
    def at_storage(self) -> Bools:
        """Rows of requests to the file system: POSIX, and MPI-IO if nothing below it was recorded."""
        has_posix = self.records.per_file(self.records.posix.astype(np.int64)) > 0
        return self.records.posix | (self.counted & self.records.mpiio & ~has_posix[self.records.file])

    def files_moved(self, rows: Bools) -> int:
        return len(np.unique(self.records.file[rows]))

    @cached_property
    def opened(self) -> Bools:
        """Counted rows of files that were opened or moved data; the others were only looked up (stat)."""
        used = (self.ints("open_count") > 0) | (self.operations > 0) | self.moved_rows
        return self.counted & (self.records.per_file(used.astype(np.int64)) > 0)[self.records.file]

    def independent_share(self) -> Floats:
        """Share of the operations of each row that are not collective."""
        collective = self.ints("collective_read_count") + self.ints("collective_write_count")
        return np.asarray(1.0 - np.minimum(ratio(collective, self.operations), 1.0), np.float64)

    @cached_property
    def counted(self) -> Bools:
        return self.records.counted

    @cached_property
    def file_bytes(self) -> Floats:
        """Size of the file of each row: its highest byte, else the bytes moved."""
        ends = np.maximum(self.ints("read_extent_bytes"), self.ints("write_extent_bytes"))
        size = maximum(ends, self.records.file, self.records.files)
        moved = self.records.per_file(self.moved, self.counted)
        return np.where(size > 0, size, moved).astype(np.float64)[self.records.file]

    @cached_property
    def shared(self) -> Bools:
        """Rows of files that all processes opened."""
        strategy = strategy_of_files(self.records)
        return np.asarray(strategy[self.records.file] == STRATEGIES.index("shared"), np.bool_)

    @cached_property
    def operations(self) -> Ints:
        return self.ints("read_count") + self.ints("write_count")

    @cached_property
    def moved(self) -> Ints:
        return self.ints("read_bytes") + self.ints("write_bytes")

    @cached_property
    def collective(self) -> Bools:
        """MPI-IO rows with at least half of their operations collective, which MPI-IO joins itself."""
        collective = self.ints("collective_read_count") + self.ints("collective_write_count")
        return self.records.mpiio & (2 * collective >= self.operations) & (collective > 0)

    @cached_property
    def first_opens(self) -> Ints:
        """Opens that a row needs: one for each of its processes."""
        return np.where(self.records.rank < 0, self.nprocs, 1)

    def bin_count(self, verb: Verb, bins: int) -> Ints:
        """Requests in the lowest of Darshan's bins."""
        names = (READ_BINS if verb == "read" else WRITE_BINS)[:bins]
        return np.asarray(np.sum([self.ints(name) for name in names], axis=0), np.int64)

    def small_count(self, verb: Verb) -> Ints:
        """Requests under 1 MiB. The bin from 100 KiB includes 1 MiB; the common sizes tell how many these are."""
        bins = READ_BINS if verb == "read" else WRITE_BINS
        small = self.bin_count(verb, _SMALL_BINS)
        last = self.ints(bins[_SMALL_BINS - 1])
        both = self.ints(READ_BINS[_SMALL_BINS - 1]) + self.ints(WRITE_BINS[_SMALL_BINS - 1])
        sizes = [(self.ints(f"access{i}_bytes"), self.ints(f"access{i}_count")) for i in range(1, 5)]
        exact: Ints = np.sum([np.where(size == LARGE_BYTES, count, 0) for size, count in sizes], axis=0)
        mine = exact * ratio(last, both)
        return np.clip(small - np.ceil(mine).astype(np.int64), 0, self.ints(f"{verb}_count"))

    def small_bytes(self, verb: Verb) -> Floats:
        """Bytes of requests under 1 MiB: all of a row if all are small, else by the middles of the bins."""
        bins, moved = READ_BINS if verb == "read" else WRITE_BINS, self.ints(f"{verb}_bytes").astype(np.float64)
        guess: Floats = np.sum(
            [self.ints(name) * float(middle) for name, middle in zip(bins, _BIN_MIDDLE_BYTES, strict=False)], axis=0
        )
        every = self.small_count(verb) >= self.ints(f"{verb}_count")
        return np.where(every, moved, np.minimum(guess, moved))

    # --- rates

    def process_rate(self, verb: Verb) -> tuple[float, str]:
        """Return bytes per second of one process with large requests, and the origin of the value."""
        moved, spent = self.ints(f"{verb}_bytes"), self.seconds(f"{verb}_seconds")
        # Collective calls include waiting for others.
        large = (
            self.counted
            & ~self.collective
            & (moved >= LARGE_BYTES * np.maximum(self.ints(f"{verb}_count"), 1))
            & (spent > 0)
        )
        if float(moved[large].sum(dtype=np.float64)) >= _ENOUGH_BYTES:
            own = float(moved[large].sum(dtype=np.float64) / spent[large].sum())
            return own, "this run's own large requests"
        rate, origin = self.ceiling
        part = rate / self.io_ranks
        return (part, origin) if part < DEFAULT_PROCESS_BYTES_PER_S else (DEFAULT_PROCESS_BYTES_PER_S, _DEFAULT)

    def request_overhead(self, verb: Verb) -> Floats:
        """Seconds of a request beyond moving its bytes, (T - B / R) / n, of each row; R is `process_rate`.

        A write of microseconds went to memory. Counters do not show how long the kernel throttled the process, so only
        the system call counts as saved.
        """
        rate, _ = self.process_rate(verb)
        count = self.ints(f"{verb}_count")
        seconds = self.seconds("read_seconds") if verb == "read" else self.seconds_until_last_write
        each: Floats = ratio(np.maximum(seconds - self.ints(f"{verb}_bytes") / rate, 0.0), count)
        if verb == "read":
            return each
        to_memory = ratio(seconds, count) < WRITE_TO_MEMORY_SECONDS
        return np.where(to_memory, np.minimum(each, SYSTEM_CALL_SECONDS), each)

    @cached_property
    def seconds_until_last_write(self) -> Floats:
        """Write time without syncs after the last write, which move bytes whatever their requests were.

        Darshan counts a sync as writing: write time beyond the span from first to last write is that of later syncs.
        """
        spent = self.seconds("write_seconds")
        timed = self.records.known("first_write_ns") & self.records.known("last_write_ns")
        known = timed & (self.ints("sync_count") > 0)
        between = (self.ints("last_write_ns") - self.ints("first_write_ns")) / NS
        writers = np.where(self.records.rank < 0, self.nprocs, 1)
        return np.where(known & (between > 0), np.minimum(spent, between * writers), spent)

    # --- from records to the run

    @cached_property
    def spent(self) -> Floats:
        return self.seconds("meta_seconds") + self.data_seconds

    @cached_property
    def data_seconds(self) -> Floats:
        return self.seconds("read_seconds") + self.seconds("write_seconds")

    @cached_property
    def io_seconds(self) -> float | None:
        """D, without `waits`; None if the log has no times."""
        value = self.row["io_seconds"]
        if value is None or not math.isfinite(value) or value <= 0:
            return None
        if not self.waits.any():
            return float(value)
        alone = self.counted & (self.records.rank >= 0)
        return self._slowest(self.spent, alone) + float(self.shared_seconds.sum()) or None

    @cached_property
    def shared_seconds(self) -> Floats:
        """Part of D_S of each record of rank -1; if D_S is made of spans, in proportion to the time on the file."""
        rows = self.counted & (self.records.rank < 0) & ((self.operations > 0) | self.moved_rows)
        d_s = self.row["d_s_seconds"]
        if d_s is None or not math.isfinite(d_s):
            return np.zeros(len(rows))
        weight = self.seconds("slowest_rank_seconds") if self.row["d_s_definition"] == "slowest" else self.spent
        weight = np.where(rows, weight, 0.0)
        total = float(weight.sum())
        return weight * (float(d_s) / total) if total > 0 else weight

    @cached_property
    def moved_rows(self) -> Bools:
        return self.moved > 0

    def lifted(self, saved: Floats) -> Floats:
        """Convert savings on rows below MPI-IO to savings on the MPI-IO rows of the same files: the same share of data
        time. MPI-IO waits for its slowest process, so its sums do not measure the calls below."""
        data = self.data_seconds
        spent, gone = (self.records.per_file(part, self.below) for part in (data, np.minimum(saved, data)))
        share = ratio(gone, spent)[self.records.file]
        return np.where(self.below, 0.0, np.where(self.counted & self.records.mpiio, data * share, saved))

    def saving(self, saved: Floats) -> float:
        """Return wall-clock seconds saved if the counted rows took `saved` fewer seconds over all their processes."""
        saved = np.clip(np.where(self.counted, np.nan_to_num(saved), 0.0), 0.0, self.spent)
        alone = self.counted & (self.records.rank >= 0)
        before = self._slowest(self.spent, alone)
        after = self._slowest(self.spent - saved, alone)
        return before - after + float((self.shared_seconds * ratio(saved, self.spent)).sum())

    def rank_sums(self, amounts: Floats) -> Floats:
        """Sum over the own files of each process that has some."""
        alone = self.counted & (self.records.rank >= 0)
        ranks, place = np.unique(self.records.rank[alone], return_inverse=True)
        return np.asarray(sums(amounts[alone], place, len(ranks)), np.float64)

    def _slowest(self, spent: Floats, rows: Bools) -> float:
        _, place = np.unique(self.records.rank[rows], return_inverse=True)
        return float(np.bincount(place, weights=spent[rows]).max(initial=0.0))

    def is_felt(self, rows: Bools) -> bool:
        """Whether the I/O on the files of these records takes a noticeable part of the run's I/O time, or cannot be
        compared with it."""
        if not self.io_seconds or (rows & self.waits).any():
            return True
        mine = np.isin(self.records.file, np.unique(self.records.file[rows]))
        return self.saving(np.where(mine, self.spent, 0.0)) >= FELT_SHARE * self.io_seconds

    def name_file(self, rows: Bools) -> str:
        """Return the name of the file of these records with most time, and how many more there are; empty if its path
        is not known."""
        files = np.unique(self.records.file[rows & self.opened])
        if not len(files):
            files = np.unique(self.records.file[rows])
        if not len(files):
            return ""
        spent = self.records.per_file(self.spent, rows) + self.records.per_file(self.moved, rows) * 1e-30
        worst = int(files[np.argmax(spent[files])])
        first = int(np.flatnonzero(self.records.file == worst)[0])
        path = self.records.text("path")[first : first + 1].tolist()[0]
        more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
        return f"{printable(path.rsplit('/', 1)[-1])}{more}" if path else ""

    def most_seconds(self, same_bytes: bool) -> float:
        """Upper limit of a saving: the time of the I/O, or of the run; if the same bytes are moved between the same
        places, without the time that storage needs for them."""
        most = min(self.io_seconds or 0.0, self.run_seconds or math.inf)
        return max(0.0, most - self.least_seconds) if same_bytes else most

    @property
    def believed_seconds(self) -> float:
        """Upper limit of a saving if storage is somewhat faster than this run shows; 0 if its rate is known."""
        if self.deliverable[1] != _SEEN:
            return 0.0
        return max(0.0, min(self.io_seconds or 0.0, self.run_seconds or math.inf) - self.least_seconds / BELIEVED)


def profile_of(view: JobView, run: int) -> Profile:
    """Return the profile of the job's run in row `run`."""
    applications, files, job_io = view.applications, view.files, view.job_io
    if view.logs > 1:
        applications, job_io = applications.take([run]), job_io.take([run])
        files = files.take(files.text("log_digest").equals(str(applications.text("log_digest").tolist()[0])))
    return Profile(
        records=file_records(applications, files),
        row=job_io.records()[0],
        facility=view.facility,
        node_count=view.node_count(run),
        log=view.log,
        target_count=view.target_count,
        sampled_bytes_per_s=view.target_bytes_per_s,
        mounts=json.loads(applications.text("mounts").tolist()[0] or "{}"),
        command=applications.text("exe").tolist()[0] or "",
        separate=view.separate,
        cut_modules=frozenset(view.listed("partial_modules")),
    )


# Rules of one part model the same seconds; see `Advised.together_seconds`.
Part: TypeAlias = Literal["requests", "metadata", "ranks", "layout", "overlap"]
# The classes of patterns of the public labelled logs (TraceBench, IPDPS 2025).
Dimension: TypeAlias = Literal["small_or_misaligned", "interface", "random", "imbalance", "shared_file", "metadata"]


@dataclass(frozen=True)
class Advice:
    """One pattern of a run. `model_seconds` is the saving of wall-clock I/O time by the rule's model, if only this were
    changed; `promise` the expected saving from past pairs. `model` describes the model, `fix_lines` are to type, `note`
    is a sentence of the site."""

    name: str
    headline: str
    dimension: Dimension
    part: Part
    evidence: str
    model_seconds: float
    promise: Promise
    model: str
    fix_lines: tuple[str, ...]
    matters: bool = False
    file: str = ""
    note: str = ""

    @property
    def seconds(self) -> float:
        return self.promise.seconds

    @property
    def most_seconds(self) -> float:
        """The seconds that are said, ranked and compared with the floor: the expected saving, or the model's for a
        change never tried."""
        return self.promise.seconds if self.promise.tried else self.promise.high


@dataclass(frozen=True)
class Seen:
    """Result of a rule's function if the pattern is there; `rows` are the records that show it."""

    evidence: str
    seconds_lost: float
    fix_lines: tuple[str, ...]
    rows: Bools


@dataclass(frozen=True)
class Rule:
    """A rule of rules.toml. `look` returns None if the pattern is not there; the rest is for screens and documentation:
    `trigger` is the condition, `sources` the literature, `before` and `after` are lines of a program."""

    name: str
    headline: str
    dimension: Dimension
    part: Part
    trigger: str
    model: str
    sources: tuple[str, ...]
    before: str
    after: str
    look: Callable[[Profile], Seen | None]
    # False: the change moves fewer bytes, or moves them to other targets.
    same_bytes: bool = True
    # Rules whose patterns this one explains: they are left out.
    explains: tuple[str, ...] = ()
    # False: no earlier change says what this one saves, as the program cannot make it.
    tried: bool = True

    def advice(self, profile: Profile) -> Advice | None:
        seen = self.look(profile)
        if seen is None:
            return None
        if not profile.is_felt(seen.rows):
            return None
        lost = max(seen.seconds_lost, 0.0) if math.isfinite(seen.seconds_lost) else 0.0
        most = profile.most_seconds(self.same_bytes)
        seconds = min(lost, most)
        believed = min(lost, profile.believed_seconds) if self.same_bytes else seconds
        if believed > seconds or not self.tried:
            promise = Promise(0.0, 0.0, max(believed, seconds), 0, 0, tried=False)
        else:
            promise = promised(self.name, self.part, profile.storage, seconds, most, profile.bytes_per_s)
        return Advice(
            name=self.name,
            headline=self.headline,
            dimension=self.dimension,
            part=self.part,
            evidence=seen.evidence,
            model_seconds=seconds,
            promise=promise,
            model=self.model,
            fix_lines=seen.fix_lines,
            file=profile.name_file(seen.rows),
        )

"""What rules look at: the file records of one run, and what a change of their times does to the run's I/O time.

Times in a log are sums over processes. What counts is the time that passes: D = D_U_M + D_U_RW + D_S (mad17 Eq. 1), the
slowest process on files of its own plus the slowest process of each file shared by all. A rule says which seconds of
which records a change would save; `Profile.saving` computes D again without them. So no rule can add up processes, and
none can claim more than the run's I/O time.
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
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.facility import Facility
from ioweather.core.tables.applications import READ_BINS, STRATEGIES, WRITE_BINS
from ioweather.core.units import GIB, MIB, NS
from ioweather.facts.bandwidth import peak_of
from ioweather.facts.file_records import FileRecords, file_records, strategy_of_files, sums
from ioweather.job_io.view import JobView, LogFacts

# What earlier advice has kept: pairs of runs before and after a change, and what the models had said.
#
# `record.toml` has one entry for each pair: the rule, the seconds that its model said, the seconds that were won, and
# where the pair is from. `python benchmarks/advice_pairs.py --write` makes it again. A promise is what the model says
# times the median of won / modelled of the closest kin with five pairs: the rule, rules of its model, rules of its
# part. A rule without such kin that was never tried itself promises nothing: what its model says is not yet a
# promise.
#
# The interval is split conformal (Vovk et al. 2005): with n pairs exchangeable with this run, the ranks floor(0.05 (n
# + 1)) and ceil(0.95 (n + 1)) of that ratio hold 90% or more; of the closest kin with 19 pairs, else of all. Kin of
# what the model puts at a second or more are pairs of a second or more.

LEVEL: Final = 0.9
# The fewest of which both ranks exist at this level.
FEWEST_PAIRS: Final = 19
# Rules of one model: requests that are joined save their time beyond their bytes.
JOINING: Final = frozenset(
    {"small_requests", "no_mpiio", "no_collectives", "mpiio_splits", "unbuffered", "stdio", "fsync_storm"}
)
# Pairs whose model says less tell little of those where it says more: what else the machine does decides them.
LEAST_SECONDS: Final = 1.0
# A median counts from so many pairs on.
FEWEST_OF_MEDIAN: Final = 5


@dataclass(frozen=True)
class Past:
    """A change that was made: seconds as the rule's model said before, and as they were won of `before_seconds`."""

    rule: str
    part: str
    origin: str
    name: str
    before_seconds: float
    modelled_seconds: float
    won_seconds: float

    @property
    def ratio(self) -> float:
        return max(self.won_seconds, 0.0) / self.modelled_seconds


@dataclass(frozen=True)
class Promise:
    """`low` and `high` hold what is won in 90% of cases like the `pairs` behind it; `of_rule` of these are of the
    rule itself. `tried` is False where neither the rule nor its kin was: `high` is then what the model says."""

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
    text = files("ioweather.job_io.advisor").joinpath("record.toml").read_text("utf-8")
    return tuple(Past(**pair) for pair in tomllib.loads(text).get("pair", ()))


@cache
def promised(rule: str, part: str, modelled_seconds: float, most_seconds: float) -> Promise:
    return promised_from(record(), rule, part, modelled_seconds, most_seconds)


def promised_from(past: Sequence[Past], rule: str, part: str, modelled_seconds: float, most_seconds: float) -> Promise:
    """No more than `most_seconds`: what the I/O took."""
    least = LEAST_SECONDS if modelled_seconds >= LEAST_SECONDS else 0.0
    everything = [pair.ratio for pair in past if pair.modelled_seconds > 0]
    usable = [pair for pair in past if pair.modelled_seconds > 0 and pair.modelled_seconds >= least]
    own = [pair.ratio for pair in usable if pair.rule == rule]
    of_model = [pair.ratio for pair in usable if rule in JOINING and pair.rule in JOINING]
    of_part = [pair.ratio for pair in usable if pair.part == part]
    kin = (own, of_model, of_part)
    pool = next((ratios for ratios in kin if len(ratios) >= FEWEST_PAIRS), everything)
    medians = [float(np.median(ratios)) for ratios in kin if len(ratios) >= FEWEST_OF_MEDIAN][:1]
    if own:
        # Few pairs of its own can lower what is promised, not raise it.
        medians.append(float(np.median(own)))
    low, high = conformal(pool)
    if not medians:
        return Promise(0.0, 0.0, min(modelled_seconds, most_seconds), 0, 0, tried=False)
    seconds = min(modelled_seconds * min(medians), most_seconds)
    most = min(modelled_seconds * high, most_seconds) if modelled_seconds > 0 else 0.0
    return Promise(seconds, min(modelled_seconds * low, seconds), max(most, seconds), len(pool), len(own))


def conformal(ratios: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """The ratios between which the next one lies with this probability; infinite where n is too small to say."""
    ordered, tail = sorted(ratios), (1.0 - level) / 2
    # 0.05 x 20 is 1, whatever floating point makes of it.
    below = math.floor(tail * (len(ordered) + 1) + 1e-9)
    above = math.ceil((1.0 - tail) * (len(ordered) + 1) - 1e-9)
    low = ordered[below - 1] if below >= 1 else 0.0
    return low, ordered[above - 1] if above <= len(ordered) else math.inf


Verb: TypeAlias = Literal["read", "write"]
VERBS: Final[tuple[Verb, Verb]] = ("read", "write")

# Where the log and the facility file do not say better. A process with large requests reaches about this much on
# today's parallel file systems and local disks; a run about so much on a file system that nobody described.
DEFAULT_PROCESS_BYTES_PER_S: Final = float(GIB)
DEFAULT_CEILING_BYTES_PER_S: Final = 10.0 * GIB
DEFAULT_TARGET_BYTES_PER_S: Final = 500.0 * MIB  # a Lustre target
# Nodes of a run where neither accounting nor the person says them: so many processes share one.
DEFAULT_PROCESSES_PER_NODE: Final = 32
LARGE_BYTES: Final = MIB
_PYTHON: Final = re.compile(r"(?:^|[/\s])python[\d.]*(?:\s|$)|\.py\b")
# A log knows its own large-request rate from this much on.
_ENOUGH_BYTES: Final = 64 * MIB
# Bins whose requests are at most 1 MiB; the last of them holds those of exactly 1 MiB, which are not small.
_SMALL_BINS: Final = 5
# No device answers in less.
WRITE_TO_MEMORY_SECONDS: Final = 10e-6
SYSTEM_CALL_SECONDS: Final = 1e-6
_BIN_MIDDLE_BYTES: Final = (50, 500, 5_000, 50_000, 400_000)


@dataclass(frozen=True, eq=False)
class Profile:
    """One run. `row` is its `job_io`; `node_count` the nodes and `target_count` the storage targets where known."""

    records: FileRecords
    row: Mapping[str, Any]
    facility: Facility
    node_count: int | None
    log: LogFacts | None = None
    target_count: int | None = None
    # Mount point to type of file system, as the log says.
    mounts: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    # Processes that know nothing of each other: one log each, no MPI.
    separate: bool = False

    # --- what is known

    @property
    def incomplete(self) -> bool:
        """Some files have no record: what is there is a lower bound, and processes cannot be compared."""
        return bool(self.row["partial"]) or (self.log is not None and self.log.unrecorded_file_count > 0)

    @property
    def sums_only(self) -> bool:
        """Darshan's sums were read, not its records: no file and no process can be told from the others."""
        return bool((self.records.ints("record_id") == 0).any())

    @property
    def parallel(self) -> bool:
        """Several processes of one program, which could use MPI-IO."""
        return self.nprocs > 1 and not self.separate

    @property
    def python(self) -> bool:
        return _PYTHON.search(self.command) is not None

    # --- sizes

    @property
    def nprocs(self) -> int:
        return int(self.row["nprocs"])

    @property
    def nodes(self) -> int:
        """Nodes of the run; where nobody knows them, one for each 32 processes."""
        return self.node_count or max(1, math.ceil(self.nprocs / DEFAULT_PROCESSES_PER_NODE))

    @property
    def nodes_words(self) -> str:
        counted = "1 node" if self.nodes == 1 else f"{self.nodes:,} nodes"
        return counted if self.node_count else f"{counted} (taken: {DEFAULT_PROCESSES_PER_NODE} processes each)"

    @property
    def run_seconds(self) -> float | None:
        seconds = self.row["run_seconds"]
        return float(seconds) if seconds is not None and seconds > 0 else None

    def count(self, name: str) -> int:
        """A count of the run, 0 where it is not known."""
        return int(self.row[name] or 0)

    @property
    def io_ranks(self) -> int:
        return max(1, self.count("io_rank_count"))

    @property
    def moved_bytes(self) -> int:
        return int(self.row["read_bytes"]) + int(self.row["write_bytes"])

    @cached_property
    def ceiling_bytes_per_s(self) -> float:
        """The most that the run could move: the file system's peak, the links of its nodes, or a stated default."""
        peak = peak_of(self.row["main_mount"], self.facility) or DEFAULT_CEILING_BYTES_PER_S
        limit = self.facility.node_limit_bytes_per_s
        return min(peak, limit * self.nodes) if limit is not None else peak

    @cached_property
    def target_bytes_per_s(self) -> float:
        """What one storage target can do: the facility file's word, else a stated default."""
        mount = self.row["main_mount"]
        system = self.facility.filesystem_of_path(mount) if mount else None
        limit = system.component_limit_bytes_per_s if system is not None else None
        return limit or DEFAULT_TARGET_BYTES_PER_S

    @cached_property
    def known_targets(self) -> float:
        """Targets of the Lustre file system, where the log or the lake says; else no bound."""
        lustre = self.log.records("LUSTRE") if self.log else None
        targets = self.target_count or 0
        if lustre is not None and len(lustre) and "LUSTRE_OSTS" in (lustre.dtype.names or ()):
            targets = int(lustre["LUSTRE_OSTS"].max())
        return float(targets) if targets > 0 else math.inf

    @cached_property
    def layout_bytes_per_s(self) -> float:
        """What the targets of the run's files can do, where all that moved data have their stripes in the log."""
        rows = self.counted & self.moved_rows
        stripes = np.zeros(self.records.files)
        np.maximum.at(stripes, self.records.file[rows], self.ints("stripe_count")[rows].astype(np.float64))
        stripes = stripes[np.unique(self.records.file[rows])]
        if not len(stripes) or not (stripes > 0).all():
            return math.inf
        return min(float(stripes.sum()), self.known_targets) * self.target_bytes_per_s

    # --- columns, in the order of the records

    def ints(self, name: str) -> Ints:
        if name not in self._ints:
            self._ints[name] = self.records.ints(name)
        return self._ints[name]

    def seconds(self, name: str) -> Floats:
        if name not in self._seconds:
            self._seconds[name] = self.records.seconds(name)
        return self._seconds[name]

    # Rules ask for the same columns again and again.
    @cached_property
    def _ints(self) -> dict[str, Ints]:
        return {}

    @cached_property
    def _seconds(self) -> dict[str, Floats]:
        return {}

    @cached_property
    def below(self) -> Bools:
        """POSIX rows that MPI-IO made of the program's calls."""
        return self.records.posix & ~self.counted

    @cached_property
    def at_storage(self) -> Bools:
        """Rows as they reach the file system: POSIX, and MPI-IO where nothing below it was recorded. Streams have a
        buffer of their own and count where they are called."""
        has_posix = self.records.per_file(self.records.posix.astype(np.int64)) > 0
        return self.records.posix | (self.counted & self.records.mpiio & ~has_posix[self.records.file])

    def files_moved(self, rows: Bools) -> int:
        return len(np.unique(self.records.file[rows]))

    @cached_property
    def counted(self) -> Bools:
        return self.records.counted

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
        """MPI-IO rows with at least half of their operations collective: MPI-IO joins those itself."""
        collective = self.ints("collective_read_count") + self.ints("collective_write_count")
        return self.records.mpiio & (2 * collective >= self.operations) & (collective > 0)

    @cached_property
    def first_opens(self) -> Ints:
        """Opens that a row needs: one by each of its processes."""
        return np.where(self.records.rank < 0, self.nprocs, 1)

    def small_count(self, verb: Verb) -> Ints:
        """Requests under 1 MiB. Darshan's bin from 100 KiB holds 1 MiB itself: its common sizes tell those apart."""
        bins = READ_BINS if verb == "read" else WRITE_BINS
        small: Ints = np.sum([self.ints(name) for name in bins[:_SMALL_BINS]], axis=0)
        last = self.ints(bins[_SMALL_BINS - 1])
        both = self.ints(READ_BINS[_SMALL_BINS - 1]) + self.ints(WRITE_BINS[_SMALL_BINS - 1])
        sizes = [(self.ints(f"access{i}_bytes"), self.ints(f"access{i}_count")) for i in range(1, 5)]
        exact: Ints = np.sum([np.where(size == LARGE_BYTES, count, 0) for size, count in sizes], axis=0)
        mine = exact * ratio(last, both)
        return np.clip(small - np.ceil(mine).astype(np.int64), 0, self.ints(f"{verb}_count"))

    def small_bytes(self, verb: Verb) -> Floats:
        """Bytes of those requests: all of a row where all are small, else by the middles of the bins."""
        bins, moved = READ_BINS if verb == "read" else WRITE_BINS, self.ints(f"{verb}_bytes").astype(np.float64)
        guess: Floats = np.sum(
            [self.ints(name) * float(middle) for name, middle in zip(bins, _BIN_MIDDLE_BYTES, strict=False)], axis=0
        )
        every = self.small_count(verb) >= self.ints(f"{verb}_count")
        return np.where(every, moved, np.minimum(guess, moved))

    # --- rates

    def process_rate(self, verb: Verb) -> tuple[float, str]:
        """Bytes per second of one process with large requests, and where that is from."""
        moved, spent = self.ints(f"{verb}_bytes"), self.seconds(f"{verb}_seconds")
        # Time of collective calls is waiting for others too.
        large = (
            self.counted
            & ~self.collective
            & (moved >= LARGE_BYTES * np.maximum(self.ints(f"{verb}_count"), 1))
            & (spent > 0)
        )
        if float(moved[large].sum(dtype=np.float64)) >= _ENOUGH_BYTES:
            own = float(moved[large].sum(dtype=np.float64) / spent[large].sum())
            return own, "this run's own large requests"
        return min(DEFAULT_PROCESS_BYTES_PER_S, self.ceiling_bytes_per_s / self.io_ranks), "a stated default"

    def request_overhead(self, verb: Verb) -> Floats:
        """Seconds of a request beyond moving its bytes: (T - B / R) / n, of each row; R is `process_rate`. A write that
        took microseconds went to memory: how much of that is the kernel holding back a process that writes faster than
        the device, no counter says. Only the system call itself is then sure to be saved."""
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
        """Darshan counts a sync as writing. What a process wrote longer than from its first write to its last went to
        syncs that came after: they bring the bytes to the device, in whatever requests these were written."""
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
        """D; None where the log has no times."""
        value = self.row["io_seconds"]
        return float(value) if value is not None and math.isfinite(value) and value > 0 else None

    @cached_property
    def shared_seconds(self) -> Floats:
        """What each record of rank -1 adds to D_S. Where spans stand for it, by its part of all time on such files."""
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
        """Savings on rows below MPI-IO as savings on the MPI-IO rows of the same files: the same share of their data
        time. MPI-IO waits for its slowest process, so its sums are no measure of the calls below."""
        data = self.data_seconds
        spent, gone = (self.records.per_file(part, self.below) for part in (data, np.minimum(saved, data)))
        share = ratio(gone, spent)[self.records.file]
        return np.where(self.below, 0.0, np.where(self.counted & self.records.mpiio, data * share, saved))

    def saving(self, saved: Floats) -> float:
        """Wall-clock seconds if the counted rows took `saved` fewer seconds, all their processes together."""
        saved = np.clip(np.where(self.counted, np.nan_to_num(saved), 0.0), 0.0, self.spent)
        alone = self.counted & (self.records.rank >= 0)
        before = self._slowest(self.spent, alone)
        after = self._slowest(self.spent - saved, alone)
        return before - after + float((self.shared_seconds * ratio(saved, self.spent)).sum())

    def rank_sums(self, amounts: Floats) -> Floats:
        """Of each process that used files of its own, on these."""
        alone = self.counted & (self.records.rank >= 0)
        ranks, place = np.unique(self.records.rank[alone], return_inverse=True)
        return np.asarray(sums(amounts[alone], place, len(ranks)), np.float64)

    def _slowest(self, spent: Floats, rows: Bools) -> float:
        _, place = np.unique(self.records.rank[rows], return_inverse=True)
        return float(np.bincount(place, weights=spent[rows]).max(initial=0.0))

    @property
    def most_seconds(self) -> float:
        """No change saves more: what the I/O took, or the run."""
        return min(self.io_seconds or 0.0, self.run_seconds or math.inf)

    def bounded(self, seconds: float) -> float:
        return min(max(seconds, 0.0), self.most_seconds) if math.isfinite(seconds) else 0.0


def ratio(part: NDArray[Any], whole: NDArray[Any]) -> Floats:
    """0 where there is no whole."""
    result = np.zeros(len(part))
    np.divide(part, whole, out=result, where=whole > 0)
    return result


def profile_of(view: JobView, run: int) -> Profile:
    """Of the job's runs the one in row `run`."""
    application, files, job_io = view.applications, view.files, view.job_io
    if view.logs > 1:
        application, job_io = application.take([run]), job_io.take([run])
        files = files.take(files.text("log_digest").equals(str(application.text("log_digest").tolist()[0])))
    mounts, command = (application.text(name).tolist()[0] or "" for name in ("mounts", "exe"))
    records, known = file_records(application, files), json.loads(mounts or "{}")
    run_facts = (job_io.records()[0], view.facility, view.node_count(run), view.log, view.target_count)
    return Profile(records, *run_facts, known, command, view.separate)


# Rules of one part look at the same seconds; see `advise.together`.
Part: TypeAlias = Literal["requests", "metadata", "ranks", "layout", "overlap"]
# What a pattern is about, as the public labelled logs divide them (TraceBench, IPDPS 2025).
Dimension: TypeAlias = Literal["small_or_misaligned", "interface", "random", "imbalance", "shared_file", "metadata"]


@dataclass(frozen=True)
class Advice:
    """One pattern that was seen. `model_seconds` is what the rule's model says of the run's wall-clock I/O time, if
    this alone were changed and all else stayed. `promise` is what such models have kept: seconds with a 90% interval.
    `model` says in one sentence how it was reckoned, `fix_lines` what to type."""

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

    @property
    def seconds(self) -> float:
        return self.promise.seconds

    @property
    def most_seconds(self) -> float:
        """What decides whether it is worth saying: the promise, or what the model says of a change never tried."""
        return self.promise.seconds if self.promise.tried else self.promise.high


@dataclass(frozen=True)
class Seen:
    """What the function of a rule returns: the pattern is there, and this is what it costs."""

    evidence: str
    seconds_lost: float
    fix_lines: tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """`look` returns None where the pattern is not there. `trigger` says, for the documentation, when it is; `sources`
    who found it before us. `before` and `after` are the program's lines."""

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

    def advice(self, profile: Profile) -> Advice | None:
        seen = self.look(profile)
        if seen is None:
            return None
        seconds = profile.bounded(seen.seconds_lost)
        promise = promised(self.name, self.part, seconds, profile.most_seconds)
        same = (self.name, self.headline, self.dimension, self.part)
        return Advice(*same, seen.evidence, seconds, promise, self.model, seen.fix_lines)

"""Programs of users, and their jobs and runs, played through the fluid model with the work outside the scheduler."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ioweather.core.frames import Floats
from ioweather.core.units import KIB
from ioweather.simulate.fluid import (
    Calendar,
    Flow,
    FlowKind,
    Fluid,
    Meter,
    Pattern,
    Readings,
    Resources,
    data_demand,
    make_calendar,
    make_incidents,
    make_resources,
    meta_demand,
    operations_mix,
    state_at,
    stream,
)
from ioweather.simulate.presets import Preset

CHANGES = ("smaller_requests", "more_files", "one_rank")

# A log has at most this many records of one run; real ones have a limit of their kind too.
MOST_FILES = 2048
# Requests of this size reach half of what a client can do.
_HALF_SPEED_BYTES = 256 * KIB
_RANDOM_PENALTY = 0.15
_OPS_PER_PROCESS = 150.0
_SHARE_OF_MDS = 0.6
_FIRST_UID = 1001


@dataclass(frozen=True)
class Program:
    """A program that one user runs repeatedly; its runs differ only in time, placement and duration.

    In every step of a run `io_ranks` ranks open `files_per_rank` files each (shared: all ranks the same files) and move
    `rank_bytes` each in requests of `request_bytes`.
    """

    name: str
    kind: str
    uid: int
    user: str
    account: str
    exe: str
    nprocs: int
    nodes: int
    layout: str  # shared, unique, none
    interface: str  # POSIX, MPI-IO, HDF5
    reads: bool
    random: bool
    io_ranks: int
    files_per_rank: int
    request_bytes: int
    stripe_count: int
    steps: int
    compute_seconds: float
    instances: int
    cached_ratio: float
    extra_ops_per_file: float
    popularity: float
    rank_bytes: int = 0
    step_seconds: float = 0.0  # about what one step takes when alone
    ops_per_s: float = 0.0  # metadata operations it can issue
    change: str | None = None

    @property
    def file_count(self) -> int:
        """Files of a run: a shared file is created in every step, others are opened again."""
        if self.layout == "none":
            return 0
        return self.files_per_rank * (self.steps if self.layout == "shared" else self.io_ranks)

    @property
    def step_bytes(self) -> int:
        """Bytes that a step moves."""
        return self.rank_bytes * self.io_ranks if self.layout != "none" else 0

    @property
    def step_operations(self) -> float:
        """Metadata operations of one step: every rank opens and closes; some stat first."""
        if self.layout == "none":
            return 0.0
        return self._opening_ranks * self.files_per_rank * (2.0 + self.extra_ops_per_file)

    @property
    def _opening_ranks(self) -> int:
        return self.nprocs if self.layout == "shared" and self.io_ranks > 1 else self.io_ranks

    def client_bytes_per_s(self, node_bytes_per_s: float) -> float:
        """Return what its clients could move if the file system were infinitely fast."""
        clients = max(1.0, min(self.nodes, self.io_ranks))
        efficiency = self.request_bytes / (self.request_bytes + _HALF_SPEED_BYTES)
        return clients * node_bytes_per_s * efficiency * (_RANDOM_PENALTY if self.random else 1.0)

    def client_ops_per_s(self, mds_ops_per_s: float) -> float:
        """Return the metadata operations that its ranks can issue; no run demands the whole server."""
        return min(self._opening_ranks * _OPS_PER_PROCESS, _SHARE_OF_MDS * mds_ops_per_s)

    def changed(self, change: str, times_smaller: int = 64) -> Program:
        """Return the program with the same bytes in a slower pattern."""
        if change == "smaller_requests":
            return replace(self, change=change, request_bytes=max(4 * KIB, self.request_bytes // times_smaller))
        if change == "more_files":
            times = max(2, min(16, MOST_FILES // max(1, self.file_count)))
            more = replace(self, change=change, files_per_rank=self.files_per_rank * times)
            # Locks and lookups of so many files take about as long as the data did.
            opens = more.step_operations / (2.0 + more.extra_ops_per_file)
            extra = more.extra_ops_per_file + self.step_seconds * self.ops_per_s / opens
            return replace(more, extra_ops_per_file=extra)
        files = self.files_per_rank if self.layout == "shared" else self.files_per_rank * self.io_ranks
        return replace(self, change=change, io_ranks=1, files_per_rank=files, rank_bytes=self.step_bytes)


# Programs by class, in the order in which a facility gets them. Of several values one is drawn; processes are a power
# of two in a range. Requests are in KiB, `operations` are metadata operations per file beyond open and close.
_DRAWN = ("nprocs", "files_per_rank", "request_bytes", "stripe_count", "steps", "extra_ops_per_file")
_CLASSES = """
class                  | processes    | files | request         | stripes   | steps | operations | traits
checkpoint_shared      | 64 largest   | 1     | 1024 4096 16384 | 4 8 16 -1 | 2 3 4 | 1          | shared collective
analysis               | 8 256        | 1 2 4 | 64 256 1024     | 1         | 1 2   | 1          | reads
checkpoint_per_process | 16 1024      | 1     | 1024 4096       | 1         | 2 3   | 1          |
shared_input           | 128 quarter  | 1     | 1024 4096       | 4 8 -1    | 1 2   | 1          | shared reads
training               | 4 64         | 8 16  | 128 256         | 1         | 3 5   | 6          | reads random cached
aggregated             | 256 largest  | 1     | 4096            | 1 4       | 2 3   | 1          | aggregated
rank_zero              | 16 4096      | 1     | 64 1024         | 1         | 2 4   | 1          | one_rank
metadata_storm         | 16 128       | 1     | 16              | 1         | 1     | 800 2000   | many_files
small_random           | 8 512        | 1     | 4 8 16          | 1 4       | 1     | 1          | shared reads random
idle                   | 1 1024       | 1     | 1               | 1         | 1     | 1          | idle
"""
_ROWS = [[cell.strip() for cell in line.split("|")] for line in _CLASSES.strip().splitlines()[1:]]
KINDS = tuple(row[0] for row in _ROWS)
# Part of the usual I/O time; 1 for other classes.
_IO_SHARES = {"metadata_storm": 0.05, "idle": 0.0}


def _draw_fields(kind: str, rng: np.random.Generator, preset: Preset) -> dict[str, Any]:
    """Draw the fields of a program that depend on its class."""
    largest = preset.largest_processes
    named = {"largest": largest, "quarter": max(256, largest // 4)}
    _, *cells, traits = _ROWS[KINDS.index(kind)]
    drawn: dict[str, Any] = {}
    for name, cell in zip(_DRAWN, cells, strict=True):
        values = [named.get(word) or int(word) for word in cell.split()]
        if name == "nprocs":
            low, high = (int(np.log2(value)) for value in values)
            drawn[name] = int(2 ** rng.integers(low, high + 1))
        else:
            drawn[name] = int(rng.choice(values)) if len(values) > 1 else values[0]
    nprocs = drawn["nprocs"]
    drawn["request_bytes"] *= KIB
    io_ranks = {"one_rank": 1, "idle": 0, "aggregated": max(4, min(512, nprocs // 64))}.get(traits, nprocs)
    if traits == "many_files":
        drawn["files_per_rank"] = min(64, MOST_FILES // nprocs)
    return {
        **drawn,
        "io_ranks": io_ranks,
        "layout": "none" if traits == "idle" else "shared" if "shared" in traits else "unique",
        "interface": "MPI-IO" if "collective" in traits else "POSIX",
        "reads": "reads" in traits,
        "random": "random" in traits,
        "cached_ratio": 0.4 if "cached" in traits else 0.0,
    }


_PROJECTS = ("climate", "fusion", "genomics", "combustion", "cosmology", "materials", "nuclear", "hydrology")


def make_programs(preset: Preset, seed: int) -> tuple[Program, ...]:
    """Return the programs: all classes in turn, so that a small facility has each; the first ones run most often."""
    rng = stream(seed, "programs")
    return tuple(_draw_program(number, rng, preset, seed) for number in range(preset.applications))


def _draw_program(number: int, rng: np.random.Generator, preset: Preset, seed: int) -> Program:
    """Draw a program of a class, with bytes for about its I/O time when alone: whole requests of each rank."""
    kind = KINDS[number % len(KINDS)]
    drawn = _draw_fields(kind, rng, preset)
    nprocs = drawn["nprocs"] = min(drawn["nprocs"], preset.nodes * preset.cores)
    drawn["io_ranks"] = min(drawn["io_ranks"], nprocs)
    if not 0 <= drawn["stripe_count"] <= preset.osts:
        drawn["stripe_count"] = preset.osts
    uid = _FIRST_UID + int(rng.integers(0, max(4, preset.applications // 2)))
    project = uid % min(preset.projects, max(4, preset.applications // 3))
    account = _PROJECTS[project] if project < len(_PROJECTS) else f"project{project:02d}"
    drawn["compute_seconds"] = float(rng.lognormal(np.log(900), 0.7))
    drawn["instances"] = int(rng.choice([1, 1, 2, 3]))
    if drawn["interface"] == "MPI-IO" and stream(seed, "hdf5", number).random() < preset.hdf5_ratio:
        drawn["interface"] = "HDF5"
    program = Program(
        name=f"{kind}-{number:03d}",
        kind=kind,
        uid=uid,
        user=f"user{uid - 1000:03d}",
        account=account,
        exe=f"/sw/{account}/bin/{kind}{number:03d} --input run.in",
        nodes=max(1, -(-nprocs // preset.cores)),
        popularity=1.0 / (1 + number % 10 + number // 10) ** 0.7,
        **drawn,
    )
    io_seconds = _IO_SHARES.get(kind, 1.0) * float(rng.lognormal(np.log(preset.typical_io_seconds), 0.5))
    if program.layout == "none":
        return program
    speed = min(program.client_bytes_per_s(preset.node_bytes_per_s), useful_bytes_per_s(program, preset))
    requests = max(1, round(speed * io_seconds / program.steps / program.io_ranks / program.request_bytes))
    # Every file of a rank gets the same number of requests.
    requests = -(-requests // program.files_per_rank) * program.files_per_rank
    program = replace(program, rank_bytes=requests * program.request_bytes)
    ops_per_s = program.client_ops_per_s(preset.mds_ops_per_s)
    return replace(program, step_seconds=program.step_bytes / speed, ops_per_s=ops_per_s)


def useful_bytes_per_s(program: Program, preset: Preset) -> float:
    """Return what its targets can give to one run: clients use 70% of them."""
    targets = program.stripe_count if program.layout == "shared" else program.stripe_count * program.io_ranks
    return 0.7 * min(preset.osts, max(1, targets)) * preset.ost_bytes_per_s


DAY_SECONDS = 86400
_SHARE_OF_NETWORK = 0.7
_LEAST_SECONDS = 1e-3
# A change of its own pattern slows a run by a factor between these.
_FELT, _MOST = 1.5, 12.0
# Range of the logarithm of the factor by which a hidden cause stretches a run.
_HIDDEN = (0.25, 1.4)
# Relative rate of submissions by hour; fewer at weekends.
_HOURLY = np.array([2, 1, 1, 1, 1, 1, 2, 4, 7, 9, 10, 10, 9, 10, 10, 10, 9, 8, 6, 5, 4, 3, 3, 2], np.float64)
_WEEKEND = 0.4
# A fifth of what is opened is never closed at the metadata server (pat19.fig13).
_MIX_OPEN = operations_mix(open=0.4, close=0.32, getattr=0.26, statfs=0.02)
_MIX_CREATE = operations_mix(open=0.38, close=0.3, mknod=0.16, getattr=0.12, setattr=0.04)
_MIX_STORM = operations_mix(open=0.28, close=0.22, mknod=0.12, unlink=0.1, getattr=0.28)


@dataclass(eq=False)
class Job:
    """An allocation; `start` and `end` are known when it has run."""

    number: int
    program: Program
    submit: float
    instances: int
    darshan: bool
    start: float | None = None
    end: float | None = None
    first_node: int = 0


class Phase(NamedTuple):
    """One I/O phase that happened."""

    step: int
    name: str
    flow: Flow


@dataclass(eq=False)
class Run:
    """One instance of a program. `program` is what its log shows, `usual` the normal pattern, `felt` the pattern of its
    I/O, which is `usual` for a harmless change. Its own nodes stretch it by `noise` and `hidden`, invisible to servers.
    `size` is the growth of the program."""

    id: str
    job: Job
    instance: int
    program: Program
    usual: Program
    shares: Floats
    start: float
    compute_seconds: list[float]
    felt: Program
    noise: float = 1.0
    hidden: float = 1.0
    size: float = 1.0
    phases: list[Phase] = field(default_factory=list)
    end: float = 0.0

    @property
    def io_seconds(self) -> float:
        """Seconds in I/O phases."""
        return sum(phase.flow.seconds for phase in self.phases)

    @property
    def cached_bytes(self) -> int:
        """Bytes read from the clients' caches."""
        return round(sum(_count_cached_bytes(self.usual, step) for step in range(self.usual.steps)))


def _count_cached_bytes(program: Program, step: int) -> float:
    """Return the bytes of a step that the clients' caches answer."""
    return program.step_bytes * (program.cached_ratio if step and program.reads else 0.0)


def make_jobs(preset: Preset, programs: tuple[Program, ...], calendar: Calendar, seed: int) -> list[Job]:
    """Return all jobs of the period by submit time."""
    rng = stream(seed, "jobs")
    rates = np.concatenate([_HOURLY * (_WEEKEND if calendar.weekday(day) >= 5 else 1.0) for day in range(preset.days)])
    hours = rng.choice(len(rates), size=preset.jobs, p=rates / rates.sum())
    times = np.sort((hours + rng.random(preset.jobs)) * 3600.0)
    # No job is submitted after the end of the period.
    times = np.minimum(times, preset.days * 86400.0 - 1.0)
    reading = np.array([program.reads for program in programs])
    popularity = np.array([program.popularity for program in programs])
    popularity *= np.where(reading, preset.read_share, 1.0 - preset.read_share)
    chosen = rng.choice(len(programs), size=preset.jobs, p=popularity / popularity.sum())
    if preset.leader_ratio:
        # The program that reads most; its project has few others.
        amounts = [program.step_bytes * program.steps * program.reads for program in programs]
        led = rng.random(preset.jobs) < preset.leader_ratio
        chosen[led & (times < preset.leader_days * preset.days * DAY_SECONDS)] = np.argmax(popularity * amounts)
    instrumented = rng.random(preset.jobs) >= preset.without_darshan_ratio
    return [
        Job(preset.first_job + number, programs[which], float(times[number]), programs[which].instances, bool(has))
        for number, (which, has) in enumerate(zip(chosen.tolist(), instrumented.tolist(), strict=True))
    ]


def make_run(job: Job, instance: int, now: float, preset: Preset, resources: Resources, seed: int) -> Run:
    """Return a run; its draws depend on its job and instance only."""
    rng, hard = stream(seed, "run", job.number, instance), stream(seed, "hard", job.number, instance)
    usual = job.program
    shares = _draw_placement(usual, resources, rng)
    has_io = usual.layout != "none"
    # Every second program grows over the period.
    if preset.growth_ratio and has_io and stream(seed, "growth", usual.name).random() >= 0.5:
        ratio = 1.0 + preset.growth_ratio * now / (preset.days * 86400.0)
        unit = usual.request_bytes * usual.files_per_rank  # every file of a rank gets as many of the same requests
        usual = replace(usual, rank_bytes=max(1, round(ratio * usual.rank_bytes / unit)) * unit)
    program = usual
    times_smaller = int(hard.choice([4, 16, 64])) if preset.mild_changes else 64
    if has_io and rng.random() < preset.own_change_ratio:
        program = _with_slowing_change(usual, times_smaller, shares, rng, preset, resources)
    step_seconds = job.program.compute_seconds / job.program.steps
    compute = (step_seconds * rng.lognormal(0.0, 0.1, job.program.steps)).tolist()
    felt = program
    if program is usual and has_io and hard.random() < preset.harmless_change_ratio:
        program = usual.changed("smaller_requests" if hard.random() < 0.5 else "more_files", 4)
    noise = float(np.exp(preset.noise_sd * hard.standard_normal()))
    hidden = float(np.exp(hard.uniform(*_HIDDEN))) if hard.random() < preset.hidden_ratio else 1.0
    size = usual.rank_bytes / max(1, job.program.rank_bytes)
    name = f"{job.number}.{instance}"
    return Run(name, job, instance, program, usual, shares, now, compute, felt, noise, hidden, size)


def _with_slowing_change(
    usual: Program, times_smaller: int, shares: Floats, rng: np.random.Generator, preset: Preset, resources: Resources
) -> Program:
    """Return the program with the first change, from a drawn one on, that slows it down as much as the preset wants;
    the program itself if none does."""

    def io_seconds(program: Program) -> float:
        patterns = [pattern_of(program, phase, shares, 0, preset, resources) for phase in ("data", "meta")]
        return sum(pattern.seconds for pattern in patterns)

    first, least = int(rng.integers(len(CHANGES))), 1.0 if preset.mild_changes else _FELT
    for change in (*CHANGES[first:], *CHANGES[:first]):
        changed = usual.changed(change, times_smaller)
        is_possible = change != "one_rank" or usual.io_ranks > 1
        if is_possible and least < io_seconds(changed) / io_seconds(usual) < _MOST:
            return changed
    return usual


def _draw_placement(program: Program, resources: Resources, rng: np.random.Generator) -> Floats:
    """Return the share of the bytes on each target."""
    if program.layout == "none":
        return np.zeros(resources.osts)
    likely = resources.popularity if program.reads else resources.placement
    if program.layout == "shared":
        return _draw_stripes(program.stripe_count, likely, rng)
    objects = max(1, program.io_ranks * program.files_per_rank * program.stripe_count)
    # Counts of many objects are close to their expectation; drawing each would only cost time.
    counts = rng.multinomial(min(objects, 1 << 20), likely)
    return np.asarray(counts / counts.sum())


def _draw_stripes(width: int, likely: Floats, rng: np.random.Generator) -> Floats:
    """Return equal shares on `width` targets, which are drawn by their chances."""
    shares = np.zeros(len(likely))
    shares[rng.choice(len(likely), size=width, replace=False, p=likely)] = 1.0 / width
    return shares


def pattern_of(
    program: Program, phase: str, shares: Floats, step: int, preset: Preset, resources: Resources
) -> Pattern:
    """Return what a program demands in the data or the metadata phase of a step, at its own pace."""
    if phase == "meta":
        speed = program.client_ops_per_s(preset.mds_ops_per_s)
        return Pattern(meta_demand(resources, speed), max(program.step_operations / speed, _LEAST_SECONDS))
    speed = min(
        program.client_bytes_per_s(preset.node_bytes_per_s),
        useful_bytes_per_s(program, preset),
        _SHARE_OF_NETWORK * float(resources.capacity[resources.network]),
    )
    amount = program.step_bytes - _count_cached_bytes(program, step)
    return Pattern(data_demand(resources, shares, speed), max(amount / speed, _LEAST_SECONDS))


def phase_flow(run: Run, step: int, phase: str, preset: Preset, resources: Resources) -> Flow:
    """Return the data or the metadata phase of a step; with the usual pattern if the run's change affects it. Slower
    nodes move the same bytes in more time."""
    slower = run.noise * run.hidden
    found = [pattern_of(each, phase, run.shares, step, preset, resources) for each in (run.felt, run.usual)]
    pattern, usual = (Pattern(each.demand / slower, each.seconds * slower) for each in found)
    same = usual.seconds == pattern.seconds and np.array_equal(usual.demand, pattern.demand)
    normal = None if same else usual
    if phase == "meta":
        mix = _MIX_STORM if run.usual.kind == "metadata_storm" else _MIX_OPEN if run.usual.reads else _MIX_CREATE
        return Flow("meta", pattern, mix=mix, normal=normal, owner=run)
    return Flow("read" if run.usual.reads else "write", pattern, run.program.request_bytes, normal=normal, owner=run)


# Servers know work outside the scheduler by program and user.
_FIRST_SYSTEM_UID = 60_000


def make_system_flows(
    preset: Preset, resources: Resources, calendar: Calendar, seed: int
) -> list[tuple[float, list[Flow]]]:
    """Return work outside the scheduler by its start: a scan at 2 am for half an hour, a backup in the night to Sunday,
    and transfers at any time."""
    peak = float(resources.capacity[: resources.osts].sum())
    network = float(resources.capacity[resources.network])

    def read(share_of_peak: float, share_of_network: float, seconds: float, owner: str) -> Flow:
        speed = preset.system_load * min(share_of_peak * peak, share_of_network * network)
        return Flow("read", Pattern(data_demand(resources, 1.0 / resources.osts, speed), seconds), owner=owner)

    found: list[tuple[float, list[Flow]]] = []
    for day in range(preset.days):
        midnight, look = day * float(DAY_SECONDS), operations_mix(getattr=0.9, statfs=0.1)
        stats = Pattern(meta_demand(resources, 0.4 * preset.mds_ops_per_s), 1800.0)
        scan = [read(0.25, 0.4, 1500.0, "robinhood.0"), Flow("meta", stats, mix=look, owner="robinhood.0")]
        found.append((midnight + 2.0 * 3600.0, scan))
        if calendar.weekday(day) == 6:
            found.append((midnight + 0.5 * 3600.0, [read(0.15, 0.25, 4 * 3600.0, "tar.0")]))
    length = preset.days * float(DAY_SECONDS)
    rng = stream(seed, "transfers")
    for _ in range(rng.poisson(preset.transfers_per_day * preset.days)):
        # Over the data transfer nodes: from a tenth to all of what some targets can do.
        start = float(rng.uniform(0, length))
        width = min(resources.osts, int(2 ** rng.integers(0, int(np.log2(resources.osts)) + 1)))
        kind: FlowKind = "read" if rng.random() < preset.read_share else "write"
        shares = _draw_stripes(width, resources.popularity if kind == "read" else resources.placement, rng)
        speed = preset.system_load * float(rng.uniform(0.1, 1.5)) * width * preset.ost_bytes_per_s
        pattern = Pattern(
            data_demand(resources, shares, min(speed, 0.5 * network)), float(rng.lognormal(np.log(900.0), 0.8))
        )
        ratio = float(rng.lognormal(0.0, preset.traffic_sd)) if preset.traffic_sd else 1.0
        owner = f"rsync.{_FIRST_SYSTEM_UID + len(found)}"
        found.append((start, [Flow(kind, pattern, owner=owner, moved_ratio=ratio)]))
    return sorted((each for each in found if each[0] < length), key=lambda each: each[0])


IO500_NAME = "io500"
# phase, kind, share of all targets or of the metadata server that it asks for, seconds at full speed
BENCHMARK_PHASES = (
    ("ior-easy-write", "write", 1.6, 300.0),
    ("mdtest-easy-write", "create", 1.8, 240.0),
    ("ior-hard-write", "write", 0.9, 240.0),
    ("mdtest-hard-write", "create", 2.5, 240.0),
    ("ior-easy-read", "read", 1.6, 200.0),
    ("mdtest-easy-stat", "stat", 1.5, 120.0),
    ("ior-hard-read", "read", 1.0, 200.0),
    ("mdtest-hard-stat", "stat", 2.0, 120.0),
    ("mdtest-easy-delete", "delete", 1.5, 120.0),
)
_MIXES = {
    "create": operations_mix(open=0.4, close=0.3, mknod=0.3),
    "stat": operations_mix(getattr=1.0),
    "delete": operations_mix(unlink=0.9, getattr=0.1),
}


def benchmark_flow(place: int, resources: Resources) -> Flow:
    """Return the flow of a phase of an IO500-like benchmark."""
    _, kind, share, seconds = BENCHMARK_PHASES[place]
    if kind in _MIXES:
        demand = meta_demand(resources, share * float(resources.capacity[resources.mds]))
        return Flow("meta", Pattern(demand, seconds), mix=_MIXES[kind], owner=IO500_NAME)
    speed = share * float(resources.capacity[: resources.osts].sum())
    pattern = Pattern(data_demand(resources, 1.0 / resources.osts, speed), seconds)
    return Flow("read" if kind == "read" else "write", pattern, owner=IO500_NAME)


DETAIL_STEP_SECONDS = 5


@dataclass(eq=False)
class Window:
    """Readings of one day, and the runs and jobs that ended in it."""

    readings: Readings
    runs: list[Run] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)


class World:
    """The facility in motion; `windows()` runs it from start to end, once."""

    def __init__(self, preset: Preset, seed: int) -> None:
        self.preset, self.seed = preset, seed
        self.calendar = make_calendar(preset)
        self.resources = make_resources(preset, seed)
        self.programs = make_programs(preset, seed)
        self.incidents = make_incidents(preset, self.resources, self.calendar, seed)
        self.benchmark: list[Flow] = []  # phases of a benchmark on a morning in the middle of the period
        self.meter = Meter(self.resources)
        self.fluid = Fluid(self.resources, self.meter, closed_loop=preset.closed_loop)
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._waiting: list[Job] = []
        self._running: dict[int, Job] = {}
        self._free_nodes = preset.nodes
        self._next_node = 0
        self._ended_runs: list[Run] = []
        self._ended_jobs: list[Job] = []
        # All that is known beforehand: jobs, work outside the scheduler, incidents and the benchmark.
        for job in make_jobs(preset, self.programs, self.calendar, seed):
            self._schedule(job.submit, self._start_what_fits, job)
        for start, flows in make_system_flows(preset, self.resources, self.calendar, seed):
            for flow in flows:
                self._schedule(start, self.fluid.add, flow)
        for moment in sorted({t for each in self.incidents for t in (each.start, each.taken_over, each.end)}):
            self._schedule(moment, self._disturb)
        if preset.probe_hosts:  # without probes nothing measures the effect of the benchmark
            self._schedule((preset.days // 2) * DAY_SECONDS + 9.5 * 3600.0, self._next_benchmark_phase)

    def _schedule(self, moment: float, action: Callable[..., None], *arguments: Any) -> None:
        """Call an action at a time of the model."""
        heapq.heappush(self._events, (moment, next(self._order), action, arguments))

    def _disturb(self) -> None:
        """Apply the incidents of this moment."""
        self.fluid.disturb(*state_at(self.incidents, self.fluid.now, self.resources))

    def windows(self) -> Iterator[Window]:
        """Run the model; yield its days."""
        for day in range(self.preset.days):
            step = DETAIL_STEP_SECONDS if day == self.preset.detail_day else self.preset.step_seconds
            self.meter.open_day(day, day * DAY_SECONDS, DAY_SECONDS, step)
            self._run_until((day + 1) * DAY_SECONDS)
            window = Window(self.meter.close_day(), self._ended_runs, self._ended_jobs)
            self._ended_runs, self._ended_jobs = [], []
            yield window

    def _run_until(self, end: float) -> None:
        """Let flows end and scheduled events happen, in the order of their times."""
        while True:
            moment = min(end, self._events[0][0] if self._events else end, self.fluid.next_end())
            for flow in self.fluid.advance(moment):
                self._continue_after(flow)
            if moment == end:
                return
            while self._events and self._events[0][0] <= self.fluid.now:
                _, _, action, arguments = heapq.heappop(self._events)
                action(*arguments)

    # Jobs: first come, first served; a job that fits may overtake.

    def _start_what_fits(self, *submitted: Job) -> None:
        """Start the queued and submitted jobs for which there are free nodes."""
        still: list[Job] = []
        for job in (*self._waiting, *submitted):
            if job.program.nodes > self._free_nodes:
                still.append(job)
                continue
            self._free_nodes -= job.program.nodes
            job.start = self.fluid.now
            self._running[job.number] = job
            job.first_node = self._next_node
            self._next_node = (self._next_node + job.program.nodes) % self.preset.nodes
            self._start_run(job, 0)
        self._waiting = still

    def _start_run(self, job: Job, instance: int) -> None:
        """Start a run of a job: first it computes."""
        run = make_run(job, instance, self.fluid.now, self.preset, self.resources, self.seed)
        self._schedule(self.fluid.now + run.compute_seconds[0], self._open_files, run, 0)

    def _open_files(self, run: Run, step: int) -> None:
        """Start the metadata phase of a step of a run."""
        if run.usual.layout == "none":
            self._end_run(run)
            return
        flow = phase_flow(run, step, "meta", self.preset, self.resources)
        run.phases.append(Phase(step, "meta", flow))
        self.fluid.add(flow)

    def _continue_after(self, flow: Flow) -> None:
        """Start what follows a flow: the data of the step, the next step, or the end of the run."""
        run = flow.owner
        if isinstance(run, Run):
            phase = run.phases[-1]
            if phase.name == "meta":
                following = phase_flow(run, phase.step, "data", self.preset, self.resources)
                run.phases.append(Phase(phase.step, following.kind, following))
                self.fluid.add(following)
            elif phase.step + 1 < run.usual.steps:
                step = phase.step + 1
                self._schedule(self.fluid.now + run.compute_seconds[step], self._open_files, run, step)
            else:
                self._end_run(run)
        elif flow.owner == IO500_NAME:
            self._next_benchmark_phase()

    def _end_run(self, run: Run) -> None:
        """End a run; start the next one of its job, or end the job."""
        run.end = self.fluid.now + 0.5
        self._ended_runs.append(run)
        job = run.job
        if run.instance + 1 < job.instances:
            self._schedule(run.end + 1.0, self._start_run, job, run.instance + 1)
        else:
            self._schedule(run.end + 1.0, self._end_job, job)

    def _end_job(self, job: Job) -> None:
        """End a job and free its nodes."""
        job.end = self.fluid.now
        del self._running[job.number]
        self._ended_jobs.append(job)
        self._free_nodes += job.program.nodes
        self._start_what_fits()

    def _next_benchmark_phase(self) -> None:
        """Start the next phase of the benchmark."""
        if len(self.benchmark) < len(BENCHMARK_PHASES):
            self.benchmark.append(benchmark_flow(len(self.benchmark), self.resources))
            self.fluid.add(self.benchmark[-1])

    def open_jobs(self) -> list[Job]:
        """Return the jobs that wait or run at the end of the period."""
        return sorted([*self._waiting, *self._running.values()], key=lambda job: job.number)

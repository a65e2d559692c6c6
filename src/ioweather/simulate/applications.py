"""Applications: classes of I/O behaviour, and programs of users that run again and again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from ioweather.core.units import KIB, MIB
from ioweather.core.words import names_of
from ioweather.simulate.fluid import stream
from ioweather.simulate.presets import Preset

Layout: TypeAlias = Literal["shared", "unique", "none"]
Interface: TypeAlias = Literal["POSIX", "MPI-IO"]
Change: TypeAlias = Literal["smaller_requests", "more_files", "one_rank"]
CHANGES: tuple[Change, ...] = ("smaller_requests", "more_files", "one_rank")

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
    layout: Layout
    interface: Interface
    reads: bool
    random: bool
    io_ranks: int
    files_per_rank: int
    request_bytes: int
    rank_bytes: int
    stripe_count: int
    steps: int
    compute_seconds: float
    instances: int
    cached_ratio: float
    extra_ops_per_file: float
    popularity: float
    step_seconds: float = 0.0  # about what one step takes when alone
    ops_per_s: float = 0.0  # metadata operations it can issue
    change: Change | None = None

    @property
    def file_count(self) -> int:
        """Files of a run: a shared file is created in every step, others are opened again."""
        if self.layout == "none":
            return 0
        return self.files_per_rank * (self.steps if self.layout == "shared" else self.io_ranks)

    @property
    def step_bytes(self) -> int:
        return self.rank_bytes * self.io_ranks if self.layout != "none" else 0

    @property
    def step_operations(self) -> float:
        """Metadata operations of one step: every rank opens and closes; some stat first."""
        opens = self.nprocs * self.files_per_rank if self.layout == "shared" and self.io_ranks > 1 else 0
        opens = opens or self.io_ranks * self.files_per_rank
        return opens * (2.0 + self.extra_ops_per_file) if self.layout != "none" else 0.0

    def client_bytes_per_s(self, node_bytes_per_s: float) -> float:
        """Return what its clients could move if the file system were infinitely fast."""
        clients = max(1.0, min(self.nodes, self.io_ranks))
        efficiency = self.request_bytes / (self.request_bytes + _HALF_SPEED_BYTES)
        return clients * node_bytes_per_s * efficiency * (_RANDOM_PENALTY if self.random else 1.0)

    def client_ops_per_s(self, mds_ops_per_s: float) -> float:
        """Return the metadata operations that its ranks can issue; no run demands the whole server."""
        ranks = self.nprocs if self.layout == "shared" and self.io_ranks > 1 else self.io_ranks
        return min(ranks * _OPS_PER_PROCESS, _SHARE_OF_MDS * mds_ops_per_s)

    def grown(self, ratio: float) -> Program:
        """Return the program with `ratio` times the bytes, in the same requests; every file of a rank gets as many."""
        unit = self.request_bytes * self.files_per_rank
        return replace(self, rank_bytes=max(1, round(ratio * self.rank_bytes / unit)) * unit)

    def changed(self, change: Change, times_smaller: int = 64) -> Program:
        """Return the program with the same bytes in a slower pattern."""
        if change == "smaller_requests":
            return replace(self, change=change, request_bytes=max(4 * KIB, self.request_bytes // times_smaller))
        if change == "more_files":
            times = max(2, min(16, MOST_FILES // max(1, self.file_count)))
            more = replace(self, change=change, files_per_rank=self.files_per_rank * times)
            # Locks and lookups of so many files take about as long as the data did.
            opens = more.step_operations / (2.0 + more.extra_ops_per_file)
            return replace(
                more, extra_ops_per_file=more.extra_ops_per_file + self.step_seconds * self.ops_per_s / opens
            )
        files = self.files_per_rank if self.layout == "shared" else self.files_per_rank * self.io_ranks
        return replace(self, change=change, io_ranks=1, files_per_rank=files, rank_bytes=self.step_bytes)


def _draws_of(kind: str, rng: np.random.Generator, preset: Preset) -> dict[str, object]:
    """Return the fields of a program that depend on its class; `io_share` is of the usual I/O time."""

    def power_of_two(low: int, high: int) -> int:
        return int(2 ** rng.integers(int(np.log2(low)), int(np.log2(high)) + 1))

    def one_of(*values: int) -> int:
        return int(rng.choice(values))

    largest = preset.largest_processes
    if kind == "checkpoint_shared":
        return {
            "nprocs": power_of_two(64, largest),
            "layout": "shared",
            "interface": "MPI-IO",
            "request_bytes": one_of(1, 4, 16) * MIB,
            "stripe_count": one_of(4, 8, 16, -1),
            "steps": one_of(2, 3, 4),
        }
    if kind == "checkpoint_per_process":
        return {"nprocs": power_of_two(16, 1024), "request_bytes": one_of(1, 4) * MIB, "steps": one_of(2, 3)}
    if kind == "analysis":
        made: dict[str, object] = {"nprocs": power_of_two(8, 256), "reads": True, "files_per_rank": one_of(1, 2, 4)}
        return {**made, "request_bytes": one_of(64, 256, 1024) * KIB, "steps": one_of(1, 2)}
    if kind == "training":
        made = {"nprocs": power_of_two(4, 64), "reads": True, "files_per_rank": one_of(8, 16)}
        made |= {"request_bytes": one_of(128, 256) * KIB, "steps": one_of(3, 5)}
        return {**made, "cached_ratio": 0.4, "random": True, "extra_ops_per_file": 6.0}
    if kind == "shared_input":
        made = {"nprocs": power_of_two(128, max(256, largest // 4)), "layout": "shared", "reads": True}
        made |= {"request_bytes": one_of(1, 4) * MIB, "stripe_count": one_of(4, 8, -1)}
        return {**made, "steps": one_of(1, 2)}
    if kind == "rank_zero":
        made = {"nprocs": power_of_two(16, 4096), "io_ranks": 1}
        return {**made, "request_bytes": one_of(64, 1024) * KIB, "steps": one_of(2, 4)}
    if kind == "aggregated":
        nprocs = power_of_two(256, largest)
        made = {"nprocs": nprocs, "io_ranks": max(4, min(512, nprocs // 64)), "request_bytes": 4 * MIB}
        return {**made, "stripe_count": one_of(1, 4), "steps": one_of(2, 3)}
    if kind == "metadata_storm":
        nprocs = power_of_two(16, 128)
        made = {"nprocs": nprocs, "files_per_rank": min(64, MOST_FILES // nprocs), "request_bytes": 16 * KIB}
        return {**made, "extra_ops_per_file": one_of(800, 2000), "io_share": 0.05}
    if kind == "small_random":
        made = {"nprocs": power_of_two(8, 512), "layout": "shared", "reads": True, "random": True}
        return {**made, "request_bytes": one_of(4, 8, 16) * KIB, "stripe_count": one_of(1, 4)}
    nprocs = power_of_two(1, 1024)  # a program that does no I/O
    return {"nprocs": nprocs, "layout": "none", "io_ranks": 0, "request_bytes": 1, "io_share": 0.0}


KINDS = names_of("""
    checkpoint_shared analysis checkpoint_per_process shared_input training aggregated rank_zero metadata_storm
    small_random idle
""")
_SAVING = ("checkpoint_shared", "checkpoint_per_process", "aggregated")
_PROJECTS = ("climate", "fusion", "genomics", "combustion", "cosmology", "materials", "nuclear", "hydrology")


def make_programs(preset: Preset, seed: int) -> tuple[Program, ...]:
    """Return the programs: all classes in turn, so that a small facility has each; the first ones run most often."""
    rng = stream(seed, "programs")
    return tuple(_program(number, KINDS[number % len(KINDS)], rng, preset) for number in range(preset.applications))


def _program(number: int, kind: str, rng: np.random.Generator, preset: Preset) -> Program:
    made = _draws_of(kind, rng, preset)
    nprocs = min(int(str(made["nprocs"])), preset.nodes * preset.cores)
    uid = _FIRST_UID + int(rng.integers(0, max(4, preset.applications // 2)))
    account = _PROJECTS[uid % min(len(_PROJECTS), max(4, preset.applications // 3))]
    io_share = float(str(made.pop("io_share", 1.0)))
    base = Program(
        name=f"{kind}-{number:03d}",
        kind=kind,
        uid=uid,
        user=f"user{uid - 1000:03d}",
        account=account,
        exe=f"/sw/{account}/bin/{kind}{number:03d} --input run.in",
        nprocs=nprocs,
        nodes=max(1, -(-nprocs // preset.cores)),
        layout="unique",
        interface="POSIX",
        reads=False,
        random=False,
        io_ranks=nprocs,
        files_per_rank=1,
        request_bytes=MIB,
        rank_bytes=MIB,
        stripe_count=1,
        steps=1,
        compute_seconds=float(rng.lognormal(np.log(900), 0.7)),
        instances=int(rng.choice([1, 1, 2, 3])),
        cached_ratio=0.0,
        extra_ops_per_file=1.0,
        popularity=1.0 / (1 + number % 10 + number // 10) ** 0.7,
    )
    made["nprocs"] = nprocs
    if preset.checkpoint_seconds and kind in _SAVING:
        steps = int(rng.integers(4, 25))
        every = float(rng.lognormal(np.log(preset.checkpoint_seconds), 0.5))
        made |= {"steps": steps, "compute_seconds": steps * every, "instances": 1}
        io_share *= steps / 4
    program = replace(base, **made)  # type: ignore[arg-type]
    program = replace(program, io_ranks=min(program.io_ranks, nprocs))
    if program.stripe_count < 0 or program.stripe_count > preset.osts:
        program = replace(program, stripe_count=preset.osts)
    return _sized(program, preset, io_share * float(rng.lognormal(np.log(preset.typical_io_seconds), 0.5)))


def _sized(program: Program, preset: Preset, io_seconds: float) -> Program:
    """Set the bytes for about that I/O time in an undisturbed run: a whole number of requests per rank."""
    if program.layout == "none":
        return replace(program, rank_bytes=0)
    speed = min(program.client_bytes_per_s(preset.node_bytes_per_s), useful_bytes_per_s(program, preset))
    rank_bytes = speed * io_seconds / program.steps / program.io_ranks
    requests = max(1, round(rank_bytes / program.request_bytes))
    # Every file of a rank gets the same number of requests.
    requests = -(-requests // program.files_per_rank) * program.files_per_rank
    program = replace(program, rank_bytes=requests * program.request_bytes)
    ops_per_s = program.client_ops_per_s(preset.mds_ops_per_s)
    return replace(program, step_seconds=program.step_bytes / speed, ops_per_s=ops_per_s)


def useful_bytes_per_s(program: Program, preset: Preset) -> float:
    """Return what its targets can give to one run: clients use 70% of them."""
    targets = program.stripe_count if program.layout == "shared" else program.stripe_count * program.io_ranks
    return 0.7 * min(preset.osts, max(1, targets)) * preset.ost_bytes_per_s

"""Facilities that can be made, by name: how large, how busy, and in which ways they break the usual assumptions.

What each aims at, and what it gives, is tabled in docs/explanation/synthetic-facility.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ioweather.core.errors import UsageError

GB = 10**9


@dataclass(frozen=True)
class ResponseLaw:
    """Response times on a quiet system: Normal up to the pivot, Power Law beyond (don15).

    A 1 MiB request takes `mean_seconds`; larger ones grow with `size_exponent`. The pivot is `pivot_sds` standard
    deviations above the mean, and a tail value exceeds t with probability (t / pivot)^(1 - alpha).
    """

    mean_seconds: float = 0.008
    sd_ratio: float = 0.12
    pivot_sds: float = 2.5
    tail_ratio: float = 0.146
    alpha: float = 2.6
    size_exponent: float = 0.8


@dataclass(frozen=True)
class Preset:
    """A facility to be made."""

    name: str
    title: str
    days: int
    jobs: int
    osts: int
    osts_per_oss: int = 2
    ost_bytes_per_s: float = 1.0 * GB
    mds_ops_per_s: float = 20_000.0
    nodes: int = 1600
    cores: int = 64
    node_bytes_per_s: float = 1.2 * GB
    applications: int = 14
    projects: int = 8
    largest_processes: int = 100_000
    typical_io_seconds: float = 45.0
    read_share: float = 0.6
    step_seconds: int = 60
    first_day: str = "2026-03-02"  # a Monday
    fsname: str = "scratch"
    beside: Preset | None = None  # another file system of the same facility, with programs and incidents of its own
    monitored: bool = True  # whether more is recorded than logs and accounts
    first_job: int = 100_000
    first_server: int = 0
    # Bytes per second and target that login nodes and services move all the time.
    background_bytes_per_s: float = 1.5e6
    background_ops_per_s: float = 2.0  # opens at the metadata server, by login nodes and services
    incidents_per_week: float = 6.0
    transfers_per_day: float = 40.0
    system_load: float = 1.0  # how much of the facility its own jobs and transfers ask for
    own_change_ratio: float = 0.08
    probe_hosts: int = 3
    probe_seconds: int = 120
    sampler_seconds: int = 900
    scan_files: int = 4000
    law: ResponseLaw = field(default_factory=ResponseLaw)
    detail_day: int | None = 2  # this day in steps of 5 s, with iostat text of the devices
    without_darshan_ratio: float = 0.0
    missing_ratio: float = 0.002
    # What makes verdicts hard; off by default.
    noise_sd: float = 0.0  # logarithmic spread of equal runs' own pace
    hidden_ratio: float = 0.0  # runs slowed by a cause on their own nodes, invisible to servers
    harmless_change_ratio: float = 0.0  # runs with a visible change that costs nothing
    mild_changes: bool = False  # changes of the pattern may cost anything from nothing on
    growth_ratio: float = 0.0  # by how much half of the programs' bytes grow over the period
    traffic_sd: float = 0.0  # logarithmic spread of what a byte of a transfer asks of a target
    closed_loop: bool = False  # flows that wait for one resource ask less of the others
    slow_service: bool = False  # a sick target serves each request of a probe slower, not only when it is overloaded
    hdf5_ratio: float = 0.0  # part of the programs with collective I/O that use HDF5
    leader_ratio: float = 0.0  # part of the jobs of one project that reads, until `leader_days` of the period are over
    leader_days: float = 0.5

    @property
    def filesystems(self) -> tuple[Preset, ...]:
        return (self, *(self.beside.filesystems if self.beside is not None else ()))

    @property
    def oss_count(self) -> int:
        return -(-self.osts // self.osts_per_oss)


LAPTOP = Preset("laptop", "A small cluster for a week", days=7, jobs=200, osts=16)
_CLUSTER = Preset(
    "cluster",
    "A cluster for a month",
    days=30,
    jobs=2000,
    osts=64,
    osts_per_oss=4,
    applications=50,
    mds_ops_per_s=40_000.0,
    probe_seconds=300,
    sampler_seconds=1800,
    scan_files=20_000,
    without_darshan_ratio=0.1,
    typical_io_seconds=60.0,
)
# Equal runs differ by 5.7% (Theta) and 7.2% (Cori) at 68% (Isakov et al., SC'22).
_NOISY = replace(
    LAPTOP,
    name="laptop-noisy",
    title="Laptop with Theta's run-to-run noise",
    noise_sd=0.057,
    slow_service=True,
)
_HIDDEN = replace(
    _NOISY,
    name="laptop-hidden",
    title="Laptop with incidents invisible to servers, and harmless changes",
    hidden_ratio=0.06,
    harmless_change_ratio=0.08,
)
_HARD = replace(
    _HIDDEN,
    name="laptop-hard",
    title="Laptop with all difficulties for verdicts",
    noise_sd=0.072,
    mild_changes=True,
    growth_ratio=0.6,
    traffic_sd=0.8,
    jobs=400,
    typical_io_seconds=90.0,
    transfers_per_day=8.0,
    system_load=0.2,
    background_bytes_per_s=0.3e6,
)
# car11: 66 projects, 27% of the jobs with a log, a home directory without monitoring, HDF5 beside MPI-IO, and a project
# that reads more than all others until it stops.
_INTREPID = replace(
    _CLUSTER,
    name="intrepid",
    title="A Blue Gene/P of 2010: 66 projects, few logs, a home without monitoring",
    days=21,
    jobs=2400,
    nodes=40_960,
    cores=4,
    applications=198,
    projects=66,
    without_darshan_ratio=0.73,
    first_day="2010-01-25",
    detail_day=None,
    hdf5_ratio=0.3,
    transfers_per_day=10.0,
    system_load=0.2,
    background_bytes_per_s=0.3e6,
    leader_ratio=0.2,
    beside=replace(
        LAPTOP,
        name="home",
        title="The home directories",
        fsname="home",
        jobs=100,
        days=21,
        osts=8,
        monitored=False,
        first_job=500_000,
        first_server=16,
        without_darshan_ratio=0.73,
        transfers_per_day=4.0,
        detail_day=None,
        first_day="2010-01-25",
    ),
)

_ALL = (LAPTOP, _NOISY, _HIDDEN, _HARD, _CLUSTER, _INTREPID)
PRESETS: dict[str, Preset] = {preset.name: preset for preset in _ALL}
_REMOVED = {"cori-year": "cluster", "cluster-checkpoints": "cluster", "laptop-two-filesystems": "intrepid"}


def preset_named(name: str) -> Preset:
    """Return a preset by name."""
    if name not in PRESETS:
        hint = f"Use {_REMOVED[name]!r} instead." if name in _REMOVED else f"Presets: {', '.join(PRESETS)}."
        raise UsageError(f"Preset {name!r} does not exist.", hint=hint)
    return PRESETS[name]


def for_days(preset: Preset, days: int) -> Preset:
    """Return the same facility for another number of days, with jobs in proportion."""
    if days < 1:
        raise UsageError("--days must be at least 1.")
    detail = preset.detail_day if preset.detail_day is None or preset.detail_day < days else days - 1
    beside = None if preset.beside is None else for_days(preset.beside, days)
    jobs = max(1, round(preset.jobs / preset.days * days))
    return replace(preset, days=days, jobs=jobs, detail_day=detail, beside=beside)

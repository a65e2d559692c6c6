"""What a simulated facility records, and its files as real tools write them: samples of servers, responses of probes,
job counts, accounting, device and benchmark text, TOKIO archives, file listings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Bools, Floats, Ints
from ioweather.core.units import KIB, MIB, names_of
from ioweather.simulate.fluid import (
    OF_TARGETS,
    OPERATIONS,
    Calendar,
    Flow,
    Incident,
    Readings,
    Resources,
    stream,
)
from ioweather.simulate.presets import Preset, ResponseLaw
from ioweather.simulate.world import BENCHMARK_PHASES, Job, Program

# Background traffic is a gamma process: steps of any length sum to minutes of this shape.
_BACKGROUND_SHAPE_PER_MINUTE = 2.0
_BACKGROUND_REQUEST_BYTES = 65_536
# open, close, mknod, unlink, getattr, setattr, statfs, per open
_BACKGROUND_OPERATIONS = np.array([1.0, 0.75, 0.1, 0.05, 0.8, 0.05, 0.05])


def observe(
    readings: Readings, preset: Preset, resources: Resources, incidents: Sequence[Incident], seed: int
) -> Readings:
    """Return what the monitoring of the servers records in a window: whole amounts, with the background traffic."""
    rng = stream(seed, "observe", round(readings.start))
    shape = readings.read_bytes.shape
    times = readings.times
    health = _compute_target_health(times, shape, incidents)
    mean = preset.background_bytes_per_s * readings.step_seconds / 2
    form = _BACKGROUND_SHAPE_PER_MINUTE * readings.step_seconds / 60
    background = [np.rint(rng.gamma(form, mean / form, shape) * health) for _ in range(2)]
    read, write = np.rint(readings.read_bytes) + background[0], np.rint(readings.write_bytes) + background[1]
    capacity = resources.capacity[: resources.osts] * readings.step_seconds
    busy = np.clip((read + write) / capacity, 0.0, 1.0)
    counts = np.bincount(resources.server_of, minlength=resources.servers)
    by_server = np.zeros((readings.steps, resources.servers))
    np.add.at(by_server.T, resources.server_of, busy.T)
    oss = np.clip(1.0 + 60.0 * (by_server / counts) ** 1.5 + rng.exponential(0.3, by_server.shape), 0.0, 100.0)
    background_ops = preset.background_ops_per_s * readings.step_seconds * _BACKGROUND_OPERATIONS
    operations = np.rint(readings.operations + rng.poisson(background_ops, readings.operations.shape))
    load = operations.sum(axis=1) / (preset.mds_ops_per_s * readings.step_seconds)
    mds = np.clip(2.0 + 80.0 * np.minimum(load, 1.0) + rng.exponential(0.5, readings.steps), 0.0, 100.0)
    missing = rng.random(shape) < preset.missing_ratio
    for incident in incidents:
        if incident.kind == "failed_oss":
            gone = (times >= incident.start) & (times < incident.taken_over)
            of_server = np.flatnonzero(resources.server_of == resources.oss_names.index(incident.component))
            missing[np.ix_(np.flatnonzero(gone), of_server)] = True
    return replace(
        readings,
        read_bytes=read,
        write_bytes=write,
        read_requests=np.rint(readings.read_requests + background[0] / _BACKGROUND_REQUEST_BYTES),
        write_requests=np.rint(readings.write_requests + background[1] / _BACKGROUND_REQUEST_BYTES),
        operations=operations,
        oss_cpu_percent=oss,
        mds_cpu_percent=mds[:, None],
        missing=missing,
    )


def _compute_target_health(times: Floats, shape: tuple[int, ...], incidents: Sequence[Incident]) -> Floats:
    """Return the share of its capacity that incidents leave to each target: (step, target)."""
    health = np.ones(shape)
    for incident in incidents:
        if incident.kind in OF_TARGETS:
            during = (times >= incident.start) & (times < incident.end)
            health[np.ix_(np.flatnonzero(during), np.array(incident.columns))] *= incident.strength
    return health


def with_slow_service(readings: Readings, resources: Resources, incidents: Sequence[Incident]) -> Readings:
    """Return readings with the stretch as requests meet it: a sick target serves each one slower, even without load."""
    health = _compute_target_health(readings.times, (readings.steps, resources.osts), incidents)
    stretch = readings.stretch.copy()
    stretch[:, : resources.osts] /= health
    return replace(readings, stretch=stretch)


_AMOUNTS = ("read_bytes", "write_bytes", "read_requests", "write_requests", "operations")


def resample(observed: Readings, step_seconds: int) -> Readings:
    """Return the same in longer steps: amounts are added, states averaged. Files need no `stretch`, which stays."""
    factor = step_seconds // observed.step_seconds
    if factor <= 1:
        return observed
    steps = observed.steps // factor
    made: dict[str, Any] = {}
    for name in (*_AMOUNTS, "oss_cpu_percent", "mds_cpu_percent", "missing"):
        # Readings after the last whole step are dropped.
        blocks = getattr(observed, name)[: steps * factor].reshape(steps, factor, -1)
        made[name] = blocks.sum(axis=1) if name in _AMOUNTS else blocks.mean(axis=1)
    # The collector asks again within a step: only what is silent for most of it is missing.
    made["missing"] = made["missing"] > 0.5
    return replace(observed, step_seconds=step_seconds, **made)


SIZES = tuple(512 * KIB << power for power in range(12))
PROBE_BYTES = 1_000_000
SMALL_FILE_BYTES = 3901
# One small file on each target, which a probe reads and writes in turn: one target at a tick.
TARGET_BYTES = 61_440
# Metadata operations of the probe, with their means on a quiet system in seconds.
_METADATA = {"create": 0.0012, "stat": 0.0004, "file_read": 0.0009, "delete": 0.001}
_DATA = ("read", "write")
_CACHED_MEAN = 0.0001
_CACHED_RATIO = 0.3
WRITE_FACTOR = 1.2


@dataclass(frozen=True, eq=False)
class Responses:
    """A batch of timed operations of one host, operation and size."""

    host: str
    target: str
    op: str
    request_bytes: int
    component: str | None
    run_id: str
    start: Floats
    seconds: Floats
    cached: Bools | None = None


def mean_response_seconds(law: ResponseLaw, request_bytes: int, op: str) -> float:
    """Return the mean response time on a quiet system, without the tail, in seconds."""
    factor = WRITE_FACTOR if op == "write" else 1.0
    return float(law.mean_seconds * factor * (request_bytes / MIB) ** law.size_exponent)


def draw_response_seconds(law: ResponseLaw, mean: float, count: int, rng: np.random.Generator) -> tuple[Floats, Bools]:
    """Draw response times on a quiet system; return them in seconds, and which are in the tail."""
    sd = law.sd_ratio * mean
    pivot = mean + law.pivot_sds * sd
    tail = rng.random(count) < law.tail_ratio
    # P(T > t) = (t / pivot)^(1 - alpha)
    slow = pivot * (1.0 - rng.random(count)) ** (-1.0 / (law.alpha - 1.0))
    head = rng.normal(mean, sd, count)
    low, fold = mean - 4.0 * sd, 2.0 * mean
    # Only the tail is beyond the pivot: head values there are mirrored at the mean.
    head = np.where(head > pivot, fold - head, head)
    head = np.maximum(head, max(low, 1e-6))
    return np.where(tail, slow, head), tail


def window_responses(readings: Readings, preset: Preset, resources: Resources, seed: int) -> Iterator[Responses]:
    """Yield all operations that begin in this window: of the probes on all hosts, and of don15's sampler."""
    probed = f"/{resources.fsname}/.ioweather"
    by_index = round(readings.start)

    def list_times(every: int, offset: float) -> Floats:
        first = -(-(readings.start - offset) // every)
        return np.arange(first * every + offset, readings.start + readings.steps * readings.step_seconds, every)

    def stretch_at(column: int, moments: Floats) -> Floats:
        place = ((moments - readings.start) // readings.step_seconds).astype(np.int64)
        return np.asarray(readings.stretch[np.clip(place, 0, readings.steps - 1), column])

    def draw_data(
        host: str, target: str, op: str, size: int, run_id: str, at: Floats, turn: Ints, rng: np.random.Generator
    ) -> Iterator[Responses]:
        """A data request passes network, server and target, and waits for the slowest; turns go round the targets."""
        quiet, _ = draw_response_seconds(preset.law, mean_response_seconds(preset.law, size, op), len(at), rng)
        for ost in np.unique(turn % resources.osts).tolist():
            chosen = np.flatnonzero(turn % resources.osts == ost)
            way = (ost, resources.osts + int(resources.server_of[ost]), resources.network)
            seconds = quiet[chosen] * np.max([stretch_at(column, at[chosen]) for column in way], axis=0)
            yield Responses(host, target, op, size, resources.ost_name(ost), run_id, at[chosen], seconds)

    for host in range(preset.probe_hosts):
        name, run_id = f"login{host + 1}", f"probe-{host}"
        rng, other = (stream(seed, purpose, host, by_index) for purpose in ("probe", "targets"))
        moments = list_times(preset.probe_seconds, float(host))
        for number, op in enumerate(_DATA):
            at, own = moments + 0.1 * number, np.full(len(moments), host)
            yield from draw_data(name, probed, op, PROBE_BYTES, run_id, at, own, rng)
        # Each storage target in turn.
        turn = ((moments + 0.8) // preset.probe_seconds).astype(np.int64) * preset.probe_hosts + host
        for number, op in enumerate(_DATA):
            at = moments + 0.8 + 0.05 * number
            yield from draw_data(name, probed, op, TARGET_BYTES, run_id, at, turn, other)
        stretched = stretch_at(resources.mds, moments)
        for number, (op, mean) in enumerate(_METADATA.items()):
            quiet, _ = draw_response_seconds(preset.law, mean, len(moments), rng)
            cached = None
            if op == "file_read":
                cached = rng.random(len(moments)) < _CACHED_RATIO
                quiet = np.where(cached, rng.normal(_CACHED_MEAN, 0.1 * _CACHED_MEAN, len(moments)), quiet)
            seconds = quiet * (stretched if cached is None else np.where(cached, 1.0, stretched))
            at, took = moments + 0.3 + 0.1 * number, np.maximum(seconds, 1e-6)
            yield Responses(name, probed, op, SMALL_FILE_BYTES, None, run_id, at, took, cached)
    if not preset.sampler_seconds:
        return
    rng = stream(seed, "sampler", by_index)
    ticks = list_times(preset.sampler_seconds, 30.0)
    rounds = (ticks // preset.sampler_seconds).astype(np.int64)
    moments = ticks + rng.uniform(0.0, 0.5 * preset.sampler_seconds, len(ticks))
    for number, size in enumerate(SIZES):
        # Each size is on another target in each round, so that a slow target is not mistaken for a slow size.
        turn = number * 5 + rounds
        for place, op in enumerate(_DATA):
            at = moments + 2.0 * number + place
            yield from draw_data("sampler1", f"/{resources.fsname}/.samples", op, size, "sampler", at, turn, rng)


def write_segment(path: Path, host: str, run_id: str, opened_ns: int, lines: Iterable[str]) -> None:
    """Write a segment as the agent does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {"ioweather_spool": 1, "host": host, "boot_id": "simulated", "run_id": run_id, "opened_ns": opened_ns}
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(header) + "\n")
        file.writelines(lines)


DAY = 86400.0
# car11 IV: most files are below 1 MiB, a few have most of the bytes.
_SMALL_MEAN_LOG, _SMALL_SPREAD = np.log(96e3), 1.6
_LARGE_MEAN_LOG, _LARGE_SPREAD = np.log(2e9), 1.3
_LARGE_RATIO = 0.03
# Share of the files of the first scan that is gone in the second; share of new files per project.
_DELETED_RATIO = 0.04
GROWTH_RATIO = 0.3
DOMINANT_GROWTH_RATIO = 1.5


_FILE = np.dtype(
    [(name, np.int64) for name in ("uid", "project", "number", "size")] + [("mtime", float), ("atime", float)]
)


@dataclass(frozen=True, eq=False)
class Content:
    """Files: sizes in bytes, times in seconds since the facility's start (negative: before it)."""

    files: NDArray[Any]
    projects: tuple[str, ...]


def make_contents(preset: Preset, programs: tuple[Program, ...], seed: int) -> tuple[Content, Content]:
    """Return the files at the start and at the end. The first project grows most, as one did in 2010."""
    rng = stream(seed, "scans")
    owners = sorted({(program.account, program.uid) for program in programs})
    projects = tuple(sorted({account for account, _ in owners}))

    def draw(count: int, now: float, oldest: float, first: int, project: int | None) -> NDArray[Any]:
        usable = [(projects.index(name), uid) for name, uid in owners if project in (None, projects.index(name))]
        chosen = np.array(usable, np.int64)[rng.integers(0, len(usable), count)]
        large = rng.random(count) < _LARGE_RATIO
        sizes = rng.normal(_LARGE_MEAN_LOG, _LARGE_SPREAD, count), rng.normal(_SMALL_MEAN_LOG, _SMALL_SPREAD, count)
        files = np.empty(count, _FILE)
        files["project"], files["uid"] = chosen.reshape(-1, 2).T
        files["number"] = first + np.arange(count)
        files["size"] = np.rint(np.exp(np.where(large, *sizes))).astype(np.int64)
        files["mtime"] = now - rng.uniform(0.0, oldest, count)
        files["atime"] = np.minimum(files["mtime"] + rng.exponential(20 * DAY, count), now)
        return files

    before = draw(preset.scan_files, 0.0, 400 * DAY, 0, None)
    pieces = [before[rng.random(len(before)) >= _DELETED_RATIO]]
    length = preset.days * DAY
    for project, count in enumerate(np.bincount(before["project"], minlength=len(projects)).tolist()):
        ratio = GROWTH_RATIO if project else DOMINANT_GROWTH_RATIO
        pieces.append(draw(int(count * ratio), length, length, len(before) * (project + 2), project))
    return Content(before, projects), Content(np.concatenate(pieces), projects)


def facility_toml(preset: Preset, filesystems: Sequence[Resources]) -> str:
    """Return facility.toml; `filesystems` are those of the preset, in its order."""
    text = f"""# Made by ioweather simulate: nothing here was ever measured.
name = "{preset.name} (simulated)"
zone = "UTC"
simulated = true
clusters = ["{preset.fsname}"]
source_order = ["tts", "h5lmt", "lmt", "iostat"]
node_limit_bytes_per_s = {preset.node_bytes_per_s:.6g}
node_cores = {preset.cores}
"""
    for part, resources in zip(preset.filesystems, filesystems, strict=True):
        peak = min(float(resources.capacity[: resources.osts].sum()), float(resources.capacity[resources.network]))
        names, server_of = np.array(resources.ost_names), resources.server_of
        servers = "\n".join(
            f"servers.{name} = {json.dumps(names[server_of == server].tolist())}"
            for server, name in enumerate(resources.oss_names)
        )
        # Only the first file system has text of its devices.
        devices = 'devices = ["oss*:sd*"]\n' if part.detail_day is not None else ""
        text += f"""
[filesystem.{part.fsname}]
lustre = ["{part.fsname}"]
mounts = ["/{part.fsname}"]
{devices}probes = ["/{part.fsname}/.ioweather", "/{part.fsname}/.samples"]
peak_bytes_per_s = {peak:.6g}
component_limit_bytes_per_s = {part.ost_bytes_per_s * 1.05:.6g}
{servers}
"""
    return text


_FIELDS = names_of("JobID JobIDRaw Cluster UID User Account JobName State Submit Start End NNodes NCPUS NodeList")


def write_accounts(path: Path, preset: Preset, cluster: str, calendar: Calendar, jobs: Iterable[Job]) -> None:
    """Write Slurm accounting as `sacct -P` prints it, in UTC, in the order of the jobs."""
    until = preset.days * DAY

    def moment(seconds: float | None) -> str | None:
        if seconds is None or seconds >= until:
            return None
        return calendar.local(seconds).strftime("%Y-%m-%dT%H:%M:%S")

    lines = ["|".join(_FIELDS)]
    for job in jobs:
        submitted, started, ended = moment(job.submit), moment(job.start), moment(job.end)
        if submitted is None:
            continue
        program, number = job.program, str(job.number)
        row = [number, number, cluster, str(program.uid), program.user, program.account, program.name]
        row += ["COMPLETED" if ended else "RUNNING" if started else "PENDING"]
        row += [submitted, started or "Unknown", ended or "Unknown"]
        row += [str(program.nodes), str(program.nodes * preset.cores)]
        lines.append("|".join([*row, _format_node_list(job, preset.nodes) if started else "None assigned"]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _format_node_list(job: Job, nodes: int) -> str:
    """Return the nodes of a job as Slurm writes them."""
    first, end = job.first_node, job.first_node + job.program.nodes - 1
    if first == end:
        return f"nid{first:05d}"
    if end < nodes:
        return f"nid[{first:05d}-{end:05d}]"
    return f"nid[00000-{end - nodes:05d},{first:05d}-{nodes - 1:05d}]"


def write_result(path: Path, flows: Sequence[Flow], resources: Resources, calendar: Calendar) -> dict[str, float]:
    """Write IO500's result.txt; return the speed by phase, in bytes or operations per second."""

    def moment(seconds: float) -> str:
        return calendar.local(seconds).strftime("%Y-%m-%d %H:%M:%S")

    speeds: dict[str, float] = {}
    folder = f"/{resources.fsname}/io500"
    text = f"""[run]
procs           = 640
version         = io500-sc24_v1
config-hash     = 1D2C3B4A
result-dir      = {folder}/results
mode            = standard
; START {moment(flows[0].start)}

"""
    for (name, *_), flow in zip(BENCHMARK_PHASES, flows, strict=True):
        demand = flow.pattern.demand * flow.pattern.seconds
        is_data = flow.kind != "meta"
        speeds[name] = float(demand[: resources.osts].sum() if is_data else demand[resources.mds]) / flow.seconds
        text += f"""
[{name}]
t_start         = {moment(flow.start)}
exe             = {f"./ior -e -o {folder}/ior -t 2m -F" if is_data else f"./mdtest -n 100000 -w 3901 -d {folder}/mdt"}
score           = {speeds[name] / (2**30 if is_data else 1000.0):.6f}
t_delta         = {flow.seconds:.4f}
t_end           = {moment(flow.end)}
"""
    bandwidths = [speed / 2**30 for name, speed in speeds.items() if name.startswith("ior")]
    rates = [speed / 1000.0 for name, speed in speeds.items() if name.startswith("mdtest")]
    bandwidth, rate = (float(np.exp(np.mean(np.log(values)))) for values in (bandwidths, rates))
    text += f"""
[SCORE]
MD              = {rate:.6f}
BW              = {bandwidth:.6f}
SCORE           = {float(np.sqrt(rate * bandwidth)):.6f}
hash            = 5A5A5A5A
; END {moment(flows[-1].end)}
"""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return speeds


_STAMP = "%Y-%m-%dT%H:%M:%S%z"
_HEADER = (
    "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await "
    "wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util\n"
)


def write_iostat(folder: Path, observed: Readings, resources: Resources, calendar: Calendar) -> None:
    """Write text of `iostat -x` (sysstat 12, ISO times), one file per server, one report per step. Each target is a
    device of its server: sdb, sdc, ..."""
    folder.mkdir(parents=True, exist_ok=True)
    step = float(observed.step_seconds)
    begin = calendar.local(observed.start)
    for server in range(resources.servers):
        targets = np.flatnonzero(resources.server_of == server).tolist()
        read, write, reads, writes = (getattr(observed, name)[:, targets] for name in _AMOUNTS[:4])
        busy = 100.0 * np.clip((read + write) / (resources.capacity[targets] * step), 0, 1)
        rows = np.stack([reads / step, read / step / 1024.0, writes / step, write / step / 1024.0, busy], axis=2)
        # A server that is down writes nothing; a lost report is lost for all its devices.
        gone = observed.missing[:, targets].any(axis=1)
        host = resources.oss_names[server]
        with (folder / f"{host}.iostat.txt").open("w", encoding="utf-8") as file:
            file.write(f"Linux 6.1.0 ({host}) \t{begin:%Y-%m-%d} \t_x86_64_\t(32 CPU)\n\n")
            # The first report is the mean since boot, not a sample.
            since_boot = _format_device_line(0, 40.0, 8000.0, 30.0, 6000.0, 4.0)
            file.write(f"{begin:{_STAMP}}\n{_HEADER}{since_boot}\n\n")
            for place in np.flatnonzero(~gone).tolist():
                moment = calendar.local(observed.start + (place + 1) * step)  # iostat stamps the end
                lines = [_format_device_line(device, *values) for device, values in enumerate(rows[place].tolist())]
                file.write(f"{moment:{_STAMP}}\n{_HEADER}{''.join(lines)}\n\n")


def _format_device_line(
    device: int, reads: float, read_kib: float, writes: float, write_kib: float, busy: float
) -> str:
    """Return the line of a device; what the model does not know (merges, flushes) is constant."""
    wait = 0.4 + busy / 12.0
    return (
        f"sd{ascii_lowercase[1 + device % 25]}      {reads:9.2f} {read_kib:11.2f}     0.00   0.00 {wait:7.2f} "
        f"{read_kib / reads if reads else 0.0:8.2f} {writes:9.2f} {write_kib:11.2f}     0.00   0.00 {wait * 1.3:7.2f} "
        f"{write_kib / writes if writes else 0.0:8.2f}    0.00      0.00     0.00   0.00    0.00     0.00    0.10    "
        f"0.50 {wait / 5:7.2f} {busy:6.2f}\n"
    )


_DEVICE = 64_768


def write_listing(path: Path, content: Content, calendar: Calendar, root: str) -> None:
    """Write a list of all files as `find -printf '%y %D %i %s %b %T@ %A@ %C@ %U %G %n %p\\n'` prints it."""
    folders = sorted(set(content.files[["project", "uid"]].tolist()))
    start = calendar.start
    with path.open("w", encoding="utf-8") as file:
        folders_of = (f"{root}/{content.projects[p]}/u{uid}" for p, uid in folders)
        names = (root, *(f"{root}/{project}" for project in content.projects), *folders_of)
        times = " ".join([f"{start}.0000000000"] * 3)
        for inode, name in enumerate(names, start=2):
            file.write(f"d {_DEVICE} {inode} 4096 8 {times} 0 0 2 {name}\n")
        for uid, project, number, size, mtime, atime in content.files.tolist():
            changed, read = start + mtime, start + atime
            file.write(
                f"f {_DEVICE} {1000 + number} {size} {-(-size // 4096) * 8} {changed:.9f}0 {read:.9f}0 {changed:.9f}0 "
                f"{uid} {5000 + project} 1 {root}/{content.projects[project]}/u{uid}/f{number:08d}.dat\n"
            )


def write_segments(folder: Path, batches: Iterable[Responses], calendar: Calendar, number: int, system: str) -> None:
    """Write one closed segment per host, rows in the order of time."""
    by_host: dict[str, list[Responses]] = {}
    for batch in batches:
        if len(batch.start):
            by_host.setdefault(batch.host, []).append(batch)
    for host, members in by_host.items():
        rows = sorted(row for batch in members for row in _format_response_lines(batch, calendar, system))
        path = folder / f"seg-{host}-{rows[0][0]}-{number}.ndjson"
        write_segment(path, host, members[0].run_id, rows[0][0], (line for _, line in rows))


def _format_response_lines(batch: Responses, calendar: Calendar, system: str) -> list[tuple[int, str]]:
    """Return start and line of each operation, as the agent writes it."""
    whole = np.floor(batch.start)
    start_ns = (calendar.start + whole.astype(np.int64)) * 10**9 + np.rint((batch.start - whole) * 1e9).astype(np.int64)
    duration_ns = np.maximum(np.rint(batch.seconds * 1e9).astype(np.int64), 1)
    cached = ["null"] * len(start_ns) if batch.cached is None else [str(bool(c)).lower() for c in batch.cached]
    component = json.dumps(batch.component)
    before = f'{{"table":"responses","host":"{batch.host}","target":"{batch.target}","op":"{batch.op}",'
    after = (
        f'"request_bytes":{batch.request_bytes},"mode":"nocache","system":"{system}","component":{component},'
        f'"status":"ok","errno":null,"run_id":"{batch.run_id}"'
    )
    return [
        (at, f'{before}{after},"start_ns":{at},"scheduled_ns":{at},"duration_ns":{took},"cached":{hit}}}\n')
        for at, took, hit in zip(start_ns.tolist(), duration_ns.tolist(), cached, strict=True)
    ]


_CHUNK_ROWS = 1440
_TARGET_BYTES = 50 * 10**12


def write_tokio(folder: Path, observed: Readings, used_bytes: float, resources: Resources, calendar: Calendar) -> None:
    """Write the TOKIO time series (HDF5) of a day: arrays (time, column), stamps at the start of the step, -0.0 for
    samples that were not recorded."""
    date = calendar.local(observed.start).strftime("%Y-%m-%d")
    stamps = calendar.start + round(observed.start) + observed.step_seconds * np.arange(observed.steps)
    hourly = stamps[:: max(1, 3600 // observed.step_seconds)]
    osts, mdt = resources.ost_names, (resources.mdt_name,)
    full = np.full((len(hourly), len(osts)), float(round(used_bytes / len(osts))))
    targets = {"readbytes": "bytes", "writebytes": "bytes", "readops": "operations", "writeops": "operations"}
    # By group: name of each dataset -> values, columns, unit.
    groups: dict[str, dict[str, tuple[Floats, tuple[str, ...], str]]] = {
        "datatargets": {
            name: (np.where(observed.missing, -0.0, getattr(observed, amount)), osts, unit)
            for (name, unit), amount in zip(targets.items(), _AMOUNTS, strict=False)
        },
        "mdtargets": {
            f"{name}s": (observed.operations[:, [i]], mdt, "operations") for i, name in enumerate(OPERATIONS)
        },
        "dataservers": {"cpuload": (observed.oss_cpu_percent, resources.oss_names, "%")},
        "mdservers": {"cpuload": (observed.mds_cpu_percent, ("mds001",), "%")},
        "fullness": {
            "bytes": (full, osts, "bytes"),
            "bytestotal": (np.full_like(full, float(_TARGET_BYTES)), osts, "bytes"),
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    with h5py.File(folder / f"{resources.fsname}_{date}.hdf5", "w", libver="earliest") as file:
        file.attrs["version"] = np.bytes_("1")
        for name, datasets in groups.items():
            _put_group(file.create_group(name), hourly if name == "fullness" else stamps, datasets)


def _put_group(group: Any, times: Ints, datasets: dict[str, tuple[Floats, tuple[str, ...], str]]) -> None:
    """Put the datasets into a group; they are closed before the next group, which fixes the layout of the file."""
    packed = {"compression": "gzip", "compression_opts": 1, "shuffle": True}

    def put(name: str, values: Any) -> Any:
        chunks = (min(_CHUNK_ROWS, max(1, len(values))), *values.shape[1:])
        return group.create_dataset(name, data=values, maxshape=(None, *values.shape[1:]), chunks=chunks, **packed)

    group.attrs["source"] = np.bytes_("simulated")
    put("timestamps", times.astype("i8"))
    for dataset, (values, columns, unit) in datasets.items():
        made = put(dataset, values)
        made.attrs["columns"] = np.array([column.encode() for column in columns])
        made.attrs["units"] = np.bytes_(unit)

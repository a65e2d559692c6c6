"""The texts of a simulated facility: its description, accounts, benchmarks, devices, file lists, spool segments."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

import numpy as np

from ioweather.core.words import names_of
from ioweather.simulate.flows import PROCESSES, Benchmark, Flow
from ioweather.simulate.observed import Observed
from ioweather.simulate.presets import Preset
from ioweather.simulate.resources import Calendar, Resources
from ioweather.simulate.responses import Responses
from ioweather.simulate.runs import Job
from ioweather.simulate.scans import Content


def facility_toml(preset: Preset, *filesystems: Resources) -> str:
    """`filesystems` are those of the preset, in its order."""
    sections = [_section(*each) for each in zip(preset.filesystems, filesystems, strict=True)]
    return f"""# Made by ioweather simulate: nothing here was ever measured.
name = "{preset.name} (simulated)"
zone = "{preset.zone}"
simulated = true
clusters = ["{preset.cluster or preset.fsname}"]
source_order = ["tts", "h5lmt", "lmt", "iostat"]
node_limit_bytes_per_s = {preset.node_bytes_per_s:.6g}
node_cores = {preset.cores}
{"".join(sections)}"""


def _section(preset: Preset, resources: Resources) -> str:
    peak = float(resources.capacity[: resources.osts].sum())
    peak = min(peak, float(resources.capacity[resources.network]))
    servers = "\n".join(
        f"servers.{resources.oss_name(server)} = {json.dumps(targets)}"
        for server in range(resources.servers)
        if (targets := [resources.ost_name(ost) for ost in range(resources.osts) if resources.server_of[ost] == server])
    )
    # Text of devices is there for the first file system only.
    devices = 'devices = ["oss*:sd*"]\n' if preset.detail_day is not None else ""
    return f"""
[filesystem.{preset.fsname}]
lustre = ["{preset.fsname}"]
mounts = ["/{preset.fsname}"]
{devices}probes = ["/{preset.fsname}/.ioweather", "/{preset.fsname}/.samples"]
peak_bytes_per_s = {peak:.6g}
component_limit_bytes_per_s = {preset.ost_bytes_per_s * 1.05:.6g}
{servers}
"""


_FIELDS = names_of("JobID JobIDRaw Cluster UID User Account JobName State Submit Start End NNodes NCPUS NodeList")


# Slurm accounting as `sacct -P` prints it, in local time.
class AccountsWriter:
    """Jobs in the order in which they end. With a delay, what ended last is not in the accounts yet."""

    def __init__(self, path: Path, preset: Preset, calendar: Calendar) -> None:
        self._preset, self._calendar = preset, calendar
        self._until = preset.days * 86400.0
        self._file = path.open("w", encoding="utf-8")
        self._file.write("|".join(_FIELDS) + "\n")

    def add(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            if job.submit >= self._until:
                continue
            ended = job.end is not None and job.end < self._until
            started = job.start is not None and job.start < self._until
            state = "COMPLETED" if ended else "RUNNING" if started else "PENDING"
            program = job.program
            self._file.write("|".join((
                str(job.number), str(job.number), self._preset.cluster or self._preset.fsname, str(program.uid),
                program.user, program.account, program.name, state, self._time(job.submit),
                self._time(job.start) if started else "Unknown",
                self._time(job.end) if ended else "Unknown", str(program.nodes),
                str(program.nodes * self._preset.cores),
                _nodes(job, self._preset.nodes) if started else "None assigned",
            )) + "\n")  # fmt: skip

    def close(self) -> None:
        self._file.close()

    def _time(self, seconds: float | None) -> str:
        assert seconds is not None
        return self._calendar.local(seconds).strftime("%Y-%m-%dT%H:%M:%S")


def _nodes(job: Job, nodes: int) -> str:
    first, count = job.first_node, job.program.nodes
    if count == 1:
        return f"nid{first:05d}"
    end = first + count - 1
    if end < nodes:
        return f"nid[{first:05d}-{end:05d}]"
    return f"nid[00000-{end - nodes:05d},{first:05d}-{nodes - 1:05d}]"


# IO500's result.txt: one section per phase, local times, scores in GiB/s and kIOPS.
def write_result(path: Path, benchmark: Benchmark, resources: Resources, calendar: Calendar) -> dict[str, float]:
    """Returns what it says: scores by phase, in bytes or operations per second."""

    def moment(seconds: float) -> str:
        return calendar.local(seconds).strftime("%Y-%m-%d %H:%M:%S")

    speeds: dict[str, float] = {}
    folder = f"/{resources.fsname}/io500"
    lines = ["[run]", f"procs           = {PROCESSES}", "version         = io500-sc24_v1", "config-hash     = 1D2C3B4A",
             f"result-dir      = {folder}/results", "mode            = standard",
             f"; START {moment(benchmark.start)}", ""]  # fmt: skip
    for name, flow in benchmark.flows:
        amount, is_data = _amount(flow, resources)
        speeds[name] = amount / flow.seconds
        score = speeds[name] / 2**30 if is_data else speeds[name] / 1000.0
        exe = f"./ior -e -o {folder}/ior -t 2m -F" if is_data else f"./mdtest -n 100000 -w 3901 -d {folder}/mdt"
        lines += ["", f"[{name}]", f"t_start         = {moment(flow.start)}", f"exe             = {exe}",
                  f"score           = {score:.6f}", f"t_delta         = {flow.seconds:.4f}",
                  f"t_end           = {moment(flow.end)}"]  # fmt: skip
    bandwidths = [speed / 2**30 for name, speed in speeds.items() if name.startswith("ior")]
    rates = [speed / 1000.0 for name, speed in speeds.items() if name.startswith("mdtest")]
    bandwidth, rate = (float(np.exp(np.mean(np.log(values)))) for values in (bandwidths, rates))
    lines += ["", "[SCORE]", f"MD              = {rate:.6f}", f"BW              = {bandwidth:.6f}",
              f"SCORE           = {float(np.sqrt(rate * bandwidth)):.6f}", "hash            = 5A5A5A5A",
              f"; END {moment(benchmark.flows[-1][1].end)}", ""]  # fmt: skip
    path.write_text("\n".join(lines), encoding="utf-8")
    return speeds


def _amount(flow: Flow, resources: Resources) -> tuple[float, bool]:
    demand = flow.pattern.demand * flow.pattern.seconds
    if flow.kind == "meta":
        return float(demand[resources.mds]), False
    return float(demand[: resources.osts].sum()), True


_HEADER = (
    "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await "
    "wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util\n"
)
_LETTERS = "bcdefghijklmnopqrstuvwxyz"


# iostat -x text of sysstat 12, one file per server, one report a minute, ISO times.
class IostatWriter:
    """A device per target: sdb, sdc, ... of its server. Files stay open from window to window."""

    def __init__(self, folder: Path, resources: Resources, calendar: Calendar) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._resources, self._calendar = folder, resources, calendar
        self._files: dict[int, TextIO] = {}

    def add(self, observed: Observed) -> None:
        for server in range(self._resources.servers):
            targets = np.flatnonzero(self._resources.server_of == server).tolist()
            self._write(server, targets, observed)

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _open(self, server: int, observed: Observed) -> TextIO:
        if server not in self._files:
            host = self._resources.oss_name(server)
            file = (self._folder / f"{host}.iostat.txt").open("w", encoding="utf-8")
            moment = self._calendar.local(observed.readings.start)
            file.write(f"Linux 6.1.0 ({host}) \t{moment:%Y-%m-%d} \t_x86_64_\t(32 CPU)\n\n")
            # The first report is the mean since boot, not a sample.
            file.write(_stamp(moment) + _HEADER + _line(0, 40.0, 8000.0, 30.0, 6000.0, 4.0) + "\n\n")
            self._files[server] = file
        return self._files[server]

    def _write(self, server: int, targets: list[int], observed: Observed) -> None:
        readings = observed.readings
        step = float(readings.step_seconds)
        file = self._open(server, observed)
        capacity = self._resources.capacity[targets] * step
        columns = [
            observed.read_requests[:, targets] / step,
            observed.read_bytes[:, targets] / step / 1024.0,
            observed.write_requests[:, targets] / step,
            observed.write_bytes[:, targets] / step / 1024.0,
            100.0 * np.clip((observed.read_bytes + observed.write_bytes)[:, targets] / capacity, 0, 1),
        ]
        # A server that is down writes nothing; single lost reports are lost for all its devices.
        gone = observed.missing[:, targets].any(axis=1)
        rows = np.stack(columns, axis=2)
        for place in np.flatnonzero(~gone).tolist():
            moment = self._calendar.local(readings.start + (place + 1) * step)  # iostat stamps the end
            lines = [_line(device, *values) for device, values in enumerate(rows[place].tolist())]
            file.write(_stamp(moment) + _HEADER + "".join(lines) + "\n\n")


def _stamp(moment: object) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S%z}\n"


def _line(device: int, reads: float, read_kib: float, writes: float, write_kib: float, busy: float) -> str:
    wait = 0.4 + busy / 12.0
    return (
        f"sd{_LETTERS[device % len(_LETTERS)]}      {reads:9.2f} {read_kib:11.2f}     0.00   0.00 {wait:7.2f} "
        f"{read_kib / reads if reads else 0.0:8.2f} {writes:9.2f} {write_kib:11.2f}     0.00   0.00 {wait * 1.3:7.2f} "
        f"{write_kib / writes if writes else 0.0:8.2f}    0.00      0.00     0.00   0.00    0.00     0.00    0.10    "
        f"0.50 {wait / 5:7.2f} {busy:6.2f}\n"
    )


_DEVICE = 64_768


def write_listing(path: Path, content: Content, calendar: Calendar, root: str) -> None:
    """A list of all files as `find -printf '%y %D %i %s %b %T@ %A@ %C@ %U %G %n %p\\n'` prints it."""
    folders = sorted({(int(p), int(u)) for p, u in zip(content.project, content.uid, strict=True)})
    start = calendar.start
    with path.open("w", encoding="utf-8") as file:
        inode = 2
        folders_of = (f"{root}/{content.projects[p]}/u{uid}" for p, uid in folders)
        for name in (root, *(f"{root}/{project}" for project in content.projects), *folders_of):
            file.write(
                f"d {_DEVICE} {inode} 4096 8 {start}.0000000000 {start}.0000000000 {start}.0000000000 0 0 2 {name}\n"
            )
            inode += 1
        columns = (content.uid, content.project, content.number, content.size, content.mtime, content.atime)
        for uid, project, number, size, mtime, atime in zip(*(c.tolist() for c in columns), strict=True):
            changed, read = start + mtime, start + atime
            file.write(
                f"f {_DEVICE} {1000 + number} {size} {-(-size // 4096) * 8} {changed:.9f}0 {read:.9f}0 {changed:.9f}0 "
                f"{uid} {5000 + project} 1 {root}/{content.projects[project]}/u{uid}/f{number:08d}.dat\n"
            )


_VERSION = 1


def write_segments(folder: Path, batches: Iterable[Responses], calendar: Calendar, number: int, system: str) -> None:
    """One closed segment per host, rows in the order of time."""
    folder.mkdir(parents=True, exist_ok=True)
    by_host: dict[str, list[Responses]] = {}
    for batch in batches:
        if len(batch.start):
            by_host.setdefault(batch.host, []).append(batch)
    for host, members in by_host.items():
        rows = [row for batch in members for row in _rows(batch, calendar, system)]
        rows.sort()
        first_ns = rows[0][0]
        header = {"ioweather_spool": _VERSION, "host": host, "boot_id": "simulated"}
        header |= {"run_id": members[0].run_id, "opened_ns": first_ns}
        with (folder / f"seg-{host}-{first_ns}-{number}.ndjson").open("w", encoding="utf-8") as file:
            file.write(json.dumps(header) + "\n")
            file.writelines(line for _, line in rows)


def _rows(batch: Responses, calendar: Calendar, system: str) -> list[tuple[int, str]]:
    whole = np.floor(batch.start)
    start_ns = (calendar.start + whole.astype(np.int64)) * 10**9 + np.rint((batch.start - whole) * 1e9).astype(np.int64)
    duration_ns = np.maximum(np.rint(batch.seconds * 1e9).astype(np.int64), 1)
    component = json.dumps(batch.component)
    cached = ["null"] * len(start_ns) if batch.cached is None else ["true" if c else "false" for c in batch.cached]
    before = f'{{"table":"responses","host":"{batch.host}","target":"{batch.target}","op":"{batch.op}",'
    after = (
        f'"request_bytes":{batch.request_bytes},"mode":"nocache","system":"{system}","component":{component},'
        f'"status":"ok","errno":null,"run_id":"{batch.run_id}"'
    )
    return [
        (at, f'{before}{after},"start_ns":{at},"scheduled_ns":{at},"duration_ns":{took},"cached":{hit}}}\n')
        for at, took, hit in zip(start_ns.tolist(), duration_ns.tolist(), cached, strict=True)
    ]

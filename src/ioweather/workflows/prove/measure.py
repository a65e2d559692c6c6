"""The runs, one after another, with the sensors that a site has beside them: a probe and samples of the devices.

Every run has a stretch of time and a log. What was planted in it stands in neither.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ioweather.collect.status import read_status
from ioweather.core.clock import now_ns
from ioweather.core.errors import IoweatherError, SourceError, UsageError
from ioweather.core.private_directory import PrivateDirectory
from ioweather.core.progress import Progress
from ioweather.core.units import NS
from ioweather.sources.darshan.model import DarshanJob
from ioweather.sources.darshan.recorded_calls import Recorded, write_recorded
from ioweather.sources.live.claim import folder_below
from ioweather.sources.mounts import file_system_of
from ioweather.workflows.prove.ground import Competitors, Ground
from ioweather.workflows.prove.plan import Cause
from ioweather.workflows.site.local_setup import Child

FILESYSTEM: Final = "here"
_NAME: Final = f"prove-{socket.gethostname()}-"
RECORDER: Final = "ioweather doctor --prove; not a Darshan runtime"
PROGRAM: Final = "ioweather-prove"
SAMPLE_SECONDS: Final = 0.2
_PROBE: Final = ("--period", "100ms", "--file-size", "16MiB", "--pool", "20")
_LEAST_SECONDS: Final = 2.0
_BETWEEN_SECONDS: Final = 0.3
_LEAD_SECONDS: Final = 0.1
_READY_SECONDS: Final = 30.0
_PATIENCE_SECONDS: Final = 20.0


@dataclass(frozen=True)
class Stretch:
    """A run, and its log."""

    start_ns: int
    end_ns: int
    log: Path


@dataclass(frozen=True)
class Evidence:
    """What was measured. `written_bytes` are those of all runs; `devices` those below the directory, none where this
    machine does not see them."""

    stretches: tuple[Stretch, ...]
    spools: tuple[Path, ...]
    facility_toml: str
    devices: tuple[str, ...]
    written_bytes: int


def measure(target: Path, kept: Path, planted: Sequence[Cause], progress: Progress) -> Evidence:
    """Runs below `target`; logs and spools go to `kept`."""
    if not target.is_dir():
        raise UsageError(f"{target} is not a directory.", hint="Name a directory on the file system to prove.")
    _clear_left(target)
    place = folder_below(str(target), f"{_NAME}{os.getpid()}")
    devices = devices_below(target)
    facility = facility_text(target, devices)
    # Samples of other devices would be taken for those of this file system.
    spools = (kept / "probe", *([kept / "block"] if devices else []))
    (kept / "site").mkdir()
    (kept / "site" / "facility.toml").write_text(facility)
    with _ground(place) as ground:
        progress(0, len(planted), "making files")
        ground.prepare()
        with _sensors(target, kept, spools) as probe_pid, ground.competitors() as others:
            stretches = tuple(_stretches(ground, others, probe_pid, kept, planted, progress))
    return Evidence(stretches, spools, facility, devices, ground.written_bytes)


@contextlib.contextmanager
def _ground(place: Path) -> Iterator[Ground]:
    """Removed at the end, with all that we made in it."""
    try:
        folder = PrivateDirectory.at(place)
    except OSError as error:
        raise UsageError(
            f"{place.parent} cannot be written: {error.strerror}.", hint="Name a directory of yours."
        ) from None
    with folder:
        ground = Ground(folder)
        try:
            yield ground
        finally:
            ground.clear()
            with contextlib.suppress(OSError):
                place.rmdir()


def _clear_left(target: Path) -> None:
    """What a proof on this host left that was killed."""
    for place in target.glob(f".ioweather-{_NAME}*"):
        process = place.name.rpartition("-")[2]
        if place.lstat().st_uid == os.geteuid() and process.isdigit() and not Path("/proc", process).exists():
            with _ground(place):
                pass


def _stretches(
    ground: Ground,
    others: Competitors,
    probe_pid: Callable[[], int],
    kept: Path,
    planted: Sequence[Cause],
    progress: Progress,
) -> Iterator[Stretch]:
    for number, cause in enumerate(planted):
        progress(number, len(planted), "runs")
        time.sleep(_BETWEEN_SECONDS)
        until = time.monotonic() + _LEAST_SECONDS
        with contextlib.ExitStack() as meanwhile:
            if cause is Cause.COMPETITOR:
                meanwhile.enter_context(others.writing())
            if cause is Cause.STOPPED_PROBE:
                meanwhile.enter_context(_stopped(probe_pid()))
            time.sleep(_LEAD_SECONDS)
            start_ns = now_ns()
            calls = ground.run(cause)
            end_ns = now_ns()
        log = write_log(kept / f"{number:03d}.darshan", number, start_ns, end_ns, ground, calls.recorded())
        yield Stretch(start_ns, end_ns, log)
        time.sleep(max(0.0, until - time.monotonic()))


def write_log(path: Path, number: int, start_ns: int, end_ns: int, ground: Ground, calls: Recorded) -> Path:
    mount, kind = file_system_of(str(ground.folder.path))
    mounts = ((mount or "/", kind or "unknown"),)
    job = DarshanJob(os.geteuid(), number + 1, 1, start_ns, end_ns, (end_ns - start_ns) / NS, {}, PROGRAM, mounts)
    return write_recorded(path, job, RECORDER, [calls])


@contextlib.contextmanager
def _sensors(target: Path, kept: Path, spools: Sequence[Path]) -> Iterator[Callable[[], int]]:
    """A probe and the samples of devices, as a site runs them; the number of the probe's process."""
    probe = (*_PROBE, "--name", f"prove-probe-{os.getpid()}", "--spool", str(kept / "probe"))
    children = [Child("probe", ("probe", str(target), *probe))]
    if kept / "block" in spools:
        where = ("--no-ship", "--lake", str(kept / "site"), "--spool", str(kept / "block"))
        children.append(Child("block devices", ("collect", "block", *where)))
    try:
        _wait_until_ready(children, spools)
        yield lambda: _probe_pid(kept / "probe")
    finally:
        for child in children:
            child.ask_to_stop()
        until = time.monotonic() + _PATIENCE_SECONDS
        for child in children:
            child.wait(until)


def _wait_until_ready(children: Sequence[Child], spools: Sequence[Path]) -> None:
    until = time.monotonic() + _READY_SECONDS
    while time.monotonic() < until:
        for child in children:
            if complaint := child.complaint():
                raise SourceError(complaint)
        with contextlib.suppress(IoweatherError):
            if all(any(s.runs >= 2 for s in read_status(spool).sources) for spool in spools):
                return
        time.sleep(0.1)
    raise SourceError(f"no sample came within {_READY_SECONDS:.0f} s.", hint="Try another directory.")


def _probe_pid(spool: Path) -> int:
    pid = read_status(spool).targets[0].pid
    if pid is None:
        raise SourceError("the probe has ended.")
    return pid


@contextlib.contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def devices_below(target: Path) -> tuple[str, ...]:
    """Whole devices that hold this directory, by what sysfs says lies on what; none of a network file system."""
    number = target.stat().st_dev
    place = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    return tuple(sorted(_lowest(place.resolve()))) if place.exists() else ()


def _lowest(device: Path) -> set[str]:
    if (device / "partition").exists():
        device = device.parent
    below = list((device / "slaves").iterdir()) if (device / "slaves").is_dir() else []
    return {device.name} if not below else {name for each in below for name in _lowest(each.resolve())}


def facility_text(target: Path, devices: Sequence[str]) -> str:
    mount, _ = file_system_of(str(target.resolve()))
    named = ", ".join(f'"{socket.gethostname()}:{device}"' for device in devices)
    return f"""name = "this directory"
zone = "UTC"

[filesystem.{FILESYSTEM}]
mounts = [{json.dumps(mount or "/")}]
probes = [{json.dumps(str(target))}]
devices = [{named}]

[collect]
block_period = "{SAMPLE_SECONDS * 1000:.0f}ms"
"""

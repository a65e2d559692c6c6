"""What works here, what is missing, and what to do about it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

from ioweather.collect.status import read_status
from ioweather.core.clock import format_time_ns, now_ns
from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.places import default_lake_dir, default_spool_dir
from ioweather.core.units import GIB, NS, format_bytes, format_seconds
from ioweather.store import layout
from ioweather.store.lake import Lake, open_lake

State = Literal["ok", "note", "problem"]
_PROGRAMS = {
    "lfs": "per-OST samples (`ioweather sample`) need Lustre's client tools",
    "sacct": "live Slurm accounting (`ioweather collect slurm`) needs Slurm's client",
    "iostat": "sysstat gives block-device history: apt-get install sysstat",
}


@dataclass(frozen=True)
class Check:
    name: str
    state: State
    found: str
    fix: str = ""


def examine(lake_dir: str | None = None, spool_dir: Path | None = None) -> list[Check]:
    """Every check, in order; a check that itself fails is a problem with its error."""
    root = Path(lake_dir) if lake_dir else default_lake_dir()
    spool = spool_dir or default_spool_dir()
    checks: list[Callable[[], Iterator[Check]]] = [_python, _packages, _programs, lambda: _agent(spool)]
    if layout.is_lake(root):
        checks += [lambda: _lake(root), lambda: _names(open_lake(root)), lambda: _clocks(open_lake(root))]
    found: list[Check] = []
    for check in checks:
        try:
            found += check()
        except (IoweatherError, OSError) as error:
            found.append(Check("check failed", "problem", str(error)))
    if not layout.is_lake(root):
        found.append(Check("lake", "note", f"none at {root}", "ioweather ingest FILES, or ioweather demo"))
    return found


def _python() -> Iterator[Check]:
    yield Check("python", "ok", f"{sys.version.split()[0]} at {sys.executable}")


def _packages() -> Iterator[Check]:
    """Run-time dependencies, and the extras that add a source or a curve."""
    missing, extras = [], []
    for requirement in requires("ioweather") or []:
        name = requirement.split(";")[0].split("[")[0]
        for mark in "<>=!~ ":
            name = name.split(mark)[0]
        extra = "extra ==" in requirement
        try:
            version(name)
        except PackageNotFoundError:
            if not extra:
                missing.append(name)
            elif 'extra == "dev"' not in requirement and "extra == 'dev'" not in requirement:
                extras.append(name)
    if missing:
        yield Check("packages", "problem", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    else:
        yield Check("packages", "ok", "all that it needs")
    if extras:
        yield Check("extras", "note", f"not installed: {', '.join(sorted(set(extras)))}", "pip install NAME, if wanted")


def _programs() -> Iterator[Check]:
    for name, why in _PROGRAMS.items():
        place = shutil.which(name)
        yield Check(name, "ok", place) if place else Check(name, "note", "not here", why)


def _agent(spool: Path) -> Iterator[Check]:
    try:
        status = read_status(spool)
    except DataUnavailable:
        yield Check("agent", "note", f"none has run in {spool}", "ioweather probe PATH, or ioweather collect")
        return
    age = format_seconds((now_ns() - status.written_ns) / NS)
    if status.is_stale(now_ns()):
        yield Check(
            "agent", "problem", f"last heard of {age} ago on {status.host}", "start it again: ioweather collect"
        )
    else:
        yield Check("agent", "ok", f"running on {status.host}, pid {status.pid}")
    waiting = status.spool
    if waiting.dropped_rows:
        yield Check("spool", "problem", f"{waiting.dropped_rows:,} rows were given up: it was full", "check the lake")
    elif waiting.last_ship_ok is False:
        yield Check("spool", "problem", f"rows do not reach the lake: {waiting.message}", "check space and permissions")
    else:
        yield Check("spool", "ok", f"{format_bytes(waiting.bytes)} waiting")


def _lake(root: Path) -> Iterator[Check]:
    lake = open_lake(root)
    free = shutil.disk_usage(root).free
    yield Check("lake", "ok", f"{root}, {lake.facility.name}")
    yield (
        Check("space", "ok", f"{format_bytes(free)} free")
        if free > GIB
        else Check("space", "problem", f"only {format_bytes(free)} free", "ioweather lake retention, or a larger disk")
    )
    if not os.access(root, os.W_OK):
        yield Check("commits", "note", "this lake may only be read by you")
        return
    yield _exclusive(root)
    with lake.snapshot() as snapshot:
        quarantined = snapshot.scalar("SELECT count(*) FROM quarantine")
    if quarantined:
        yield Check("quarantine", "note", f"{quarantined} files were refused", "ioweather lake quarantine")


def _exclusive(root: Path) -> Check:
    """Racing writers need a file system on which a name can be made by one of them alone."""
    with tempfile.TemporaryDirectory(dir=root, prefix=".doctor-") as folder:
        draft, target = Path(folder, "draft"), Path(folder, "target")
        draft.write_text("x", encoding="utf-8")
        try:
            os.link(draft, target)
        except OSError as error:
            return Check("commits", "problem", f"no hard links here ({error.strerror})",
                         "keep one writer at a time, or move the lake")  # fmt: skip
        try:
            os.link(draft, target)
        except FileExistsError:
            return Check("commits", "ok", "exclusive: several writers are safe")
    return Check("commits", "problem", "a second writer could overwrite the first", "move the lake to a local disk")


def _names(lake: Lake) -> Iterator[Check]:
    with lake.snapshot() as snapshot:
        systems = {group.system for group in snapshot.series()}
        unmapped = sorted(name for name in systems if not snapshot.facility.is_mapped(name))
    if unmapped:
        shown = ", ".join(unmapped[:4]) + (", ..." if len(unmapped) > 4 else "")
        yield Check("names", "note", f"{len(unmapped)} not mapped to a file system: {shown}", "edit facility.toml")
    elif systems:
        yield Check("names", "ok", "every name in the data is mapped")


def _clocks(lake: Lake) -> Iterator[Check]:
    """Rows from the future are the sure sign of a clock that is wrong."""
    now = now_ns()
    with lake.snapshot() as snapshot:
        for table in ("series", "responses"):
            if not snapshot.pinned[table].uris:
                continue
            last = snapshot.scalar(f"SELECT max(start_ns) FROM {table}")
            if isinstance(last, int) and last > now + 60 * NS:
                ahead = format_seconds((last - now) / NS)
                yield Check("clocks", "problem", f"`{table}` reaches {ahead} ahead, to {format_time_ns(last)}",
                            "check the clocks of the hosts, and --zone")  # fmt: skip
                return
    yield Check("clocks", "ok", "nothing in the lake is from the future")
